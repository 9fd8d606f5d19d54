"""Benchmark scripts of other tools; each runs with the interpreter of its own environment."""
