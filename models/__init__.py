"""What turns an image into a vector, and how it learns to."""
