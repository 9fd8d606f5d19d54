//! An iterator over records in file order.

use crate::error::PyShardmillError;
use crate::interrupt::SIGNAL_POLL;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use shardmill_engine::Poll;
use shardmill_load::Error;
use shardmill_load::arrayrecord::{Gathered, Reader, Sequence};
use std::sync::{Arc, Mutex, PoisonError};

#[pyclass(name = "Records", module = "shardmill._native.arrayrecord", frozen)]
pub(super) struct PyRecords {
    reader: Arc<Reader>,
    threads: usize,
    state: Mutex<State>,
}

struct State {
    /// Number of the next record.
    next: u64,
    sequence: Option<Sequence>,
    /// A forked child does not have the threads of its parent.
    process: u32,
    segment: Gathered,
    place: usize,
}

impl PyRecords {
    pub(super) fn new(reader: Arc<Reader>, start: u64, threads: usize) -> Self {
        let state = State {
            next: start,
            sequence: None,
            process: std::process::id(),
            segment: Gathered::default(),
            place: 0,
        };
        Self { reader, threads, state: Mutex::new(state) }
    }
}

#[pymethods]
impl PyRecords {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyBytes>>> {
        loop {
            {
                let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some(record) = state.segment.records().get(state.place) {
                    let record = PyBytes::new(py, record);
                    state.place += 1;
                    state.next += 1;
                    return Ok(Some(record));
                }
            }
            if !py.detach(|| self.advance())? {
                return Ok(None);
            }
            py.check_signals()?;
        }
    }
}

impl PyRecords {
    /// Waits briefly for the next segment. False after the last.
    fn advance(&self) -> PyResult<bool> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.segment.records().get(state.place).is_some() {
            return Ok(true);
        }
        if state.process != std::process::id() {
            std::mem::forget(state.sequence.take());
            state.process = std::process::id();
        }
        if state.sequence.is_none() {
            state.sequence = Some(
                Sequence::new(&self.reader, state.next, self.threads)
                    .map_err(PyShardmillError::from)?,
            );
        }
        let Some(sequence) = &mut state.sequence else { return Ok(false) };
        match sequence.poll(SIGNAL_POLL) {
            Poll::Ready(result) => {
                let (segment, before) = result
                    .map_err(Error::from)
                    .and_then(|result| result)
                    .map_err(PyShardmillError::from)?;
                state.segment = segment;
                state.place = before;
                Ok(true)
            }
            Poll::Pending => Ok(true),
            Poll::Finished => Ok(false),
        }
    }
}
