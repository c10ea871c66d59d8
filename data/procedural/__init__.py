"""Procedurally drawn pictures, among them classes of shapes: a data set where none can be downloaded."""
