//! Several files, or ranges of them, with consecutive record numbers.

use super::indices::record_numbers;
use super::reader::{PyReader, record, records};
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList, PyTuple};
use shardmill_load::arrayrecord::Reader;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A range of one file. Python opens the file when one of its records is first needed.
struct Part {
    start: u64,
    reader: OnceLock<Arc<Reader>>,
}

/// Base of the Python class, so that `source[key]` of an open file runs no Python code.
#[pyclass(name = "Source", module = "shardmill._native.arrayrecord", frozen, subclass)]
pub(super) struct PySource(Mutex<Arc<Parts>>);

#[derive(Default)]
struct Parts {
    parts: Vec<Part>,
    /// Number after the last record of each part.
    ends: Vec<u64>,
}

/// Part and index of a record key.
type Place = (usize, u64);
/// The records, or the parts whose files must be opened first.
type Found<'py> = (Option<Bound<'py, PyList>>, Vec<usize>);

#[pymethods]
impl PySource {
    #[new]
    #[pyo3(signature = (*_arguments, **_named))]
    fn new(_arguments: &Bound<'_, PyTuple>, _named: Option<&Bound<'_, PyDict>>) -> Self {
        Self(Mutex::default())
    }

    /// Resets the source, with no file open. `ranges` are the first record and the number of
    /// records of each part.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn _reset(&self, ranges: Vec<(u64, u64)>) {
        let ends = ranges.iter().scan(0u64, |end, (_, records)| {
            *end = end.saturating_add(*records);
            Some(*end)
        });
        let parts = ranges.iter().map(|(start, _)| Part { start: *start, reader: OnceLock::new() });
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) =
            Arc::new(Parts { ends: ends.collect(), parts: parts.collect() });
    }

    /// Makes the records of a part readable.
    fn _opened(&self, part: usize, reader: &PyReader) {
        if let Some(part) = self.parts().parts.get(part) {
            let _opened_by_another_thread = part.reader.set(Arc::clone(&reader.0));
        }
    }

    /// The part of a record, and its number in the file; `None` if the record does not exist.
    fn _locate(&self, key: &Bound<'_, PyAny>) -> PyResult<Option<Place>> {
        Ok(key_of(key)?.and_then(|key| self.parts().place_of(key)))
    }

    fn __getitem__<'py>(
        slf: &Bound<'py, Self>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match slf.get()._record(slf.py(), key)? {
            Some(record) => Ok(record.into_any()),
            None => slf.call_method1("_open_and_read", (key,)),
        }
    }

    /// The record, or `None` if it does not exist or its file is not open.
    fn _record<'py>(
        &self,
        py: Python<'py>,
        key: &Bound<'py, PyAny>,
    ) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let parts = self.parts();
        let Some((part, place)) = key_of(key)?.and_then(|key| parts.place_of(key)) else {
            return Ok(None);
        };
        match parts.parts.get(part).and_then(|part| part.reader.get()) {
            Some(reader) => record(py, reader, place).map(Some),
            None => Ok(None),
        }
    }

    /// The records, or the numbers of the parts that must be opened first. `None` if one of the
    /// records does not exist.
    fn _records<'py>(
        &self,
        py: Python<'py>,
        keys: &Bound<'py, PyAny>,
        threads: usize,
    ) -> PyResult<Option<Found<'py>>> {
        let parts = self.parts();
        let keys = record_numbers(keys)?;
        let mut by_part: Vec<Vec<(usize, u64)>> = vec![Vec::new(); parts.parts.len()];
        for (slot, key) in keys.iter().enumerate() {
            let Some((part, place)) = parts.place_of(*key) else { return Ok(None) };
            if let Some(of_part) = by_part.get_mut(part) {
                of_part.push((slot, place));
            }
        }
        let wanted = || {
            parts
                .parts
                .iter()
                .zip(&by_part)
                .enumerate()
                .filter(|(_, (_, of_part))| !of_part.is_empty())
        };
        let closed: Vec<usize> = wanted()
            .filter(|(_, (part, _))| part.reader.get().is_none())
            .map(|(number, _)| number)
            .collect();
        if !closed.is_empty() {
            return Ok(Some((None, closed)));
        }
        let mut whole: Option<Bound<'py, PyList>> = None;
        for (_, (part, of_part)) in wanted() {
            let Some(reader) = part.reader.get() else { continue };
            let read = records(py, reader, of_part.iter().map(|(_, place)| *place), threads)?;
            if of_part.len() == keys.len() {
                return Ok(Some((Some(read), Vec::new())));
            }
            let list = match &whole {
                Some(list) => list,
                None => whole.insert(PyList::new(py, (0..keys.len()).map(|_| py.None()))?),
            };
            for ((slot, _), record) in of_part.iter().zip(read.iter()) {
                list.set_item(*slot, record)?;
            }
        }
        Ok(Some((Some(whole.unwrap_or_else(|| PyList::empty(py))), Vec::new())))
    }
}

impl PySource {
    fn parts(&self) -> Arc<Parts> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Parts {
    fn place_of(&self, key: u64) -> Option<Place> {
        let part = self.ends.partition_point(|end| *end <= key);
        let before =
            part.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        Some((part, self.parts.get(part)?.start.checked_add(key - before)?))
    }
}

/// `None` for an integer that is negative or too large.
fn key_of(key: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    match key.extract::<u64>() {
        Ok(key) => Ok(Some(key)),
        Err(error) if error.is_instance_of::<PyOverflowError>(key.py()) => Ok(None),
        Err(_no_number) => Err(PyTypeError::new_err(format!(
            "a record key is a whole number, not {}",
            key.repr()?
        ))),
    }
}
