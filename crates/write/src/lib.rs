//! The driver that turns rows into files.
//!
//! Rows enter one by one, threads encode them, a file under its final name leaves. Called by the binding. The invariants: what is written does not depend on
//! the number of threads, and nothing is visible before it is whole.

pub mod arrayrecord;
mod columns;
mod compressed;
mod digest;
mod encoded;
mod error;
mod file_set;
mod follower;
mod framed;
mod mds;
mod parquet;
mod place;
mod record_files;
mod shards;
mod staged;

pub use compressed::FileCompression;
pub use digest::RowDigest;
pub use error::{Error, Result};
pub use place::Target;
pub use shards::{Format, Shards, ShardsOptions};
pub use staged::{FileSummary, Finished};

/// What takes records one by one.
pub trait Gather {
    /// Takes a record. True when [`Gather::flush`] has work to do.
    ///
    /// # Errors
    /// When the writer is closed, or a file cannot be made.
    fn gather(&mut self, record: &[u8]) -> Result<bool>;

    /// Works on what was gathered.
    ///
    /// # Errors
    /// When something cannot be encoded or written; nothing is published then.
    fn flush(&mut self) -> Result<()>;
}
