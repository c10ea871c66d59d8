"""The vectors file: ids, vectors and marks of unreadable images in HDF5."""
