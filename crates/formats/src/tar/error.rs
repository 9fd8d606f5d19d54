//! What can be wrong with a tar archive.
//!
//! Offsets are positions in the (decompressed) archive. [`TarError::ends_walk`] tells damage from a single member that
//! cannot be offered.

use std::fmt;
use std::io;

/// Why an archive, or one member of it, cannot be read.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum TarError {
    /// The archive is empty, or does not begin with a tar header.
    #[error("No tar header at the start of `{archive_len}` bytes")]
    NotTar { archive_len: u64 },

    /// Members were found, then a block that is no header.
    #[error("Block at `{offset}` is no tar header: {fault}")]
    BadHeader { offset: u64, fault: Fault },

    /// A PAX record is malformed, so name and size of the next file are unknown.
    #[error("Extended header record at `{offset}` is malformed")]
    BadRecord { offset: u64 },

    /// Two extension headers of one kind describe the same file; readers disagree which one holds.
    #[error("Extension header at `{offset}` repeats one for the same member")]
    RepeatedExtension { offset: u64 },

    /// A long name or extended header claims more than the walk is willing to hold.
    #[error("Extension header at `{offset}` holds `{found}` bytes, at most `{limit}` are read")]
    ExtensionTooLong { offset: u64, found: u64, limit: u64 },

    /// The archive ends inside a member (`None`: before its name was known).
    #[error("{} at `{offset}` needs `{needed}` bytes, the archive has `{found}`", subject(.member.as_deref()))]
    Truncated { member: Option<String>, offset: u64, needed: u64, found: u64 },

    /// One file cannot be offered; the walk goes on behind it.
    #[error("Member `{member}` at `{offset}` is not readable: {reason}")]
    Unreadable { member: String, offset: u64, reason: Reason },

    /// `push` was not given the range that `needs` asked for.
    #[error("Range at `{offset}` has `{needed}` bytes, `{found}` were given")]
    WrongRange { offset: u64, needed: u64, found: u64 },

    /// The compressed stream ends early. Its checksum was never reached, so the `inflated` bytes are not verified.
    #[error("Gzip stream ends early, after `{inflated}` decompressed bytes")]
    TruncatedGzip { inflated: u64 },

    /// The compressed stream is damaged. Damage is often noticed late, so the last of the `inflated` bytes may be wrong.
    #[error("Gzip stream is damaged after `{inflated}` decompressed bytes: {detail}")]
    BadGzip { inflated: u64, detail: String },

    /// The compressed bytes could not be read.
    #[error("Failed to read the gzip stream after `{inflated}` decompressed bytes")]
    ReadGzip {
        inflated: u64,
        #[source]
        source: io::Error,
    },

    /// The decompressed bytes could not be written.
    #[error("Failed to write behind `{inflated}` decompressed bytes")]
    WriteInflated {
        inflated: u64,
        #[source]
        source: io::Error,
    },
}

impl TarError {
    /// Whether nothing more can be read from the archive. False only where a single member is unreadable.
    pub fn ends_walk(&self) -> bool {
        !matches!(self, Self::Unreadable { .. })
    }
}

/// What is wrong with a header block.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Checksum,
    Size,
    /// An extension header is followed by the end of the archive instead of the file that it describes.
    NoFile,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Checksum => "its checksum does not match",
            Self::Size => "its size is not a number",
            Self::NoFile => "an extension header before it describes a file",
        })
    }
}

/// Why a file of the archive is not offered as a member.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// Only the non-zero parts are stored, so no range of the archive is the file.
    Sparse,
    /// The rest of a file that began in another volume.
    Continuation,
    /// Names leave as text; a lossy one could collide with another member's.
    NameNotUtf8,
    /// A part of its name was overwritten with zeros.
    NoName,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Sparse => "it is stored as a sparse file",
            Self::Continuation => "it continues a file of another volume",
            Self::NameNotUtf8 => "its name is not UTF-8",
            Self::NoName => "its name is empty or has zeros in it",
        })
    }
}

fn subject(member: Option<&str>) -> String {
    member.map_or_else(|| "Header".to_owned(), |name| format!("Member `{name}`"))
}
