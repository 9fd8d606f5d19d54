//! Errors of tar archives.
//!
//! Offsets are positions in the (decompressed) archive. [`TarError::ends_walk`] distinguishes
//! damage from a single member that cannot be read.

use std::io;

use super::Compression;

/// Why an archive, or one member of it, cannot be read.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum TarError {
    /// The archive is empty, or does not begin with a tar header.
    #[error("The archive has `{archive_len}` bytes and does not start with a tar header")]
    NotTar { archive_len: u64 },

    /// Members were found, followed by a block that is not a header.
    #[error("Block at `{offset}` is not a tar header: {fault}")]
    BadHeader { offset: u64, fault: Fault },

    /// A PAX record is malformed, so name and size of the next file are unknown.
    #[error("Extended header record at `{offset}` is malformed")]
    BadRecord { offset: u64 },

    /// Two extension headers of one kind describe the same file; readers disagree
    /// which one applies.
    #[error("Extension header at `{offset}` repeats one for the same member")]
    RepeatedExtension { offset: u64 },

    /// A long name or extended header is larger than the walk accepts.
    #[error("Extension header at `{offset}` holds `{found}` bytes, at most `{limit}` are read")]
    ExtensionTooLong { offset: u64, found: u64, limit: u64 },

    /// The archive ends inside a member (`None`: before its name was known).
    #[error(
        "{} at `{offset}` needs `{needed}` bytes, the archive has `{found}`",
        subject(.member.as_deref())
    )]
    Truncated { member: Option<String>, offset: u64, needed: u64, found: u64 },

    /// A file cannot be read; the walk continues after it.
    #[error("Member `{member}` at `{offset}` is not readable: {reason}")]
    Unreadable { member: String, offset: u64, reason: Reason },

    /// `push` did not receive the range requested by `needs`.
    #[error("Range at `{offset}` has `{needed}` bytes, `{found}` were given")]
    WrongRange { offset: u64, needed: u64, found: u64 },

    /// The compressed stream ends early. Its checksum is missing, so the `inflated` bytes
    /// are not verified.
    #[error("The {compression} stream ends early, after `{inflated}` decompressed bytes")]
    TruncatedStream { compression: Compression, inflated: u64 },

    /// The compressed stream is damaged. Damage is often detected late, so the last of the
    /// `inflated` bytes may be wrong.
    #[error("The {compression} stream is damaged after `{inflated}` decompressed bytes: {detail}")]
    BadStream { compression: Compression, inflated: u64, detail: String },

    /// The compressed bytes could not be read.
    #[error("Failed to read the {compression} stream after `{inflated}` decompressed bytes")]
    ReadStream { compression: Compression, inflated: u64, source: io::Error },

    /// The decompressed bytes could not be written.
    #[error("Failed to write after `{inflated}` decompressed bytes")]
    WriteInflated { inflated: u64, source: io::Error },

    /// A compression that is recognized but not read.
    #[error("The stream is compressed with {compression}, which cannot be read")]
    Compression { compression: Compression },
}

impl TarError {
    /// Whether the rest of the archive is unreadable. False only if a single member is affected.
    pub fn ends_walk(&self) -> bool {
        !matches!(self, Self::Unreadable { .. })
    }
}

/// What is wrong with a header block.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("its checksum does not match")]
    Checksum,
    #[error("its size is not a number")]
    Size,
    /// An extension header is followed by the end of the archive instead of the file
    /// that it describes.
    #[error("an extension header before it describes a file")]
    NoFile,
}

/// Why a file of the archive is not a member.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// Only the non-zero parts are stored, so no range of the archive is the file.
    #[error("it is stored as a sparse file")]
    Sparse,
    /// The rest of a file that began in another volume.
    #[error("it continues a file of another volume")]
    Continuation,
    /// Names are text; a lossy conversion could collide with another member's name.
    #[error("its name is not UTF-8")]
    NameNotUtf8,
    /// Part of its name was overwritten with zeros.
    #[error("its name is empty or contains zeros")]
    NoName,
}

fn subject(member: Option<&str>) -> String {
    member.map_or_else(|| "Header".to_owned(), |name| format!("Member `{name}`"))
}
