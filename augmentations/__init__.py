"""What a copier does to an image."""

import data  # noqa: F401 (sets OpenCV's threads before any edit runs)
