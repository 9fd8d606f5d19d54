//! Finds the types of plain Python values. They are those of pyarrow, whose import takes longer
//! than writing thousands of rows.

use super::columns::whole;
use arrow_schema::{DataType, Field};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyList, PyString};
use shardmill_plan::schema::widened;

/// Deeper values are not plain; a list may contain itself.
const MAX_DEPTH: usize = 8;

/// The type of `known` values and one more; `None` if there is none, or the value is not plain.
pub(super) fn with_value(known: &DataType, value: &Bound<'_, PyAny>) -> Option<DataType> {
    widened(known, &of_value(value, MAX_DEPTH)?)
}

/// The name of a column or a field; `None` if Arrow cannot pass it on.
pub(super) fn name_of(name: &Bound<'_, PyAny>) -> Option<String> {
    name.cast_exact::<PyString>()
        .ok()?
        .to_str()
        .ok()
        .filter(|name| !name.contains('\0'))
        .map(str::to_owned)
}

fn of_value(value: &Bound<'_, PyAny>, depth: usize) -> Option<DataType> {
    Some(if value.is_none() {
        DataType::Null
    } else if value.is_exact_instance_of::<PyString>() {
        DataType::Utf8
    } else if value.is_exact_instance_of::<PyBytes>() {
        DataType::Binary
    } else if value.is_exact_instance_of::<PyBool>() {
        DataType::Boolean
    } else if value.is_exact_instance_of::<PyFloat>() {
        DataType::Float64
    } else if whole(value).is_some() {
        DataType::Int64
    } else if let Ok(list) = value.cast_exact::<PyList>() {
        let depth = depth.checked_sub(1)?;
        let item = list
            .iter()
            .try_fold(DataType::Null, |known, item| widened(&known, &of_value(&item, depth)?))?;
        DataType::new_list(item, true)
    } else {
        let depth = depth.checked_sub(1)?;
        let fields = value.cast_exact::<PyDict>().ok()?.iter();
        let field =
            |(name, value)| Some(Field::new(name_of(&name)?, of_value(&value, depth)?, true));
        DataType::Struct(fields.map(field).collect::<Option<_>>()?)
    })
}
