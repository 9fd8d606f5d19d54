//! The driver that writes rows to files.
//!
//! Rows are added one by one, threads encode them, and files are published under their final names.
//! Called by the binding. The invariants: the output does not depend on the number of threads, and
//! nothing is visible before it is complete.

pub mod arrayrecord;
mod columns;
mod compressed;
mod digest;
mod documents;
mod encoded;
mod error;
mod file_set;
mod follower;
mod framed;
mod hashes;
mod mds;
mod parquet;
mod parquet_file;
mod pending_files;
mod record_files;
mod shards;
mod staged;
mod token_index;
mod token_layout;
mod weight;

pub use compressed::FileCompression;
pub use digest::RowDigest;
pub use documents::{ParquetDocuments, TarDocuments};
pub use error::{Error, Result};
pub use hashes::file_hashes;
pub use parquet_file::{Ending, ParquetFile, ParquetFileOptions};
pub use pending_files::Target;
pub use shards::{Format, Shards, ShardsOptions};
pub use staged::{FileSummary, Finished};
pub use token_layout::{TokenKind, TokenLayout};

/// Receives records one by one.
pub trait Gather {
    /// Adds a record. Returns true if [`Gather::flush`] has work to do.
    ///
    /// # Errors
    /// When the writer is closed, or a file cannot be created.
    fn gather(&mut self, record: &[u8]) -> Result<bool>;

    /// Processes the collected records.
    ///
    /// # Errors
    /// When something cannot be encoded or written; nothing is published then.
    fn flush(&mut self) -> Result<()>;
}
