"""Runs the entries of a YAML file, each in a process group that is measured from outside."""
