"""Image edits: what people do to the images they copy."""

import image_copies.data  # noqa: F401 (disables OpenCV's threads before any edit runs)
