//! Why rows cannot be packed.

use arrow_schema::DataType;
use shardmill_errors::ErrorKind;
use shardmill_formats::table::type_name;
use shardmill_plan::packing::{Amount, Packing};

pub type Result<T> = std::result::Result<T, Error>;

#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("Column `{column}` is {}; only lists of numbers are packed", type_name(.data_type))]
    NotTokens { column: String, data_type: DataType },
    #[error("Column `{column}` is {}; lengths are whole numbers", type_name(.data_type))]
    NotLengths { column: String, data_type: DataType },
    #[error(
        "Column `{column}` is {}; labels of the next token are made of integers",
        type_name(.data_type)
    )]
    NotLabels { column: String, data_type: DataType },
    #[error("Column `{column}` cannot be packed, a batch has `{column}` of its own")]
    ReservedName { column: String },
    #[error(
        "The pad value {value} does not fit column `{column}`, whose tokens are {}",
        type_name(.data_type)
    )]
    PadValue { column: String, data_type: DataType, value: String },
    #[error("Column `{column}` is null in row {row} of `{path}`")]
    NullRow { column: String, path: String, row: u64 },
    #[error("Column `{column}` has a null among the tokens of row {row} of `{path}`")]
    NullToken { column: String, path: String, row: u64 },
    #[error("Column `{column}` says that row {row} of `{path}` has {value} tokens")]
    NoLength { column: String, path: String, row: u64, value: String },
    /// Between two columns, or a column and its stated lengths.
    #[error("Column `{column}` has {found} tokens in row {row} of `{path}`, expected {expected}")]
    OtherLength { column: String, path: String, row: u64, expected: u64, found: u64 },
    /// Between a row and its count, which was kept.
    #[error(
        "Column `{column}` has {found} tokens in row {row} of `{path}`, but the counts \
         in `{directory}` say {expected}"
    )]
    OtherCount {
        column: String,
        path: String,
        row: u64,
        expected: u64,
        found: u64,
        directory: String,
    },
    #[error("Row {row} of `{path}` has {tokens} tokens, but a pack holds {length}")]
    LongRow { path: String, row: u64, tokens: u32, length: u32 },
    /// Between a row and what was counted.
    #[error(
        "Row {row} of `{path}` has {images} images with {patches} patches, but {} with {} were \
         counted",
        .planned.images,
        .planned.patches
    )]
    OtherImages { path: String, row: u64, images: u32, patches: u32, planned: Amount },
    #[error("Row {row} of `{path}` has {found} {noun}, but a pack holds {most}")]
    ManyImages { path: String, row: u64, noun: &'static str, found: u32, most: u32 },
    /// The length is in tokens, or in the unit of a column.
    #[error(
        "Row {row} of `{path}` has the length {length}, but a batch has rows of at most {most}"
    )]
    LongBatchRow { path: String, row: u64, length: String, most: String },
    #[error(
        "Column `{column}` is {}; lengths are whole numbers or floats",
        type_name(.data_type)
    )]
    NotNumbers { column: String, data_type: DataType },
    #[error("Column `{column}` says that row {row} of `{path}` has the length {value}")]
    BadLength { column: String, path: String, row: u64, value: String },
    #[error(
        "Lane {lane} has nothing to pack: its {rows} rows contain no tokens to pack in pass {pass}"
    )]
    EmptyLane { lane: u64, pass: u64, rows: u64 },
    #[error(
        "Pack {pack} of lane {lane} is not known: weights were set during the run, and the loader \
         has the packs from {first} on"
    )]
    ForgottenPack { lane: u64, pack: u64, first: u64 },
    #[error("Reaching this position takes more than {most} passes over lane {lane}")]
    FarPass { lane: u64, most: u64 },
    #[error("epoch {epoch} of {packs} packs begins past place 2^63")]
    FarEpoch { epoch: u64, packs: u64 },
    #[error("these are the packs of epoch {packed}, not of {epoch}")]
    OtherEpoch { packed: u64, epoch: u64 },
    #[error("packs are planned from the lengths of all rows, so on_bad_rows is \"raise\"")]
    BadRows,
    #[error("A lane of {rows} rows is too long to be packed")]
    LongLane { rows: u64 },
}

impl Error {
    /// Of a row with more images or patches than a pack.
    pub(super) fn many_images((path, row): (String, u64), of: Amount, packing: &Packing) -> Self {
        let (noun, found, most) = if of.images > packing.max_images {
            ("images", of.images, packing.max_images)
        } else {
            ("patches", of.patches, packing.max_patches)
        };
        Self::ManyImages { path, row, noun, found, most }
    }

    /// What the error is to the caller.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::NotTokens { .. }
            | Self::NotLengths { .. }
            | Self::NotNumbers { .. }
            | Self::NotLabels { .. }
            | Self::ReservedName { .. }
            | Self::PadValue { .. }
            | Self::EmptyLane { .. }
            | Self::ForgottenPack { .. }
            | Self::FarPass { .. }
            | Self::FarEpoch { .. }
            | Self::OtherEpoch { .. }
            | Self::BadRows
            | Self::LongLane { .. } => ErrorKind::Option,
            Self::NullRow { .. }
            | Self::NullToken { .. }
            | Self::NoLength { .. }
            | Self::OtherLength { .. }
            | Self::OtherCount { .. }
            | Self::LongRow { .. }
            | Self::ManyImages { .. }
            | Self::OtherImages { .. }
            | Self::LongBatchRow { .. }
            | Self::BadLength { .. } => ErrorKind::Format,
        }
    }

    /// What the user can do about the error.
    #[must_use]
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::NotTokens { data_type, .. } if data_type.is_string() => Some(
                "tokenize the texts first: sm.Loader(sm.Dataset(path, \
                 tokenize=sm.Tokenize(\"text\", tokenizer=…)), packing=sm.Packing(\"tokens\", \
                 length=…)); leave out any other column of texts with columns=",
            ),
            Self::NotTokens { .. } => Some(
                "a pack holds the tokens of several rows, so it has no place for one value per \
                 row; leave the column out with columns=",
            ),
            Self::NotLabels { .. } => Some("pack a column `labels` too, or omit next_token"),
            Self::ReservedName { .. } => Some("rename the column"),
            Self::PadValue { .. } => Some("pad_value may be a dict with a value for each column"),
            Self::NullRow { .. } => Some(
                "nulls=\"fill\" treats a row that is null in all packed columns as empty; \
                 or leave such rows out with a filter",
            ),
            Self::NullToken { .. } => Some("leave such rows out with a filter"),
            Self::OtherLength { .. } => Some(
                "columns that are packed together need rows of equal length; \
                 lengths= names the column with the lengths",
            ),
            Self::OtherCount { .. } => Some("delete that directory; the tokens are counted again"),
            Self::LongRow { .. } => {
                Some("long=\"split\", \"truncate\" or \"drop\" sets how such rows are handled")
            }
            Self::OtherImages { .. } => Some(
                "delete the directory of counts of these Sequences; the images are counted again",
            ),
            Self::ManyImages { .. } => {
                Some("raise max_images or max_patches, or drop such documents with long=\"drop\"")
            }
            Self::LongBatchRow { .. } => Some(
                "the limit is that of the batch, rounded down to multiple_of; \
                 long=\"truncate\" or \"drop\" sets how such rows are handled",
            ),
            Self::BadLength { .. } => {
                Some("lengths are finite, and at least 0; leave such rows out with a filter")
            }
            Self::EmptyLane { .. } => {
                Some("use fewer lanes, so that each has more rows, or check files and filter")
            }
            Self::ForgottenPack { .. } => {
                Some("load a state of that epoch, which has the weights of its time")
            }
            Self::FarPass { .. } | Self::FarEpoch { .. } => Some("choose an earlier epoch"),
            Self::LongLane { .. } => Some("set more lanes=, so that each has fewer rows"),
            _ => None,
        }
    }
}
