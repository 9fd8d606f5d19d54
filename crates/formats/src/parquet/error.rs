//! Errors of Parquet files.

use crate::limit::TooLarge;
use crate::table::{arrow_message, type_name};
use arrow_schema::{ArrowError, DataType};
use parquet::errors::ParquetError;
use shardmill_errors::ErrorKind;
use shardmill_storage::Error as StorageError;

#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file does not end with a footer.
    #[error("Footer of `{path}` cannot be read: {source}")]
    Footer { path: String, source: ParquetError },
    /// There is a footer, but its content is inconsistent.
    #[error("Footer of `{path}` is damaged: {source}")]
    DamagedFooter { path: String, source: ParquetError },
    #[error("`{path}` is encrypted, which is not supported")]
    Encrypted { path: String },
    /// The footer is not encrypted, and other columns may not be either.
    #[error("Column `{column}` of `{path}` is encrypted, which is not supported")]
    EncryptedColumn { path: String, column: String },
    /// The stored Arrow schema has a type that Arrow does not specify,
    /// or only a later version of it.
    #[error("Column `{column}` of `{path}` is {data_type}, which is not supported")]
    UnknownType { path: String, column: String, data_type: String },
    #[error("Schema of `{path}` has no equivalent in Arrow: {source}")]
    Schema { path: String, source: ParquetError },
    /// Rows before it were delivered.
    #[error(
        "Column `{column}` of `{path}` has a value in row {row} that {} cannot hold: {value}",
        type_name(.data_type)
    )]
    Value { path: String, column: String, row: u64, data_type: DataType, value: String },
    /// A page or a value is damaged; rows before it were delivered.
    #[error("Rows of `{path}` cannot be read after row {row}: {source}")]
    Rows { path: String, row: u64, source: ParquetError },
    /// A page is damaged: its checksum differs, or it cannot be decompressed.
    #[error(
        "Page {page} of column `{column}` in row group {row_group} of `{path}` (the column chunk \
         begins at byte {offset}) is damaged: {source}"
    )]
    Page {
        path: String,
        row_group: usize,
        column: String,
        /// Index in the column chunk from 0, counting the dictionary.
        page: u64,
        /// Offset of the column chunk.
        offset: u64,
        source: ParquetError,
    },
    /// The decoder panicked.
    #[error("Rows of `{path}` cannot be read after row {row}: the decoder failed on damaged data")]
    Decoder { path: String, row: u64 },
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
    /// Index structures that the footer references.
    #[error(
        "Page index or bloom filter of row group {row_group} of `{path}` cannot be read: {source}"
    )]
    Index { path: String, row_group: usize, source: ParquetError },
    #[error("Failed to write Parquet to `{path}`: {source}")]
    Write { path: String, source: ParquetError },
    #[error("Column `{column}` is {data_type}, and Parquet has no such type")]
    UnsupportedType { column: String, data_type: String },
    #[error(
        "Column `{column}` of `{path}` has a value that cannot be stored as {data_type}: {}",
        arrow_message(.source)
    )]
    UnsupportedValue { path: String, column: String, data_type: String, source: ArrowError },
    #[error("`{name}` is not a Parquet compression")]
    UnknownCompression { name: String },
}

impl Error {
    /// What the error is to the caller.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::UnknownCompression { .. } => ErrorKind::Option,
            Self::Footer { .. }
            | Self::DamagedFooter { .. }
            | Self::Encrypted { .. }
            | Self::EncryptedColumn { .. }
            | Self::UnknownType { .. }
            | Self::Schema { .. }
            | Self::Value { .. }
            | Self::Rows { .. }
            | Self::Page { .. }
            | Self::Decoder { .. }
            | Self::TooLarge(_)
            | Self::Index { .. }
            | Self::Write { .. }
            | Self::UnsupportedType { .. }
            | Self::UnsupportedValue { .. } => ErrorKind::Format,
        }
    }

    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Footer { .. } => {
                Some("the writer was probably not closed, or this is not a Parquet file")
            }
            Self::DamagedFooter { .. } => {
                Some("the file is damaged; fetch it again from its source")
            }
            Self::Encrypted { .. } => {
                Some("decrypt the file first, for example with pyarrow and its keys")
            }
            Self::EncryptedColumn { .. } => Some(
                "read the other columns with columns=[…], or decrypt the file first, \
                 for example with pyarrow and its keys",
            ),
            Self::UnknownType { .. } | Self::Schema { .. } => Some(
                "write the file again with another type for the column, \
                 such as a decimal or a string",
            ),
            Self::Value { .. } => Some(
                "read the other columns with columns=[…], or write the file again \
                 with a type that holds the value",
            ),
            Self::TooLarge(_) => Some(TooLarge::HINT),
            Self::UnsupportedType { .. } => Some(
                "cast the column first, for example intervals to durations, \
                 other types to strings; or leave it out",
            ),
            Self::UnsupportedValue { .. } => Some(
                "cast the column before it is written, as dates with a time of day to timestamps",
            ),
            Self::UnknownCompression { .. } => Some("one of zstd, snappy, gzip, brotli, lz4, none"),
            _ => None,
        }
    }

    /// For a damaged page: row group, column and page as text, and the offset of its column chunk.
    #[must_use]
    pub fn page_place(&self) -> Option<(String, u64)> {
        let Self::Page { row_group, column, page, offset, .. } = self else { return None };
        Some((format!("row group {row_group}, column {column}, page {page}"), *offset))
    }

    /// The storage error, if it is the only cause. A file that ends early may be damaged, so that
    /// is excluded.
    ///
    /// # Errors
    /// This error, if it has another cause.
    pub fn into_storage(self) -> Result<StorageError, Self> {
        match self {
            Self::Footer { path, source } => {
                storage_of(source).map_err(|source| Self::Footer { path, source })
            }
            Self::Index { path, row_group, source } => {
                storage_of(source).map_err(|source| Self::Index { path, row_group, source })
            }
            Self::Rows { path, row, source } => {
                storage_of(source).map_err(|source| Self::Rows { path, row, source })
            }
            Self::Page { path, row_group, column, page, offset, source } => storage_of(source)
                .map_err(|source| Self::Page { path, row_group, column, page, offset, source }),
            Self::Write { path, source } => match io_of(source) {
                Ok(source) => Ok(StorageError::Write { path, source }),
                Err(source) => Err(Self::Write { path, source }),
            },
            error => Err(error),
        }
    }
}

fn io_of(source: ParquetError) -> Result<std::io::Error, ParquetError> {
    let ParquetError::External(inner) = source else { return Err(source) };
    inner.downcast::<std::io::Error>().map(|error| *error).map_err(ParquetError::External)
}

fn storage_of(source: ParquetError) -> Result<StorageError, ParquetError> {
    let ParquetError::External(inner) = source else { return Err(source) };
    match inner.downcast::<StorageError>() {
        Ok(error) if !matches!(*error, StorageError::ShortRead { .. }) => Ok(*error),
        Ok(error) => Err(ParquetError::External(error)),
        Err(inner) => Err(ParquetError::External(inner)),
    }
}
