//! What an error is to the caller, whichever crate has it.
//!
//! Each error enum of the workspace says beside its variants which kind they are. The binding maps
//! each kind to one class of `shardmill.errors`.

/// The kinds, each named as its class in Python.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    Cancelled,
    CheckpointBusy,
    CheckpointDamaged,
    CheckpointMismatch,
    Closed,
    Curate,
    Engine,
    Format,
    IdType,
    LiteralType,
    MissingColumn,
    NotFound,
    Option,
    OutputExists,
    PermissionDenied,
    Plan,
    Record,
    RecordIndex,
    RowIndex,
    Storage,
}
