//! Why a column cannot become a tensor, an array or a list.

use arrow_schema::{ArrowError, DataType};

pub type Result<T> = std::result::Result<T, Error>;

#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No tensor, array or Python object stands for it.
    #[error("Column `{column}` is {data_type}, which has no form outside of Arrow")]
    Unsupported { column: String, data_type: DataType },
    #[error("Column `{column}` is nested deeper than {limit} levels")]
    Depth { column: String, limit: usize },
    /// A batch is a dict: of two columns with one name the first would vanish.
    #[error("Two columns are named `{column}`")]
    DuplicateName { column: String },
    /// The same inside of a struct, whose rows are dicts as well.
    #[error("Column `{column}` has two fields named `{field}`")]
    DuplicateField { column: String, field: String },
    #[error("The mask of column `{column}` would be named `{mask}`, and so is another column")]
    MaskName { column: String, mask: String },
    #[error("`fill_values` names column `{column}`; the batch has {available}")]
    UnknownFill { column: String, available: String },
    #[error("`fill_values` names column `{column}`, but nulls are not filled")]
    FillWithoutPolicy { column: String },
    #[error("`fill_values` names column `{column}`, which stays Python objects ({data_type})")]
    FillObjects { column: String, data_type: DataType },
    #[error("The fill value {value} does not fit column `{column}`, which is {data_type}")]
    FillType { column: String, data_type: DataType, value: String },
    /// The row is counted within the converted batch; who knows the file says where that is.
    #[error("Column `{column}` is null in row {row}, and {data_type} has no value for that")]
    Null { column: String, row: usize, data_type: DataType },
    #[error("Column `{column}` is {found}; it was {expected} when the loader was made")]
    Changed { column: String, expected: DataType, found: DataType },
    #[error("A batch has {found} columns; it had {expected} when the loader was made")]
    ColumnCount { expected: usize, found: usize },
    #[error("Failed to decode the dictionary of column `{column}`")]
    Dictionary {
        column: String,
        #[source]
        source: ArrowError,
    },
}

impl Error {
    /// What a user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Unsupported { .. } | Self::Depth { .. } => Some("leave it out by `columns`, or use output=\"arrow\""),
            Self::DuplicateName { .. } | Self::DuplicateField { .. } => Some("rename one of them, or use output=\"arrow\""),
            Self::MaskName { .. } => Some("leave that column out by `columns`, or use another policy than nulls=\"mask\""),
            Self::FillWithoutPolicy { .. } => Some("add nulls=\"fill\""),
            Self::FillObjects { .. } => Some("a list of Python objects holds None where a value is null"),
            Self::FillType { .. } => Some("dates and times take an ISO 8601 text or an integer in the column's unit"),
            Self::Null { .. } => Some("use nulls=\"fill\" with a value for the column in `fill_values`, or nulls=\"mask\""),
            _ => None,
        }
    }

    /// Where the null is, for a caller that can name its file.
    #[must_use]
    pub fn null_row(&self) -> Option<usize> {
        match self {
            Self::Null { row, .. } => Some(*row),
            _ => None,
        }
    }
}
