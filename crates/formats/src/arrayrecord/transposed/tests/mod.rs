//! Chunks written by the original, by this crate, and damaged ones.

mod hostile;
mod original;
mod round_trip;
