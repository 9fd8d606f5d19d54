//! Converts an Arrow array to Python objects, as pyarrow's `to_pylist` does.
//!
//! Works column by column, also inside of lists and structs: the type is matched once per array,
//! not per value.

use super::temporal::{ObjectError, Place, zone};
use crate::error::PyShardmillError;
use arrow_array::cast::AsArray;
use arrow_array::iterator::ArrayIter;
use arrow_array::types::{
    Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, DecimalType, Float16Type,
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayAccessor, ArrayRef, ArrowPrimitiveType, GenericListArray, OffsetSizeTrait,
};
use arrow_buffer::NullBuffer;
use arrow_cast::cast;
use arrow_schema::DataType;
use pyo3::IntoPyObjectExt;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyString};
use std::fmt::Display;

type Objects<'py> = Vec<Bound<'py, PyAny>>;

/// One object per row; None for a null.
pub(super) fn objects<'py>(
    py: Python<'py>,
    column: &str,
    array: &ArrayRef,
) -> PyResult<Objects<'py>> {
    match array.data_type() {
        DataType::Null => Ok(vec![py.None().into_bound(py); array.len()]),
        DataType::Boolean => each(py, array.as_boolean(), |value| value.into_bound_py_any(py)),
        DataType::Int8 => numbers::<Int8Type>(py, array),
        DataType::Int16 => numbers::<Int16Type>(py, array),
        DataType::Int32 => numbers::<Int32Type>(py, array),
        DataType::Int64 => numbers::<Int64Type>(py, array),
        DataType::UInt8 => numbers::<UInt8Type>(py, array),
        DataType::UInt16 => numbers::<UInt16Type>(py, array),
        DataType::UInt32 => numbers::<UInt32Type>(py, array),
        DataType::UInt64 => numbers::<UInt64Type>(py, array),
        DataType::Float16 => each(py, array.as_primitive::<Float16Type>(), |value| {
            value.to_f64().into_bound_py_any(py)
        }),
        DataType::Float32 => numbers::<Float32Type>(py, array),
        DataType::Float64 => numbers::<Float64Type>(py, array),
        DataType::Decimal32(_, scale) => decimals::<Decimal32Type>(py, array, *scale),
        DataType::Decimal64(_, scale) => decimals::<Decimal64Type>(py, array, *scale),
        DataType::Decimal128(_, scale) => decimals::<Decimal128Type>(py, array, *scale),
        DataType::Decimal256(_, scale) => decimals::<Decimal256Type>(py, array, *scale),
        DataType::Utf8 => {
            each(py, array.as_string::<i32>(), |text| Ok(PyString::new(py, text).into_any()))
        }
        DataType::LargeUtf8 => {
            each(py, array.as_string::<i64>(), |text| Ok(PyString::new(py, text).into_any()))
        }
        DataType::Utf8View => {
            each(py, array.as_string_view(), |text| Ok(PyString::new(py, text).into_any()))
        }
        DataType::Binary => {
            each(py, array.as_binary::<i32>(), |bytes| Ok(PyBytes::new(py, bytes).into_any()))
        }
        DataType::LargeBinary => {
            each(py, array.as_binary::<i64>(), |bytes| Ok(PyBytes::new(py, bytes).into_any()))
        }
        DataType::BinaryView => {
            each(py, array.as_binary_view(), |bytes| Ok(PyBytes::new(py, bytes).into_any()))
        }
        DataType::FixedSizeBinary(_) => {
            each(py, array.as_fixed_size_binary(), |bytes| Ok(PyBytes::new(py, bytes).into_any()))
        }
        DataType::Date32
        | DataType::Date64
        | DataType::Time32(_)
        | DataType::Time64(_)
        | DataType::Timestamp(..)
        | DataType::Duration(_) => temporals(py, column, array),
        DataType::List(_) => lists(py, column, array.as_list::<i32>()),
        DataType::LargeList(_) => lists(py, column, array.as_list::<i64>()),
        DataType::FixedSizeList(_, width) => {
            let list = array.as_fixed_size_list();
            let width = usize::try_from(*width).unwrap_or_default();
            let items = objects(py, column, list.values())?;
            rows(py, list.nulls(), list.len(), |row| {
                list_of(py, &items, row * width, row * width + width)
            })
        }
        DataType::Struct(fields) => {
            let list = array.as_struct();
            let names: Vec<_> =
                fields.iter().map(|field| PyString::new(py, field.name())).collect();
            let columns = list
                .columns()
                .iter()
                .map(|child| objects(py, column, child))
                .collect::<PyResult<Vec<_>>>()?;
            rows(py, list.nulls(), list.len(), |row| {
                let dict = PyDict::new(py);
                for (name, values) in names.iter().zip(&columns) {
                    dict.set_item(name, values.get(row))?;
                }
                Ok(dict.into_any())
            })
        }
        DataType::Map(..) => {
            let map = array.as_map();
            let (start, stop) = bounds(map.value_offsets());
            let keys = objects(py, column, &map.keys().slice(start, stop - start))?;
            let values = objects(py, column, &map.values().slice(start, stop - start))?;
            let pairs = keys
                .into_iter()
                .zip(values)
                .map(|pair| pair.into_bound_py_any(py))
                .collect::<PyResult<Objects<'py>>>()?;
            spans(py, map.nulls(), map.value_offsets(), &pairs)
        }
        DataType::Dictionary(_, value) => dictionary(py, column, array, value),
        other => Err(PyShardmillError::from(ObjectError::Unsupported {
            column: column.to_owned(),
            data_type: other.clone(),
        })
        .into()),
    }
}

fn each<'py, A: ArrayAccessor>(
    py: Python<'py>,
    array: A,
    object: impl Fn(A::Item) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Objects<'py>> {
    let mut objects = Vec::with_capacity(array.len());
    for item in ArrayIter::new(array) {
        objects.push(item.map_or_else(|| Ok(py.None().into_bound(py)), &object)?);
    }
    Ok(objects)
}

fn rows<'py>(
    py: Python<'py>,
    nulls: Option<&NullBuffer>,
    count: usize,
    object: impl Fn(usize) -> PyResult<Bound<'py, PyAny>>,
) -> PyResult<Objects<'py>> {
    let is_null = |row: usize| nulls.is_some_and(|nulls| nulls.is_null(row));
    (0..count)
        .map(|row| if is_null(row) { Ok(py.None().into_bound(py)) } else { object(row) })
        .collect()
}

fn numbers<'py, T>(py: Python<'py>, array: &ArrayRef) -> PyResult<Objects<'py>>
where
    T: ArrowPrimitiveType,
    T::Native: IntoPyObject<'py>,
{
    each(py, array.as_primitive::<T>(), |value| value.into_bound_py_any(py))
}

fn decimals<'py, T>(py: Python<'py>, array: &ArrayRef, scale: i8) -> PyResult<Objects<'py>>
where
    T: DecimalType,
    T::Native: Display,
{
    let decimal = py.import("decimal")?.getattr("Decimal")?;
    let exponent = -i32::from(scale);
    each(py, array.as_primitive::<T>(), |value| decimal.call1((format!("{value}E{exponent}"),)))
}

fn temporals<'py>(py: Python<'py>, column: &str, array: &ArrayRef) -> PyResult<Objects<'py>> {
    let counts = cast(array, &DataType::Int64).map_err(|source| arrow_error(column, source))?;
    let zone = match array.data_type() {
        DataType::Timestamp(_, Some(name)) => Some(zone(py, column, name)?),
        _ => None,
    };
    let mut objects = Vec::with_capacity(counts.len());
    for (row, count) in counts.as_primitive::<Int64Type>().iter().enumerate() {
        let Some(count) = count else {
            objects.push(py.None().into_bound(py));
            continue;
        };
        let place = Place { column, row, count };
        objects.push(match array.data_type() {
            DataType::Date64 => place.date(py, count.div_euclid(86_400_000))?,
            DataType::Time32(unit) | DataType::Time64(unit) => place.time(py, *unit)?,
            DataType::Timestamp(unit, _) => place.timestamp(py, *unit, zone.as_ref())?,
            DataType::Duration(unit) => place.duration(py, *unit)?,
            _ => place.date(py, count)?,
        });
    }
    Ok(objects)
}

fn lists<'py, O: OffsetSizeTrait>(
    py: Python<'py>,
    column: &str,
    list: &GenericListArray<O>,
) -> PyResult<Objects<'py>> {
    let (start, stop) = bounds(list.value_offsets());
    let items = objects(py, column, &list.values().slice(start, stop - start))?;
    spans(py, list.nulls(), list.value_offsets(), &items)
}

/// One list per row with the items between its offsets; the first of `items` is the one at the
/// first offset.
fn spans<'py, O: OffsetSizeTrait>(
    py: Python<'py>,
    nulls: Option<&NullBuffer>,
    offsets: &[O],
    items: &Objects<'py>,
) -> PyResult<Objects<'py>> {
    let (first, _) = bounds(offsets);
    let bound = |row: usize| offsets.get(row).map_or(0, |offset| offset.as_usize() - first);
    rows(py, nulls, offsets.len().saturating_sub(1), |row| {
        list_of(py, items, bound(row), bound(row + 1))
    })
}

fn bounds<O: OffsetSizeTrait>(offsets: &[O]) -> (usize, usize) {
    let start = offsets.first().map_or(0, |offset| offset.as_usize());
    (start, offsets.last().map_or(start, |offset| offset.as_usize()))
}

fn list_of<'py>(
    py: Python<'py>,
    items: &Objects<'py>,
    start: usize,
    stop: usize,
) -> PyResult<Bound<'py, PyAny>> {
    Ok(PyList::new(py, items.get(start..stop).unwrap_or_default())?.into_any())
}

/// Each value becomes one object shared by its rows, unless the dictionary
/// is mainly used by other rows.
fn dictionary<'py>(
    py: Python<'py>,
    column: &str,
    array: &ArrayRef,
    value: &DataType,
) -> PyResult<Objects<'py>> {
    let dictionary = array.as_any_dictionary();
    if dictionary.values().len() > array.len() {
        let decoded = cast(array, value).map_err(|source| arrow_error(column, source))?;
        return objects(py, column, &decoded);
    }
    let values = objects(py, column, dictionary.values())?;
    let keys =
        cast(dictionary.keys(), &DataType::UInt64).map_err(|source| arrow_error(column, source))?;
    let none = py.None().into_bound(py);
    each(py, keys.as_primitive::<UInt64Type>(), |key| {
        Ok(usize::try_from(key).ok().and_then(|key| values.get(key)).unwrap_or(&none).clone())
    })
}

pub(super) fn arrow_error(column: &str, source: arrow_schema::ArrowError) -> PyErr {
    PyShardmillError::from(ObjectError::Arrow { column: column.to_owned(), source }).into()
}
