"""Nearest-neighbour search: exact including ties, or approximate with measured recall."""
