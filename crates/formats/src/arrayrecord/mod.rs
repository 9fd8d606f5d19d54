//! ArrayRecord: records by number, in files that are a special case of Riegeli/records.
//!
//! A file is a sequence of chunks of records, followed by a footer with the position of each chunk.
//! [`ArrayRecordFile`] reads, [`ChunkEncoder`] and [`FileWriter`] write; they handle bytes and
//! positions and leave threads to their callers. The invariant: a delivered record is the one that
//! was written, or the error names the chunk; no length in a file is trusted before it is checked
//! against the available bytes.
//!
//! The format: <https://github.com/google/riegeli/blob/master/doc/riegeli_records_file_format.md>,
//! the footer: <https://github.com/google/array_record>.

mod block;
mod chunk;
mod codec;
mod decode;
mod encoder;
mod error;
mod file;
mod footer;
mod hash;
mod index;
mod offsets;
mod options;
mod simple;
mod table;
mod transposed;
mod varint;
mod walk;
mod wire;
mod write;

pub use codec::{Codec, Scratch};
pub use decode::{Gathered, MAX_DECODED_BYTES, Records, Verify};
pub use error::{Error, Fault};
pub use file::ArrayRecordFile;
pub use options::{Compression, ReaderOptions, WriterOptions};
pub use table::ArrayRecordTable;
pub use walk::{ChunkKind, ChunkWalk, Damage, Walked, WalkedChunk, is_signature};
pub use write::{ChunkEncoder, EncodedChunks, FileWriter};

#[cfg(test)]
mod tests;
