//! Errors of ORC files.

use crate::limit::TooLarge;
use crate::table::{arrow_message, type_name};
use arrow_schema::{ArrowError, DataType};
use orc_rust::error::OrcError;
use shardmill_storage::Error as StorageError;

#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The file does not end with a tail.
    #[error("Footer of `{path}` cannot be read: {reason}")]
    Footer { path: String, reason: String },
    /// There is a tail, but its content is inconsistent.
    #[error("Footer of `{path}` is damaged: {reason}")]
    DamagedFooter { path: String, reason: String },
    #[error("`{path}` uses {feature}, which is not supported")]
    Unsupported { path: String, feature: String },
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// The structure of a stripe is inconsistent.
    #[error("Stripe {stripe} of `{path}` cannot be read: {reason}")]
    Stripe { path: String, stripe: usize, reason: String },
    /// A value is damaged.
    #[error("Stripe {stripe} of `{path}` cannot be read: column `{column}`: {source}")]
    Column { path: String, stripe: usize, column: String, source: DecodeError },
    /// The Arrow type of the column cannot hold a value.
    #[error(
        "Column `{column}` of `{path}` has a value in row {row} that {} cannot hold: {value}",
        type_name(.data_type)
    )]
    Value { path: String, column: String, row: u64, data_type: DataType, value: String },
    /// orc-rust would return other times. They are corrected only if the time zone
    /// of the writer is UTC.
    #[error(
        "Column `{column}` in stripe {stripe} of `{path}` has times with a negative fraction \
         of a second in a time zone other than UTC, which is not supported"
    )]
    NegativeFraction { path: String, stripe: usize, column: String },
    /// The decoder panicked.
    #[error("Stripe {stripe} of `{path}` cannot be read: the decoder failed on damaged data")]
    Decoder { path: String, stripe: usize },
    #[error("`{path}` has no column {index}")]
    NoSuchColumn { path: String, index: usize },
    #[error("`{path}` has no stripe {index}")]
    NoSuchStripe { path: String, index: usize },
    #[error(
        "The rows of stripe {stripe} of `{path}` cannot be combined into a table: {}",
        arrow_message(.source)
    )]
    Arrow { path: String, stripe: usize, source: ArrowError },
}

impl Error {
    /// What the user can do about the error.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Storage(error) => error.hint(),
            Self::TooLarge(_) => Some(TooLarge::HINT),
            Self::Footer { .. } => {
                Some("the writer was probably not closed, or this is not an ORC file")
            }
            Self::Unsupported { .. } => Some("rewrite the file, as with `pyarrow.orc.write_table`"),
            Self::NegativeFraction { .. } => Some(
                "read the other columns with columns=[…], or rewrite the file \
                 as Parquet with pyarrow",
            ),
            Self::Value { data_type: DataType::Decimal128(..), .. } => {
                Some("read the other columns with columns=[…]")
            }
            Self::Value { .. } => Some(
                "times outside of 1677 to 2262 are not supported; read the other columns \
                 with columns=[…]",
            ),
            Self::DamagedFooter { .. } | Self::Stripe { .. } | Self::Decoder { .. } => {
                Some("the file is damaged; fetch it again from its source")
            }
            _ => None,
        }
    }
}

/// Errors of the decoder.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    #[error("{0}")]
    Orc(#[source] Box<OrcError>),
    #[error("{}", arrow_message(.0))]
    Arrow(#[from] ArrowError),
}

impl From<OrcError> for DecodeError {
    fn from(error: OrcError) -> Self {
        Self::Orc(Box::new(error))
    }
}
