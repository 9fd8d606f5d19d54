"""Other libraries' sides of shardmill. Only the files of this folder import them."""
