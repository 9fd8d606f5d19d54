"""Writes rows to one file or to numbered shards, and merges parts into one data set."""
