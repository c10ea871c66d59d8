"""The challenge's files: descriptor and matching submissions, written, read and checked."""
