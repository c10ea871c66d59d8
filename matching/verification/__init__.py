"""Geometric verification: local features and a robust homography tell whether two pictures share content, and where."""
