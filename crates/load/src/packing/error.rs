//! Why rows cannot be packed.

use arrow_schema::DataType;

pub type Result<T> = std::result::Result<T, Error>;

#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("Column `{column}` is {data_type}; only lists of numbers are packed")]
    NotTokens { column: String, data_type: DataType },
    #[error("Column `{column}` is {data_type}; lengths are whole numbers")]
    NotLengths { column: String, data_type: DataType },
    #[error("Column `{column}` is packed twice")]
    Twice { column: String },
    #[error("Column `{column}` cannot be packed, a batch has `{column}` of its own")]
    ReservedName { column: String },
    #[error("The pad value {value} does not fit column `{column}`, whose tokens are {data_type}")]
    PadValue { column: String, data_type: DataType, value: String },
    #[error("Column `{column}` is null in row {row} of `{path}`")]
    NullRow { column: String, path: String, row: u64 },
    #[error("Column `{column}` has a null among the tokens of row {row} of `{path}`")]
    NullToken { column: String, path: String, row: u64 },
    #[error("Column `{column}` says that row {row} of `{path}` has {value} tokens")]
    NoLength { column: String, path: String, row: u64, value: String },
    /// Of two columns, or of a column and of what was said about it.
    #[error("Column `{column}` has {found} tokens in row {row} of `{path}`, and {expected} were expected")]
    OtherLength { column: String, path: String, row: u64, expected: u64, found: u64 },
    #[error("Row {row} of `{path}` has {tokens} tokens, and a pack takes {length}")]
    LongRow { path: String, row: u64, tokens: u32, length: u32 },
    #[error("A lane of {rows} rows is too long to be packed")]
    LongLane { rows: u64 },
}

impl Error {
    /// What a user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NotTokens { .. } => Some("a pack holds tokens of several rows, so a value of a row has no place in it: leave the column out"),
            Self::ReservedName { .. } => Some("rename the column"),
            Self::PadValue { .. } => Some("pad_value may be a dict with a value for each column"),
            Self::NullRow { .. } => Some("nulls=\"fill\" takes such a row for an empty one; a filter leaves it out"),
            Self::NullToken { .. } => Some("leave the row out by a filter"),
            Self::OtherLength { .. } => {
                Some("columns that are packed together have equally long rows, and lengths= names the column that says how long")
            }
            Self::LongRow { .. } => Some("long=\"split\", \"truncate\" or \"drop\" says what becomes of such rows"),
            Self::LongLane { .. } => Some("more lanes are shorter"),
            _ => None,
        }
    }
}
