"""The descriptor: backbone, pooling, projection, whitening, and the checkpoint it is stored in."""
