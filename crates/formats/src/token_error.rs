//! Errors of token files.

use crate::limit::TooLarge;
use shardmill_errors::ErrorKind;

#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Storage(#[from] shardmill_storage::Error),
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// A header, a size or a count that is not that of the format.
    #[error("`{path}` is not a valid {format} file: {field} is {found}, expected {expected}")]
    Header {
        path: String,
        format: &'static str,
        field: &'static str,
        found: Box<str>,
        expected: Box<str>,
        hint: &'static str,
    },
    /// An entry of an index, at `offset` of the file.
    #[error("Byte {offset} of `{path}`: {field} is {found}, expected {expected}")]
    Entry { path: String, offset: u64, field: &'static str, found: Box<str>, expected: Box<str> },
    #[error("Line {line} of `{path}`: {field} is {found}, expected {expected}")]
    Line { path: String, line: u64, field: &'static str, found: String, expected: String },
    #[error("Line {line} of `{path}` cannot be decompressed")]
    Unzip { path: String, line: u64, source: std::io::Error },
    /// Lengths that were kept are not those of the tokens.
    #[error("Byte {offset} of `{path}`: the row that starts here has another length than counted")]
    OtherLength { path: String, offset: u64 },
    #[error("`{path}` has no header that says how its tokens are stored")]
    NoDtype { path: String },
    #[error("`{path}` stores tokens as {dtype}, which cannot hold the id {id} that separates rows")]
    Separator { path: String, dtype: &'static str, id: i64 },
    /// A token that is not in the vocabulary.
    #[error("Byte {offset} of `{path}`: token {id} is not below {limit}")]
    Id { path: String, offset: u64, id: i64, limit: u64 },
    #[error("`{path}` has no column or block `{index}`")]
    NoSuchPart { path: String, index: usize },
    #[error("Tokens of `{path}` cannot be put into an Arrow array")]
    Arrow { path: String, source: arrow_schema::ArrowError },
}

impl Error {
    /// A file of a format is not valid, because a field is not what is expected.
    pub(crate) fn header(
        (path, format): (&str, &'static str),
        field: &'static str,
        found: impl Into<Box<str>>,
        expected: impl Into<Box<str>>,
        hint: &'static str,
    ) -> Self {
        let (path, found, expected) = (path.to_owned(), found.into(), expected.into());
        Self::Header { path, format, field, found, expected, hint }
    }

    /// What the error is to the caller.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Storage(error) => error.kind(),
            Self::NoDtype { .. } | Self::Separator { .. } => ErrorKind::Option,
            _ => ErrorKind::Format,
        }
    }

    /// What the user can do about the error.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Storage(error) => error.hint(),
            Self::TooLarge(_) => Some(TooLarge::HINT),
            Self::Header { hint, .. } => Some(hint),
            Self::Entry { .. } | Self::Line { .. } | Self::Unzip { .. } => {
                Some("the index is damaged or of other tokens; write or fetch both files again")
            }
            Self::OtherLength { .. } => {
                Some("remove the directory of token counts; the rows are found again")
            }
            Self::NoDtype { .. } => {
                Some("pass token_files= with its dtype, as in sm.TokenFiles(dtype=\"uint16\")")
            }
            Self::Separator { .. } => {
                Some("pass the bos or eos of the tokenizer that made the tokens, and their dtype")
            }
            Self::Id { .. } => Some("pass the dtype and the vocabulary size of the writer"),
            Self::NoSuchPart { .. } | Self::Arrow { .. } => None,
        }
    }
}
