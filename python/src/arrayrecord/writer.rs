//! Writes one file.

use super::refused;
use crate::error::PyShardmillError;
use crate::interrupt::listening;
use crate::write::write_record;
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
        let writer = listening(py, || ArrayRecordWriter::create(path, options, threads))?
            .map_err(PyShardmillError::from)?;
        Ok(Self(Mutex::new(writer)))
    }

    fn write(&self, py: Python<'_>, record: &Bound<'_, PyAny>) -> PyResult<()> {
        let Ok(record) = record.cast::<PyBytes>() else {
            return Err(PyTypeError::new_err(format!(
                "a record is bytes, not {}",
                record.get_type().name()?
            )));
        };
        write_record(py, &self.0, record.as_bytes())
    }

    /// Publishes the file.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        Ok(listening(py, || self.0.lock().unwrap_or_else(PoisonError::into_inner).close())?
            .map_err(PyShardmillError::from)?)
    }

    /// Removes everything written so far.
    fn abandon(&self, py: Python<'_>) {
        py.detach(|| self.0.lock().unwrap_or_else(PoisonError::into_inner).abandon());
    }
}
