//! What can be wrong with an archive of samples.

use crate::limit::TooLarge;
use crate::tar::{ArchiveEnd, Compression, TarError};
use arrow_schema::ArrowError;
use shardmill_storage::Error as StorageError;
use std::io;

#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error("`{path}` is not a sound tar archive: {source}")]
    Archive {
        path: String,
        #[source]
        source: TarError,
    },
    /// Cut between two members, an archive looks like a smaller one but for its end.
    #[error("`{path}` {end}")]
    NoEnd { path: String, end: ArchiveEnd },
    #[error("`{path}` is compressed by {compression:?}, which cannot be read")]
    Compression { path: String, compression: Compression },
    /// A Zstandard stream that is damaged, or ends early.
    #[error("`{path}` cannot be decompressed behind {decompressed} bytes: {source}")]
    Decompress {
        path: String,
        decompressed: u64,
        #[source]
        source: io::Error,
    },
    /// Two members of a sample would be the same column.
    #[error("Member `{member}` of `{path}`, at byte {offset}, repeats the extension `{extension}` of its sample{}", earlier(.first))]
    RepeatedExtension { path: String, member: String, offset: u64, extension: String, first: Option<u64> },
    /// The parts of a sample do not follow one another. As rows of their own, each would lack what the others have.
    #[error(
        "Member `{member}` of `{path}`, at byte {offset}, belongs to the sample `{key}` at byte {first}, and members of other samples lie between them"
    )]
    TornSample { path: String, member: String, offset: u64, key: String, first: u64 },
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    #[error("Member `{member}` of `{path}`, at byte {offset}, has {size} bytes, too many for a value")]
    TooLong { path: String, member: String, offset: u64, size: u64 },
    #[error("Member `{member}` of `{path}`, at byte {offset}, is not valid UTF-8")]
    NotText { path: String, member: String, offset: u64 },
    #[error("Member `{member}` of `{path}`, at byte {offset}, is not valid JSON: {source}")]
    NotJson {
        path: String,
        member: String,
        offset: u64,
        #[source]
        source: serde_json::Error,
    },
    #[error("Member `{member}` of `{path}`, at byte {offset}, is not a whole number of 64 bits: {value}")]
    NotInteger { path: String, member: String, offset: u64, value: String },
    /// The archive is not the one that was walked when the file was opened.
    #[error("`{path}` changed after it was opened: it ends before byte {offset}")]
    Changed { path: String, offset: u64 },
    #[error("`{path}` has no block or column {index}")]
    NoSuchPart { path: String, index: usize },
    #[error("The samples of `{path}` do not make a table: {source}")]
    Arrow {
        path: String,
        #[source]
        source: ArrowError,
    },
}

impl Error {
    /// What a user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Storage(error) => error.hint(),
            Self::Archive { .. } | Self::Decompress { .. } => Some(
                "fetch or write the file again; `shardmill verify` lists all that is wrong with it, and on_bad_file=\"skip\" leaves such files out",
            ),
            Self::NoEnd { end: ArchiveEnd::Followed { .. }, .. } => Some(
                "ignore_zeros=True of sm.Dataset (--ignore-zeros) reads archives that were joined to their last member, as `tar -i`; else fetch or write the file again, or leave it out by on_bad_file=\"skip\"",
            ),
            Self::TooLarge(_) => Some(TooLarge::HINT),
            Self::NoEnd { .. } => Some(
                "fetch or write the file again, or leave it out by on_bad_file=\"skip\"; if you know that nothing is missing, `truncate -s +1024 FILE` ends it",
            ),
            Self::Compression { .. } => Some("decompress it, or compress it by gzip or zstd"),
            Self::RepeatedExtension { .. } => Some("names of members may differ in case only before the first dot; rename one of the two"),
            Self::TornSample { .. } => {
                Some("write the archive again so that the members of a sample follow one another, for instance by `tar --sort=name`")
            }
            Self::TooLong { .. } => Some("values of 2 GiB and more do not fit an Arrow array; leave the column out by `columns`"),
            Self::NotText { .. } | Self::NotInteger { .. } | Self::NotJson { .. } => Some(
                "the extension says what a member holds (txt: text, json: JSON, cls and id: a number); rename such members, leave the column out by `columns`, or the sample by on_bad_rows=\"skip\" of a Loader",
            ),
            Self::Changed { .. } => Some("leave the files alone while they are read"),
            Self::NoSuchPart { .. } | Self::Arrow { .. } => None,
        }
    }
}

fn earlier(first: &Option<u64>) -> String {
    first.map(|offset| format!(", which has one at byte {offset}")).unwrap_or_default()
}
