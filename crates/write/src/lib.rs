//! The driver that turns rows into files.
//!
//! Rows enter one by one, threads encode them, a file under its final name leaves. Called by the binding. The invariants: what is written does not depend on
//! the number of threads, and nothing is visible before it is whole.

pub mod arrayrecord;
mod columns;
mod digest;
mod encoded;
mod error;
mod parquet;
mod shards;
mod staged;

pub use digest::RowDigest;
pub use error::{Error, Result};
pub use shards::{Format, Shards, Target};
pub use staged::Finished;
