//! Datasets, and the driver that turns them into batches for one rank.

pub mod columns;
