"""Pages for people: the report of a run, the comparison of two, the gallery of matches."""
