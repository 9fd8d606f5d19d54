//! `shardmill._native.columns`: superbatches of plain buffers become NumPy arrays by moving them; what stays objects is made when a batch asks for it.

mod objects;
mod temporal;

pub(crate) use temporal::ObjectError;

use crate::error::{PyShardmillError, PyShardmillResult};
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Schema, TimeUnit};
use half::vec::HalfFloatVecExt;
use numpy::PyArray1;
use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString};
use pyo3_arrow::{PyArray, PyRecordBatch, PySchema};
use shardmill_load::columns::{Column, Converter, FillValue, Form, Kind, Nulls, Numbers, Superbatch};
use std::collections::BTreeMap;

/// A superbatch for `shardmill.columns.split`: in the order of [`Converter::outputs`] an array, a tuple of a ragged column's values, offsets and mask (or None),
/// or [`PyObjects`]. Nothing is copied.
pub(crate) fn superbatch_to_python<'py>(py: Python<'py>, converter: &Converter, superbatch: Superbatch) -> PyResult<Bound<'py, PyList>> {
    let parts = PyList::empty(py);
    let is_numpy = converter.kind() == Kind::Numpy;
    for (output, column) in converter.outputs().iter().zip(superbatch.columns) {
        let dtype = |element: &DataType| is_numpy.then(|| numpy_dtype(element)).flatten();
        match (column, &output.form) {
            (Column::Values(numbers), Form::Values { element, width }) => {
                let array = to_array(py, numbers, dtype(element))?;
                match width {
                    Some(width) => parts.append(array.call_method1("reshape", (superbatch.rows, *width))?)?,
                    None => parts.append(array)?,
                }
            }
            (Column::Ragged { values, offsets, valid }, Form::Ragged { element, .. }) => {
                let valid = valid.map(|valid| PyArray1::from_vec(py, valid));
                parts.append((to_array(py, values, dtype(element))?, PyArray1::from_vec(py, offsets), valid))?;
            }
            (Column::Objects(array), _) => parts.append(PyObjects { name: output.name.clone(), array })?,
            (column, form) => return Err(PyTypeError::new_err(format!("{column:?} does not have the form {form:?}"))),
        }
    }
    Ok(parts)
}

fn to_array<'py>(py: Python<'py>, numbers: Numbers, dtype: Option<&str>) -> PyResult<Bound<'py, PyAny>> {
    let array = match numbers {
        Numbers::Bool(values) => PyArray1::from_vec(py, values).into_any(),
        Numbers::Int8(values) => PyArray1::from_vec(py, values).into_any(),
        Numbers::Int16(values) => PyArray1::from_vec(py, values).into_any(),
        Numbers::Int32(values) => PyArray1::from_vec(py, values).into_any(),
        Numbers::Int64(values) => PyArray1::from_vec(py, values).into_any(),
        Numbers::UInt8(values) => PyArray1::from_vec(py, values).into_any(),
        Numbers::UInt16(values) => PyArray1::from_vec(py, values).into_any(),
        Numbers::UInt32(values) => PyArray1::from_vec(py, values).into_any(),
        Numbers::UInt64(values) => PyArray1::from_vec(py, values).into_any(),
        Numbers::Float16(values) => PyArray1::from_vec(py, values.reinterpret_into()).call_method1("view", ("float16",))?,
        Numbers::Float32(values) => PyArray1::from_vec(py, values).into_any(),
        Numbers::Float64(values) => PyArray1::from_vec(py, values).into_any(),
    };
    match dtype {
        Some(dtype) => array.call_method1("view", (dtype,)),
        None => Ok(array),
    }
}

/// How NumPy names the unit of a date or time. A time of day is the time since midnight.
fn numpy_dtype(element: &DataType) -> Option<&'static str> {
    match element {
        DataType::Date32 => Some("datetime64[D]"),
        DataType::Date64 => Some("datetime64[ms]"),
        DataType::Timestamp(unit, _) => Some(match unit {
            TimeUnit::Second => "datetime64[s]",
            TimeUnit::Millisecond => "datetime64[ms]",
            TimeUnit::Microsecond => "datetime64[us]",
            TimeUnit::Nanosecond => "datetime64[ns]",
        }),
        DataType::Time32(unit) | DataType::Time64(unit) | DataType::Duration(unit) => Some(match unit {
            TimeUnit::Second => "timedelta64[s]",
            TimeUnit::Millisecond => "timedelta64[ms]",
            TimeUnit::Microsecond => "timedelta64[us]",
            TimeUnit::Nanosecond => "timedelta64[ns]",
        }),
        _ => None,
    }
}

/// A column of a superbatch that Python sees as objects; they are made for the rows that a batch takes.
#[pyclass(name = "Objects", module = "shardmill._native.columns", frozen)]
#[derive(Debug)]
pub(crate) struct PyObjects {
    name: String,
    array: ArrayRef,
}

impl PyObjects {
    fn rows(&self, start: usize, stop: usize) -> PyResult<ArrayRef> {
        let length = stop.checked_sub(start).filter(|_| stop <= self.array.len());
        let length = length.ok_or_else(|| PyIndexError::new_err(format!("rows {start} to {stop} of {}", self.array.len())))?;
        Ok(self.array.slice(start, length))
    }
}

#[pymethods]
impl PyObjects {
    fn __len__(&self) -> usize {
        self.array.len()
    }

    fn to_list<'py>(&self, py: Python<'py>, start: usize, stop: usize) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, objects::objects(py, &self.name, &self.rows(start, stop)?)?)
    }

    fn to_array<'py>(&self, py: Python<'py>, start: usize, stop: usize) -> PyResult<Bound<'py, PyArray1<Py<PyAny>>>> {
        let objects = objects::objects(py, &self.name, &self.rows(start, stop)?)?;
        Ok(PyArray1::from_vec(py, objects.into_iter().map(Bound::unbind).collect()))
    }
}

/// Rows of columns, each a dict. A decoding is called with each value of its column that is not null.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
fn rows_of<'py>(
    py: Python<'py>,
    names: Vec<Bound<'py, PyString>>,
    parts: Vec<PyRef<'py, PyObjects>>,
    decodings: Vec<Option<Bound<'py, PyAny>>>,
    start: usize,
    stop: usize,
) -> PyResult<Bound<'py, PyList>> {
    let mut columns = Vec::with_capacity(parts.len());
    for (part, decoding) in parts.iter().zip(decodings) {
        let mut values = objects::objects(py, &part.name, &part.rows(start, stop)?)?;
        if let Some(decoding) = decoding {
            for value in values.iter_mut().filter(|value| !value.is_none()) {
                *value = decoding.call1((&*value,))?;
            }
        }
        columns.push(values.into_iter());
    }
    let rows = PyList::empty(py);
    for _ in start..stop {
        let row = PyDict::new(py);
        for (name, values) in names.iter().zip(&mut columns) {
            row.set_item(name, values.next())?;
        }
        rows.append(row)?;
    }
    Ok(rows)
}

/// One value of a column.
pub(crate) fn value_at<'py>(py: Python<'py>, name: &str, array: &ArrayRef, row: usize) -> PyResult<Bound<'py, PyAny>> {
    let values = objects::objects(py, name, &array.slice(row, 1))?;
    values.into_iter().next().ok_or_else(|| PyIndexError::new_err("no such row"))
}

/// For tests and for direct use; the loader calls the same Rust code on its own threads.
#[pyclass(name = "Converter", module = "shardmill._native.columns", frozen)]
#[derive(Debug)]
struct PyConverter(Converter);

#[pymethods]
impl PyConverter {
    #[new]
    #[pyo3(signature = (schema, kind, nulls, fill_values))]
    fn new(schema: PySchema, kind: &str, nulls: &str, fill_values: &Bound<'_, PyDict>) -> PyResult<Self> {
        let schema = schema.into_inner();
        let converter = Converter::new(&schema, self::kind(kind)?, self::nulls(nulls)?, &self::fill_values(fill_values)?);
        Ok(Self(converter.map_err(PyShardmillError::from)?))
    }

    #[getter]
    fn names(&self) -> Vec<&str> {
        self.0.outputs().iter().map(|output| output.name.as_str()).collect()
    }

    #[getter]
    fn wide_unsigned(&self) -> Option<&str> {
        self.0.wide_unsigned()
    }

    fn convert<'py>(&self, py: Python<'py>, batch: PyRecordBatch) -> PyResult<Bound<'py, PyList>> {
        let batch = batch.into_inner();
        let superbatch: PyShardmillResult<Superbatch> = py.detach(|| Ok(self.0.convert(batch)?));
        superbatch_to_python(py, &self.0, superbatch?)
    }
}

/// As `to_pylist` of pyarrow.
#[pyfunction]
fn to_pylist<'py>(py: Python<'py>, array: PyArray) -> PyResult<Bound<'py, PyList>> {
    let (array, field) = array.into_inner();
    let schema = Schema::new(vec![field]);
    // Its checks are needed here too.
    Converter::new(&schema, Kind::Dict, Nulls::Error, &BTreeMap::new()).map_err(PyShardmillError::from)?;
    PyList::new(py, objects::objects(py, schema.field(0).name(), &array)?)
}

pub(crate) fn kind(name: &str) -> PyShardmillResult<Kind> {
    match name {
        "torch" => Ok(Kind::Torch),
        "numpy" => Ok(Kind::Numpy),
        "dict" => Ok(Kind::Dict),
        _ => Err(PyShardmillError::option(&format!("`output` is \"torch\", \"numpy\", \"arrow\" or \"dict\", not {name:?}"))),
    }
}

pub(crate) fn nulls(name: &str) -> PyShardmillResult<Nulls> {
    match name {
        "error" => Ok(Nulls::Error),
        "fill" => Ok(Nulls::Fill),
        "mask" => Ok(Nulls::Mask),
        _ => Err(PyShardmillError::option(&format!("`nulls` is \"error\", \"fill\" or \"mask\", not {name:?}"))),
    }
}

/// Booleans, integers, floats, and dates and times as ISO 8601 texts.
pub(crate) fn fill_values(values: &Bound<'_, PyDict>) -> PyResult<BTreeMap<String, FillValue>> {
    let mut filled = BTreeMap::new();
    for (name, value) in values {
        let name: String = name.extract()?;
        let value = if let Ok(value) = value.cast::<PyBool>() {
            FillValue::Boolean(value.is_true())
        } else if let Ok(value) = value.cast::<PyInt>() {
            // Larger ones fit no column.
            FillValue::Integer(value.extract().unwrap_or(i128::MAX))
        } else if let Ok(value) = value.cast::<PyFloat>() {
            FillValue::Float(value.extract()?)
        } else if let Ok(value) = value.cast::<PyString>() {
            FillValue::Text(value.extract()?)
        } else {
            let message = format!("`fill_values` of column `{name}` is a {}; it takes numbers, booleans, dates and times", value.get_type().name()?);
            return Err(PyShardmillError::option(&message).into());
        };
        filled.insert(name, value);
    }
    Ok(filled)
}

pub(crate) fn init(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = crate::submodule(parent, "columns")?;
    module.add_class::<PyConverter>()?;
    module.add_class::<PyObjects>()?;
    module.add_function(wrap_pyfunction!(rows_of, &module)?)?;
    module.add_function(wrap_pyfunction!(to_pylist, &module)?)
}
