//! `shardmill._native.inspect`

use crate::delivery::deliver;
use crate::error::PyShardmillError;
use pyo3::prelude::*;
use shardmill_curate::inspect::{self, InspectOptions};
use shardmill_engine::Cancel;

/// Inspects files on threads; `on_inspection` receives a summary of each file as JSON, in order.
#[pyfunction]
fn inspect_files(py: Python<'_>, files: Vec<String>, options: &str, workers: usize, on_inspection: &Bound<'_, PyAny>) -> PyResult<()> {
    let options = InspectOptions::parse(options).map_err(PyShardmillError::from)?;
    let run = inspect::inspect_files(files, options, workers, &Cancel::default()).map_err(PyShardmillError::from)?;
    deliver(py, run, |inspection| on_inspection.call1((inspection,)).map(drop), &())
}

pub(crate) fn init(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = crate::submodule(parent, "inspect")?;
    module.add_function(wrap_pyfunction!(inspect_files, &module)?)
}
