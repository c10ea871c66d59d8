"""What is done with the files of copies: which to keep, a plan, carrying it out with a journal, undo."""
