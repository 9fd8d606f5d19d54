//! Reads the members of tar archives by offset, and writes archives that are byte-reproducible.
//!
//! Header blocks enter, names and payload ranges leave; called by the WebDataset source and sink, and by [`samples`], which makes a table of an archive. The walk asks for
//! header blocks only, payloads are never read. A [`Member`] always lies completely inside the archive: no length in a
//! file is believed before it has been compared with the archive's.
//!
//! # File format
//!
//! ```text
//! | header: 512 | payload | zeros to the next 512 | header | … | 1,024 zeros | zeros to the next 10,240 |
//! ```
//!
//! A header may be preceded by extension headers whose payload describes it: GNU `L` (long name) and `K` (long link
//! name), PAX `x` (records for the next file) and `g` (records for all files that follow).
//!
//! # The end
//!
//! An archive that was cut between two members looks like a smaller one but for the zeros that end it. How an archive ends is a value, [`ArchiveEnd`], that
//! the walk states and that each reader decides on; no reader takes an end that is not [`ArchiveEnd::Marked`] for that of a whole archive.

mod compression;
mod entry;
mod error;
mod header;
mod inflate;
mod pax;
mod sample_encoder;
pub mod samples;
#[cfg(test)]
mod tests;
mod walk;
mod write;

pub use compression::{Compression, sniff_compression};
pub use error::{Fault, Reason, TarError};
pub use inflate::inflate;
pub use sample_encoder::{SampleEncoder, Unwritable, extension_problem};
pub use walk::{ArchiveEnd, MAX_EXTENSION_LEN, Member, Walk};
pub use write::{END_OF_ARCHIVE, MemberStamp, StampedHeaders, end_of_archive, member_header, padding};

/// Headers, payloads and padding come in blocks of this many bytes.
const BLOCK_LEN: usize = 512;
const BLOCK: u64 = 512;
