"""A stored index of references that grows file by file."""
