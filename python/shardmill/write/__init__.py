"""From rows to files: one file, or numbered shards in a directory, and parts merged into one data set."""
