"""Where images come from: data sets, safe decoding, caching and data loading."""

import cv2

# Work is spread over our own worker processes. OpenCV's thread pool would compete with them for the cores, and a process that is
# forked after the pool has started hangs at its next OpenCV call.
cv2.setNumThreads(0)
