"""The vectors file: image ids, vectors and flags of unreadable images in HDF5."""
