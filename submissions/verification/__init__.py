"""Do two pictures show the same thing, and where? Local features and a robust homography."""
