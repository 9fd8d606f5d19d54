//! What can be wrong with an ORC file.

use crate::limit::TooLarge;
use arrow_schema::ArrowError;
use orc_rust::error::OrcError;
use shardmill_storage::Error as StorageError;

#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Storage(#[from] StorageError),
    /// The tail is missing, cut or inconsistent.
    #[error("Footer of `{path}` cannot be read: {reason}")]
    Footer { path: String, reason: String },
    #[error("`{path}` uses {feature}, which is not supported")]
    Unsupported { path: String, feature: String },
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// The structure of a stripe contradicts itself.
    #[error("Stripe {stripe} of `{path}` cannot be read: {reason}")]
    Stripe { path: String, stripe: usize, reason: String },
    /// A value is damaged, or does not fit its Arrow type.
    #[error("Stripe {stripe} of `{path}` cannot be read: column `{column}`: {source}")]
    Column {
        path: String,
        stripe: usize,
        column: String,
        #[source]
        source: DecodeError,
    },
    /// The decoder gave up in a way that it should not.
    #[error("Stripe {stripe} of `{path}` cannot be read: the decoder failed on damaged data")]
    Decoder { path: String, stripe: usize },
    #[error("`{path}` has no column {index}")]
    NoSuchColumn { path: String, index: usize },
    #[error("`{path}` has no stripe {index}")]
    NoSuchStripe { path: String, index: usize },
    #[error("The rows of stripe {stripe} of `{path}` do not make a table: {source}")]
    Arrow {
        path: String,
        stripe: usize,
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
            Self::TooLarge(_) => Some(TooLarge::HINT),
            Self::Footer { .. } => Some("the writer was probably not closed, or this is no ORC file"),
            Self::Unsupported { .. } => Some("rewrite the file, as with `pyarrow.orc.write_table`"),
            Self::Stripe { .. } | Self::Decoder { .. } => Some("the file is damaged; get it again from where it came"),
            _ => None,
        }
    }
}

/// What the decoder says.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    #[error("{0}")]
    Orc(#[source] Box<OrcError>),
    #[error(transparent)]
    Arrow(#[from] ArrowError),
}

impl From<OrcError> for DecodeError {
    fn from(error: OrcError) -> Self {
        Self::Orc(Box::new(error))
    }
}
