//! `shardmill._native.storage`

use crate::error::{PyShardmillError, PyShardmillResult};
use crate::interrupt::listening;
use crate::providers::PyProvider;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use shardmill_storage::{
    AnyDisk, AnyStore, Disk, RemoteDisk, RequestCounts, StorageOptions, Store,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

/// Sets the options for objects opened below the root of `path` from now on.
#[pyfunction]
#[pyo3(signature = (path, options, credentials=None, files=None))]
fn configure(
    path: &str,
    options: BTreeMap<String, String>,
    credentials: Option<&Bound<'_, PyAny>>,
    files: Option<&Bound<'_, PyAny>>,
) -> PyResult<()> {
    let mut options = StorageOptions::new(options);
    if let Some(source) = credentials {
        options = options.with_credentials(Arc::new(PyProvider::new(source)?));
    }
    if let Some(files) = files {
        options = options.with_files(Arc::new(PyProvider::new(files)?));
    }
    shardmill_storage::configure(path, options).map_err(PyShardmillError::from)?;
    Ok(())
}

/// Whether the options of the root of `path` include these options.
#[pyfunction]
fn is_reached_with(path: &str, options: BTreeMap<String, String>) -> bool {
    shardmill_storage::is_reached_with(path, &StorageOptions::new(options))
}

/// The commits of Hub data sets below `paths`, by root.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "a list of Python becomes a vector")]
fn pinned_revisions(paths: Vec<String>) -> Vec<(String, String)> {
    shardmill_storage::pinned_revisions(paths.iter().map(String::as_str))
}

/// The subset of `options` that is certainly not secret.
#[pyfunction]
fn without_secrets(options: BTreeMap<String, String>) -> BTreeMap<String, String> {
    let options = StorageOptions::new(options).without_secrets();
    options.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// Whether a path is an address with credentials or a signature.
#[pyfunction]
fn has_keys(path: &str) -> bool {
    shardmill_storage::has_keys(path)
}

/// Hides these secrets in all messages of this process from now on.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "a list of Python becomes a vector")]
fn hide(secrets: Vec<String>) {
    secrets.iter().for_each(|secret| shardmill_storage::hide(secret));
}

/// `text` without secrets: those of options, of the environment, and of addresses in it.
#[pyfunction]
fn redacted(text: &str) -> String {
    shardmill_storage::redacted(text)
}

/// Whether `path` is served over a network.
#[pyfunction]
fn is_remote(path: &str) -> bool {
    shardmill_storage::is_remote(path)
}

/// The local path of a file URL; other paths are returned unchanged.
#[pyfunction]
fn resolved_path(path: &str) -> PyShardmillResult<String> {
    Ok(shardmill_storage::resolved_path(path)?.into_owned())
}

/// Whether a path is local.
#[pyfunction]
fn is_local(path: &str) -> bool {
    shardmill_storage::is_local(path)
}

/// Requests of this process to the store of `path`, or to all stores.
#[pyfunction]
#[pyo3(signature = (path=None))]
fn request_counts<'py>(py: Python<'py>, path: Option<&str>) -> PyResult<Bound<'py, PyDict>> {
    let counts = match path {
        Some(path) => shardmill_storage::request_counts(path).unwrap_or_default(),
        None => shardmill_storage::total_request_counts(),
    };
    let RequestCounts { requests, hedged, retries, bytes, cache_hits, cache_misses } = counts;
    let dict = PyDict::new(py);
    let all = [
        ("requests", requests),
        ("hedged", hedged),
        ("retries", retries),
        ("bytes", bytes),
        ("cache_hits", cache_hits),
        ("cache_misses", cache_misses),
    ];
    all.into_iter().try_for_each(|(name, count)| dict.set_item(name, count))?;
    Ok(dict)
}

/// All files at or below a path, sorted.
#[pyfunction]
fn files(py: Python<'_>, path: &str) -> PyResult<Vec<String>> {
    Ok(listening(py, || AnyStore.list(path))?.map_err(PyShardmillError::from)?)
}

/// The content of a file; `None` if it does not exist.
#[pyfunction]
fn read<'py>(py: Python<'py>, path: &str) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let content = listening(py, || AnyDisk::default().read(path))??;
    Ok(content.map(|content| PyBytes::new(py, &content)))
}

/// Removes a file; a missing file is not an error.
#[pyfunction]
fn remove(py: Python<'_>, path: &str) -> PyResult<()> {
    Ok(listening(py, || AnyDisk::default().remove(path))??)
}

/// Moves a file to another path, which may be in a store, and replaces the file there.
#[pyfunction]
fn move_file(py: Python<'_>, source: &str, target: &str) -> PyResult<()> {
    Ok(listening(py, || shardmill_storage::move_file(source, target))?
        .map_err(PyShardmillError::from)?)
}

/// Removes a directory with everything in it; a missing one is not an error.
#[pyfunction]
fn remove_directory(py: Python<'_>, path: &str) -> PyResult<()> {
    Ok(listening(py, || AnyDisk::default().remove_directory(path))??)
}

/// Replaces an object whose content is known; false if it has another content.
#[pyfunction]
fn replace_object(
    py: Python<'_>,
    path: &str,
    known: Option<&[u8]>,
    content: &[u8],
) -> PyResult<bool> {
    Ok(listening(py, || RemoteDisk::default().replace(path, known, content))??)
}

/// Names directly below a path of a store.
#[pyfunction]
fn names(py: Python<'_>, path: &str) -> PyResult<Vec<String>> {
    Ok(listening(py, || RemoteDisk::default().list(path))??)
}

/// The objects directly below a path of a store, each with its name, its size
/// and the mark of its version.
#[pyfunction]
fn versions(py: Python<'_>, path: &str) -> PyResult<Vec<(String, u64, String)>> {
    Ok(listening(py, || RemoteDisk::default().versions(path))??)
}

/// The size of an object; `None` if it does not exist.
#[pyfunction]
fn size(py: Python<'_>, path: &str) -> PyResult<Option<u64>> {
    Ok(listening(py, || AnyDisk::default().size(path))??)
}

/// Path, bytes on disk, size of the whole object and seconds since 1970 of the last use, most
/// recent first.
#[pyfunction]
fn cache_entries(
    py: Python<'_>,
    directory: &str,
) -> PyShardmillResult<Vec<(String, u64, u64, f64)>> {
    let entries = py.detach(|| shardmill_storage::cache_entries(directory))?;
    let used = |time: SystemTime| {
        time.duration_since(SystemTime::UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
    };
    Ok(entries
        .into_iter()
        .map(|entry| (entry.path, entry.bytes, entry.size, used(entry.used)))
        .collect())
}

/// Empties a cache directory, and returns the number of bytes removed.
#[pyfunction]
fn clear_cache(py: Python<'_>, directory: &str) -> PyShardmillResult<u64> {
    Ok(py.detach(|| shardmill_storage::clear_cache(directory))?)
}

pub(crate) fn init(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = crate::submodule(parent, "storage")?;
    module.add_function(wrap_pyfunction!(configure, &module)?)?;
    module.add_function(wrap_pyfunction!(cache_entries, &module)?)?;
    module.add_function(wrap_pyfunction!(clear_cache, &module)?)?;
    module.add_function(wrap_pyfunction!(files, &module)?)?;
    module.add_function(wrap_pyfunction!(has_keys, &module)?)?;
    module.add_function(wrap_pyfunction!(hide, &module)?)?;
    module.add_function(wrap_pyfunction!(is_local, &module)?)?;
    module.add_function(wrap_pyfunction!(is_remote, &module)?)?;
    module.add_function(wrap_pyfunction!(redacted, &module)?)?;
    module.add_function(wrap_pyfunction!(is_reached_with, &module)?)?;
    module.add_function(wrap_pyfunction!(move_file, &module)?)?;
    module.add_function(wrap_pyfunction!(names, &module)?)?;
    module.add_function(wrap_pyfunction!(pinned_revisions, &module)?)?;
    module.add_function(wrap_pyfunction!(read, &module)?)?;
    module.add_function(wrap_pyfunction!(remove, &module)?)?;
    module.add_function(wrap_pyfunction!(remove_directory, &module)?)?;
    module.add_function(wrap_pyfunction!(replace_object, &module)?)?;
    module.add_function(wrap_pyfunction!(resolved_path, &module)?)?;
    module.add_function(wrap_pyfunction!(size, &module)?)?;
    module.add_function(wrap_pyfunction!(request_counts, &module)?)?;
    module.add_function(wrap_pyfunction!(versions, &module)?)?;
    module.add_function(wrap_pyfunction!(without_secrets, &module)?)
}
