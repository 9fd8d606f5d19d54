//! Errors of files of rows.

use shardmill_errors::ErrorKind;
use shardmill_storage::Error as StorageError;
use std::io;

/// One variant per format, so that a caller can print a reason and a hint
/// without knowing the format.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error(transparent)]
    Parquet(crate::parquet::Error),
    #[error(transparent)]
    Text(crate::records::Error),
    #[error(transparent)]
    Orc(crate::orc::Error),
    #[error(transparent)]
    ArrayRecord(crate::arrayrecord::Error),
    #[error(transparent)]
    Mds(crate::mds::Error),
    #[error(transparent)]
    WebDataset(crate::tar::samples::Error),
    #[error(transparent)]
    Tokens(crate::token_error::Error),
    /// The decoder panicked.
    #[error("Rows of `{path}` cannot be read after row {row}: the decoder failed on damaged data")]
    Decoder { path: String, row: u64 },
    /// A row that belongs to no document.
    #[error("Row {row} of `{path}` belongs to no document: its `{column}` is null")]
    NullPart { path: String, row: u64, column: &'static str },
    #[error("Blocks of `{path}` cannot be put together")]
    Join { path: String, source: arrow_schema::ArrowError },
}

impl TableError {
    /// The storage error, if it is the only cause. A file that ends early may be damaged, so that
    /// is excluded.
    #[must_use]
    pub fn of_store(&self) -> Option<&StorageError> {
        let found = match self {
            Self::Storage(error) => Some(error),
            // Decompressors read through the standard library.
            other => within(other),
        };
        found.filter(|error| !matches!(error, StorageError::ShortRead { .. }))
    }

    /// What the error is to the caller.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        if let Some(error) = self.of_store() {
            return error.kind();
        }
        match self {
            Self::Storage(error) => error.kind(),
            Self::ArrayRecord(error) => error.kind(),
            Self::Mds(error) => error.kind(),
            Self::Tokens(error) => error.kind(),
            Self::Parquet(_) | Self::Text(_) | Self::Orc(_) | Self::WebDataset(_) => {
                ErrorKind::Format
            }
            Self::Decoder { .. } | Self::NullPart { .. } | Self::Join { .. } => ErrorKind::Format,
        }
    }

    /// What the user can do about the error.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        match self {
            _ if self.of_store().is_some() => self.of_store().and_then(StorageError::hint),
            Self::Storage(error) => error.hint(),
            Self::Join { .. } | Self::Decoder { .. } | Self::NullPart { .. } => None,
            Self::Parquet(error) => error.hint(),
            Self::Text(error) => error.hint(),
            Self::Orc(error) => error.hint(),
            Self::ArrayRecord(error) => error.hint(),
            Self::Mds(error) => error.hint(),
            Self::WebDataset(error) => error.hint(),
            Self::Tokens(error) => error.hint(),
        }
    }
}

fn within<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a StorageError> {
    let mut error = error;
    loop {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        error = match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => inner,
            None => error.source()?,
        };
    }
}

/// Storage errors are passed on, so that users do not look for damage in a file that could not be
/// fetched. A file that ends early may be damaged.
macro_rules! from_format {
    ($($room:ident)::+, $variant:ident) => {
        impl From<crate::$($room)::+::Error> for TableError {
            fn from(error: crate::$($room)::+::Error) -> Self {
                match error {
                    crate::$($room)::+::Error::Storage(error)
                        if !matches!(error, StorageError::ShortRead { .. }) =>
                    {
                        Self::Storage(error)
                    }
                    error => Self::$variant(error),
                }
            }
        }
    };
}

from_format!(records, Text);
from_format!(orc, Orc);
from_format!(arrayrecord, ArrayRecord);
from_format!(mds, Mds);
from_format!(tar::samples, WebDataset);
from_format!(token_error, Tokens);

impl From<crate::parquet::Error> for TableError {
    fn from(error: crate::parquet::Error) -> Self {
        error.into_storage().map_or_else(Self::Parquet, Self::Storage)
    }
}
