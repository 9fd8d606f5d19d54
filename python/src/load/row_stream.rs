//! Batches of a Python iterator as an Arrow stream, without pyarrow.
//!
//! Other libraries read and release a stream in calls of their own, for which they may have released
//! the GIL. `PyO3` does not see that: it counts what it acquires and releases itself, and inside of
//! a call into this module it takes the GIL as held. The invariant: objects of Python are used and
//! dropped only after the interpreter was asked for the GIL.

#![expect(unsafe_code, reason = "PyO3 has no call that asks the interpreter for the GIL")]

use crate::arrow_data::ArrowBatch;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyIterator;
use pyo3_arrow::{PyRecordBatchReader, PySchema};
use std::sync::Arc;

/// Returns a stream of batches, objects with `__arrow_c_array__`, that have this schema.
#[pyfunction]
pub(super) fn row_stream(schema: PySchema, batches: Py<PyIterator>) -> PyRecordBatchReader {
    let schema = schema.into_inner();
    PyRecordBatchReader::new(Box::new(RowStream { schema, batches: Some(batches) }))
}

struct RowStream {
    schema: SchemaRef,
    /// `None` only while it is dropped.
    batches: Option<Py<PyIterator>>,
}

impl Iterator for RowStream {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batches = self.batches.as_ref()?;
        with_gil(|py| {
            let batch = batches.bind(py).clone().next()?;
            let batch = batch.and_then(|batch| batch.extract::<ArrowBatch>());
            // As text, since the error is dropped by the library that reads the stream.
            let batch = batch.map_err(|error| ArrowError::ExternalError(error.to_string().into()));
            Some(batch.and_then(|batch| batch.0.with_schema(Arc::clone(&self.schema))))
        })?
    }
}

impl RecordBatchReader for RowStream {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

impl Drop for RowStream {
    fn drop(&mut self) {
        let batches = self.batches.take();
        with_gil(|_py| drop(batches));
    }
}

/// Calls `function` with the GIL; `None` after the interpreter has ended: then what `function` owns
/// is leaked.
fn with_gil<T>(function: impl FnOnce(Python<'_>) -> T) -> Option<T> {
    // SAFETY: it may be called at any time.
    if unsafe { ffi::Py_IsInitialized() } == 0 {
        std::mem::forget(function);
        return None;
    }
    let _held = Held(
        // SAFETY: the interpreter is initialized. If this thread holds the GIL, this only counts.
        unsafe { ffi::PyGILState_Ensure() },
    );
    Some(Python::attach(function))
}

struct Held(ffi::PyGILState_STATE);

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: the state is that of the call in `with_gil`, on this thread, and is used once.
        unsafe { ffi::PyGILState_Release(self.0) }
    }
}
