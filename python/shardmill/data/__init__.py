"""Data sets: the rows of files of one format and one schema, and how they are opened."""
