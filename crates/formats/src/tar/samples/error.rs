//! Errors of archives of samples.

use crate::limit::TooLarge;
use crate::table::arrow_message;
use crate::tar::{ArchiveEnd, Compression, LinkFault, TarError};
use arrow_schema::ArrowError;
use shardmill_storage::Error as StorageError;

#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error("`{path}` is not a valid tar archive: {source}")]
    Archive { path: String, source: TarError },
    /// An archive truncated between two members looks like a smaller one, except for its end.
    #[error("`{path}` {end}")]
    NoEnd { path: String, end: ArchiveEnd },
    #[error("`{path}` is compressed with {compression}, which cannot be read")]
    Compression { path: String, compression: Compression },
    /// Two members of a sample belong to the same column.
    #[error(
        "Member `{member}` of `{path}`, at byte {offset}, repeats the extension \
         `{extension}` of its sample{}",
        earlier(.first)
    )]
    RepeatedExtension {
        path: String,
        member: String,
        offset: u64,
        extension: String,
        first: Option<u64>,
    },
    /// The members of a sample are not adjacent. As separate rows, each would lack the values of
    /// the others.
    #[error(
        "Member `{member}` of `{path}`, at byte {offset}, belongs to the sample `{key}` at byte \
         {first}, and members of other samples lie between them"
    )]
    TornSample { path: String, member: String, offset: u64, key: String, first: u64 },
    /// The link is the value of a sample, but does not point to a file of the archive.
    #[error("Member `{member}` of `{path}`, at byte {offset}, cannot be read: {fault}")]
    Link { path: String, member: String, offset: u64, fault: LinkFault },
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    #[error(
        "Member `{member}` of `{path}`, at byte {offset}, has {size} bytes, too many for a value"
    )]
    TooLong { path: String, member: String, offset: u64, size: u64 },
    #[error("Member `{member}` of `{path}`, at byte {offset}, is not valid UTF-8")]
    NotText { path: String, member: String, offset: u64 },
    #[error("Member `{member}` of `{path}`, at byte {offset}, is not valid JSON: {source}")]
    NotJson { path: String, member: String, offset: u64, source: serde_json::Error },
    #[error(
        "Member `{member}` of `{path}`, at byte {offset}, is not a whole number of 64 bits: {value}"
    )]
    NotInteger { path: String, member: String, offset: u64, value: String },
    /// The archive differs from the one that was walked when the file was opened.
    #[error("`{path}` changed after it was opened: it ends before byte {offset}")]
    Changed { path: String, offset: u64 },
    #[error("`{path}` has no block or column {index}")]
    NoSuchPart { path: String, index: usize },
    #[error("The samples of `{path}` cannot be combined into a table: {}", arrow_message(.source))]
    Arrow { path: String, source: ArrowError },
}

impl Error {
    /// What the user can do about the error.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Storage(error) => error.hint(),
            Self::Archive { .. } => Some(
                "fetch or write the file again; `shardmill verify` lists all faults, \
                 and errors=sm.ErrorPolicy(files=\"skip\") leaves such files out",
            ),
            Self::NoEnd { end: ArchiveEnd::Followed { .. }, .. } => Some(
                "ignore_zeros=True of sm.Dataset (--ignore-zeros) reads archives that were joined \
                 to their last member, as `tar -i`; else fetch or write the file again, or leave \
                 it out by errors=sm.ErrorPolicy(files=\"skip\")",
            ),
            Self::TooLarge(_) => Some(TooLarge::HINT),
            Self::Link { .. } => Some(LinkFault::HINT),
            Self::NoEnd { .. } => Some(
                "fetch or write the file again, or leave it out \
                 by errors=sm.ErrorPolicy(files=\"skip\"); if you know that nothing is missing, \
                 `truncate -s +1024 FILE` adds the end",
            ),
            Self::Compression { .. } => Some("decompress it, or compress it by gzip or zstd"),
            Self::RepeatedExtension { .. } => Some(
                "names of members may differ in case only before the first dot; \
                 rename one of the two",
            ),
            Self::TornSample { .. } => Some(
                "write the archive again so that the members of a sample are adjacent, \
                 for instance by `tar --sort=name`",
            ),
            Self::TooLong { .. } => Some(
                "values of 2 GiB and more do not fit an Arrow array; \
                 leave the column out by `columns`",
            ),
            Self::NotText { .. } | Self::NotInteger { .. } | Self::NotJson { .. } => Some(
                "the extension says what a member holds (txt: text, json: JSON, cls and id: \
                 a number); rename such members, leave the column out by `columns`, or the sample \
                 by errors=sm.ErrorPolicy(rows=\"skip\") of a Loader",
            ),
            Self::Changed { .. } => Some("do not change files while they are read"),
            Self::NoSuchPart { .. } | Self::Arrow { .. } => None,
        }
    }
}

fn earlier(first: &Option<u64>) -> String {
    first.map(|offset| format!(", which has one at byte {offset}")).unwrap_or_default()
}
