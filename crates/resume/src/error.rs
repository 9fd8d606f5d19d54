//! What can go wrong with ids and records.

use crate::keys::IdType;
use arrow_schema::{ArrowError, DataType};
use std::io;

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error(transparent)]
    Storage(#[from] shardmill_storage::Error),
    #[error(transparent)]
    Load(#[from] shardmill_load::Error),
    #[error(transparent)]
    Engine(#[from] shardmill_engine::Error),
    /// A step of the commit protocol failed.
    #[error("Failed to keep the journal at `{path}`")]
    Journal {
        path: String,
        #[source]
        source: io::Error,
    },
    /// A part of the journal cannot be written down.
    #[error("Failed to encode `{path}`")]
    Encode {
        path: String,
        #[source]
        source: serde_json::Error,
    },
    /// A part of the journal is cut or changed, and nothing else tells what it held.
    #[error("`{path}` is damaged: it is no object of a journal, or was cut or changed")]
    Damaged { path: String },
    #[error("`{path}` has format {format} of another version of shardmill")]
    OtherFormat { path: String, format: u32 },
    /// The folder is no checkpoint of a job.
    #[error("There is no checkpoint of a job at `{path}`")]
    NoJob { path: String },
    /// The checkpoint was made by a job of other parts.
    #[error("The checkpoint `{path}` belongs to another job: {differences}")]
    OtherJob { path: String, differences: String },
    /// Somebody else works on the job.
    #[error("The checkpoint lease `{path}` is held by {holder}, which is still running this job")]
    LeaseHeld { path: String, holder: String },
    /// A later run took the job over while this one slept.
    #[error("Another run has taken over this job, or its checkpoint was removed (`{path}`)")]
    Fenced { path: String },
    /// An input is not what was planned.
    #[error("`{path}` changed since checkpoint `{checkpoint}` planned it{}", and_others(*others))]
    InputChanged { path: String, others: usize, checkpoint: String },
    /// A committed file was removed or changed.
    #[error("`{path}` is missing or was changed, although the checkpoint says that its split `{unit}` is committed")]
    OutputChanged { path: String, unit: String },
    #[error("An id is made of no column")]
    NoColumn,
    #[error("No column `{column}` for ids; the data has {available}")]
    MissingColumn { column: String, available: String },
    /// Floats, lists, maps and structs have no usable identity.
    #[error("Ids of column `{column}` are {data_type}, which cannot identify a row")]
    UnsupportedType { column: String, data_type: DataType },
    /// The same value in another type is another id.
    #[error("Ids of column `{column}` are {found} here and {expected} in the index")]
    TypeMismatch { column: String, expected: Box<IdType>, found: Box<IdType> },
    #[error("An id of the index has {expected} columns, {found} were given")]
    ColumnCount { expected: usize, found: usize },
    #[error("The columns of an id have different lengths")]
    Lengths,
    #[error("No file of ids in {paths}")]
    NoFiles { paths: String },
    #[error("Ids cannot be read")]
    Arrow {
        #[source]
        source: ArrowError,
    },
    #[error("`{path}` is no id index")]
    NotAnIndex { path: String },
    #[error("`{path}` is an id index of version {version}, which this program does not know")]
    IndexVersion { path: String, version: u32 },
    #[error("The id index `{path}` is damaged: {reason}")]
    DamagedIndex { path: String, reason: &'static str },
    #[error("The id index `{path}` cannot be written")]
    WriteIndex {
        path: String,
        #[source]
        source: io::Error,
    },
}

fn and_others(count: usize) -> String {
    if count == 0 { String::new() } else { format!(", and {count} more files did") }
}

impl Error {
    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Storage(inner) => inner.hint(),
            Self::Load(inner) => inner.hint(),
            Self::Damaged { .. } => Some("restore it from a copy, or start over with another checkpoint path and an empty output folder"),
            Self::OtherFormat { .. } => Some("resume with the version of shardmill that made it"),
            Self::NoJob { .. } => Some("give the path that was given to Checkpoint(…)"),
            Self::OtherJob { .. } => Some("undo the change, or use another checkpoint path and another output folder for the new job"),
            Self::LeaseHeld { .. } => Some("wait for it, or stop it; a machine that died is waited for a minute"),
            Self::Fenced { .. } => Some("nothing is lost: what was committed stays, and the run that comes next does the rest"),
            Self::InputChanged { .. } => {
                Some("restore the file, or pass changed_input=\"reprocess\" with an id_column: its rows are read again and known ids skipped")
            }
            Self::OutputChanged { .. } => Some(
                "restore the file, or start over with another checkpoint path and an empty output folder; `shardmill checkpoint verify` lists all",
            ),
            Self::UnsupportedType { .. } => Some("an id is an integer, a string, bytes, a date or time, a decimal or a bool; cast the column"),
            Self::TypeMismatch { .. } => {
                Some("1 and \"1\" are different ids; read the column with the type that the index has, or build the index anew")
            }
            Self::ColumnCount { .. } => Some("give one array for each column of the index, in its order"),
            Self::NotAnIndex { .. } | Self::IndexVersion { .. } | Self::DamagedIndex { .. } => Some("delete it and build it again from its ids"),
            _ => None,
        }
    }
}

impl From<shardmill_plan::Error> for Error {
    fn from(error: shardmill_plan::Error) -> Self {
        Self::Load(error.into())
    }
}

impl From<shardmill_formats::table::TableError> for Error {
    fn from(error: shardmill_formats::table::TableError) -> Self {
        Self::Load(error.into())
    }
}
