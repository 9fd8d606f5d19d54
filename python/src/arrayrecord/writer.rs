//! One file in the making.

use super::refused;
use crate::error::PyShardmillError;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use shardmill_formats::arrayrecord::WriterOptions;
use shardmill_write::arrayrecord::ArrayRecordWriter;
use std::sync::{Mutex, PoisonError};

#[pyclass(name = "Writer", module = "shardmill._native.arrayrecord", frozen)]
pub(super) struct PyWriter(Mutex<ArrayRecordWriter>);

#[pymethods]
impl PyWriter {
    #[new]
    fn new(py: Python<'_>, path: &str, options: &str, threads: usize) -> PyResult<Self> {
        let options = WriterOptions::parse(options).map_err(|error| refused(&error))?;
        let writer = py.detach(|| ArrayRecordWriter::create(path, options, threads)).map_err(PyShardmillError::from)?;
        Ok(Self(Mutex::new(writer)))
    }

    fn write(&self, py: Python<'_>, record: &Bound<'_, PyAny>) -> PyResult<()> {
        let Ok(record) = record.cast::<PyBytes>() else {
            return Err(PyTypeError::new_err(format!("a record is bytes, not {}", record.get_type().name()?)));
        };
        // Whoever holds the lock may be waiting for the interpreter.
        let is_due = match self.0.try_lock() {
            Ok(mut writer) => writer.gather(record.as_bytes()),
            Err(_busy) => {
                let bytes = record.as_bytes();
                py.detach(|| self.0.lock().unwrap_or_else(PoisonError::into_inner).gather(bytes))
            }
        };
        if is_due.map_err(PyShardmillError::from)? {
            py.detach(|| self.0.lock().unwrap_or_else(PoisonError::into_inner).flush()).map_err(PyShardmillError::from)?;
        }
        Ok(())
    }

    #[getter]
    fn is_open(&self, py: Python<'_>) -> bool {
        py.detach(|| self.0.lock().unwrap_or_else(PoisonError::into_inner).is_open())
    }

    /// Publishes the file.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        Ok(py.detach(|| self.0.lock().unwrap_or_else(PoisonError::into_inner).close()).map_err(PyShardmillError::from)?)
    }

    /// Removes what was written.
    fn abandon(&self, py: Python<'_>) {
        py.detach(|| self.0.lock().unwrap_or_else(PoisonError::into_inner).abandon());
    }
}
