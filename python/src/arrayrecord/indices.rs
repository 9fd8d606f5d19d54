//! Converts record numbers from Python.

use numpy::{PyReadonlyArray1, PyUntypedArray};
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PySequence, PyString};

/// The numbers in a list, tuple, range, NumPy array or other sequence of non-negative integers.
pub(super) fn record_numbers(numbers: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
    if let Ok(list) = numbers.cast::<PyList>() {
        return list.iter().map(|number| record_number(&number)).collect();
    }
    if numbers.cast::<PyUntypedArray>().is_ok() {
        if let Ok(array) = numbers.extract::<PyReadonlyArray1<'_, i64>>() {
            return array
                .as_array()
                .iter()
                .map(|number| {
                    u64::try_from(*number).map_err(|_negative| refused(&number.to_string()))
                })
                .collect();
        }
        if let Ok(array) = numbers.extract::<PyReadonlyArray1<'_, u64>>() {
            return Ok(array.as_array().to_vec());
        }
        return numbers.try_iter()?.map(|number| record_number(&number?)).collect();
    }
    let is_text = numbers.is_instance_of::<PyString>() || numbers.is_instance_of::<PyBytes>();
    if is_text || numbers.cast::<PySequence>().is_err() {
        return Err(PyTypeError::new_err(format!(
            "records are named by a sequence of whole numbers, not by {}",
            numbers.get_type().name()?
        )));
    }
    numbers.try_iter()?.map(|number| record_number(&number?)).collect()
}

/// Converts any object with `__index__`.
pub(super) fn record_number(number: &Bound<'_, PyAny>) -> PyResult<u64> {
    number.extract::<u64>().or_else(|error| {
        // NumPy's booleans have no `__index__`; Python's have one.
        if let Ok(truth) = number.extract::<bool>() {
            return Ok(u64::from(truth));
        }
        Err(if error.is_instance_of::<PyOverflowError>(number.py()) {
            refused(&number.to_string())
        } else {
            PyTypeError::new_err(format!("a record is named by a whole number, not by {number}"))
        })
    })
}

fn refused(number: &str) -> PyErr {
    PyTypeError::new_err(format!("the number of a record is from 0 to 2**64 - 1, not {number}"))
}

/// # Errors
/// As [`record_numbers`].
#[pyfunction]
pub(super) fn check_record_numbers(numbers: &Bound<'_, PyAny>) -> PyResult<()> {
    record_numbers(numbers).map(drop)
}
