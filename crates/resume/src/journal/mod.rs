//! Which splits of a job are committed.
