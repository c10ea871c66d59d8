"""HTML pages: the report of a run, the comparison of two submissions, the gallery of matches."""
