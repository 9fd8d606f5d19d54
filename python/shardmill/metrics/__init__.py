"""Typed counters, which loaders, writers, pipelines and stores share."""
