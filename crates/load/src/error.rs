//! Why a data set cannot be opened or read.

use arrow_schema::{ArrowError, DataType, Field};
use shardmill_errors::ErrorKind;
use shardmill_formats::table::TableError;
use shardmill_formats::table::type_name;
use shardmill_plan::schema::Misfit;
use std::sync::Arc;

pub type Result<T> = std::result::Result<T, Error>;

#[non_exhaustive]
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Storage(Arc<shardmill_storage::Error>),
    #[error(transparent)]
    Table(Arc<TableError>),
    #[error(transparent)]
    Plan(Arc<shardmill_plan::Error>),
    #[error(transparent)]
    Engine(Arc<shardmill_engine::Error>),
    #[error("No file of a known format in `{paths}`")]
    UnknownFormat { paths: String },
    #[error("No {wanted} file in `{paths}`: by their names, the files there are {found} files")]
    OtherFormat { paths: String, wanted: &'static str, found: &'static str },
    #[error("The files have several formats: {counts}; a data set has one format")]
    MixedFormats { counts: String, hint: String },
    /// The name or the caller states one format, but the bytes are of another one.
    #[error("`{path}` is not a valid {wanted} file: its first bytes look like {found}")]
    WrongContents {
        path: String,
        wanted: &'static str,
        found: &'static str,
        source: Option<Arc<TableError>>,
    },
    /// A file whose rows are to be the parts of documents.
    #[error("`{path}` has no column `{column}`, so its rows are not parts of documents")]
    NotDocuments { path: String, column: &'static str },
    /// A file whose columns are to be the parts of documents.
    #[error("Column `{column}` of `{path}` {reason}")]
    NotParts { path: String, column: String, reason: &'static str },
    /// A column that is to have the images of messages.
    #[error(
        "Column `{column}` of `{path}` has the type {data_type}, which is not a type of images"
    )]
    NotImages { path: String, column: String, data_type: String },
    /// A column that is to state sizes of images.
    #[error("Column `{column}` of `{path}` {reason}, so sizes= cannot be used")]
    NotSizes { path: String, column: String, reason: &'static str },
    /// Neither the name nor the bytes of a named file show its format.
    #[error(
        "The format of `{path}` is unknown: its name has no known extension, \
         and its first bytes look like {found}"
    )]
    UnknownContents { path: String, found: &'static str },
    /// Hugging Face data sets are saved in this format.
    #[error("`{path}` is an Arrow file, which a data set does not read")]
    ArrowFile { path: String },
    #[error("`{path}` is an image file, and a data set reads tables")]
    ImageFile { path: String },
    /// A directory that MosaicML Streaming wrote in a format other than MDS.
    #[error(
        "`{path}` lists {format} shards of MosaicML Streaming, which are not read by their index"
    )]
    TextShards { path: String, format: String },
    #[error("`{path}` has {rows} rows, but the index of its directory lists {samples}")]
    SampleCount { path: String, rows: u64, samples: u64 },
    #[error("label_mask_paths: the number of masks is {masks}, that of files of tokens is {files}")]
    LabelMasks { masks: usize, files: usize },
    #[error("`{name}` is not a known format")]
    NoSuchFormat { name: String },
    #[error("`{option}` of the TextOptions does not concern {format} files")]
    TextOption { option: &'static str, format: &'static str },
    #[error("Column `{column}` has no value in `{path}`, and its type there allows none")]
    MissingRequired { column: String, path: String },
    /// A data file of a table whose columns are found by id.
    #[error(
        "`{path}` has columns without field ids, and the table does not map their names to ids"
    )]
    NoFieldIds { path: String },
    #[error("Column {column:?} of `{path}`, or a field in it, has the character NUL in its name")]
    NulInName { path: String, column: String },
    /// A path into structs that does not exist.
    #[error("No column `{path}`: {reason}")]
    UnknownPath { path: String, reason: PathFault },
    #[error("Column `{column}` of `{path}` cannot be delivered as {}", type_name(.wanted))]
    Cast { path: String, column: String, wanted: DataType, source: Arc<ArrowError> },
    /// A value that the common type of the files cannot hold; `row` counts in the file.
    #[error(
        "Row {row} of `{path}`: {value} in column `{column}` cannot be converted exactly to {}, \
         the type of the data set",
        type_name(.wanted)
    )]
    Inexact { path: String, row: u64, column: String, value: String, wanted: DataType },
    #[error(transparent)]
    Columns(Arc<crate::columns::Error>),
    #[error(transparent)]
    Packing(Arc<crate::packing::Error>),
    /// A null that the output cannot represent, with its position.
    #[error(
        "Column `{column}` has a null in row {row} of `{path}`, which batches \
         of torch and NumPy cannot hold"
    )]
    Null { column: String, path: String, row: u64, data_type: DataType, is_image: bool },
    #[error(
        "Column `{column}` has nulls in `{path}`, which batches of torch and NumPy cannot hold"
    )]
    KnownNulls { column: String, path: String, data_type: DataType, is_image: bool },
    /// A column that other files have.
    #[error(
        "Column `{column}` is missing from `{path}`, so it is null there, which batches \
         of torch and NumPy cannot hold"
    )]
    MissingNulls { column: String, path: String, is_image: bool },
    /// A list that is longer than the requested padding, with its position.
    #[error(
        "Column `{column}` has {length} values in row {row} of `{path}`, and `pad` allows {limit}"
    )]
    LongList { column: String, path: String, row: u64, length: usize, limit: usize },
    /// A list of another length than all others, with its position.
    #[error(
        "Column `{column}` has {length} values in row {row} of `{path}`, \
         and {expected} in other rows"
    )]
    ListLength { column: String, path: String, row: u64, length: usize, expected: usize },
    #[error("A column is called `{column}`, which is the name of the marks of padded rows")]
    ReservedColumn { column: String },
    #[error("A column is called `{column}`, which is to be the name of the numbers of the sources")]
    SourceColumn { column: String },
    #[error("A column is called `{column}`, which is to be the name of a computed column")]
    DerivedColumn { column: String, is_image: bool },
    #[error(
        "Column `{column}` is {}, but texts are strings or bytes, and messages are lists \
         of structs or JSON strings",
        type_name(.data_type)
    )]
    DerivedFrom { column: String, data_type: DataType },
    #[error(
        "Column `{column}` is {}, but images are bytes, structs with a field `bytes`, \
         or strings with source=\"path\" or source=\"url\"",
        type_name(.data_type)
    )]
    ImageFrom { column: String, data_type: DataType },
    /// An image that cannot be decoded.
    #[error("Row {row} of `{path}`: the image in column `{column}` is bad: {reason}")]
    BadImage { path: String, row: u64, column: String, reason: Arc<str> },
    #[error("The images of column `{column}` in one batch have more than 2,147,483,647 values")]
    TooManyPixels { column: String },
    #[error("Cannot allocate {bytes} bytes of page-locked memory for pixels: {reason}")]
    HostMemory { bytes: usize, reason: Arc<str> },
    /// Two entries of a store of token counts.
    #[error(
        "Files of token counts in `{directory}` disagree about block {block} of one file; \
         one of them is `{path}`"
    )]
    CountsDisagree { directory: String, path: String, block: u32 },
    /// A row from which a column cannot be computed. `rows` are all such rows of the batch, by
    /// their numbers in it.
    #[error("Row {row} of `{path}`: column `{column}`: {reason}")]
    Underivable {
        path: String,
        row: u64,
        column: String,
        reason: Box<str>,
        hint: Option<Box<str>>,
        rows: Arc<[UnderivableRow]>,
    },
    #[error("There is no row {row}: there are {rows} rows")]
    NoSuchRow { row: u64, rows: u64 },
    /// No row near a bad row can be read either.
    #[error("No row could be read that would replace the bad ones")]
    NoReplacement {
        #[source]
        cause: Option<Arc<dyn std::error::Error + Send + Sync>>,
    },
    #[error("Failed to combine rows into a batch")]
    Assemble { source: Arc<ArrowError> },
}

/// A row from which a column cannot be computed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnderivableRow {
    /// Row of the batch.
    pub row: usize,
    /// Number of the source column that is at fault.
    pub source: usize,
    /// Its name, once the error is one of a data set.
    pub column: String,
    pub reason: String,
    pub hint: Option<String>,
}

/// Where a path into structs ends too early.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathFault {
    #[error("a part of the path is empty")]
    EmptyPart,
    #[error("`{parent}` has no field `{part}`, it has {available}")]
    NoField { parent: String, part: String, available: String },
    #[error("`{parent}` is {} and has no field `{part}`", type_name(.data_type))]
    NotAStruct { parent: String, part: String, data_type: DataType },
}

impl Error {
    pub(crate) fn assemble(source: ArrowError) -> Self {
        Self::Assemble { source: Arc::new(source) }
    }

    /// A column of a file that cannot have the type of `field`. `row_of` maps a row to its number
    /// in the file.
    #[must_use]
    pub fn misfit(
        path: &str,
        field: &Field,
        misfit: Misfit,
        row_of: impl FnOnce(usize) -> u64,
    ) -> Self {
        let (path, column, wanted) =
            (path.to_owned(), field.name().clone(), field.data_type().clone());
        match misfit {
            Misfit::Types(source) => Self::Cast { path, column, wanted, source: Arc::new(source) },
            Misfit::Value { row, value } => {
                Self::Inexact { path, row: row_of(row), column, value, wanted }
            }
        }
    }

    /// The storage error, if it is the only cause.
    #[must_use]
    pub fn of_store(&self) -> Option<&shardmill_storage::Error> {
        match self {
            Self::Storage(error) => Some(error.as_ref())
                .filter(|error| !matches!(error, shardmill_storage::Error::ShortRead { .. })),
            Self::Table(error) => error.of_store(),
            _ => None,
        }
    }

    /// Whether fewer rows together may not have this error.
    pub(crate) fn is_of_size(&self) -> bool {
        match self {
            Self::Assemble { .. } | Self::TooManyPixels { .. } | Self::HostMemory { .. } => true,
            Self::Columns(error) => {
                matches!(error.as_ref(), crate::columns::Error::PadMemory { .. })
            }
            _ => false,
        }
    }

    /// What the error is to the caller.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Storage(error) => error.kind(),
            Self::Table(error) => error.kind(),
            Self::Plan(error) => error.kind(),
            Self::Engine(error) => error.kind(),
            Self::Columns(error) => error.kind(),
            Self::Packing(error) => error.kind(),
            Self::UnknownPath { .. } => ErrorKind::MissingColumn,
            Self::NoSuchFormat { .. }
            | Self::TextOption { .. }
            | Self::LabelMasks { .. }
            | Self::ReservedColumn { .. }
            | Self::DerivedColumn { .. }
            | Self::DerivedFrom { .. }
            | Self::ImageFrom { .. } => ErrorKind::Option,
            Self::NoSuchRow { .. } => ErrorKind::RowIndex,
            Self::HostMemory { .. } => ErrorKind::Engine,
            Self::UnknownFormat { .. }
            | Self::OtherFormat { .. }
            | Self::UnknownContents { .. }
            | Self::ArrowFile { .. }
            | Self::ImageFile { .. }
            | Self::MixedFormats { .. } => ErrorKind::Plan,
            Self::WrongContents { .. }
            | Self::NotDocuments { .. }
            | Self::NotParts { .. }
            | Self::NotImages { .. }
            | Self::NotSizes { .. }
            | Self::TextShards { .. }
            | Self::SampleCount { .. }
            | Self::MissingRequired { .. }
            | Self::NoFieldIds { .. }
            | Self::NulInName { .. }
            | Self::Cast { .. }
            | Self::Inexact { .. }
            | Self::Null { .. }
            | Self::KnownNulls { .. }
            | Self::MissingNulls { .. }
            | Self::LongList { .. }
            | Self::ListLength { .. }
            | Self::SourceColumn { .. }
            | Self::BadImage { .. }
            | Self::TooManyPixels { .. }
            | Self::CountsDisagree { .. }
            | Self::Underivable { .. }
            | Self::NoReplacement { .. }
            | Self::Assemble { .. } => ErrorKind::Format,
        }
    }

    /// What the user can do about the error.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Storage(error) => error.hint(),
            Self::Plan(error) => error.hint(),
            Self::Table(error) => error.hint(),
            Self::Columns(error) => error.hint(),
            Self::Packing(error) => error.hint(),
            Self::Null { is_image: true, .. }
            | Self::KnownNulls { is_image: true, .. }
            | Self::MissingNulls { is_image: true, .. } => Some(
                "Images(on_error=\"null\") fills such images, and a filter such as \"column \
                 is not null\" leaves them out; otherwise use output=sm.Output(\"torch\", \
                 nulls=\"mask\"), or output=\"arrow\"",
            ),
            Self::Null { .. } | Self::KnownNulls { .. } => Some(
                "use output=sm.Output(\"torch\", nulls=\"mask\"), which adds a boolean column, \
                 or sm.Output(\"torch\", nulls=\"fill\", fill_values={\"column\": 0}) with a value \
                 for each such column; output=\"arrow\" keeps nulls",
            ),
            Self::MissingNulls { .. } => Some(
                "select columns that all files have with columns=, or use \
                 output=sm.Output(\"torch\", nulls=\"mask\"), sm.Output(\"torch\", nulls=\"fill\", \
                 fill_values={\"column\": 0}), or output=\"arrow\"",
            ),
            Self::UnknownPath { reason: PathFault::NotAStruct { data_type, .. }, .. }
                if data_type.is_string() =>
            {
                Some(
                    "if the column holds JSON text, write its fields as columns once \
                     with shardmill.curate.Map(parse), where parse calls json.loads; \
                     then filter by the new column",
                )
            }
            Self::LongList { .. } => Some(crate::columns::LONG_LIST),
            Self::ListLength { .. } => Some(crate::columns::LIST_LENGTH),
            Self::NoReplacement { .. } => Some("run `shardmill verify` on the data"),
            Self::ReservedColumn { .. } => {
                Some("rename it, leave it out by columns=, or choose another tail")
            }
            Self::SourceColumn { .. } => Some("choose another source_column"),
            Self::DerivedColumn { is_image: true, .. } => Some(
                "rename that column in the data; with a fixed size and without on_error=\"null\", \
                 sm.Images adds no column",
            ),
            Self::DerivedColumn { .. } => {
                Some("choose another output name, or read the data set without the computed column")
            }
            Self::CountsDisagree { .. } => {
                Some("remove that directory; the tokens are counted again")
            }
            Self::Underivable { hint, .. } => hint.as_deref(),
            Self::HostMemory { .. } => {
                Some("lower prefetch_bytes of sm.Runtime, or use pin_memory=False")
            }
            Self::BadImage { .. } => Some(
                "on_error=\"null\" of sm.Images or sm.ImageOutput fills them; without packing, \
                 errors=sm.ErrorPolicy(rows=\"skip\") leaves such rows out",
            ),
            Self::NoFieldIds { .. } => Some(
                "set the table property `schema.name-mapping.default`, \
                 or write the file again through the table",
            ),
            Self::NulInName { .. } => Some(
                "Arrow libraries do not accept such a name; write the file again with another one",
            ),
            Self::MixedFormats { hint, .. } => Some(hint),
            Self::ArrowFile { .. } => Some(
                "write it as Parquet: for data from save_to_disk, \
                 datasets.load_from_disk(\"directory\").to_parquet(\"rows.parquet\"), \
                 or load_from_disk(\"directory\")[\"train\"] if it has several splits; \
                 otherwise use pyarrow.parquet.write_table",
            ),
            Self::ImageFile { .. } => Some(
                "write a table of the paths of the images, and read it with \
                 images=sm.Images(\"image\", source=\"path\")",
            ),
            Self::UnknownFormat { .. } | Self::UnknownContents { .. } => Some(
                "if they are parquet, orc, csv, jsonl, arrayrecord, mds, webdataset or datatrove, \
                 set format=; tokens of Megatron need their .idx beside the .bin, \
                 and format=\"bin\" reads tokens without an index",
            ),
            Self::OtherFormat { .. } => {
                Some("leave out format=, or pass the path of a file itself, which is always read")
            }
            Self::WrongContents { found: "UTF-16 text", .. } => Some(
                "read it with text=sm.TextOptions(encoding=\"utf-16\"), or convert it to UTF-8",
            ),
            Self::NotParts { .. } => Some(
                "parts= names columns of strings, of bytes, of structs with a field `bytes`, or of \
                 lists of these",
            ),
            Self::NotImages { .. } => Some(
                "images_from= names a column of bytes, of structs with a field `bytes`, or of lists \
                 of these; write the contents of the files into the column, or read paths, URLs \
                 and base64 as documents, with InterleavedParquetSource or InterleavedJsonlSource \
                 of shardmill.curate",
            ),
            Self::NotSizes { .. } => Some(
                "sizes= of sm.ImageOutput names columns of integers, the width and the height of \
                 images, as ParquetSink(image_sizes=True) writes them; without it, the sizes are \
                 read from the headers of the images",
            ),
            Self::NotDocuments { .. } => Some(
                "sequences= reads interleaved Parquet, as ParquetSink of a curation job writes it",
            ),
            Self::WrongContents { .. } => {
                Some("set format= to the format of the file, or fetch the file again")
            }
            Self::TextShards { .. } => Some(
                "read the csv files as a glob, such as `directory/*.csv`, \
                 or write the data as MDS or Parquet",
            ),
            Self::SampleCount { .. } => Some(
                "fetch the directory again: the shard and the index are from different versions",
            ),
            Self::NoSuchFormat { .. } => Some(
                "one of parquet, orc, csv, json, jsonl, arrayrecord, mds, webdataset, megatron, \
                      datatrove, bin, npy",
            ),
            Self::LabelMasks { .. } => Some(
                "give one file of a mask for each file of tokens, in the same order, \
                 or a glob for both",
            ),
            Self::TextOption { .. } => Some(
                "delimiter and quote are for CSV, encoding for CSV and JSONL, nan for JSONL \
                 and WebDataset; leave it out",
            ),
            Self::Inexact { .. } => Some(
                "select files of one type by a glob, leave the column out by columns=, \
                 write the files again with one type, or declare another type in schema_overrides \
                 of a TableSource",
            ),
            _ => None,
        }
    }
}

/// A number and what it counts.
pub(crate) fn counted(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Errors of the layers below are shared: one failure may end several batches.
macro_rules! shared {
    ($($variant:ident($source:ty),)*) => {$(
        impl From<$source> for Error {
            fn from(error: $source) -> Self {
                Self::$variant(Arc::new(error))
            }
        }
    )*};
}

shared! {
    Storage(shardmill_storage::Error),
    Table(TableError),
    Plan(shardmill_plan::Error),
    Engine(shardmill_engine::Error),
    Columns(crate::columns::Error),
    Packing(crate::packing::Error),
}
