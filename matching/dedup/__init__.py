"""Deduplicating collections too large for one machine: `pipeline/deduplicate.py`."""
