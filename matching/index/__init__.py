"""A stored index of references that grows file by file, and the threshold that keeps false alarms rare."""
