//! Errors of ArrayRecord files.

use super::Codec;
use crate::limit::TooLarge;
use shardmill_errors::ErrorKind;
use std::io;

/// What a refusal for its size is about.
pub(super) const DECODED_SIZE: &str = "decoded size";

/// Why a file, or one chunk of it, cannot be read or written.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Storage(#[from] shardmill_storage::Error),

    /// Without its last block nothing in a file can be found.
    #[error("`{path}` is not a complete ArrayRecord file: {reason}")]
    NotWhole { path: String, reason: &'static str },

    #[error("Postscript of `{path}` at `{offset}` is damaged: {fault}")]
    Postscript { path: String, offset: u64, fault: Fault },

    #[error("Footer of `{path}` at `{offset}` is damaged: {fault}")]
    Footer { path: String, offset: u64, fault: Fault },

    #[error("No memory for the footer of `{path}`")]
    Memory { path: String, source: io::Error },

    #[error("Chunk `{chunk}` of `{path}` at `{offset}` is damaged: {fault}")]
    Chunk { path: String, chunk: usize, offset: u64, fault: Fault },

    #[error("`{path}` has no record `{index}`, it has `{num_records}`")]
    NoSuchRecord { path: String, index: u64, num_records: u64 },

    /// An invalid option string of a reader or writer.
    #[error("Option `{option}` of ArrayRecord: {fault}")]
    Option { option: String, fault: String },

    #[error("Records of chunk `{chunk}` of `{path}` cannot be encoded: {fault}")]
    Encode { path: String, chunk: u64, fault: Fault },

    #[error("Failed to write `{path}` at `{offset}`")]
    Write { path: String, offset: u64, source: io::Error },

    #[error("`{path}` has no column or block `{index}`")]
    NoSuchPart { path: String, index: usize },

    #[error("Records of `{path}` cannot be put into an Arrow array")]
    Arrow { path: String, source: arrow_schema::ArrowError },
}

impl Error {
    /// What the error is to the caller.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Storage(error) => error.kind(),
            Self::NoSuchRecord { .. } => ErrorKind::RecordIndex,
            Self::Option { .. } => ErrorKind::Option,
            Self::Write { .. } => ErrorKind::Storage,
            Self::NotWhole { .. }
            | Self::Postscript { .. }
            | Self::Footer { .. }
            | Self::Memory { .. }
            | Self::Chunk { .. }
            | Self::Encode { .. }
            | Self::NoSuchPart { .. }
            | Self::Arrow { .. } => ErrorKind::Record,
        }
    }

    /// What the user can do about the error.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Storage(error) => error.hint(),
            Self::NotWhole { .. } => Some(
                "the file is truncated, has bytes after its end, or its writer was never closed; \
                 fetch or write it again",
            ),
            Self::Postscript { .. } | Self::Footer { .. } => {
                Some("the index of the file is lost; fetch or write it again")
            }
            Self::Chunk { fault: Fault::TooLarge { what, .. }, .. } if *what == DECODED_SIZE => {
                Some(TooLarge::HINT)
            }
            Self::Chunk { .. } => Some("records of other chunks can still be read"),
            _ => None,
        }
    }
}

/// What is wrong with a run of bytes, without its position.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    #[error("{0}")]
    Malformed(&'static str),

    #[error("hash of the {0} does not match")]
    Hash(&'static str),

    #[error("{what} needs `{needed}` bytes, `{found}` are there")]
    Truncated { what: &'static str, needed: u64, found: u64 },

    #[error("{what} is `{value}`, expected `{expected}`")]
    Mismatch { what: &'static str, value: u64, expected: u64 },

    #[error("{what} is `{value}`, at most `{limit}` is read")]
    TooLarge { what: &'static str, value: u64, limit: u64 },

    #[error("{codec} data does not decode: {detail}")]
    Decompress { codec: Codec, detail: String },

    #[error("{codec} cannot encode: {detail}")]
    Compress { codec: Codec, detail: String },
}
