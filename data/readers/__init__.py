"""Readers of the public benchmarks' archives, one file each: images, labels, groups and splits."""
