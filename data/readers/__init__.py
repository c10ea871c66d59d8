"""Readers of public benchmarks as their archives unpack, one file each: images, labels, groups and splits."""
