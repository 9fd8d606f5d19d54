"""Digests that identify settings and files."""

import hashlib
import json


def digest(value: object) -> str:
    """Return 32 hexadecimal digits that tell JSON values apart."""
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:32]
