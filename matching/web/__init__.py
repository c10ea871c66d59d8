"""What every page and service of explore.py shares: where it listens, its limits, its files and pictures."""
