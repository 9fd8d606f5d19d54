"""Interleaved shards from reader through aspect ratio filter to writer, and what was written."""
