//! Tests that look across crates; see `tests/`.
