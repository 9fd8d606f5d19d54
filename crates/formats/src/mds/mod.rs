//! MDS version 2: the shards of MosaicML Streaming, and the `index.json` that lists them.
//!
//! Arrow batches enter and whole shard files leave ([`ShardEncoder`]); shard files enter and Arrow batches leave ([`MdsFile`]). Columns stand in byte order
//! of their names. The invariant: a sample that is served is the one that was written, or an error names the shard and what is wrong with it; no number of
//! a file or of its index is trusted before it is held against the bytes that are there. What is written is byte for byte what MosaicML's writer makes of
//! the same rows.

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
pub use hashing::HashAlgorithm;
pub use index::{FileEntry, INDEX_NAME, Index, ShardEntry, index_json};
pub use number::Number;
pub use read::{ArrayTypes, MdsFile, MdsOptions, RebuiltShard, check_file_hashes, rebuild_shard};
pub use write::{EncodedShard, ShardEncoder, ShardOptions, UnsealedShard};

#[cfg(test)]
mod tests;
