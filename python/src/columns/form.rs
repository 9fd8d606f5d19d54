//! The options that decide about the form of columns, as Python gives them.

use crate::error::{PyShardmillError, PyShardmillResult};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict, PyFloat, PyInt, PyString};
use shardmill_load::columns::{ColumnOptions, FillValue, Kind, Nulls, Pad, Side};
use std::collections::BTreeMap;

/// A dict of options.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct OutputForm<'py> {
    pub(crate) kind: String,
    nulls: String,
    fill_values: Bound<'py, PyDict>,
    pad: Option<PadForm<'py>>,
    list_lengths: BTreeMap<String, usize>,
}

#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct PadForm<'py> {
    length: Option<usize>,
    value: Bound<'py, PyAny>,
    values: Bound<'py, PyDict>,
    is_left: bool,
    columns: Option<Vec<String>>,
    multiple_of: usize,
    most: Option<usize>,
    has_lengths: bool,
}

impl OutputForm<'_> {
    pub(crate) fn column_options(self) -> PyResult<ColumnOptions> {
        Ok(ColumnOptions {
            kind: kind(&self.kind)?,
            nulls: nulls(&self.nulls)?,
            fill_values: fill_values(&self.fill_values)?,
            pad: self.pad.map(PadForm::pad).transpose()?.map(Box::new),
            list_lengths: self.list_lengths,
            lent: Vec::new(),
        })
    }
}

impl PadForm<'_> {
    fn pad(self) -> PyResult<Pad> {
        let side = if self.is_left { Side::Left } else { Side::Right };
        let value = value_of("pad_value", &self.value)?;
        Ok(Pad {
            length: self.length,
            value,
            values: values_by_column("pad_value", &self.values)?,
            side,
            columns: self.columns,
            multiple_of: self.multiple_of,
            most: self.most,
            has_lengths: self.has_lengths,
        })
    }
}

pub(crate) fn kind(name: &str) -> PyShardmillResult<Kind> {
    match name {
        "torch" => Ok(Kind::Torch),
        "numpy" => Ok(Kind::Numpy),
        "dict" => Ok(Kind::Dict),
        _ => Err(PyShardmillError::option(&format!(
            "`output` is \"torch\", \"numpy\", \"arrow\" or \"dict\", not {name:?}"
        ))),
    }
}

fn nulls(name: &str) -> PyShardmillResult<Nulls> {
    match name {
        "raise" => Ok(Nulls::Error),
        "fill" => Ok(Nulls::Fill),
        "mask" => Ok(Nulls::Mask),
        _ => Err(PyShardmillError::option(&format!(
            "`nulls` is \"raise\", \"fill\" or \"mask\", not {name:?}"
        ))),
    }
}

/// Booleans, integers, floats, and dates and times as ISO 8601 texts.
pub(crate) fn fill_values(values: &Bound<'_, PyDict>) -> PyResult<BTreeMap<String, FillValue>> {
    values_by_column("fill_values", values)
}

fn values_by_column(
    option: &str,
    values: &Bound<'_, PyDict>,
) -> PyResult<BTreeMap<String, FillValue>> {
    let mut by_column = BTreeMap::new();
    for (name, value) in values {
        let name: String = name.extract()?;
        let value = value_of(&format!("{option}` of column `{name}"), &value)?;
        by_column.insert(name, value);
    }
    Ok(by_column)
}

fn value_of(option: &str, value: &Bound<'_, PyAny>) -> PyResult<FillValue> {
    if let Ok(value) = value.cast::<PyBool>() {
        Ok(FillValue::Boolean(value.is_true()))
    } else if let Ok(value) = value.cast::<PyInt>() {
        // Larger integers fit no column.
        Ok(FillValue::Integer(value.extract().unwrap_or(i128::MAX)))
    } else if let Ok(value) = value.cast::<PyFloat>() {
        Ok(FillValue::Float(value.extract()?))
    } else if let Ok(value) = value.cast::<PyString>() {
        Ok(FillValue::Text(value.extract()?))
    } else {
        let message = format!(
            "`{option}` is a {}; it takes numbers, booleans, dates and times",
            value.get_type().name()?
        );
        Err(PyShardmillError::option(&message).into())
    }
}
