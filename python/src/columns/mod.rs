//! `shardmill._native.columns`: moves superbatches of plain buffers to NumPy arrays; objects are
//! created when a batch needs them.

mod form;
mod memory;
mod object_column;
mod objects;
mod temporal;

pub(crate) use form::{OutputForm, fill_values, kind};
pub(crate) use memory::{PyTensorMemory, TensorMemory};

use crate::arrow_data::{ArrowArray, ArrowBatch};
use crate::error::{PyShardmillError, PyShardmillResult};
use arrow_array::ArrayRef;
use arrow_schema::{DataType, Schema, TimeUnit};
use half::vec::HalfFloatVecExt;
use numpy::PyArray1;
use object_column::PyObjects;
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::{PyIndexError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString};
use pyo3_arrow::PySchema;
use shardmill_load::columns::{
    Column, ColumnOptions, Converter, Form, Kind, Nulls, Numbers, Output, Superbatch,
};

/// Converts a superbatch for `shardmill.load._columns.split`, in the order
/// of [`Converter::outputs`]. Nothing is copied. A part is an array, [`PyObjects`],
/// or a tuple that begins with what it is: `("padded", values, shapes)`,
/// `("ragged", values, offsets, mask or None)`, `("struct", names, parts)` or `("each", values)`.
/// Columns in `memory` are tensors.
pub(crate) fn superbatch_to_python<'py>(
    py: Python<'py>,
    converter: &Converter,
    superbatch: Superbatch,
    memory: Option<&TensorMemory>,
) -> PyResult<Bound<'py, PyList>> {
    let target = Target { is_numpy: converter.kind() == Kind::Numpy, memory };
    parts_of(py, converter.outputs(), superbatch.columns, superbatch.rows, target)
}

/// How the columns of a superbatch are converted.
#[derive(Clone, Copy)]
struct Target<'a> {
    is_numpy: bool,
    memory: Option<&'a TensorMemory>,
}

fn parts_of<'py>(
    py: Python<'py>,
    outputs: &[Output],
    columns: Vec<Column>,
    rows: usize,
    target: Target<'_>,
) -> PyResult<Bound<'py, PyList>> {
    let parts = PyList::empty(py);
    for (output, column) in outputs.iter().zip(columns) {
        parts.append(part_of(py, output, &output.form, column, (rows, target))?)?;
    }
    Ok(parts)
}

fn part_of<'py>(
    py: Python<'py>,
    output: &Output,
    form: &Form,
    column: Column,
    (rows, target): (usize, Target<'_>),
) -> PyResult<Bound<'py, PyAny>> {
    let dtype = |element: &DataType| target.is_numpy.then(|| numpy_dtype(element)).flatten();
    match (column, form) {
        (Column::Lent(values), Form::Values { element, shape }) => {
            let memory = target
                .memory
                .ok_or_else(|| PyTypeError::new_err("columns in memory that was not lent"))?;
            let shape: Vec<usize> = std::iter::once(rows).chain(shape.iter().copied()).collect();
            memory.tensor(py, &values, element)?.call_method1("reshape", (shape,))
        }
        (Column::Values(numbers), Form::Values { element, shape }) => {
            let array = to_array(py, numbers, dtype(element))?;
            if shape.is_empty() {
                return Ok(array);
            }
            let shape: Vec<usize> = std::iter::once(rows).chain(shape.iter().copied()).collect();
            array.call_method1("reshape", (shape,))
        }
        (Column::Padded { values, shapes }, Form::Padded { element }) => {
            ("padded", to_array(py, values, dtype(element))?, shapes).into_bound_py_any(py)
        }
        (Column::Ragged { values, offsets, valid }, Form::Ragged { values: form, .. }) => {
            let items =
                offsets.last().and_then(|last| usize::try_from(*last).ok()).unwrap_or_default();
            let values = part_of(py, output, form, *values, (items, target))?;
            let valid = valid.map(|valid| PyArray1::from_vec(py, valid));
            ("ragged", values, PyArray1::from_vec(py, offsets), valid).into_bound_py_any(py)
        }
        (Column::Struct(columns), Form::Struct(outputs)) => {
            let names: Vec<&str> = outputs.iter().map(|output| output.name.as_str()).collect();
            ("struct", names, parts_of(py, outputs, columns, rows, target)?).into_bound_py_any(py)
        }
        (Column::Each(numbers), Form::Each(_)) => {
            ("each", to_array(py, numbers, None)?).into_bound_py_any(py)
        }
        (Column::Objects(array), form) => {
            Bound::new(py, PyObjects::new(&output.name, array, form)).map(Bound::into_any)
        }
        _ => Err(PyTypeError::new_err(format!(
            "Column `{}` does not have the form of its batches",
            output.name
        ))),
    }
}

fn to_array<'py>(
    py: Python<'py>,
    numbers: Numbers,
    dtype: Option<&str>,
) -> PyResult<Bound<'py, PyAny>> {
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
        Numbers::Float16(values) => {
            PyArray1::from_vec(py, values.reinterpret_into()).call_method1("view", ("float16",))?
        }
        Numbers::Float32(values) => PyArray1::from_vec(py, values).into_any(),
        Numbers::Float64(values) => PyArray1::from_vec(py, values).into_any(),
    };
    match dtype {
        Some(dtype) => array.call_method1("view", (dtype,)),
        None => Ok(array),
    }
}

/// NumPy's name for the unit of a date or time. A time of day is the time since midnight.
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
        DataType::Time32(unit) | DataType::Time64(unit) | DataType::Duration(unit) => {
            Some(match unit {
                TimeUnit::Second => "timedelta64[s]",
                TimeUnit::Millisecond => "timedelta64[ms]",
                TimeUnit::Microsecond => "timedelta64[us]",
                TimeUnit::Nanosecond => "timedelta64[ns]",
            })
        }
        _ => None,
    }
}

/// Rows of columns as dicts. A decoding is called with each non-null value of its column.
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
        let mut values = part.objects(py, start, stop)?;
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
pub(crate) fn value_at<'py>(
    py: Python<'py>,
    name: &str,
    array: &ArrayRef,
    row: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let values = objects::objects(py, name, &array.slice(row, 1))?;
    values.into_iter().next().ok_or_else(|| PyIndexError::new_err("no such row"))
}

/// For tests and direct use; the loader calls the same Rust code on its own threads.
#[pyclass(name = "Converter", module = "shardmill._native.columns", frozen)]
#[derive(Debug)]
struct PyConverter(Converter);

#[pymethods]
impl PyConverter {
    #[new]
    fn new(schema: PySchema, form: OutputForm<'_>) -> PyResult<Self> {
        let converter = Converter::new(&schema.into_inner(), &form.column_options()?);
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

    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn convert<'py>(
        &self,
        py: Python<'py>,
        batch: ArrowBatch,
        sizes: Vec<usize>,
    ) -> PyResult<Bound<'py, PyList>> {
        let ArrowBatch(batch) = batch;
        let superbatch: PyShardmillResult<Superbatch> =
            py.detach(|| Ok(self.0.convert(batch, &sizes)?));
        superbatch_to_python(py, &self.0, superbatch?, None)
    }
}

/// As pyarrow's `to_pylist`.
#[pyfunction]
fn to_pylist<'py>(py: Python<'py>, array: ArrowArray) -> PyResult<Bound<'py, PyList>> {
    let ArrowArray { array, field } = array;
    let schema = Schema::new(vec![field]);
    // Runs its checks.
    Converter::new(&schema, &ColumnOptions::new(Kind::Dict, Nulls::Error))
        .map_err(PyShardmillError::from)?;
    PyList::new(py, objects::objects(py, schema.field(0).name(), &array)?)
}

pub(crate) fn init(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = crate::submodule(parent, "columns")?;
    module.add_class::<PyConverter>()?;
    module.add_class::<PyObjects>()?;
    module.add_function(wrap_pyfunction!(rows_of, &module)?)?;
    module.add_function(wrap_pyfunction!(to_pylist, &module)?)
}
