//! Errors of ids and of the journal.

use crate::keys::IdType;
use arrow_schema::{ArrowError, DataType};
use shardmill_errors::ErrorKind;
use shardmill_formats::table::type_name;
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
    #[error("Failed to update the journal at `{path}`")]
    Journal { path: String, source: io::Error },
    /// A part of the journal cannot be serialized.
    #[error("Failed to encode `{path}`")]
    Encode { path: String, source: serde_json::Error },
    /// A part of the journal is damaged or missing, and there is no other copy of its content.
    #[error("`{path}` is damaged or missing: its checkpoint cannot tell what is done without it")]
    Damaged { path: String, hint: String },
    /// A part of the journal is damaged or missing, and there is nothing left to rebuild it from.
    #[error(
        "`{path}` is damaged or missing, and cannot be rebuilt from the rest of the checkpoint"
    )]
    Beyond { path: String },
    #[error("`{path}` has format {format} of another version of shardmill")]
    OtherFormat { path: String, format: u32 },
    /// The directory is not a checkpoint of a job.
    #[error("There is no checkpoint of a job at `{path}`")]
    NoJob { path: String },
    /// The checkpoint was created by a different job.
    #[error("The checkpoint `{path}` belongs to another job: {differences}")]
    OtherJob { path: String, differences: String },
    /// Another process runs the job.
    #[error("The checkpoint lease `{path}` is held by {holder}, which is still running this job")]
    LeaseHeld { path: String, holder: String },
    /// A later run took over the job while this one was suspended.
    #[error("Another run has taken over this job, or its checkpoint was removed (`{path}`)")]
    Fenced { path: String },
    /// The store cannot decide which of two runs may commit.
    #[error(
        "The store of checkpoint `{path}` accepted two conditional puts (`If-None-Match: *`) \
         of one object, so it cannot commit exactly once"
    )]
    Unconditional { path: String },
    /// An input differs from its planned version.
    #[error("`{path}` changed since checkpoint `{checkpoint}` planned it{}", and_others(*others))]
    InputChanged {
        path: String,
        others: usize,
        checkpoint: String,
        /// Several splits read blocks of it.
        is_cut: bool,
    },
    /// A later file has a column that the job cannot write with the others.
    #[error(
        "Column `{column}` of `{path}` is {}, {}",
        type_name(.own), agreed_on(.agreed.as_ref())
    )]
    OtherSchema { path: String, column: String, agreed: Option<DataType>, own: DataType },
    /// A committed file was removed or changed.
    #[error(
        "`{path}` is missing or was changed, although its split `{unit}` is committed \
         in the checkpoint"
    )]
    OutputChanged { path: String, unit: String, hint: String },
    /// The roots of inputs are replaced one by one.
    #[error(
        "The checkpoint `{path}` has {expected} inputs, {found} were given; its inputs are {inputs}"
    )]
    InputCount { path: String, expected: usize, found: usize, inputs: String },
    #[error("An id needs at least one column")]
    NoColumn,
    #[error("No column `{column}` for ids; the data has {available}")]
    MissingColumn { column: String, available: String },
    /// Floats, lists, maps and structs are not usable as ids.
    #[error("Ids of column `{column}` are {}, which cannot identify a row", type_name(.data_type))]
    UnsupportedType { column: String, data_type: DataType },
    /// The same value with another type is another id.
    #[error("Ids of column `{column}` are {found} here and {expected} in the index")]
    TypeMismatch { column: String, expected: Box<IdType>, found: Box<IdType> },
    /// Files of one job or one index have different id types.
    #[error("Ids of column `{column}` are {found} in `{path}` and {expected} in {elsewhere}")]
    FileTypes {
        column: String,
        path: String,
        found: Box<IdType>,
        expected: Box<IdType>,
        elsewhere: String,
    },
    /// The fault of the ids of one file.
    #[error("`{path}`: {source}")]
    InFile { path: String, source: Box<Error> },
    /// A row without an id could not be identified by a later run.
    #[error("Id column `{column}` is null in row {row} of `{path}`")]
    NullId { column: String, path: String, row: u64 },
    #[error("An id of the index has {expected} columns, {found} were given")]
    ColumnCount { expected: usize, found: usize },
    #[error("The columns of an id have different lengths")]
    Lengths,
    #[error("No file of ids in {paths}")]
    NoFiles { paths: String },
    #[error("Ids cannot be read")]
    Arrow { source: ArrowError },
    #[error("`{path}` is not an id index")]
    NotAnIndex { path: String },
    #[error("`{path}` is an id index of version {version}, which is not supported")]
    IndexVersion { path: String, version: u32 },
    #[error("The id index `{path}` is damaged: {reason}")]
    DamagedIndex { path: String, reason: &'static str },
    /// Publishing the index would replace its own input.
    #[error("`{path}` is a file of ids, which the index would replace")]
    IndexOverIds { path: String },
    #[error("The id index `{path}` cannot be written")]
    WriteIndex { path: String, source: io::Error },
}

/// Length of the name of a job.
const JOB_DIGITS: usize = 32;

fn repair_hint(state: &str) -> String {
    format!(
        "run `shardmill checkpoint repair {state}`: it reopens the splits whose results \
         are missing or damaged"
    )
}

fn agreed_on(agreed: Option<&DataType>) -> String {
    match agreed {
        Some(agreed) => format!("and the checkpoint has planned it as {}", type_name(agreed)),
        None => "and the files that the checkpoint has planned lack it".to_owned(),
    }
}

fn and_others(count: usize) -> String {
    if count == 0 { String::new() } else { format!(", and {count} more files did") }
}

impl Error {
    /// Adds the file to an error about ids, unless the error names one already.
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
        // A job has its own directory in the checkpoint, and most objects are
        // in a subdirectory of it.
        let job = path.rsplit('/').skip(1).position(|name| {
            name.len() == JOB_DIGITS && name.bytes().all(|byte| byte.is_ascii_hexdigit())
        });
        let state = path.rsplitn(job.map_or(2, |depth| depth + 3), '/').last().unwrap_or(path);
        Self::Damaged { path: path.to_owned(), hint: repair_hint(state) }
    }

    /// A file that does not match its record.
    pub(crate) fn lost(path: &str, unit: &str, state: &str) -> Self {
        Self::OutputChanged {
            path: path.to_owned(),
            unit: unit.to_owned(),
            hint: repair_hint(state),
        }
    }

    /// What the error is to the caller.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Storage(error) => error.kind(),
            Self::Load(error) => error.kind(),
            Self::Engine(error) => error.kind(),
            Self::InFile { source, .. } => source.kind(),
            Self::MissingColumn { .. } => ErrorKind::MissingColumn,
            Self::TypeMismatch { .. } | Self::UnsupportedType { .. } | Self::FileTypes { .. } => {
                ErrorKind::IdType
            }
            Self::NoColumn
            | Self::InputCount { .. }
            | Self::ColumnCount { .. }
            | Self::Lengths
            | Self::IndexOverIds { .. } => ErrorKind::Option,
            Self::Journal { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                ErrorKind::PermissionDenied
            }
            Self::WriteIndex { .. }
            | Self::Unconditional { .. }
            | Self::Journal { .. }
            | Self::Encode { .. } => ErrorKind::Storage,
            Self::NoJob { .. } | Self::NoFiles { .. } => ErrorKind::NotFound,
            Self::OtherJob { .. } | Self::InputChanged { .. } | Self::OtherSchema { .. } => {
                ErrorKind::CheckpointMismatch
            }
            Self::LeaseHeld { .. } | Self::Fenced { .. } => ErrorKind::CheckpointBusy,
            Self::Damaged { .. }
            | Self::Beyond { .. }
            | Self::OtherFormat { .. }
            | Self::OutputChanged { .. } => ErrorKind::CheckpointDamaged,
            Self::NullId { .. }
            | Self::Arrow { .. }
            | Self::NotAnIndex { .. }
            | Self::IndexVersion { .. }
            | Self::DamagedIndex { .. } => ErrorKind::Format,
        }
    }

    /// What the user can do about the error.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Storage(inner) => inner.hint(),
            Self::Load(inner) => inner.hint(),
            Self::Damaged { hint, .. } | Self::OutputChanged { hint, .. } => Some(hint),
            Self::Beyond { .. } => Some(
                "restore it from a backup, or start over with another checkpoint path \
                 and an empty output directory",
            ),
            Self::OtherFormat { .. } => Some(
                "resume with the version of shardmill that made it, or start over with another \
                 checkpoint path and an empty output directory",
            ),
            Self::NoJob { .. } => Some("give the path that was given to Checkpoint(…)"),
            Self::OtherJob { .. } => Some(
                "undo the change, or use another checkpoint path and another output directory \
                 for the new job; `shardmill checkpoint relocate` follows an input \
                 or an output that was moved",
            ),
            Self::LeaseHeld { .. } => {
                Some("wait for it, or stop it; the lease of a dead machine expires after a minute")
            }
            Self::Unconditional { .. } => Some(
                "use a store with conditional puts, or Checkpoint(delivery=\"at-least-once\") \
                 and never run the job twice at the same time",
            ),
            Self::Fenced { .. } => {
                Some("nothing is lost: committed splits stay, and the next run does the rest")
            }
            Self::OtherSchema { .. } => Some(
                "write the file again with the planned columns and types, or start over \
                 with another checkpoint path and an empty output directory",
            ),
            Self::InputChanged { is_cut: false, .. } => Some(
                "restore the file, or pass changed_input=\"reprocess\": \
                 with an id_column the file is read again and known ids are skipped, \
                 without one its split is run again and the output replaced",
            ),
            Self::InputChanged { .. } => Some(
                "restore the file, or start over with another checkpoint path \
                 and an empty output directory: without an id_column, it is not known \
                 which blocks of the file are done",
            ),
            Self::InputCount { .. } => Some("pass one new path for each of them, in this order"),
            Self::UnsupportedType { .. } => Some(
                "an id is an integer, a string, bytes, a date or time, a decimal \
                 or a bool; cast the column",
            ),
            Self::TypeMismatch { .. } => Some(
                "an id of another type is another id; read the column with the type that the index \
                 has, or build the index again",
            ),
            Self::FileTypes { .. } => Some(
                "an id of another type is another id; write all files with the same type of ids",
            ),
            Self::InFile { source, .. } => source.hint(),
            Self::NullId { .. } => {
                Some("null_ids=\"always_process\" processes such rows in each run")
            }
            Self::ColumnCount { .. } => {
                Some("pass one array for each column of the index, in its order")
            }
            Self::IndexOverIds { .. } => Some("use another path for the index"),
            Self::NotAnIndex { .. } | Self::IndexVersion { .. } | Self::DamagedIndex { .. } => {
                Some("delete it and build it again from its ids")
            }
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
