"""Typed counters that loaders, writers, pipelines and stores share."""
