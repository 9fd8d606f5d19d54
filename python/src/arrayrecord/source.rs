//! Several files, or ranges of them, numbered through.

use super::indices::record_numbers;
use super::reader::{PyReader, record, records};
use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use shardmill_load::arrayrecord::Reader;
use std::sync::{Arc, OnceLock};

/// A range of one file. The file is opened by Python when one of its records is first wanted.
struct Part {
    start: u64,
    reader: OnceLock<Arc<Reader>>,
}

#[pyclass(name = "Source", module = "shardmill._native.arrayrecord", frozen)]
pub(super) struct PySource {
    parts: Vec<Part>,
    /// Number behind the last record of each part.
    ends: Vec<u64>,
}

/// Part and place of a record key.
type Place = (usize, u64);

#[pymethods]
impl PySource {
    /// First record and number of records of each part.
    #[new]
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn new(ranges: Vec<(u64, u64)>) -> Self {
        let ends = ranges.iter().scan(0u64, |end, (_, records)| {
            *end = end.saturating_add(*records);
            Some(*end)
        });
        Self { ends: ends.collect(), parts: ranges.iter().map(|(start, _)| Part { start: *start, reader: OnceLock::new() }).collect() }
    }

    /// Lets the records of a part be read.
    fn opened(&self, part: usize, reader: &PyReader) {
        if let Some(part) = self.parts.get(part) {
            let _opened_by_another_thread = part.reader.set(Arc::clone(&reader.0));
        }
    }

    /// Part and number in its file of a record; `None` for a number that is none.
    fn locate(&self, key: &Bound<'_, PyAny>) -> PyResult<Option<Place>> {
        Ok(key_of(key)?.and_then(|key| self.place_of(key)))
    }

    /// The record, or `None` when there is no such record or its file is not open.
    fn record<'py>(&self, py: Python<'py>, key: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        let Some((part, place)) = key_of(key)?.and_then(|key| self.place_of(key)) else { return Ok(None) };
        match self.parts.get(part).and_then(|part| part.reader.get()) {
            Some(reader) => record(py, reader, place).map(Some),
            None => Ok(None),
        }
    }

    /// The records, or the numbers of the parts that have to be opened before. `None` when one of the keys is no record's.
    fn records<'py>(&self, py: Python<'py>, keys: &Bound<'py, PyAny>, threads: usize) -> PyResult<Option<(Option<Bound<'py, PyList>>, Vec<usize>)>> {
        let keys = record_numbers(keys)?;
        let Some(places) = keys.iter().map(|key| self.place_of(*key)).collect::<Option<Vec<Place>>>() else { return Ok(None) };
        let mut by_part: Vec<Vec<(usize, u64)>> = vec![Vec::new(); self.parts.len()];
        for (slot, (part, place)) in places.iter().enumerate() {
            if let Some(of_part) = by_part.get_mut(*part) {
                of_part.push((slot, *place));
            }
        }
        let is_closed = |part: &usize| self.parts.get(*part).is_some_and(|part| part.reader.get().is_none());
        let closed: Vec<usize> =
            (0..self.parts.len()).filter(|part| by_part.get(*part).is_some_and(|of_part| !of_part.is_empty()) && is_closed(part)).collect();
        if !closed.is_empty() {
            return Ok(Some((None, closed)));
        }
        let mut whole: Option<Bound<'py, PyList>> = None;
        for (of_part, part) in by_part.iter().zip(&self.parts) {
            let Some(reader) = part.reader.get().filter(|_| !of_part.is_empty()) else { continue };
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
        Ok(Some((Some(whole.map_or_else(|| Ok(PyList::empty(py)), Ok::<_, PyErr>)?), Vec::new())))
    }
}

impl PySource {
    fn place_of(&self, key: u64) -> Option<Place> {
        let part = self.ends.partition_point(|end| *end <= key);
        let before = part.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or(0);
        Some((part, self.parts.get(part)?.start.checked_add(key - before)?))
    }
}

/// `None` for a whole number that is negative or too large.
fn key_of(key: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
    match key.extract::<u64>() {
        Ok(key) => Ok(Some(key)),
        Err(error) if error.is_instance_of::<PyOverflowError>(key.py()) => Ok(None),
        Err(_no_number) => Err(PyTypeError::new_err(format!("a record key is a whole number, not {key}"))),
    }
}
