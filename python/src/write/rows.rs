//! Collects rows of Python objects as Arrow columns.
//!
//! Rows are mappings of column to value. Plain values of the column's type are copied directly; all
//! others are kept as objects and converted by pyarrow, so that the meaning of an object is defined
//! in one place. The invariant: a row is appended completely or not at all.

use super::columns::Column;
use super::weight::weight;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use pyo3_arrow::PySchema;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Number of rows, and their approximate size, after which they are written.
const FULL_ROWS: usize = 16 << 10;
const FULL_BYTES: usize = 2 << 20;

/// Result of appending a row.
const TAKEN: u8 = 0;
const TAKEN_AND_FULL: u8 = 1;
const OTHER_COLUMNS: u8 = 2;

#[pyclass(name = "RowBuffer", module = "shardmill._native.write", frozen)]
pub(super) struct PyRowBuffer(Mutex<RowBuffer>);

struct RowBuffer {
    schema: SchemaRef,
    names: Vec<Py<PyString>>,
    columns: Vec<Column>,
    /// Whether a row has all columns and possibly more; otherwise it may lack some
    /// and has no others.
    selects: bool,
    /// Called with name, values and the row of the first value; returns an Arrow array.
    convert: Py<PyAny>,
    rows: usize,
    bytes: usize,
}

#[pymethods]
impl PyRowBuffer {
    #[new]
    #[pyo3(signature = (schema, *, selects, convert))]
    fn new(py: Python<'_>, schema: PySchema, selects: bool, convert: Py<PyAny>) -> Self {
        let schema = schema.into_inner();
        let names = schema
            .fields()
            .iter()
            .map(|field| PyString::intern(py, field.name()).unbind())
            .collect();
        let columns = schema.fields().iter().map(|field| Column::new(field.data_type())).collect();
        Self(Mutex::new(RowBuffer { schema, names, columns, selects, convert, rows: 0, bytes: 0 }))
    }

    fn __len__(&self) -> usize {
        self.lock().rows
    }

    /// Appends a row: returns 0, or 1 if there are enough rows to write. Returns 2, without
    /// appending, if its columns are not those of the buffer.
    fn append(&self, row: &Bound<'_, PyDict>) -> PyResult<u8> {
        let mut objects = Vec::new();
        {
            let mut buffer = self.lock();
            if !buffer.append(row, &mut objects)? {
                return Ok(OTHER_COLUMNS);
            }
            if objects.is_empty() {
                return Ok(buffer.taken());
            }
        }
        // This may run Python code, which may call this buffer again.
        let bytes: usize = objects.iter().map(weight).sum();
        let mut buffer = self.lock();
        buffer.bytes = buffer.bytes.saturating_add(bytes);
        Ok(buffer.taken())
    }
}

impl PyRowBuffer {
    /// Takes the rows; `first_row` is the number of the first one.
    pub(super) fn take(&self, py: Python<'_>, first_row: u64) -> PyResult<RecordBatch> {
        // Conversion runs Python code, which may call this buffer again, so its content is taken
        // out first.
        let (schema, columns, rows, convert) = {
            let mut buffer = self.lock();
            let fresh =
                buffer.schema.fields().iter().map(|field| Column::new(field.data_type())).collect();
            let columns = std::mem::replace(&mut buffer.columns, fresh);
            buffer.bytes = 0;
            (
                Arc::clone(&buffer.schema),
                columns,
                std::mem::take(&mut buffer.rows),
                buffer.convert.clone_ref(py),
            )
        };
        let arrays = schema
            .fields()
            .iter()
            .zip(columns)
            .map(|(field, column)| column.finish(field, first_row, convert.bind(py)))
            .collect::<PyResult<Vec<ArrayRef>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(schema, arrays, &options).map_err(super::columns::invalid)
    }

    fn lock(&self) -> MutexGuard<'_, RowBuffer> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RowBuffer {
    /// Appends a row, and adds its values that are not weighed yet to `objects`. Returns false,
    /// without appending, if it has other columns.
    fn append<'py>(
        &mut self,
        row: &Bound<'py, PyDict>,
        objects: &mut Vec<Bound<'py, PyAny>>,
    ) -> PyResult<bool> {
        let py = row.py();
        let mut values = Vec::with_capacity(self.names.len());
        let mut found = 0;
        for name in &self.names {
            let value = row.get_item(name.bind(py))?;
            found += usize::from(value.is_some());
            values.push(value);
        }
        let needed = if self.selects { values.len() } else { row.len() };
        if found < needed {
            return Ok(false);
        }
        for (column, value) in self.columns.iter_mut().zip(values) {
            self.bytes += column.append(py, value, objects);
        }
        self.rows += 1;
        Ok(true)
    }

    fn taken(&self) -> u8 {
        if self.rows >= FULL_ROWS || self.bytes >= FULL_BYTES { TAKEN_AND_FULL } else { TAKEN }
    }
}
