//! Chunks of the original's making, ours, and damaged ones.

mod hostile;
mod original;
mod round_trip;
