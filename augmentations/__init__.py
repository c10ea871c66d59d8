"""Image edits: what people do to the images they copy."""

import data  # noqa: F401 (disables OpenCV's threads before any edit runs)
