//! `shardmill._native.verify`

use crate::delivery::deliver;
use crate::error::{PyShardmillError, PyShardmillResult};
use pyo3::prelude::*;
use shardmill_curate::Error;
use shardmill_curate::file_format;
use shardmill_curate::verify::{self, VerifyOptions};
use shardmill_engine::Cancel;

/// The shards at or below `paths`, sorted; a file that is named outright is taken whatever it is called.
#[pyfunction]
fn shard_files(py: Python<'_>, paths: Vec<String>) -> PyShardmillResult<Vec<String>> {
    Ok(py.detach(|| file_format::shard_files(paths)).map_err(Error::from)?)
}

/// The files of any format that a data set reads at or below `paths`, sorted; a file that is named outright is taken whatever it is called.
#[pyfunction]
fn readable_files(py: Python<'_>, paths: Vec<String>) -> PyShardmillResult<Vec<String>> {
    Ok(py.detach(|| file_format::readable_files(paths)).map_err(Error::from)?)
}

/// Checks the files on threads; `on_check` gets each file's result as JSON, in order.
#[pyfunction]
fn verify_files(py: Python<'_>, files: Vec<String>, options: &str, workers: usize, on_check: &Bound<'_, PyAny>) -> PyResult<()> {
    let options = VerifyOptions::parse(options).map_err(PyShardmillError::from)?;
    let run = verify::verify_files(files, options, workers, &Cancel::default()).map_err(PyShardmillError::from)?;
    deliver(py, run, |check| on_check.call1((check,)).map(drop), &())
}

pub(crate) fn init(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = crate::submodule(parent, "verify")?;
    module.add_function(wrap_pyfunction!(shard_files, &module)?)?;
    module.add_function(wrap_pyfunction!(readable_files, &module)?)?;
    module.add_function(wrap_pyfunction!(verify_files, &module)?)
}
