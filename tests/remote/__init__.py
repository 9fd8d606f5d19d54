"""S3 on this machine: a server, and a proxy that spoils its answers. Nothing here needs pytest but the tests themselves."""
