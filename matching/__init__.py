"""Copies among anybody's pictures: an index, verified matches, groups, the files to keep, and pages to look at them."""
