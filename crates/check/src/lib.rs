//! Checks files of every format that a data set reads, and image files, or describes their content.
//!
//! [`walk`] opens a file and passes through its members, rows or blocks in order; it reports what
//! cannot be read. Its two visitors are `verify`, which judges, and `inspect`, which summarizes.
//! Called by the binding. The invariants: damage is part of the result, never an error; `verify`
//! passes a file exactly if all of it can be read and every checksum matches; memory is bounded by
//! one JSON or one block.

pub mod files;
mod image_header;
mod inspect;
mod options;
mod problem;
mod verify;
mod visitor;
mod walk;

use shardmill_documents::Result;
use shardmill_engine::{Cancel, Run, run_in_order};
use std::ops::ControlFlow;

pub use inspect::{
    ArrayRecordSummary, ColumnSummary, DamageSummary, FirstText, ImageSizes, Inspection,
    RowGroupSummary, Spread,
};
pub use options::{CheckOptions, Layout};
pub use problem::{Problem, Rule};
pub use verify::FileCheck;
pub use visitor::{FileSummary, ModalityRows};

/// Calls [`verify_file`] or [`inspect_file`] with all files on `workers` threads; results are in
/// the order of the files.
///
/// # Errors
/// When no thread can be started.
pub fn check_files<T: Send + 'static>(
    files: Vec<String>,
    options: CheckOptions,
    workers: usize,
    cancel: &Cancel,
    check: impl Fn(&str, &CheckOptions, &Cancel) -> Result<T> + Send + Sync + 'static,
) -> Result<Run<Result<T>>> {
    let stop = cancel.clone();
    Ok(run_in_order(files.len(), workers, cancel, move |index| {
        let path = files.get(index).map_or("", String::as_str);
        ControlFlow::Continue(check(path, &options, &stop))
    })?)
}

/// Checks one file completely.
///
/// # Errors
/// Cancellation, and when a temporary copy cannot be written.
pub fn verify_file(path: &str, options: &CheckOptions, cancel: &Cancel) -> Result<FileCheck> {
    Ok(walk::walk::<verify::Verify<'_>>(path, options, cancel)?.finish())
}

/// Summarizes one file. Of a tar, only headers and JSON are read; of a Parquet file, the first
/// images.
///
/// # Errors
/// Cancellation, and when a temporary copy cannot be written.
pub fn inspect_file(path: &str, options: &CheckOptions, cancel: &Cancel) -> Result<Inspection> {
    Ok(walk::walk::<inspect::Inspect<'_>>(path, options, cancel)?.finish())
}
