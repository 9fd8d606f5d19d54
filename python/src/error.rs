//! Maps Rust errors to Python exceptions. The classes are in `shardmill.errors`, because each has
//! two bases.

use crate::user_stages::Raised;
use pyo3::prelude::*;
use pyo3::types::PyType;
use shardmill_errors::ErrorKind;
use shardmill_jobs::Error as JobError;
use shardmill_pixels::Error as PixelsError;
use shardmill_storage::redacted;
use std::error::Error as StdError;

/// An error of this library on its way to Python.
pub(crate) struct PyShardmillError {
    kind: ErrorKind,
    message: String,
    cause: Option<PyErr>,
}

pub(crate) type PyShardmillResult<T> = Result<T, PyShardmillError>;

impl From<PyShardmillError> for PyErr {
    fn from(error: PyShardmillError) -> Self {
        let name = class(error.kind);
        Python::attach(|py| {
            let class = py
                .import("shardmill.errors")
                .and_then(|module| module.getattr(name))
                .and_then(|class| Ok(class.cast_into::<PyType>()?));
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

fn class(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Cancelled => "CancelledError",
        ErrorKind::CheckpointBusy => "CheckpointBusyError",
        ErrorKind::CheckpointDamaged => "CheckpointDamagedError",
        ErrorKind::CheckpointMismatch => "CheckpointMismatchError",
        ErrorKind::Closed => "ClosedError",
        ErrorKind::Curate => "CurateError",
        ErrorKind::Engine => "EngineError",
        ErrorKind::Format => "FormatError",
        ErrorKind::IdType => "IdTypeError",
        ErrorKind::LiteralType => "LiteralTypeError",
        ErrorKind::MissingColumn => "MissingColumnError",
        ErrorKind::NotFound => "NotFoundError",
        ErrorKind::Option => "OptionError",
        ErrorKind::OutputExists => "OutputExistsError",
        ErrorKind::PermissionDenied => "PermissionDeniedError",
        ErrorKind::Plan => "PlanError",
        ErrorKind::Record => "RecordError",
        ErrorKind::RecordIndex => "RecordIndexError",
        ErrorKind::RowIndex => "RowIndexError",
        ErrorKind::Storage => "StorageError",
    }
}

impl PyShardmillError {
    pub(crate) fn of(kind: ErrorKind, error: &dyn StdError, hint: Option<&str>) -> Self {
        Self { kind, message: message(error, hint), cause: None }
    }

    /// For an option with an invalid value.
    pub(crate) fn option(message: &str) -> Self {
        Self { kind: ErrorKind::Option, message: redacted(message), cause: None }
    }
}

impl From<PixelsError> for PyShardmillError {
    fn from(error: PixelsError) -> Self {
        Self {
            kind: ErrorKind::Format,
            message: format!("{}: {error}", error.cause()),
            cause: None,
        }
    }
}

impl From<JobError> for PyShardmillError {
    fn from(error: JobError) -> Self {
        let (kind, message) = (error.kind(), message(&error, error.hint()));
        let cause = match error {
            JobError::Stage { source, .. } => {
                source.downcast::<Raised>().ok().map(|raised| raised.into_inner())
            }
            _ => None,
        };
        Self { kind, message, cause }
    }
}

/// Errors without an exception as their cause: their kind, and what to do about them.
macro_rules! from_error {
    ($($error:ty => |$it:ident| $kind:expr, $hint:expr;)*) => {$(
        impl From<$error> for PyShardmillError {
            fn from($it: $error) -> Self {
                Self::of($kind, &$it, $hint.as_deref())
            }
        }
    )*};
}

from_error! {
    shardmill_documents::Error => |error| error.kind(), error.hint();
    shardmill_load::Error => |error| error.kind(), error.hint();
    shardmill_resume::Error => |error| error.kind(), error.hint();
    shardmill_write::Error => |error| error.kind(), error.hint();
    shardmill_storage::Error => |error| error.kind(), error.hint();
    shardmill_plan::Error => |error| error.kind(), error.hint();
    shardmill_tokens::Error => |error| error.kind(), error.hint();
    shardmill_load::columns::Error => |error| error.kind(), error.hint();
    shardmill_engine::Error => |error| error.kind(), None::<&str>;
    shardmill_images::Error => |error| ErrorKind::Format, None::<&str>;
    shardmill_formats::tar::TarError => |error| ErrorKind::Format, None::<&str>;
}

/// What happened, why, and what to do about it; without secrets, even in quoted texts of other
/// libraries, and without control characters, because names come from data.
fn message(error: &dyn StdError, hint: Option<&str>) -> String {
    let mut message = shardmill_documents::reason(error);
    if let Some(hint) = hint {
        message.push_str("\nhint: ");
        message.push_str(hint);
    }
    visible(&redacted(&message))
}

/// Escapes control characters and invisible ones as JSON does, except for line ends.
/// `shardmill._terminal` does the same for the output of commands.
fn visible(text: &str) -> String {
    let is_hidden = |mark: char| {
        let is_invisible = matches!(
            mark,
            '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}'
                | '\u{feff}'
        );
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
