"""Runs the entries of a YAML file, each in a process group of its own that is measured from outside."""
