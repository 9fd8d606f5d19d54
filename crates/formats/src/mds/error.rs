//! Errors of MDS data sets, and of rows being written to one.

use crate::limit::TooLarge;
use crate::table::type_name;
use arrow_schema::{ArrowError, DataType};
use shardmill_errors::ErrorKind;
use std::io;

#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Storage(#[from] shardmill_storage::Error),

    /// A compression, a hash algorithm or a size limit that is not valid.
    #[error("`{option}` of MDS cannot be `{value}`: {reason}")]
    Option { option: &'static str, value: String, reason: &'static str },

    #[error("Column `{column}` cannot have the MDS encoding `{encoding}`: {reason}")]
    Encoding { column: String, encoding: String, reason: &'static str },

    #[error("Column `{column}` of type {} has no MDS encoding", type_name(.data_type))]
    NoEncoding { column: String, data_type: DataType },

    #[error(
        "Column `{column}` of type {} cannot be written with the MDS encoding `{encoding}`",
        type_name(.data_type)
    )]
    UnsupportedType { column: String, encoding: String, data_type: DataType },

    #[error("Rows have no column `{column}`")]
    MissingColumn { column: String },

    #[error("Column `{column}` is null in row `{row}`")]
    Null { column: String, row: u64 },

    #[error(
        "Column `{column}` of row `{row}` cannot be written with the MDS encoding \
         `{encoding}`: {reason}"
    )]
    Value { column: String, row: u64, encoding: String, reason: String },

    #[error(
        "Column `{column}` after row `{row}` cannot be written with the MDS encoding `{encoding}`"
    )]
    Cast { column: String, row: u64, encoding: String, source: ArrowError },

    /// Offsets in a shard have 32 bits.
    #[error("Row `{row}` does not fit into its shard, which would have `{bytes}` bytes")]
    ShardTooLarge { row: u64, bytes: u64 },

    #[error("Shard `{basename}` cannot be compressed with `{compression}`")]
    Compress { basename: String, compression: String, source: io::Error },

    #[error("`{path}` is not an MDS index: {reason}")]
    Index { path: String, reason: String },

    /// A shard in the index that cannot be read.
    #[error("Field `{field}` of shard `{shard}` in `{path}`: {reason}")]
    IndexField { path: String, shard: String, field: &'static str, reason: String },

    /// The index and the file of a shard disagree.
    #[error(
        "Field `{field}` of shard `{path}` is `{expected}` in the index, `{found}` in the file"
    )]
    IndexMismatch { path: String, field: &'static str, expected: String, found: String },

    #[error("Shard `{path}` is damaged, {field}: {reason}")]
    Shard { path: String, field: &'static str, reason: String },

    #[error(transparent)]
    TooLarge(#[from] TooLarge),

    #[error("Shard `{path}` does not decompress with `{compression}`: {reason}")]
    Decompress { path: String, compression: String, reason: String },

    #[error("Column `{column}` of sample `{sample}` in shard `{path}`: {reason}")]
    Sample { path: String, sample: u64, column: String, reason: String },

    #[error("Hash `{algorithm}` of shard `{path}` is `{found}`, the index says `{expected}`")]
    Hash { path: String, algorithm: String, expected: String, found: String },

    #[error("Column `{column}` of `{path}` holds pickles, which are never decoded")]
    Pickle { path: String, column: String },

    #[error("`{path}` has no column or block `{index}`")]
    NoSuchPart { path: String, index: usize },

    #[error("Samples of `{path}` cannot be put into Arrow arrays")]
    Arrow { path: String, source: ArrowError },
}

impl Error {
    /// What the error is to the caller.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Storage(error) => error.kind(),
            Self::Option { .. } | Self::Encoding { .. } => ErrorKind::Option,
            Self::MissingColumn { .. } => ErrorKind::MissingColumn,
            Self::NoEncoding { .. }
            | Self::UnsupportedType { .. }
            | Self::Null { .. }
            | Self::Value { .. }
            | Self::Cast { .. }
            | Self::ShardTooLarge { .. }
            | Self::Compress { .. }
            | Self::Index { .. }
            | Self::IndexField { .. }
            | Self::IndexMismatch { .. }
            | Self::Shard { .. }
            | Self::TooLarge(_)
            | Self::Decompress { .. }
            | Self::Sample { .. }
            | Self::Hash { .. }
            | Self::Pickle { .. }
            | Self::NoSuchPart { .. }
            | Self::Arrow { .. } => ErrorKind::Format,
        }
    }

    /// What the user can do about the error.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Storage(error) => error.hint(),
            Self::TooLarge(_) => Some(TooLarge::HINT),
            Self::Option { option: "hashes", .. } => {
                Some("name algorithms such as md5, sha1, sha256, blake2b, xxh64 or xxh128")
            }
            Self::Encoding { .. } => Some(
                "bytes, str, int, uint8 … float64, str_int, str_float, str_decimal, json, pkl, \
                 ndarray[:dtype[:shape]], pil, jpeg, png, …",
            ),
            Self::NoEncoding { .. } => {
                Some("give the column an encoding, or cast it to another type")
            }
            Self::UnsupportedType { .. } => Some(
                "columns= has one encoding a column: str for text, int for whole numbers, float64, \
                 bytes, json; are two of them swapped?",
            ),
            Self::Value { .. } => Some(
                "name the column's encoding by columns=, json for lists that may be empty; \
                 or leave such rows out",
            ),
            Self::Null { .. } => Some("MDS has no nulls; fill them, or leave such rows out"),
            Self::ShardTooLarge { .. } => {
                Some("set a size_limit below 4 GiB, so that shards are split")
            }
            Self::IndexMismatch { .. } => {
                Some("fetch the shard again, or rebuild the index: shardmill repair-index")
            }
            Self::Hash { .. } | Self::Shard { .. } | Self::Decompress { .. } => {
                Some("the shard was damaged after it was written; fetch or write it again")
            }
            Self::Pickle { .. } => {
                Some("leave the column out with columns=, or take its bytes with pickles=\"bytes\"")
            }
            _ => None,
        }
    }
}
