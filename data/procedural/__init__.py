"""Procedurally drawn pictures: a data set where none can be downloaded."""
