//! One iteration, superbatch by superbatch.

use crate::columns::{TensorMemory, superbatch_to_python};
use crate::error::PyShardmillError;
use crate::interrupt::{SIGNAL_POLL, listening};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};
use pyo3_arrow::PyRecordBatch;
use shardmill_engine::{Poll, STOP_PATIENCE};
use shardmill_load::pass::{MetricsReport, Progress};
use shardmill_load::{Audit, Delivery, Error, OutputConverter, Pass, Superbatch};
use shardmill_plan::packing::CostTerms;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

/// One iteration of one rank.
#[pyclass(name = "Pass", module = "shardmill._native.load", frozen)]
pub(crate) struct PyPass {
    pub(super) pass: Mutex<Pass<Delivery>>,
    /// Read without waiting for a call that polls.
    pub(super) progress: Progress,
    pub(super) converter: Arc<OutputConverter>,
    pub(super) memory: Option<Arc<TensorMemory>>,
    pub(super) process: u32,
}

/// Content, and for each batch: rows, rows of the epoch that are delivered with it. Then the bad
/// rows: number of the batch, path, row, cause. Then the audit of each batch, and the terms of its
/// cost.
type PySlab = (
    Py<PyAny>,
    Vec<usize>,
    Vec<u64>,
    Vec<(usize, String, u64, String)>,
    Vec<PyAudit>,
    Vec<PyTerms>,
);

/// In the order of the options of a cost.
type PyTerms = (u64, u64, u64, u64, u64, u64);

/// Rows, set, sequence.
pub(crate) type PyAudit = (u64, u128, u128);

pub(crate) fn sums(audit: &Audit) -> PyAudit {
    (audit.rows, audit.set, audit.sequence)
}

#[pymethods]
impl PyPass {
    /// The next superbatch, or `None` at the end. While waiting, `on_stall` is called after
    /// `stall_seconds`, and again each time the waiting time has doubled.
    fn next_superbatch(
        &self,
        py: Python<'_>,
        stall_seconds: f64,
        on_stall: &Bound<'_, PyAny>,
    ) -> PyResult<Option<PySlab>> {
        let (begun, mut stall) = (Instant::now(), stall_seconds);
        if self.process != std::process::id() {
            return Err(PyRuntimeError::new_err(
                "this iteration was begun before a fork; its threads are not in this process: \
                 start a new iteration",
            ));
        }
        loop {
            // Without threads, rows are read in this call.
            let polled = listening(py, || {
                self.pass.lock().unwrap_or_else(PoisonError::into_inner).poll(SIGNAL_POLL)
            })?;
            // Before the result is converted: making arrays runs Python code, which a pending
            // signal would interrupt.
            py.check_signals()?;
            match polled {
                Poll::Finished => return Ok(None),
                Poll::Ready(result) => {
                    let superbatch = result
                        .map_err(Error::from)
                        .and_then(|superbatch| superbatch)
                        .map_err(PyShardmillError::from)?;
                    return self.to_python(py, superbatch).map(Some);
                }
                Poll::Pending => {}
            }
            if begun.elapsed().as_secs_f64() >= stall {
                on_stall.call1((begun.elapsed().as_secs_f64(), self.activities(py)?))?;
                stall *= 2.0;
            }
        }
    }

    /// Stops the threads. Undelivered rows are dropped.
    fn stop(&self, py: Python<'_>) {
        if self.process == std::process::id() {
            py.detach(|| {
                self.pass.lock().unwrap_or_else(PoisonError::into_inner).stop(STOP_PATIENCE)
            });
        }
    }

    fn metrics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let MetricsReport {
            stages,
            wait_seconds,
            without_room_seconds,
            blocks_decoded,
            superbatches,
            superbatches_ready,
            superbatches_ahead,
            bytes_ahead,
            bytes_limit,
            tokens,
            text_bytes,
            rows_without_labels,
            special_in_text,
            images_left_out,
            images_decoded,
        } = py.detach(|| self.progress.report());
        let report = PyDict::new(py);
        stages
            .into_iter()
            .try_for_each(|(stage, seconds)| report.set_item(stage.name(), seconds))?;
        report.set_item("wait_seconds", wait_seconds)?;
        report.set_item("without_room_seconds", without_room_seconds)?;
        let counts = [
            ("blocks_decoded", blocks_decoded),
            ("superbatches", superbatches),
            ("superbatches_ready", superbatches_ready),
            ("superbatches_ahead", superbatches_ahead as u64),
            ("bytes_ahead", bytes_ahead),
            ("bytes_limit", bytes_limit),
            ("tokens", tokens),
            ("text_bytes", text_bytes),
            ("rows_without_labels", rows_without_labels),
            ("special_in_text", special_in_text),
            ("images_left_out", images_left_out),
            ("images_decoded", images_decoded),
        ];
        counts.into_iter().try_for_each(|(name, count)| report.set_item(name, count))?;
        Ok(report)
    }
}

impl PyPass {
    fn to_python(&self, py: Python<'_>, superbatch: Superbatch<Delivery>) -> PyResult<PySlab> {
        let content = match (superbatch.content, self.converter.converter()) {
            (Delivery::Rows(pieces), _) => {
                PyList::new(py, pieces.into_iter().map(PyRecordBatch::new))?.into_any().unbind()
            }
            (Delivery::Columns(columns), Some(converter)) => {
                superbatch_to_python(py, converter, columns, self.memory.as_deref())?
                    .into_any()
                    .unbind()
            }
            (Delivery::Columns(_), None) => {
                return Err(PyRuntimeError::new_err("columns without a converter"));
            }
        };
        let rows = superbatch.batches.iter().map(|batch| batch.rows).collect();
        let bad_rows = superbatch
            .bad_rows
            .into_iter()
            .map(|(batch, bad)| (batch, bad.path, bad.row, bad.cause.to_string()))
            .collect();
        let audits = superbatch.audits.iter().map(sums).collect();
        Ok((
            content,
            rows,
            superbatch.batches.iter().map(|batch| batch.consumed).collect(),
            bad_rows,
            audits,
            superbatch
                .terms
                .iter()
                .map(|terms| {
                    let CostTerms { token, pair, window_pair, patch, patch_pair, image } = *terms;
                    (token, pair, window_pair, patch, patch_pair, image)
                })
                .collect(),
        ))
    }

    /// (stage, seconds, path, block) of current activities of the threads; path and block only
    /// while one is decoded.
    fn activities<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let activities = py.detach(|| self.progress.activities());
        let each = activities.into_iter().map(|activity| {
            let (path, block) = activity.block.unzip();
            (activity.stage, activity.duration.as_secs_f64(), path, block).into_pyobject(py)
        });
        each.collect()
    }
}
