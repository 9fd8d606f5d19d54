//! Why documents cannot be read or written. A bad sample or shard is not an error: it is
//! quarantined and counted.

use arrow_schema::ArrowError;
use shardmill_errors::ErrorKind;
use shardmill_formats::table::arrow_message;
use std::sync::Arc;

pub type Result<T> = std::result::Result<T, Error>;

/// Maximal number of fields in a message.
const SHOWN: usize = 12;

#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Shared by the threads that waited for one request.
    #[error(transparent)]
    Storage(#[from] Arc<shardmill_storage::Error>),
    #[error(transparent)]
    Engine(#[from] shardmill_engine::Error),
    #[error(transparent)]
    Plan(#[from] shardmill_plan::Error),
    #[error(transparent)]
    Parquet(#[from] shardmill_formats::parquet::Error),
    /// An option has an invalid value.
    #[error("`{option}` {problem}")]
    Option { option: &'static str, problem: String },
    /// An option names a key that no sample has.
    #[error("`{option}`: {}", absent_key(*.samples, keys, there))]
    AbsentKey { option: &'static str, keys: String, samples: u64, there: String },
    /// The same for columns of Parquet files.
    #[error("`{option}`: no file has the column `{column}`; they have {there}")]
    AbsentColumn { option: &'static str, column: String, there: String },
    /// Reserved or excluded names were requested as passthrough fields.
    #[error("`fields` names reserved keys: {names}")]
    ReservedFields { names: String },
    /// Rows without their image bytes, under the policy `raise`.
    #[error("Materialization failed ({}). First: {first}", counted(*.count, "error"))]
    Materialize { count: u64, first: String },
    #[error("Column `sample_id` is missing in `{path}`")]
    NoSampleId { path: String },
    /// The texts and images of a file of rows or JSON objects cannot be told from its fields.
    #[error("The documents of `{path}` have no known layout; they have {there}")]
    NoLayout { path: String, there: String },
    #[error("Column `{column}` cannot have the type {data_type}")]
    Cast { column: String, data_type: String, source: ArrowError },
    /// The fault of the rows of one file.
    #[error("`{path}`: {source}")]
    File { path: String, source: Box<Error> },
    #[error("Modality `{modality}` cannot be written to WebDataset")]
    UnknownModality { modality: String },
    #[error("Passthrough column `{column}` would replace a key of the sample's JSON")]
    PayloadKey { column: String },
    #[error("{} the limit of {limit}; the last: {last}", exceeding(*.count))]
    ErrorBudget { count: u64, limit: u64, last: String },
    /// What received the chunks failed; it knows the error by its type.
    #[error(transparent)]
    Receiver(Box<dyn std::error::Error + Send + Sync>),
}

impl From<shardmill_storage::Error> for Error {
    fn from(error: shardmill_storage::Error) -> Self {
        Self::Storage(Arc::new(error))
    }
}

impl Error {
    /// Values of `column` that do not take `data_type`.
    pub fn unfit<'a>(column: &'a str, data_type: &'a str) -> impl Fn(ArrowError) -> Self + use<'a> {
        move |source| Self::Cast {
            column: column.to_owned(),
            data_type: data_type.to_owned(),
            source,
        }
    }

    pub(crate) fn no_layout<'a>(path: &str, there: impl Iterator<Item = &'a String>) -> Self {
        let mut names: Vec<String> =
            there.map(|name| format!("`{}`", name.escape_debug())).take(SHOWN + 1).collect();
        if names.len() > SHOWN {
            names.truncate(SHOWN);
            names.push("…".to_owned());
        }
        Self::NoLayout { path: path.to_owned(), there: names.join(", ") }
    }

    /// What the error is to the caller.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Storage(error) => error.kind(),
            Self::Engine(error) => error.kind(),
            Self::Plan(error) => error.kind(),
            Self::Parquet(error) => error.kind(),
            Self::File { source, .. } => source.kind(),
            Self::NoSampleId { .. }
            | Self::NoLayout { .. }
            | Self::AbsentColumn { .. }
            | Self::AbsentKey { option: "expression", .. } => ErrorKind::MissingColumn,
            Self::Option { .. } | Self::AbsentKey { .. } | Self::ReservedFields { .. } => {
                ErrorKind::Option
            }
            Self::UnknownModality { .. } | Self::PayloadKey { .. } | Self::Cast { .. } => {
                ErrorKind::Format
            }
            Self::Materialize { .. } | Self::ErrorBudget { .. } | Self::Receiver(_) => {
                ErrorKind::Curate
            }
        }
    }

    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Storage(error) => error.hint(),
            Self::Parquet(error) => error.hint(),
            Self::Plan(shardmill_plan::Error::NoInput { .. }) => {
                Some("name a file, a directory or a glob with such files")
            }
            Self::Plan(error) => error.hint(),
            Self::File { source, .. } => source.hint(),
            Self::AbsentKey { option: "texts_field and images_field", .. } => Some(
                "texts_field (--texts-field) and images_field (--images-field) name the lists of \
                 texts and images; samples without such lists are not interleaved documents; \
                 sm.Dataset reads them as rows",
            ),
            Self::AbsentKey { .. } => Some("name a key that the samples have; nothing was written"),
            Self::AbsentColumn { .. } => Some("name existing columns; nothing was written"),
            Self::ReservedFields { .. } => {
                Some("leave them out of `fields`; each output has columns of these names")
            }
            Self::Materialize { .. } => Some(
                "on_materialize_error=\"warn\", \"drop_row\" or \"drop_sample\" continues without \
                 these images",
            ),
            Self::UnknownModality { .. } => {
                Some("drop_invalid_rows=True removes such rows; Parquet output keeps them")
            }
            Self::PayloadKey { .. } => Some("rename the column with a Map stage"),
            Self::NoLayout { .. } => Some(
                "keys=sm.curate.DocumentKeys(parts=(\"image\", \"caption\")) names the fields with \
                 images and texts, in reading order; TableSource reads rows of any kind; rows that \
                 are single texts and images need the columns sample_id, position and modality",
            ),
            Self::NoSampleId { .. } => {
                Some("interleaved Parquet needs the columns sample_id, position and modality")
            }
            Self::ErrorBudget { .. } => {
                Some("raise max_errors, or look at quarantine.jsonl beside the metrics")
            }
            Self::Engine(_) | Self::Option { .. } | Self::Cast { .. } | Self::Receiver(_) => None,
        }
    }
}

/// A number with its noun: `1 row`, `2 rows`.
#[must_use]
pub fn counted(count: u64, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

fn absent_key(samples: u64, keys: &str, there: &str) -> String {
    match samples {
        1 => format!("the only sample does not have the key {keys}; it has {there}"),
        _ => format!("none of the {samples} samples has the key {keys}; they have {there}"),
    }
}

fn exceeding(count: u64) -> String {
    format!(
        "{} {}",
        counted(count, "quarantined item"),
        if count == 1 { "exceeds" } else { "exceed" }
    )
}

/// The message of an error and of its causes; a cause that is already quoted is not repeated.
#[must_use]
pub fn reason(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        // Types in messages of Arrow have its names of Rust.
        let cause_text = of_arrow(cause).map_or_else(|| cause.to_string(), arrow_message);
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

fn of_arrow<'a>(error: &'a (dyn std::error::Error + 'static)) -> Option<&'a ArrowError> {
    error
        .downcast_ref::<ArrowError>()
        .or_else(|| error.downcast_ref::<Arc<ArrowError>>().map(|shared| &**shared))
}
