//! The approximate size of Python objects in memory.
//!
//! What waits to be converted or sent is bounded by bytes, so the weight of a value costs much less
//! than its conversion: of a long list, some items are weighed.

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{
    PyByteArray, PyBytes, PyDate, PyDelta, PyDict, PyFloat, PyInt, PyList, PyString, PyTime,
    PyTuple,
};

/// An object itself, without its content.
const OBJECT_BYTES: usize = 64;
const NUMBER_BYTES: usize = 8;
/// Number of items of a list that are weighed, evenly spaced.
const WEIGHED_ITEMS: usize = 32;
/// The content of deeper containers does not count; a list may contain itself.
const MAX_DEPTH: usize = 6;

/// Approximate size of a value. May run Python code, namely the property `nbytes` of its class.
pub(super) fn weight(value: &Bound<'_, PyAny>) -> usize {
    weight_at(value, MAX_DEPTH)
}

fn weight_at(value: &Bound<'_, PyAny>, depth: usize) -> usize {
    if value.is_none() || value.is_instance_of::<PyInt>() || value.is_instance_of::<PyFloat>() {
        return NUMBER_BYTES;
    }
    OBJECT_BYTES.saturating_add(content(value, depth))
}

fn content(value: &Bound<'_, PyAny>, depth: usize) -> usize {
    let Some(depth) = depth.checked_sub(1) else { return 0 };
    if let Ok(bytes) = value.cast::<PyBytes>() {
        return bytes.as_bytes().len();
    }
    if value.is_instance_of::<PyString>() || value.is_instance_of::<PyByteArray>() {
        return value.len().unwrap_or_default();
    }
    if let Ok(list) = value.cast::<PyList>() {
        return items(list, depth);
    }
    if let Ok(tuple) = value.cast::<PyTuple>() {
        return estimated(tuple.len(), |index| {
            tuple.get_item(index).map_or(0, |item| weight_at(&item, depth))
        });
    }
    if let Ok(dict) = value.cast::<PyDict>() {
        // Keys are mostly the names of fields, which rows share.
        return items(&dict.values(), depth).saturating_add(dict.len() * NUMBER_BYTES);
    }
    // The common scalars: the look-ups below would take longer than their conversion.
    if value.is_instance_of::<PyDate>()
        || value.is_instance_of::<PyTime>()
        || value.is_instance_of::<PyDelta>()
    {
        return 0;
    }
    // NumPy, torch, pandas and Arrow; views of memory.
    if let Some(bytes) =
        attribute(value, intern!(value.py(), "nbytes")).and_then(|bytes| bytes.extract().ok())
    {
        return bytes;
    }
    let len =
        attribute(value, intern!(value.py(), "__len__")).and_then(|_has_len| value.len().ok());
    len.map_or(0, |len| len.saturating_mul(NUMBER_BYTES))
}

/// An attribute, by the function of Python: the stable ABI of 3.11 has no look-up without the cost
/// of an exception if it is missing.
fn attribute<'py>(
    value: &Bound<'py, PyAny>,
    name: &Bound<'py, PyString>,
) -> Option<Bound<'py, PyAny>> {
    static GETATTR: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = value.py();
    let getattr = GETATTR.import(py, "builtins", "getattr").ok()?;
    getattr.call1((value, name, py.None())).ok().filter(|found| !found.is_none())
}

fn items(list: &Bound<'_, PyList>, depth: usize) -> usize {
    estimated(list.len(), |index| list.get_item(index).map_or(0, |item| weight_at(&item, depth)))
}

/// The weight of `len` items, from that of some of them.
fn estimated(len: usize, weight: impl Fn(usize) -> usize) -> usize {
    let step = len.div_ceil(WEIGHED_ITEMS).max(1);
    let weighed = len.div_ceil(step).max(1);
    let sum = (0..len).step_by(step).map(weight).fold(0, usize::saturating_add);
    sum.saturating_mul(len) / weighed
}
