"""Deduplicating collections too large for one machine, on Ray Data: `pipeline/deduplicate.py`."""
