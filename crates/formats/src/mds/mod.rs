//! MDS version 2: the shards of MosaicML Streaming, and the `index.json` that lists them.
//!
//! [`ShardEncoder`] turns Arrow batches into whole shard files, [`MdsFile`] reads them. Columns are
//! sorted by the bytes of their names. The invariant: a delivered sample is the one that was
//! written, or the error names the shard and the fault; no number in a file or its index is trusted
//! before it is checked against the available bytes. The output equals that of MosaicML's writer
//! for the same rows, byte for byte.

mod columns;
mod compression;
mod config;
mod encoding;
mod error;
mod hashing;
mod index;
mod json;
mod number;
mod read;
mod write;

pub use columns::{Column, Columns, ENCODING_KEY};
pub use compression::Compression;
pub use encoding::Encoding;
pub use error::Error;
pub use hashing::{HashAlgorithm, Hasher};
pub use index::{FileEntry, INDEX_NAME, Index, ShardEntry, index_json};
pub use number::Number;
pub use read::{ArrayTypes, MdsFile, MdsOptions, RebuiltShard, check_file_hashes, rebuild_shard};
pub use write::{EncodedShard, ShardEncoder, ShardOptions, ShardPieces, UnsealedShard};

#[cfg(test)]
mod tests;
