//! `shardmill._native.verify`

use crate::delivery::deliver;
use crate::error::PyShardmillError;
use crate::interrupt::answered;
use pyo3::prelude::*;
use shardmill_curate::Error;
use shardmill_curate::file_format;
use shardmill_curate::verify::{self, VerifyOptions};
use shardmill_engine::Cancel;

/// The files at or below `paths` of any format that a data set can read, sorted, and the skipped files. An explicitly named file is always included.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "a list of Python becomes a vector")]
fn checkable_files(py: Python<'_>, paths: Vec<String>) -> PyResult<(Vec<String>, Vec<String>)> {
    let checkable = answered(py, || Ok(file_format::checkable_files(&paths).map_err(Error::from)?))?;
    Ok((checkable.files, checkable.left_out))
}

/// The names of the formats of the files at or below `paths`.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "a list of Python becomes a vector")]
fn data_formats(py: Python<'_>, paths: Vec<String>) -> PyResult<Vec<String>> {
    let formats = answered(py, || Ok(file_format::data_formats(&paths).map_err(Error::from)?))?;
    Ok(formats.into_iter().map(|format| format.name().to_owned()).collect())
}

/// Checks the files on threads; `on_check` receives each file's result as JSON, in order.
#[pyfunction]
fn verify_files(py: Python<'_>, files: Vec<String>, options: &str, workers: usize, on_check: &Bound<'_, PyAny>) -> PyResult<()> {
    let options = VerifyOptions::parse(options).map_err(PyShardmillError::from)?;
    let run = verify::verify_files(files, options, workers, &Cancel::default()).map_err(PyShardmillError::from)?;
    deliver(py, run, |check| on_check.call1((check,)).map(drop), &())
}

pub(crate) fn init(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = crate::submodule(parent, "verify")?;
    module.add_function(wrap_pyfunction!(checkable_files, &module)?)?;
    module.add_function(wrap_pyfunction!(data_formats, &module)?)?;
    module.add_function(wrap_pyfunction!(verify_files, &module)?)
}
