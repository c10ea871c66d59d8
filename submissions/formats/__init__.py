"""The challenge's file formats: descriptor and matching submissions, written, read and checked."""
