"""The id index and resumed jobs, measured."""
