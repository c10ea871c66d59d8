"""The definitions of the numbered steps, and the work of each."""
