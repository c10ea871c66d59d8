"""A stored index of vectors that grows file by file, and the threshold that keeps false alarms rare."""
