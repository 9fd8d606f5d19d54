//! A column of a superbatch whose rows become Python objects when they are asked for.

use super::objects::objects;
use arrow_array::{Array, ArrayRef, BinaryViewArray, StringViewArray};
use numpy::PyArray1;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;
use pyo3::pybacked::{PyBackedBytes, PyBackedStr};
use pyo3::types::PyList;
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
    pub(super) fn objects<'py>(&self, py: Python<'py>, start: usize, stop: usize) -> PyResult<Vec<Bound<'py, PyAny>>> {
        objects(py, &self.name, &self.rows(start, stop)?)
    }

    fn rows(&self, start: usize, stop: usize) -> PyResult<ArrayRef> {
        let length = stop.checked_sub(start).filter(|_| stop <= self.array.len());
        let length = length.ok_or_else(|| PyIndexError::new_err(format!("rows {start} to {stop} of {}", self.array.len())))?;
        Ok(self.array.slice(start, length))
    }
}

#[pymethods]
impl PyObjects {
    #[staticmethod]
    fn of_strings(values: Vec<Option<PyBackedStr>>) -> Self {
        let array: StringViewArray = values.into_iter().map(|value| value.map(|value| (*value).to_owned())).collect();
        Self::new("values", Arc::new(array), &Form::Strings)
    }

    #[staticmethod]
    fn of_binaries(values: Vec<Option<PyBackedBytes>>) -> Self {
        let array: BinaryViewArray = values.into_iter().map(|value| value.map(|value| value.to_vec())).collect();
        Self::new("values", Arc::new(array), &Form::Binaries)
    }

    /// "string", "binary" or "object".
    #[getter]
    fn kind(&self) -> &'static str {
        self.kind
    }

    fn __len__(&self) -> usize {
        self.array.len()
    }

    fn to_list<'py>(&self, py: Python<'py>, start: usize, stop: usize) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.objects(py, start, stop)?)
    }

    fn to_array<'py>(&self, py: Python<'py>, start: usize, stop: usize) -> PyResult<Bound<'py, PyArray1<Py<PyAny>>>> {
        let objects = self.objects(py, start, stop)?;
        Ok(PyArray1::from_vec(py, objects.into_iter().map(Bound::unbind).collect()))
    }

    /// The rows as an object with `__arrow_c_array__`. They share the memory of the column.
    fn to_arrow(&self, start: usize, stop: usize) -> PyResult<PyArray> {
        Ok(PyArray::from_array_ref(self.rows(start, stop)?))
    }
}
