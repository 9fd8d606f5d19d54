"""``python -m shardmill`` runs the command ``shardmill``."""

from shardmill.cli import main

if __name__ == "__main__":
    main()
