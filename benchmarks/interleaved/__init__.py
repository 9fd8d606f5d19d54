"""What both sides of the interleaved input/output benchmark share: options, counting, checks."""
