//! A column of a superbatch whose rows become Python objects when they are asked for.

use super::objects::{arrow_error, objects};
use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, BinaryViewArray, LargeBinaryArray, LargeStringArray, StringViewArray,
};
use arrow_buffer::{Buffer, NullBuffer, OffsetBuffer};
use arrow_cast::cast;
use arrow_schema::DataType;
use bytes::Bytes;
use numpy::PyArray1;
use pyo3::exceptions::{PyIndexError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::{PyBytes, PyList};
use pyo3_arrow::PyArray;
use shardmill_load::columns::Form;
use std::sync::Arc;

#[pyclass(name = "Objects", module = "shardmill._native.columns", frozen)]
#[derive(Debug)]
pub(crate) struct PyObjects {
    name: String,
    array: ArrayRef,
    kind: &'static str,
}

impl PyObjects {
    pub(super) fn new(name: &str, array: ArrayRef, form: &Form) -> Self {
        let kind = match form {
            Form::Strings => "string",
            Form::Binaries => "binary",
            _ => "object",
        };
        Self { name: name.to_owned(), array, kind }
    }

    /// One object per row.
    pub(super) fn objects<'py>(
        &self,
        py: Python<'py>,
        start: usize,
        stop: usize,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        objects(py, &self.name, &self.rows(start, stop)?)
    }

    fn rows(&self, start: usize, stop: usize) -> PyResult<ArrayRef> {
        let length = stop.checked_sub(start).filter(|_| stop <= self.array.len());
        let length = length.ok_or_else(|| {
            PyIndexError::new_err(format!("rows {start} to {stop} of {}", self.array.len()))
        })?;
        Ok(self.array.slice(start, length))
    }
}

/// The length that stands for a null.
const NULL: i64 = -1;

fn packed<'a>(rows: impl ExactSizeIterator<Item = Option<&'a [u8]>>) -> (Vec<u8>, Vec<u8>) {
    let (mut lengths, mut content) =
        (Vec::with_capacity(rows.len() * size_of::<i64>()), Vec::new());
    for row in rows {
        let length = row.map_or(NULL, |row| i64::try_from(row.len()).unwrap_or(i64::MAX));
        lengths.extend_from_slice(&length.to_le_bytes());
        content.extend_from_slice(row.unwrap_or_default());
    }
    (lengths, content)
}

#[pymethods]
impl PyObjects {
    #[staticmethod]
    fn of_strings(values: Vec<Option<PyBackedStr>>) -> Self {
        let array: StringViewArray =
            values.into_iter().map(|value| value.map(|value| (*value).to_owned())).collect();
        Self::new("values", Arc::new(array), &Form::Strings)
    }

    #[staticmethod]
    fn of_binaries(values: Vec<Option<PyBackedBytes>>) -> Self {
        let array: BinaryViewArray =
            values.into_iter().map(|value| value.map(|value| value.to_vec())).collect();
        Self::new("values", Arc::new(array), &Form::Binaries)
    }

    /// The strings or bytes of a range of rows: little-endian 64-bit lengths, -1 for a null, and
    /// the content of all rows.
    fn packed<'py>(
        &self,
        py: Python<'py>,
        start: usize,
        stop: usize,
    ) -> PyResult<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)> {
        let rows = self.rows(start, stop)?;
        let as_type =
            |data_type| cast(&rows, &data_type).map_err(|source| arrow_error(&self.name, source));
        let (lengths, content) = match self.kind {
            "string" => packed(
                as_type(DataType::LargeUtf8)?
                    .as_string::<i64>()
                    .iter()
                    .map(|row| row.map(str::as_bytes)),
            ),
            _ => packed(as_type(DataType::LargeBinary)?.as_binary::<i64>().iter()),
        };
        Ok((PyBytes::new(py, &lengths), PyBytes::new(py, &content)))
    }

    /// The inverse of `packed`; `kind` is "string" or "binary".
    #[staticmethod]
    fn of_packed(kind: &str, lengths: &[u8], content: PyBackedBytes) -> PyResult<Self> {
        let damaged =
            || PyValueError::new_err("lengths and content of a pickled column do not match");
        let (lengths, []) = lengths.as_chunks::<8>() else { return Err(damaged()) };
        let lengths: Vec<i64> = lengths.iter().map(|length| i64::from_le_bytes(*length)).collect();
        let mut end = 0i64;
        let mut offsets = vec![end];
        for length in &lengths {
            if *length < NULL {
                return Err(damaged());
            }
            end = end.checked_add((*length).max(0)).ok_or_else(damaged)?;
            offsets.push(end);
        }
        if i64::try_from(content.len()) != Ok(end) {
            return Err(damaged());
        }
        let nulls = lengths
            .contains(&NULL)
            .then(|| lengths.iter().map(|length| *length != NULL).collect::<NullBuffer>());
        let (offsets, content) =
            (OffsetBuffer::new(offsets.into()), Buffer::from(Bytes::from_owner(content)));
        let refused = |source| arrow_error("values", source);
        let (array, form): (ArrayRef, _) = match kind {
            "string" => (
                Arc::new(LargeStringArray::try_new(offsets, content, nulls).map_err(refused)?),
                Form::Strings,
            ),
            _ => (
                Arc::new(LargeBinaryArray::try_new(offsets, content, nulls).map_err(refused)?),
                Form::Binaries,
            ),
        };
        Ok(Self::new("values", array, &form))
    }

    /// "string", "binary" or "object".
    #[getter]
    fn kind(&self) -> &'static str {
        self.kind
    }

    fn __len__(&self) -> usize {
        self.array.len()
    }

    fn to_list<'py>(
        &self,
        py: Python<'py>,
        start: usize,
        stop: usize,
    ) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.objects(py, start, stop)?)
    }

    fn to_array<'py>(
        &self,
        py: Python<'py>,
        start: usize,
        stop: usize,
    ) -> PyResult<Bound<'py, PyArray1<Py<PyAny>>>> {
        let objects = self.objects(py, start, stop)?;
        Ok(PyArray1::from_vec(py, objects.into_iter().map(Bound::unbind).collect()))
    }

    /// The rows as an object with `__arrow_c_array__`. They share the memory of the column.
    fn to_arrow(&self, start: usize, stop: usize) -> PyResult<PyArray> {
        Ok(PyArray::from_array_ref(self.rows(start, stop)?))
    }
}
