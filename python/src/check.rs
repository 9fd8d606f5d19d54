//! `shardmill._native.check`

use crate::delivery::deliver;
use crate::error::PyShardmillError;
use crate::interrupt::answered;
use crate::plain::Plain;
use pyo3::prelude::*;
use serde::Serialize;
use shardmill_check::files;
use shardmill_check::{CheckOptions, inspect_file, verify_file};
use shardmill_documents::{Error, Result};
use shardmill_engine::Cancel;
use std::collections::HashMap;

/// The files at or below `paths` of any format that a data set can read, sorted, and the skipped
/// files. An explicitly named file is always included.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "a list of Python becomes a vector")]
fn checkable_files(
    py: Python<'_>,
    paths: Vec<String>,
    has_dtype: bool,
) -> PyResult<(Vec<String>, Vec<String>)> {
    let checkable =
        answered(py, || Ok(files::checkable_files(&paths, has_dtype).map_err(Error::from)?))?;
    Ok((checkable.files, checkable.left_out))
}

/// The names of the formats of the files at or below `paths`.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "a list of Python becomes a vector")]
fn data_formats(py: Python<'_>, paths: Vec<String>) -> PyResult<Vec<String>> {
    let formats = answered(py, || Ok(files::data_formats(&paths).map_err(Error::from)?))?;
    Ok(formats.into_iter().map(|format| format.name().to_owned()).collect())
}

/// The mask of each `.npy` file at or below `paths`.
#[pyfunction]
fn label_masks(
    py: Python<'_>,
    paths: Vec<String>,
    masks: Vec<String>,
) -> PyResult<HashMap<String, String>> {
    answered(py, move || Ok(shardmill_load::label_masks(&paths, &masks)?))
}

/// Checks the files on threads; `on_file` receives the result of each, in order.
#[pyfunction]
fn verify_files(
    py: Python<'_>,
    files: Vec<String>,
    options: Plain<CheckOptions>,
    workers: usize,
    on_file: &Bound<'_, PyAny>,
) -> PyResult<()> {
    check_files(py, files, (options, workers), on_file, verify_file)
}

/// Inspects the files on threads; `on_file` receives the summary of each, in order.
#[pyfunction]
fn inspect_files(
    py: Python<'_>,
    files: Vec<String>,
    options: Plain<CheckOptions>,
    workers: usize,
    on_file: &Bound<'_, PyAny>,
) -> PyResult<()> {
    check_files(py, files, (options, workers), on_file, inspect_file)
}

fn check_files<T: Serialize + Send + 'static>(
    py: Python<'_>,
    files: Vec<String>,
    (Plain(options), workers): (Plain<CheckOptions>, usize),
    on_file: &Bound<'_, PyAny>,
    check: fn(&str, &CheckOptions, &Cancel) -> Result<T>,
) -> PyResult<()> {
    let run = shardmill_check::check_files(files, options, workers, &Cancel::default(), check)
        .map_err(PyShardmillError::from)?;
    deliver(py, run, |file| on_file.call1((Plain(file),)).map(drop), &())
}

pub(crate) fn init(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = crate::submodule(parent, "check")?;
    module.add_function(wrap_pyfunction!(checkable_files, &module)?)?;
    module.add_function(wrap_pyfunction!(data_formats, &module)?)?;
    module.add_function(wrap_pyfunction!(inspect_files, &module)?)?;
    module.add_function(wrap_pyfunction!(label_masks, &module)?)?;
    module.add_function(wrap_pyfunction!(verify_files, &module)?)
}
