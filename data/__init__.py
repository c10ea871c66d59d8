"""Where images come from: data sets, safe decoding, caching and batches."""

import cv2

# Our own processes are the parallelism. OpenCV's thread pool would fight them over the cores, and a process that is
# forked after the pool has started hangs at its next OpenCV call.
cv2.setNumThreads(0)
