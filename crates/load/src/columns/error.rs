//! Why a column cannot be converted to a tensor, an array or a list.

use arrow_schema::{ArrowError, DataType};
use shardmill_errors::ErrorKind;
use shardmill_formats::table::type_name;

pub(crate) const LONG_LIST: &str =
    "use a larger pad=, use pad=\"longest\", or exclude such rows with a filter on a stored column";
pub(crate) const LIST_LENGTH: &str =
    "use Output(lists=\"ragged\"): the lists of this column are not equally long";

pub type Result<T> = std::result::Result<T, Error>;

#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No tensor, array or Python object can represent it.
    #[error(
        "Column `{column}` is {}, which has no equivalent outside of Arrow",
        type_name(.data_type)
    )]
    Unsupported { column: String, data_type: DataType },
    #[error("Column `{column}` is nested deeper than {limit} levels")]
    Depth { column: String, limit: usize },
    /// A batch is a dict, which cannot hold two columns with one name.
    #[error("Two columns are named `{column}`")]
    DuplicateName { column: String },
    /// The same inside of a struct, whose rows are dicts as well.
    #[error("Column `{column}` has two fields named `{field}`")]
    DuplicateField { column: String, field: String },
    /// A mask or the lengths of a column.
    #[error("Column `{column}` adds `{added}` to the batch, and another column has this name")]
    AddedName { column: String, added: String },
    #[error("`{option}` names column `{column}`; the batch has {available}")]
    UnknownName { option: &'static str, column: String, available: String },
    #[error("`fill_values` names column `{column}`, but nulls are not filled")]
    FillWithoutPolicy { column: String },
    #[error(
        "`fill_values` names column `{column}`, which stays Python objects ({})",
        type_name(.data_type)
    )]
    FillObjects { column: String, data_type: DataType },
    #[error(
        "The fill value {value} does not fit column `{column}`, which is {}",
        type_name(.data_type)
    )]
    FillType { column: String, data_type: DataType, value: String },
    #[error("`pad` has nothing to pad: no selected column is a variable-length list of numbers")]
    NothingToPad,
    #[error("`pad_value` names column `{column}`, which is not padded ({})", type_name(.data_type))]
    PadOther { column: String, data_type: DataType },
    #[error(
        "Column `{column}` is {}; only lists of numbers, of any length, are padded",
        type_name(.data_type)
    )]
    NotLists { column: String, data_type: DataType },
    #[error(
        "The pad value {value} does not fit column `{column}`, whose lists are of {}",
        type_name(.data_type)
    )]
    PadType { column: String, data_type: DataType, value: String },
    #[error("Column `{column}` does not fit in memory when it is padded")]
    PadMemory { column: String },
    /// The row is counted within the converted batch, as in the variants below.
    #[error("Column `{column}` has {length} values in row {row}, and `pad` allows {limit}")]
    LongList { column: String, row: usize, length: usize, limit: usize },
    #[error(
        "Column `{column}` has {length} values in row {row}, and {expected} in the rows before"
    )]
    ListLength { column: String, row: usize, length: usize, expected: usize },
    /// The row is counted within the converted batch; the caller maps it to a file.
    #[error(
        "Column `{column}` is null in row {row}, and {} has no value for that",
        type_name(.data_type)
    )]
    Null { column: String, row: usize, data_type: DataType },
    #[error(
        "Column `{column}` is {}; it was {} when the loader was made",
        type_name(.found), type_name(.expected)
    )]
    Changed { column: String, expected: DataType, found: DataType },
    #[error("A batch has {found} columns; it had {expected} when the loader was made")]
    ColumnCount { expected: usize, found: usize },
    #[error("Failed to decode the dictionary of column `{column}`")]
    Dictionary { column: String, source: ArrowError },
}

impl Error {
    /// What the error is to the caller.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::UnknownName { .. } => ErrorKind::MissingColumn,
            Self::AddedName { .. }
            | Self::FillWithoutPolicy { .. }
            | Self::FillObjects { .. }
            | Self::FillType { .. }
            | Self::NothingToPad
            | Self::PadOther { .. }
            | Self::NotLists { .. }
            | Self::PadType { .. } => ErrorKind::Option,
            Self::Unsupported { .. }
            | Self::Depth { .. }
            | Self::DuplicateName { .. }
            | Self::DuplicateField { .. }
            | Self::PadMemory { .. }
            | Self::LongList { .. }
            | Self::ListLength { .. }
            | Self::Null { .. }
            | Self::Changed { .. }
            | Self::ColumnCount { .. }
            | Self::Dictionary { .. } => ErrorKind::Format,
        }
    }

    /// What the user can do about the error.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Unsupported { .. } | Self::Depth { .. } => {
                Some("leave it out by `columns`, or use output=\"arrow\"")
            }
            Self::DuplicateName { .. } | Self::DuplicateField { .. } => {
                Some("rename one of them, or use output=\"arrow\"")
            }
            Self::AddedName { .. } => Some(
                "rename that column, leave it out by `columns`, or use another option \
                 than nulls=\"mask\" or pad=",
            ),
            Self::NothingToPad => Some(
                "leave out pad=, or select a column of lists; fixed-size lists need no padding",
            ),
            Self::NotLists { .. } => {
                Some("columns that are not named there are delivered as they are")
            }
            Self::PadOther { .. } => {
                Some("pad_value takes a value for each padded column, and one for all of them")
            }
            Self::PadType { .. } => {
                Some("give a value of that type, or a dict of values by column")
            }
            Self::PadMemory { .. } => {
                Some("use a smaller batch_size, or leave out the longest rows by a filter")
            }
            Self::LongList { .. } => Some(LONG_LIST),
            Self::ListLength { .. } => Some(LIST_LENGTH),
            Self::FillWithoutPolicy { .. } => Some("add nulls=\"fill\""),
            Self::FillObjects { .. } => {
                Some("a list of Python objects holds None where a value is null")
            }
            Self::FillType { .. } => {
                Some("dates and times take an ISO 8601 text or an integer in the column's unit")
            }
            Self::Null { .. } => Some(
                "use nulls=\"fill\" with a value for the column in `fill_values`, \
                 or nulls=\"mask\"",
            ),
            _ => None,
        }
    }

    /// The row of the value, for a caller that can name its file.
    #[must_use]
    pub fn row(&self) -> Option<usize> {
        match self {
            Self::Null { row, .. } | Self::LongList { row, .. } | Self::ListLength { row, .. } => {
                Some(*row)
            }
            _ => None,
        }
    }
}
