//! One file: records by number, batches, ranges, Arrow.

use super::indices::record_numbers;
use super::records::PyRecords;
use super::refused;
use crate::error::PyShardmillError;
use crate::interrupt::{SIGNAL_POLL, interruptible, listening};
use arrow_array::LargeBinaryArray;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};
use pyo3_arrow::PyArray;
use shardmill_engine::{Cancel, Poll};
use shardmill_formats::arrayrecord::{ReaderOptions, Verify};
use shardmill_load::Error;
use shardmill_load::arrayrecord::{Batch, Gathered, Reader, gather};
use std::sync::Arc;

/// A larger local read releases the interpreter, and so does every remote one.
const HELD_BYTES: u64 = 64 << 10;

#[pyclass(name = "Reader", module = "shardmill._native.arrayrecord", frozen)]
pub(super) struct PyReader(pub(super) Arc<Reader>);

#[pymethods]
impl PyReader {
    #[new]
    #[pyo3(signature = (path, *, options="", verify="full"))]
    fn new(py: Python<'_>, path: &str, options: &str, verify: &str) -> PyResult<Self> {
        let verify = match verify {
            "full" => Verify::Full,
            "header" => Verify::Header,
            "none" => Verify::None,
            other => {
                return Err(PyShardmillError::option(&format!(
                    "verify is 'full', 'header' or 'none', not {other:?}"
                ))
                .into());
            }
        };
        let tail =
            ReaderOptions::parse(options).map_err(|error| refused(&error))?.footer_prefetch_bytes;
        let reader =
            listening(py, || Reader::open(path, verify, tail))?.map_err(PyShardmillError::from)?;
        Ok(Self(Arc::new(reader)))
    }

    #[getter]
    fn num_records(&self) -> u64 {
        self.0.file().num_records()
    }

    #[getter]
    fn writer_options(&self) -> Option<&str> {
        self.0.file().writer_options()
    }

    fn record<'py>(&self, py: Python<'py>, index: u64) -> PyResult<Bound<'py, PyBytes>> {
        record(py, &self.0, index)
    }

    /// The records with these numbers, in this order.
    fn records<'py>(
        &self,
        py: Python<'py>,
        numbers: &Bound<'py, PyAny>,
        threads: usize,
    ) -> PyResult<Bound<'py, PyList>> {
        records(py, &self.0, record_numbers(numbers)?.into_iter(), threads)
    }

    /// The records from `start` up to `stop`, which the caller has validated.
    fn range<'py>(
        &self,
        py: Python<'py>,
        start: u64,
        stop: u64,
        threads: usize,
    ) -> PyResult<Bound<'py, PyList>> {
        records(py, &self.0, start..stop, threads)
    }

    /// As an Arrow array of large binaries; all records if no numbers are passed.
    #[pyo3(signature = (numbers, threads))]
    fn arrow(
        &self,
        py: Python<'_>,
        numbers: Option<&Bound<'_, PyAny>>,
        threads: usize,
    ) -> PyResult<PyArray> {
        let numbers = match numbers {
            Some(numbers) => record_numbers(numbers)?,
            None => (0..self.0.file().num_records()).collect(),
        };
        let reader = Arc::clone(&self.0);
        let array = interruptible(py, move |cancel| {
            gather(&reader, &numbers, threads, cancel).map_err(PyShardmillError::from)
        });
        let (offsets, values) = array?;
        let array = LargeBinaryArray::try_new(offsets, values, None)
            .map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        Ok(PyArray::from_array_ref(Arc::new(array)))
    }

    /// Offset and length of an uncompressed record that is contiguous in the file.
    fn plain_range(&self, py: Python<'_>, index: u64) -> PyResult<Option<(u64, u64)>> {
        let range = listening(py, || self.0.plain_range(index))?.map_err(PyShardmillError::from)?;
        Ok(range.map(|range| (range.start, range.end - range.start)))
    }

    /// Iterates over records in order, from one on.
    fn sequence(&self, start: u64, threads: usize) -> PyRecords {
        PyRecords::new(Arc::clone(&self.0), start, threads)
    }
}

pub(super) fn record<'py>(
    py: Python<'py>,
    reader: &Arc<Reader>,
    index: u64,
) -> PyResult<Bound<'py, PyBytes>> {
    let found = reader.find(index).map_err(PyShardmillError::from)?;
    if found.read_bytes() <= HELD_BYTES && !reader.is_remote() {
        return Ok(reader
            .read(&found, |record| PyBytes::new(py, record))
            .map_err(PyShardmillError::from)?);
    }
    let record =
        listening(py, || reader.read(&found, <[u8]>::to_vec))?.map_err(PyShardmillError::from)?;
    Ok(PyBytes::new(py, &record))
}

pub(super) fn records<'py>(
    py: Python<'py>,
    reader: &Arc<Reader>,
    numbers: impl Iterator<Item = u64> + Send,
    threads: usize,
) -> PyResult<Bound<'py, PyList>> {
    let batch =
        py.detach(|| Batch::new(reader, numbers, threads)).map_err(PyShardmillError::from)?;
    let mut records: Vec<Option<Bound<'py, PyBytes>>> = vec![None; batch.len()];
    let mut place = |job: usize, segment: &Gathered| {
        for (slot, record) in batch.slots(job).zip(segment.records().iter()) {
            if let Some(place) = records.get_mut(slot) {
                *place = Some(PyBytes::new(py, record));
            }
        }
    };
    if batch.is_small() || threads <= 1 {
        for job in 0..batch.jobs() {
            let segment =
                listening(py, || batch.decode(reader, job))?.map_err(PyShardmillError::from)?;
            place(job, &segment);
            py.check_signals()?;
        }
    } else {
        let mut run =
            batch.run(reader, threads, &Cancel::default()).map_err(PyShardmillError::from)?;
        let mut job = 0;
        loop {
            match py.detach(|| run.poll(SIGNAL_POLL)) {
                Poll::Ready(segment) => {
                    place(
                        job,
                        &segment
                            .map_err(Error::from)
                            .and_then(|segment| segment)
                            .map_err(PyShardmillError::from)?,
                    );
                    job += 1;
                }
                Poll::Finished => break,
                Poll::Pending => {}
            }
            py.check_signals()?;
        }
    }
    let lost = || PyRuntimeError::new_err("a record was not delivered");
    PyList::new(
        py,
        records.into_iter().map(|record| record.ok_or_else(lost)).collect::<PyResult<Vec<_>>>()?,
    )
}
