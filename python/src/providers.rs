//! Adapts credentials and file systems implemented in Python to the native stores.

use bytes::Bytes;
use pyo3::exceptions::{PyConnectionError, PyFileNotFoundError, PyPermissionError, PyTimeoutError};
use pyo3::prelude::*;
use shardmill_storage::{CredentialSource, Credentials, FsspecFile, FsspecFiles};
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::time::{Duration, SystemTime};

/// A Python object with an `identity`, whose methods are called by another thread.
#[derive(Debug)]
pub(crate) struct PyProvider {
    object: Py<PyAny>,
    identity: usize,
}

impl PyProvider {
    pub(crate) fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self {
            identity: object.getattr("identity")?.extract()?,
            object: object.clone().unbind(),
        })
    }

    fn called<T>(&self, call: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>) -> io::Result<T> {
        let called =
            Python::try_attach(|py| call(self.object.bind(py)).map_err(|error| raised(py, &error)));
        called.unwrap_or_else(|| Err(io::Error::other("the interpreter is ending")))
    }
}

/// The class of the exception decides whether the call is retried.
fn raised(py: Python<'_>, error: &PyErr) -> io::Error {
    let kind = if error.is_instance_of::<PyFileNotFoundError>(py) {
        ErrorKind::NotFound
    } else if error.is_instance_of::<PyPermissionError>(py) {
        ErrorKind::PermissionDenied
    } else if error.is_instance_of::<PyTimeoutError>(py) {
        ErrorKind::TimedOut
    } else if error.is_instance_of::<PyConnectionError>(py) {
        ErrorKind::ConnectionReset
    } else {
        ErrorKind::Other
    };
    io::Error::new(kind, error.to_string())
}

impl CredentialSource for PyProvider {
    fn id(&self) -> usize {
        self.identity
    }

    fn fetch(&self) -> io::Result<Credentials> {
        let (keys, ends): (_, Option<f64>) =
            self.called(|object| object.call_method0("fetch")?.extract())?;
        let keys: std::collections::BTreeMap<String, String> = keys;
        keys.values().for_each(|key| shardmill_storage::hide(key));
        let since =
            ends.map(|ends| Duration::try_from_secs_f64(ends.max(0.0)).unwrap_or(Duration::MAX));
        Ok(Credentials {
            keys,
            expires: since.and_then(|since| SystemTime::UNIX_EPOCH.checked_add(since)),
        })
    }
}

type File = (String, u64, Option<String>);

fn file((path, size, mark): File) -> FsspecFile {
    FsspecFile { path, size, mark }
}

impl FsspecFiles for PyProvider {
    fn id(&self) -> usize {
        self.identity
    }

    fn info(&self, path: &str) -> io::Result<Option<FsspecFile>> {
        let found: Option<File> =
            self.called(|object| object.call_method1("info", (path,))?.extract())?;
        Ok(found.map(file))
    }

    fn find(&self, path: &str) -> io::Result<Vec<FsspecFile>> {
        let found: Vec<File> =
            self.called(|object| object.call_method1("find", (path,))?.extract())?;
        Ok(found.into_iter().map(file).collect())
    }

    fn read(&self, path: &str, range: Range<u64>) -> io::Result<Bytes> {
        self.called(|object| {
            let content = object.call_method1("read", (path, range.start, range.end))?;
            Ok(Bytes::copy_from_slice(content.extract::<&[u8]>()?))
        })
    }
}
