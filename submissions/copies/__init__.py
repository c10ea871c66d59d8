"""Copies among the images of one set: groups from the pairs that match."""
