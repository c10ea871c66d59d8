"""The edits, one function each, and the registry of their names."""
