//! Maps Rust errors to Python exceptions. The classes are in `shardmill.errors`, because each has two bases.

use crate::columns::ObjectError;
use crate::user_stages::Raised;
use pyo3::prelude::*;
use pyo3::types::PyType;
use shardmill_curate::Error as CurateError;
use shardmill_engine::Error as EngineError;
use shardmill_formats::arrayrecord::Error as ArrayRecordError;
use shardmill_formats::mds::Error as MdsError;
use shardmill_formats::parquet::Error as ParquetError;
use shardmill_formats::table::TableError;
use shardmill_load::Error as LoadError;
use shardmill_load::columns::Error as ColumnError;
use shardmill_load::packing::Error as PackingError;
use shardmill_pixels::Error as PixelsError;
use shardmill_plan::Error as PlanError;
use shardmill_resume::Error as ResumeError;
use shardmill_storage::{Error as StorageError, redacted};
use shardmill_tokens::Error as TokensError;
use shardmill_write::Error as WriteError;
use std::error::Error as StdError;
use std::io::ErrorKind;

/// An error of this library on its way to Python.
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
    /// For an option with an invalid value.
    pub(crate) fn option(message: &str) -> Self {
        Self { class: "OptionError", message: redacted(message), cause: None }
    }
}

impl From<PixelsError> for PyShardmillError {
    fn from(error: PixelsError) -> Self {
        Self { class: "FormatError", message: format!("{}: {error}", error.cause()), cause: None }
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
            CurateError::Parquet(ParquetError::UnknownCompression { .. }) => "OptionError",
            CurateError::Parquet(_) | CurateError::Cast { .. } => "FormatError",
            CurateError::Load(inner) => load_class(inner),
            CurateError::Resume(inner) => resume_class(inner),
            CurateError::Write(inner) => write_class(inner),
            CurateError::NoSampleId { .. } | CurateError::AbsentColumn { .. } | CurateError::AbsentKey { option: "expression", .. } => {
                "MissingColumnError"
            }
            CurateError::OutputExists { .. } => "OutputExistsError",
            CurateError::Option { .. } | CurateError::AbsentKey { .. } | CurateError::ReservedFields { .. } | CurateError::Spec(_) => "OptionError",
            CurateError::UnknownModality { .. }
            | CurateError::PayloadKey { .. }
            | CurateError::StageResult { .. }
            | CurateError::StageSchema { .. }
            | CurateError::NullResult { .. }
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

impl From<TokensError> for PyShardmillError {
    fn from(error: TokensError) -> Self {
        let hint = error.hint();
        Self { class: tokens_class(&error), message: message(&error, hint.as_deref()), cause: None }
    }
}

/// Errors with a class and a hint, and without an exception as their cause.
macro_rules! from_error {
    ($($error:ty => $class:expr, $hint:expr;)*) => {$(
        impl From<$error> for PyShardmillError {
            fn from(error: $error) -> Self {
                let (class, hint): (fn(&$error) -> &'static str, fn(&$error) -> Option<&str>) = ($class, $hint);
                Self { class: class(&error), message: message(&error, hint(&error)), cause: None }
            }
        }
    )*};
}

from_error! {
    LoadError => load_class, LoadError::hint;
    ResumeError => resume_class, ResumeError::hint;
    WriteError => write_class, WriteError::hint;
    StorageError => storage_class, StorageError::hint;
    PlanError => plan_class, PlanError::hint;
    EngineError => engine_class, |_| None;
    shardmill_images::Error => |_| "FormatError", |_| None;
    shardmill_formats::tar::TarError => |_| "FormatError", |_| None;
    ColumnError => column_class, ColumnError::hint;
    ObjectError => |_| "FormatError", ObjectError::hint;
}

fn write_class(error: &WriteError) -> &'static str {
    match error {
        WriteError::Storage(inner) => storage_class(inner),
        WriteError::Engine(inner) => engine_class(inner),
        WriteError::ArrayRecord(inner) => arrayrecord_class(inner),
        WriteError::Parquet(_) | WriteError::NoRecords { .. } | WriteError::NullRecord { .. } | WriteError::Rows { .. } => "FormatError",
        WriteError::Columns { .. } | WriteError::NoJson(_) | WriteError::NoSample(_) => "FormatError",
        WriteError::OtherColumns { .. } | WriteError::OtherType { .. } => "FormatError",
        WriteError::Mds(MdsError::MissingColumn { .. }) => "MissingColumnError",
        WriteError::Mds(_) => "FormatError",
        WriteError::OnlyRows { .. } | WriteError::UnknownCompression { .. } => "OptionError",
        WriteError::MissingColumn { .. } => "MissingColumnError",
        WriteError::SeveralColumns { .. } | WriteError::NoSchema { .. } => "OptionError",
        _ => "ClosedError",
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
        LoadError::UnknownPath { .. } => "MissingColumnError",
        LoadError::NoSuchFormat { .. } | LoadError::TextOption { .. } | LoadError::ReservedColumn { .. } => "OptionError",
        LoadError::DerivedColumn { .. } | LoadError::DerivedFrom { .. } | LoadError::ImageFrom { .. } => "OptionError",
        LoadError::Columns(inner) => column_class(inner),
        LoadError::Packing(inner) => packing_class(inner),
        LoadError::NoSuchRow { .. } => "RowIndexError",
        LoadError::HostMemory { .. } => "EngineError",
        LoadError::UnknownFormat { .. }
        | LoadError::OtherFormat { .. }
        | LoadError::UnknownContents { .. }
        | LoadError::ArrowFile { .. }
        | LoadError::MixedFormats { .. } => "PlanError",
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
        ResumeError::NoColumn
        | ResumeError::InputCount { .. }
        | ResumeError::ColumnCount { .. }
        | ResumeError::Lengths
        | ResumeError::IndexOverIds { .. } => "OptionError",
        ResumeError::Journal { source, .. } if source.kind() == ErrorKind::PermissionDenied => "PermissionDeniedError",
        ResumeError::WriteIndex { .. } | ResumeError::Unconditional { .. } | ResumeError::Journal { .. } | ResumeError::Encode { .. } => {
            "StorageError"
        }
        ResumeError::NoJob { .. } | ResumeError::NoFiles { .. } => "NotFoundError",
        ResumeError::OtherJob { .. } | ResumeError::InputChanged { .. } | ResumeError::OtherSchema { .. } => "CheckpointMismatchError",
        ResumeError::LeaseHeld { .. } | ResumeError::Fenced { .. } => "CheckpointBusyError",
        ResumeError::Damaged { .. } | ResumeError::Beyond { .. } | ResumeError::OtherFormat { .. } | ResumeError::OutputChanged { .. } => {
            "CheckpointDamagedError"
        }
        _ => "FormatError",
    }
}

fn column_class(error: &ColumnError) -> &'static str {
    match error {
        ColumnError::UnknownName { .. } => "MissingColumnError",
        ColumnError::AddedName { .. } | ColumnError::FillWithoutPolicy { .. } | ColumnError::FillObjects { .. } | ColumnError::FillType { .. } => {
            "OptionError"
        }
        ColumnError::NothingToPad | ColumnError::PadOther { .. } | ColumnError::PadType { .. } => "OptionError",
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
        | PackingError::EmptyLane { .. }
        | PackingError::FarPass { .. }
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

fn tokens_class(error: &TokensError) -> &'static str {
    match error {
        TokensError::NoTokenizer { .. } => "NotFoundError",
        TokensError::SeveralTokenizers { .. } | TokensError::MissingOption { .. } | TokensError::UnusedOption { .. } => "OptionError",
        TokensError::SpecialTokenId { .. } | TokensError::SpecialTokenOption { .. } | TokensError::SpecialOption { .. } => "OptionError",
        TokensError::PatternName { .. } | TokensError::PatternOption { .. } => "OptionError",
        TokensError::UnknownToken { .. } | TokensError::UnknownId { .. } => "OptionError",
        TokensError::Date { .. } | TokensError::TemplateDate => "OptionError",
        TokensError::Panicked { .. } => "EngineError",
        TokensError::InText { source, .. } => tokens_class(source),
        _ => "FormatError",
    }
}

fn storage_class(error: &StorageError) -> &'static str {
    match (error, error.io_kind()) {
        (
            StorageError::Options { .. } | StorageError::UnsupportedScheme { .. } | StorageError::SingleSlash { .. } | StorageError::FileUrl { .. },
            _,
        ) => "OptionError",
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
        PlanError::SchemaConflict { .. } | PlanError::DuplicateColumn { .. } => "FormatError",
        PlanError::LiteralType { .. } | PlanError::ColumnTypes { .. } | PlanError::OperandType { .. } => "LiteralTypeError",
        _ => "PlanError",
    }
}

fn engine_class(error: &EngineError) -> &'static str {
    match error {
        EngineError::Cancelled => "CancelledError",
        _ => "EngineError",
    }
}

/// What happened, why, and what to do about it; without secrets, even in quoted texts of other libraries, and without control characters, because
/// names come from data.
fn message(error: &dyn StdError, hint: Option<&str>) -> String {
    let mut message = shardmill_curate::reason(error);
    if let Some(hint) = hint {
        message.push_str("\nhint: ");
        message.push_str(hint);
    }
    visible(&redacted(&message))
}

/// Escapes control characters and invisible ones as JSON does, except for line ends. `shardmill._terminal` does the same for the output of commands.
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
