"""The explorer: a local page that shows a run's nearest references of a picture and of its edits; and the search service."""
