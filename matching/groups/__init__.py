"""Groups of copies from the pairs that match."""
