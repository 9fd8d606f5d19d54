//! Exact sets of keys in a file that all processes of a machine map.
