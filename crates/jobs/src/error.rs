//! Why a job stops. A bad sample or shard is not an error: it is quarantined and reported.

use arrow_schema::ArrowError;
use shardmill_documents::Error as DocumentError;
use shardmill_errors::ErrorKind;

pub type Result<T> = std::result::Result<T, Error>;

/// Errors raised by user-defined stages.
pub type StageFailure = Box<dyn std::error::Error + Send + Sync>;

#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Engine(#[from] shardmill_engine::Error),
    #[error(transparent)]
    Documents(DocumentError),
    #[error("Output directory `{path}` already exists")]
    OutputExists { path: String },
    #[error("A stage raised on the rows of `{path}`: {stage}")]
    Stage { stage: String, path: String, source: StageFailure },
    /// A user-defined stage returned something other than a batch of interleaved rows.
    #[error("Stage {stage} returned rows that are not interleaved documents: {problem}")]
    StageResult { stage: String, problem: String },
    #[error("Two batches of different inputs would be written to `{path}`")]
    NameClash { path: String },
    #[error(transparent)]
    Load(Box<shardmill_load::Error>),
    #[error(transparent)]
    Resume(Box<shardmill_resume::Error>),
    #[error(transparent)]
    Write(Box<shardmill_write::Error>),
    /// A result does not fit the columns that the first call of the job decided.
    #[error(
        "Stage {stage} returned rows for `{path}` that do not fit those of its first call: \
         {problem}"
    )]
    StageSchema { stage: String, path: String, problem: String },
    #[error(
        "Stage {stage} returned only nulls without a type in column `{column}` of its first \
         result, for rows of `{path}`"
    )]
    NullResult { stage: String, path: String, column: String },
    #[error("Stage {stage} returned two columns named `{column}` for rows of `{path}`")]
    TwinResult { stage: String, path: String, column: String },
    /// A row without an id could not be identified by a later run.
    #[error("Id column `{column}` is null in row {row} of `{path}`")]
    NullId { column: String, path: String, row: u64 },
    /// The fault of the rows of one file.
    #[error("`{path}`: {source}")]
    File { path: String, source: Box<Error> },
    /// The columns of a file are fixed by its first rows.
    #[error("Column `{column}` is not among the columns of `{path}`, which its first rows decided")]
    LateColumn { column: String, path: String },
    #[error("The description of the pipeline cannot be read")]
    Spec(#[from] serde_json::Error),
}

/// Errors that several crates pass on have one variant each, whichever crate they come through.
impl From<DocumentError> for Error {
    fn from(error: DocumentError) -> Self {
        match error {
            DocumentError::Engine(error) => Self::Engine(error),
            DocumentError::Receiver(error) => match error.downcast() {
                Ok(own) => *own,
                Err(other) => Self::Documents(DocumentError::Receiver(other)),
            },
            other => Self::Documents(other),
        }
    }
}

impl From<shardmill_storage::Error> for Error {
    fn from(error: shardmill_storage::Error) -> Self {
        Self::Documents(error.into())
    }
}

impl From<shardmill_plan::Error> for Error {
    fn from(error: shardmill_plan::Error) -> Self {
        Self::Documents(error.into())
    }
}

impl From<shardmill_formats::parquet::Error> for Error {
    fn from(error: shardmill_formats::parquet::Error) -> Self {
        Self::Documents(error.into())
    }
}

impl From<shardmill_write::Error> for Error {
    fn from(error: shardmill_write::Error) -> Self {
        match error {
            shardmill_write::Error::Storage(error) => error.into(),
            shardmill_write::Error::Parquet(error) => error.into(),
            shardmill_write::Error::Engine(error) => error.into(),
            shardmill_write::Error::Documents(error) => error.into(),
            other => Self::Write(Box::new(other)),
        }
    }
}

impl From<shardmill_load::Error> for Error {
    fn from(error: shardmill_load::Error) -> Self {
        Self::Load(Box::new(error))
    }
}

impl From<shardmill_resume::Error> for Error {
    fn from(error: shardmill_resume::Error) -> Self {
        Self::Resume(Box::new(error))
    }
}

impl Error {
    /// For a source that passes it through.
    pub(crate) fn of_receiver(self) -> DocumentError {
        match self {
            Self::Documents(error) => error,
            other => DocumentError::Receiver(Box::new(other)),
        }
    }

    /// Values of `column` that do not take `data_type`.
    pub(crate) fn unfit<'a>(
        column: &'a str,
        data_type: &'a str,
    ) -> impl Fn(ArrowError) -> Self + use<'a> {
        move |source| DocumentError::unfit(column, data_type)(source).into()
    }

    pub(crate) fn option(option: &'static str, problem: impl Into<String>) -> Self {
        Self::Documents(DocumentError::Option { option, problem: problem.into() })
    }

    /// What the error is to the caller.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Engine(error) => error.kind(),
            Self::Documents(error) => error.kind(),
            Self::Load(error) => error.kind(),
            Self::Resume(error) => error.kind(),
            Self::Write(error) => error.kind(),
            Self::File { source, .. } => source.kind(),
            Self::Spec(_) => ErrorKind::Option,
            Self::OutputExists { .. } => ErrorKind::OutputExists,
            Self::StageResult { .. }
            | Self::StageSchema { .. }
            | Self::NullResult { .. }
            | Self::TwinResult { .. }
            | Self::NullId { .. }
            | Self::LateColumn { .. } => ErrorKind::Format,
            Self::Stage { .. } | Self::NameClash { .. } => ErrorKind::Curate,
        }
    }

    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Documents(error) => error.hint(),
            Self::Load(error) => error.hint(),
            Self::Resume(error) => error.hint(),
            Self::Write(error) => error.hint(),
            Self::File { source, .. } => source.hint(),
            Self::StageSchema { .. } | Self::NullResult { .. } => Some(
                "declare the column in schema_overrides of the sink, or return the same columns \
                 and types from every call",
            ),
            Self::TwinResult { .. } => Some("rename one of them in the function"),
            Self::NullId { .. } => {
                Some("null_ids=\"always_process\" processes such rows in each run")
            }
            Self::OutputExists { .. } => Some(
                "choose another directory, or mode=\"overwrite\" to empty it, or mode=\"resume\" \
                 to keep its files and replace those of the same inputs",
            ),
            Self::LateColumn { .. } => Some(
                "let the Map stage return the same columns for all tables, or name them in the \
                 sink's schema_overrides",
            ),
            Self::Engine(_)
            | Self::Stage { .. }
            | Self::StageResult { .. }
            | Self::NameClash { .. }
            | Self::Spec(_) => None,
        }
    }
}
