//! Text files whose rows are records between line ends: what CSV and JSONL share.
//!
//! One scan of a file finds the borders of its records ([`index`]) and cuts it into [`Run`]s, which become blocks. A parser then turns the bytes of a run
//! into columns; [`value`] reads single values. Called by `csv` and `jsonl`. The invariant: runs depend on the bytes of the file alone, start and end at
//! record borders, and count exactly the records in them.

mod bad_lines;
mod index;
#[cfg(test)]
pub(crate) mod memory;
pub(crate) mod value;

pub(crate) use bad_lines::KeptRows;
pub use bad_lines::{BadLine, BadLines, Quarantine};
pub(crate) use index::{Borders, Cutter, Run, Start, check_start, index, line_of, read_run, read_start, start_of};

/// Stored bytes of a block, about. A run of lines takes three to five times as much in memory, so a few blocks a thread fit into a small budget.
pub(crate) const BLOCK_BYTES: u64 = 8 << 20;

/// Positions in a run are kept in 32 bits, and so are the offsets of Arrow strings.
pub(crate) const MAX_RECORD_BYTES: u64 = (1 << 31) - 1;

/// Sampled of each file to infer types; pyarrow looks at as much.
pub(crate) const SAMPLE_BYTES: u64 = 1 << 20;

/// The mark that some editors put before UTF-8 text.
pub(crate) const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
