"""Benchmarks of shardmill beside the tools it replaces, in one run on one machine."""
