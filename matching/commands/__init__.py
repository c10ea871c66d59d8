"""What match.py does, a file for each task; the same from Python."""
