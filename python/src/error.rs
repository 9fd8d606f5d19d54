//! The one mapping from Rust errors to Python exceptions. The classes live in `shardmill.errors`, since each has two bases.

use crate::columns::ObjectError;
use crate::user_stages::Raised;
use pyo3::prelude::*;
use pyo3::types::PyType;
use shardmill_curate::Error as CurateError;
use shardmill_engine::Error as EngineError;
use shardmill_formats::arrayrecord::Error as ArrayRecordError;
use shardmill_formats::mds::Error as MdsError;
use shardmill_formats::table::TableError;
use shardmill_load::Error as LoadError;
use shardmill_load::columns::Error as ColumnError;
use shardmill_load::packing::Error as PackingError;
use shardmill_plan::Error as PlanError;
use shardmill_resume::Error as ResumeError;
use shardmill_storage::{Error as StorageError, redacted};
use shardmill_write::Error as WriteError;
use std::error::Error as StdError;
use std::io::ErrorKind;

/// Any error of ours on its way to Python.
pub(crate) struct PyShardmillError {
    class: &'static str,
    message: String,
    cause: Option<PyErr>,
}

pub(crate) type PyShardmillResult<T> = Result<T, PyShardmillError>;

impl From<PyShardmillError> for PyErr {
    fn from(error: PyShardmillError) -> Self {
        Python::attach(|py| {
            let class =
                py.import("shardmill.errors").and_then(|module| module.getattr(error.class)).and_then(|class| Ok(class.cast_into::<PyType>()?));
            match class {
                Ok(class) => {
                    let exception = Self::from_type(class, (error.message,));
                    exception.set_cause(py, error.cause);
                    exception
                }
                Err(import) => import,
            }
        })
    }
}

impl PyShardmillError {
    /// Of an option whose value means nothing.
    pub(crate) fn option(message: &str) -> Self {
        Self { class: "OptionError", message: redacted(message), cause: None }
    }
}

impl From<CurateError> for PyShardmillError {
    fn from(error: CurateError) -> Self {
        let innermost = match &error {
            CurateError::File { source, .. } => source,
            other => other,
        };
        let class = match innermost {
            CurateError::Storage(inner) => storage_class(inner),
            CurateError::Plan(inner) => plan_class(inner),
            CurateError::Engine(inner) => engine_class(inner),
            CurateError::Parquet(_) | CurateError::Cast { .. } => "FormatError",
            CurateError::Load(inner) => load_class(inner),
            CurateError::Resume(inner) => resume_class(inner),
            CurateError::NoSampleId { .. } | CurateError::AbsentColumn { .. } => "MissingColumnError",
            CurateError::OutputExists { .. } => "OutputExistsError",
            CurateError::AppendMode { .. } => "AppendModeError",
            CurateError::Option { .. } | CurateError::AbsentKey { .. } | CurateError::ReservedFields { .. } | CurateError::Spec(_) => "OptionError",
            CurateError::UnknownModality { .. }
            | CurateError::PayloadKey { .. }
            | CurateError::StageResult { .. }
            | CurateError::StageSchema { .. }
            | CurateError::MoreColumns { .. }
            | CurateError::NullId { .. }
            | CurateError::LateColumn { .. } => "FormatError",
            _ => "CurateError",
        };
        let message = message(&error, error.hint());
        let cause = match error {
            CurateError::Stage { source, .. } => source.downcast::<Raised>().ok().map(|raised| raised.into_inner()),
            _ => None,
        };
        Self { class, message, cause }
    }
}

impl From<LoadError> for PyShardmillError {
    fn from(error: LoadError) -> Self {
        Self { class: load_class(&error), message: message(&error, error.hint()), cause: None }
    }
}

impl From<ResumeError> for PyShardmillError {
    fn from(error: ResumeError) -> Self {
        Self { class: resume_class(&error), message: message(&error, error.hint()), cause: None }
    }
}

impl From<WriteError> for PyShardmillError {
    fn from(error: WriteError) -> Self {
        let class = match &error {
            WriteError::Storage(inner) => storage_class(inner),
            WriteError::Engine(inner) => engine_class(inner),
            WriteError::ArrayRecord(inner) => arrayrecord_class(inner),
            WriteError::Parquet(inner) if inner.io_source().is_some() => "StorageError",
            WriteError::Parquet(_) | WriteError::NoRecords { .. } | WriteError::NullRecord { .. } | WriteError::Rows { .. } => "FormatError",
            WriteError::Columns { .. } | WriteError::NoJson(_) | WriteError::NoSample(_) | WriteError::OtherColumns { .. } => "FormatError",
            WriteError::Mds(MdsError::MissingColumn { .. }) => "MissingColumnError",
            WriteError::Mds(_) => "FormatError",
            WriteError::OnlyRows { .. } | WriteError::UnknownCompression { .. } => "OptionError",
            WriteError::MissingColumn { .. } => "MissingColumnError",
            WriteError::SeveralColumns { .. } | WriteError::NoSchema { .. } => "OptionError",
            _ => "ClosedError",
        };
        Self { class, message: message(&error, error.hint()), cause: None }
    }
}

impl From<StorageError> for PyShardmillError {
    fn from(error: StorageError) -> Self {
        Self { class: storage_class(&error), message: message(&error, error.hint()), cause: None }
    }
}

impl From<PlanError> for PyShardmillError {
    fn from(error: PlanError) -> Self {
        Self { class: plan_class(&error), message: message(&error, None), cause: None }
    }
}

impl From<EngineError> for PyShardmillError {
    fn from(error: EngineError) -> Self {
        Self { class: engine_class(&error), message: message(&error, None), cause: None }
    }
}

impl From<shardmill_images::Error> for PyShardmillError {
    fn from(error: shardmill_images::Error) -> Self {
        Self { class: "FormatError", message: message(&error, None), cause: None }
    }
}

impl From<shardmill_formats::tar::TarError> for PyShardmillError {
    fn from(error: shardmill_formats::tar::TarError) -> Self {
        Self { class: "FormatError", message: message(&error, None), cause: None }
    }
}

impl From<ColumnError> for PyShardmillError {
    fn from(error: ColumnError) -> Self {
        Self { class: column_class(&error), message: message(&error, error.hint()), cause: None }
    }
}

impl From<ObjectError> for PyShardmillError {
    fn from(error: ObjectError) -> Self {
        Self { class: "FormatError", message: message(&error, error.hint()), cause: None }
    }
}

fn load_class(error: &LoadError) -> &'static str {
    if let Some(storage) = error.of_store() {
        return storage_class(storage);
    }
    match error {
        LoadError::Storage(inner) => storage_class(inner),
        LoadError::Table(inner) => match inner.as_ref() {
            TableError::Storage(inner) => storage_class(inner),
            TableError::ArrayRecord(inner) => arrayrecord_class(inner),
            TableError::Mds(MdsError::Storage(inner)) => storage_class(inner),
            TableError::Mds(MdsError::Option { .. } | MdsError::Encoding { .. }) => "OptionError",
            _ => "FormatError",
        },
        LoadError::Plan(inner) => plan_class(inner),
        LoadError::Engine(inner) => engine_class(inner),
        LoadError::UnknownColumn { .. } => "MissingColumnError",
        LoadError::NoSuchFormat { .. } | LoadError::ReservedColumn { .. } => "OptionError",
        LoadError::Columns(inner) => column_class(inner),
        LoadError::Packing(inner) => packing_class(inner),
        LoadError::NoSuchRow { .. } => "RowIndexError",
        LoadError::UnknownFormat { .. } | LoadError::UnknownContents { .. } | LoadError::MixedFormats { .. } => "PlanError",
        _ => "FormatError",
    }
}

fn resume_class(error: &ResumeError) -> &'static str {
    match error {
        ResumeError::Storage(inner) => storage_class(inner),
        ResumeError::Engine(inner) => engine_class(inner),
        ResumeError::Load(inner) => load_class(inner),
        ResumeError::InFile { source, .. } => resume_class(source),
        ResumeError::MissingColumn { .. } => "MissingColumnError",
        ResumeError::TypeMismatch { .. } | ResumeError::UnsupportedType { .. } | ResumeError::FileTypes { .. } => "IdTypeError",
        ResumeError::NoColumn | ResumeError::InputCount { .. } | ResumeError::ColumnCount { .. } | ResumeError::Lengths => "OptionError",
        ResumeError::Journal { source, .. } if source.kind() == ErrorKind::PermissionDenied => "PermissionDeniedError",
        ResumeError::WriteIndex { .. } | ResumeError::Unconditional { .. } | ResumeError::Journal { .. } | ResumeError::Encode { .. } => {
            "StorageError"
        }
        ResumeError::NoJob { .. } | ResumeError::NoFiles { .. } => "NotFoundError",
        ResumeError::OtherJob { .. } | ResumeError::InputChanged { .. } => "CheckpointMismatchError",
        ResumeError::LeaseHeld { .. } | ResumeError::Fenced { .. } => "CheckpointBusyError",
        ResumeError::Damaged { .. } | ResumeError::Beyond { .. } | ResumeError::OtherFormat { .. } | ResumeError::OutputChanged { .. } => {
            "CheckpointDamagedError"
        }
        _ => "FormatError",
    }
}

fn column_class(error: &ColumnError) -> &'static str {
    match error {
        ColumnError::UnknownFill { .. } => "MissingColumnError",
        ColumnError::MaskName { .. } | ColumnError::FillWithoutPolicy { .. } | ColumnError::FillObjects { .. } | ColumnError::FillType { .. } => {
            "OptionError"
        }
        _ => "FormatError",
    }
}

fn packing_class(error: &PackingError) -> &'static str {
    match error {
        PackingError::NotTokens { .. }
        | PackingError::NotLengths { .. }
        | PackingError::Twice { .. }
        | PackingError::ReservedName { .. }
        | PackingError::PadValue { .. }
        | PackingError::LongLane { .. } => "OptionError",
        _ => "FormatError",
    }
}

fn arrayrecord_class(error: &ArrayRecordError) -> &'static str {
    match error {
        ArrayRecordError::Storage(inner) => storage_class(inner),
        ArrayRecordError::NoSuchRecord { .. } => "RecordIndexError",
        ArrayRecordError::Option { .. } => "OptionError",
        ArrayRecordError::Write { .. } => "StorageError",
        _ => "RecordError",
    }
}

fn storage_class(error: &StorageError) -> &'static str {
    match (error, error.io_kind()) {
        (StorageError::UnsupportedScheme { .. } | StorageError::SingleSlash { .. } | StorageError::FileUrl { .. }, _) => "OptionError",
        (_, Some(ErrorKind::NotFound)) => "NotFoundError",
        (_, Some(ErrorKind::PermissionDenied)) => "PermissionDeniedError",
        (_, Some(ErrorKind::AlreadyExists)) => "OutputExistsError",
        _ => "StorageError",
    }
}

fn plan_class(error: &PlanError) -> &'static str {
    match error {
        PlanError::Storage(inner) => storage_class(inner),
        PlanError::NoInput { .. } => "NotFoundError",
        PlanError::UnknownColumn { .. } => "MissingColumnError",
        PlanError::LiteralType { .. } | PlanError::ColumnTypes { .. } => "LiteralTypeError",
        _ => "PlanError",
    }
}

fn engine_class(error: &EngineError) -> &'static str {
    match error {
        EngineError::Cancelled => "CancelledError",
        _ => "EngineError",
    }
}

/// What happened, why, and what to do about it; without secrets, also where other libraries are quoted, and without control characters: names come from data.
fn message(error: &dyn StdError, hint: Option<&str>) -> String {
    let mut message = shardmill_curate::reason(error);
    if let Some(hint) = hint {
        message.push_str("\nhint: ");
        message.push_str(hint);
    }
    visible(&redacted(&message))
}

/// Writes control characters and invisible ones as JSON does, but for the ends of lines. `shardmill.terminal` does the same for what commands print.
fn visible(text: &str) -> String {
    let is_hidden = |mark: char| {
        let is_invisible = matches!(mark, '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}');
        is_invisible || (mark.is_control() && !matches!(mark, '\n' | '\t'))
    };
    if !text.contains(is_hidden) {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len());
    for mark in text.chars() {
        match is_hidden(mark) {
            true => out.extend(format!("\\u{:04x}", u32::from(mark)).chars()),
            false => out.push(mark),
        }
    }
    out
}
