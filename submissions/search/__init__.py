"""Nearest-neighbour search, exact including ties."""
