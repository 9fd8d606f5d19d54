//! Text files whose rows are records between line ends: the common part of CSV and JSONL.
//!
//! One scan of a file finds the borders of its records ([`index`]) and splits it into
//! [`Run`]s, which become blocks. A parser then turns the bytes of a run into columns,
//! which [`TextFile`] assembles; [`value`] parses single values. Used by `csv` and `jsonl`.
//! The invariant: runs depend only on the bytes of the file, start and end at record borders,
//! and count exactly the records in them.

mod bad_lines;
mod columns;
mod declared;
mod encoding;
mod error;
mod index;
#[cfg(test)]
pub(crate) mod memory;
mod pieces;
mod text_file;
mod texts;
mod unpacked;
pub(crate) mod value;

pub(crate) use bad_lines::KeptRows;
pub use bad_lines::{BadLine, BadLines, Quarantine};
pub(crate) use columns::{Strings, Values};
pub use declared::Declared;
pub use encoding::Encoding;
pub use error::Error;
pub use index::Start;
pub(crate) use index::{Borders, Cutter, Index, check_start, index, line_of, read_start, start_of};
pub(crate) use pieces::Pieces;
pub use text_file::TextFile;
pub(crate) use text_file::{BlockText, Judge, Located, Parsed, Place, TextFormat};
pub use texts::parsed;
pub use unpacked::Unpacker;

/// Approximate stored size of a block. Lines take three to five times as much in memory, so a few
/// blocks per thread fit into a small budget.
pub(crate) const BLOCK_BYTES: u64 = 8 << 20;

/// Positions in a run have 32 bits, and so do the offsets of Arrow strings.
pub(crate) const MAX_RECORD_BYTES: u64 = (1 << 31) - 1;

/// Bytes of each of `files` that are read for type inference: the same as pyarrow for few files;
/// very many files are sampled more thinly.
pub(crate) fn sample_bytes(files: usize) -> u64 {
    const ALL_FILES: u64 = 1 << 30;
    (ALL_FILES / (files as u64).max(1)).clamp(64 << 10, 1 << 20)
}

/// The start of a bad value, for a message.
pub(crate) fn shown(text: &[u8]) -> String {
    const SHOWN_CHARS: usize = 60;
    let start = text.get(..text.len().min(4 * SHOWN_CHARS)).unwrap_or_default();
    let mut shown: String = String::from_utf8_lossy(start).chars().take(SHOWN_CHARS).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    shown
}

/// The byte order mark that some editors write before UTF-8 text.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
