//! `shardmill._native.storage`

use crate::error::PyShardmillResult;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use shardmill_storage::StorageOptions;
use std::collections::BTreeMap;

/// What is opened below the root of `path` uses these options from now on.
#[pyfunction]
fn configure(path: &str, options: BTreeMap<String, String>) -> PyShardmillResult<()> {
    Ok(shardmill_storage::configure(path, StorageOptions::new(options))?)
}

/// Those of `options` that are certainly no secrets.
#[pyfunction]
fn without_secrets(options: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let options = StorageOptions::new(options).without_secrets();
    options.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Whether `path` is served over a network.
#[pyfunction]
fn is_remote(path: &str) -> bool {
    shardmill_storage::is_remote(path)
}

/// Requests of this process to the store of `path`.
#[pyfunction]
fn request_counts<'py>(py: Python<'py>, path: &str) -> PyResult<Option<Bound<'py, PyDict>>> {
    let Some(counts) = shardmill_storage::request_counts(path) else { return Ok(None) };
    let dict = PyDict::new(py);
    dict.set_item("requests", counts.requests)?;
    dict.set_item("hedged", counts.hedged)?;
    dict.set_item("bytes", counts.bytes)?;
    Ok(Some(dict))
}

pub(crate) fn init(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = crate::submodule(parent, "storage")?;
    module.add_function(wrap_pyfunction!(configure, &module)?)?;
    module.add_function(wrap_pyfunction!(is_remote, &module)?)?;
    module.add_function(wrap_pyfunction!(request_counts, &module)?)?;
    module.add_function(wrap_pyfunction!(without_secrets, &module)?)
}
