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
    #[error("`{path}` is damaged or missing: its checkpoint cannot tell what is done without it")]
    Damaged { path: String, hint: String },
    /// Nothing is left that a part of the journal could be made from.
    #[error("`{path}` is damaged or missing, and cannot be made again from what is left of the checkpoint")]
    Beyond { path: String },
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
    /// The store cannot decide which of two runs commits.
    #[error("The store of checkpoint `{path}` accepted two conditional puts (`If-None-Match: *`) of one object, so it cannot commit exactly once")]
    Unconditional { path: String },
    /// An input is not what was planned.
    #[error("`{path}` changed since checkpoint `{checkpoint}` planned it{}", and_others(*others))]
    InputChanged {
        path: String,
        others: usize,
        checkpoint: String,
        /// Several splits read blocks of it.
        is_cut: bool,
    },
    /// A committed file was removed or changed.
    #[error("`{path}` is missing or was changed, although the checkpoint says that its split `{unit}` is committed")]
    OutputChanged { path: String, unit: String, hint: String },
    /// Roots of inputs are replaced one by one.
    #[error("The checkpoint `{path}` has {expected} inputs, {found} were given; its inputs are {inputs}")]
    InputCount { path: String, expected: usize, found: usize, inputs: String },
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
    /// Files of one job or one index disagree.
    #[error("Ids of column `{column}` are {found} in `{path}` and {expected} in {elsewhere}")]
    FileTypes { column: String, path: String, found: Box<IdType>, expected: Box<IdType>, elsewhere: String },
    /// What is wrong with the ids of one file.
    #[error("`{path}`: {source}")]
    InFile {
        path: String,
        #[source]
        source: Box<Error>,
    },
    /// A row without an id could never be told from another one.
    #[error("Id column `{column}` is null in row {row} of `{path}`")]
    NullId { column: String, path: String, row: u64 },
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

/// Of the name of a job.
const JOB_DIGITS: usize = 32;

fn repair_hint(state: &str) -> String {
    format!("run `shardmill checkpoint repair {state}`: it reopens the splits whose results are missing or damaged")
}

fn and_others(count: usize) -> String {
    if count == 0 { String::new() } else { format!(", and {count} more files did") }
}

impl Error {
    /// Says in which file ids are wrong, unless the error says so already.
    #[must_use]
    pub fn in_file(self, path: &str) -> Self {
        match self {
            Self::NoColumn
            | Self::MissingColumn { .. }
            | Self::UnsupportedType { .. }
            | Self::TypeMismatch { .. }
            | Self::ColumnCount { .. }
            | Self::Lengths
            | Self::Arrow { .. } => Self::InFile { path: path.to_owned(), source: Box::new(self) },
            other => other,
        }
    }

    /// A part of a journal, by its path within the checkpoint.
    pub(crate) fn damaged(path: &str) -> Self {
        // The job has a directory of its own in the checkpoint, and most objects are in one of that.
        let job = path.rsplit('/').skip(1).position(|name| name.len() == JOB_DIGITS && name.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let state = path.rsplitn(job.map_or(2, |depth| depth + 3), '/').last().unwrap_or(path);
        Self::Damaged { path: path.to_owned(), hint: repair_hint(state) }
    }

    /// A file that a record names and that is not as it says.
    pub(crate) fn lost(path: &str, unit: &str, state: &str) -> Self {
        Self::OutputChanged { path: path.to_owned(), unit: unit.to_owned(), hint: repair_hint(state) }
    }

    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Storage(inner) => inner.hint(),
            Self::Load(inner) => inner.hint(),
            Self::Damaged { hint, .. } | Self::OutputChanged { hint, .. } => Some(hint),
            Self::Beyond { .. } => Some("restore it from a copy, or start over with another checkpoint path and an empty output folder"),
            Self::OtherFormat { .. } => {
                Some("resume with the version of shardmill that made it, or start over with another checkpoint path and an empty output folder")
            }
            Self::NoJob { .. } => Some("give the path that was given to Checkpoint(…)"),
            Self::OtherJob { .. } => Some(
                "undo the change, or use another checkpoint path and another output folder for the new job; `shardmill checkpoint relocate` follows an \
                 input or an output that was moved",
            ),
            Self::LeaseHeld { .. } => Some("wait for it, or stop it; a machine that died is waited for a minute"),
            Self::Unconditional { .. } => {
                Some("use a store with conditional puts, or Checkpoint(delivery=\"at-least-once\") and never run the job twice at the same time")
            }
            Self::Fenced { .. } => Some("nothing is lost: what was committed stays, and the run that comes next does the rest"),
            Self::InputChanged { is_cut: false, .. } => Some(
                "restore the file, or pass changed_input=\"reprocess\": with an id_column the file is read again and known ids are skipped, without one \
                 its split is run again and the output replaced",
            ),
            Self::InputChanged { .. } => Some(
                "restore the file, or start over with another checkpoint path and an empty output folder: without an id_column, the blocks of the file that are done are not known",
            ),
            Self::InputCount { .. } => Some("give one new path for each of them, in this order"),
            Self::UnsupportedType { .. } => Some("an id is an integer, a string, bytes, a date or time, a decimal or a bool; cast the column"),
            Self::TypeMismatch { .. } => {
                Some("1 and \"1\" are different ids; read the column with the type that the index has, or build the index anew")
            }
            Self::FileTypes { .. } => Some("1 and \"1\" are different ids; write all files with one type of ids"),
            Self::InFile { source, .. } => source.hint(),
            Self::NullId { .. } => Some("null_ids=\"always_process\" processes such rows in each run"),
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
