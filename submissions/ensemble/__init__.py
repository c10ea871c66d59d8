"""Vectors of several models joined, projected by PCA, chosen between and normalised."""
