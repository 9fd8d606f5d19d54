//! Reads the members of tar archives by offset, and writes reproducible archives.
//!
//! Used by the WebDataset source and sink, and by [`samples`], which reads an archive
//! as a table. The walk requests header blocks only and never reads payloads. A [`Member`]
//! always lies completely inside the archive: no length in a file is trusted before it
//! is checked against the archive's.
//!
//! # File format
//!
//! ```text
//! | header: 512 | payload | zeros to the next 512 | header | …
//!     | 1,024 zeros | zeros to the next 10,240 |
//! ```
//!
//! A header may be preceded by extension headers whose payload describes it: GNU `L` (long name)
//! and `K` (long link name), PAX `x` (records for the next file) and `g` (records for all files
//! that follow).
//!
//! # The end
//!
//! An archive truncated between two members looks like a smaller one, except for the zeros at its
//! end. How an archive ends is a value, [`ArchiveEnd`], on which each reader decides; no reader
//! accepts an end other than [`ArchiveEnd::Marked`] as that of a complete archive.

mod compression;
mod entry;
mod error;
mod header;
mod inflate;
mod links;
mod members;
mod names;
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
pub use links::{LinkFault, Links, Target};
pub use members::walk_members;
pub use names::{Role, documents, normal, role, without_compression};
pub use sample_encoder::{SampleEncoder, Unwritable, extension_problem};
pub use walk::{ArchiveEnd, Entry, Link, MAX_EXTENSION_LEN, Member, Walk};
pub use write::{
    END_OF_ARCHIVE, MemberStamp, StampedHeaders, end_of_archive, end_of_archive_len, member_header,
    padding,
};

/// Headers, payloads and padding come in blocks of this many bytes.
const BLOCK_LEN: usize = 512;
const BLOCK: u64 = 512;
