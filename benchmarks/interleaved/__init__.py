"""Interleaved shards from reader through aspect ratio filter to writer, and the count of what was written."""
