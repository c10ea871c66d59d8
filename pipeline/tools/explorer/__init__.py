"""The explorer: a local page that shows what a run answers to a picture and its edits."""
