"""The networks that turn an image into a vector, and their training."""
