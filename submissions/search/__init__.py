"""Nearest pairs of vectors: exact with ties, or approximate with a measured recall."""
