//! `shardmill._native.load`

use crate::error::{PyShardmillError, PyShardmillResult};
use crate::interrupt::interruptible;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3_arrow::{PyRecordBatch, PySchema};
use shardmill_engine::{Cancel, Poll, STOP_PATIENCE};
use shardmill_load::pass::{BatchRows, MetricsReport};
use shardmill_load::{Dataset, DatasetOptions, Error, Format, Pass, PassOptions, RowSet, fingerprint};
use shardmill_plan::Expression;
use shardmill_plan::order::{Lanes, RowOrder, Steps, Tail};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long Ctrl-C may go unnoticed.
const SIGNAL_POLL: Duration = Duration::from_millis(50);

#[pyclass(name = "Dataset", module = "shardmill._native.load", frozen)]
struct PyDataset(Arc<Dataset>);

#[pymethods]
impl PyDataset {
    #[new]
    #[pyo3(signature = (paths, *, format=None, skip_bad_files=false, threads=1))]
    fn new(py: Python<'_>, paths: Vec<String>, format: Option<&str>, skip_bad_files: bool, threads: usize) -> PyResult<Self> {
        let format = format.map(Format::parse).transpose().map_err(PyShardmillError::from)?;
        let options = DatasetOptions { paths, format, skip_bad_files, threads: threads.max(1) };
        let dataset = interruptible(py, move |cancel| Dataset::open(&options, cancel).map_err(PyShardmillError::from))?;
        Ok(Self(Arc::new(dataset)))
    }

    #[getter]
    fn format(&self) -> Option<&'static str> {
        self.0.format().map(Format::name)
    }

    #[getter]
    fn schema(&self) -> PySchema {
        PySchema::new(Arc::clone(self.0.schema()))
    }

    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.0.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    #[getter]
    fn num_rows(&self) -> u64 {
        self.0.num_rows()
    }

    /// (path, path below the root, bytes, rows) of each file.
    #[getter]
    fn files(&self) -> Vec<(String, String, u64, u64)> {
        self.0.files().iter().map(|file| (file.path.clone(), file.relative.clone(), file.size, file.num_rows())).collect()
    }

    /// (path, reason) of each file that was left out.
    #[getter]
    fn skipped(&self) -> Vec<(String, String)> {
        self.0.skipped().to_vec()
    }

    fn fingerprint(&self) -> String {
        fingerprint::of_dataset(&self.0)
    }

    fn file_fingerprints(&self) -> Vec<String> {
        fingerprint::of_files(&self.0)
    }
}

/// The rows of an epoch, and their order.
#[pyclass(name = "RowPlan", module = "shardmill._native.load", frozen)]
struct PyRowPlan {
    dataset: Arc<Dataset>,
    rows: Arc<RowSet>,
    /// `None` keeps the order of the files.
    window_bytes: Option<u64>,
    seed: i64,
    lanes: u64,
}

/// How rows are dealt out.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Share {
    batch_size: u64,
    world_size: u64,
    rank: u64,
    tail: String,
}

#[pymethods]
impl PyRowPlan {
    #[new]
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    #[pyo3(signature = (dataset, *, filter=None, window_bytes=None, seed=0, lanes=1, threads=1))]
    fn new(
        py: Python<'_>,
        dataset: PyRef<'_, PyDataset>,
        filter: Option<&str>,
        window_bytes: Option<u64>,
        seed: i64,
        lanes: u64,
        threads: usize,
    ) -> PyResult<Self> {
        let filter = filter.map(parsed).transpose()?;
        let dataset = Arc::clone(&dataset.0);
        let opened = Arc::clone(&dataset);
        let rows = interruptible(py, move |cancel| RowSet::build(&opened, filter.as_ref(), threads, cancel).map_err(PyShardmillError::from))?;
        Ok(Self { dataset, rows: Arc::new(rows), window_bytes, seed, lanes })
    }

    #[getter]
    fn num_rows(&self) -> u64 {
        self.rows.num_rows()
    }

    /// The same rows in other lanes.
    fn with_lanes(&self, lanes: u64) -> Self {
        Self { dataset: Arc::clone(&self.dataset), rows: Arc::clone(&self.rows), lanes, ..*self }
    }

    /// Batches that a rank still gets when `consumed` rows of the epoch were delivered.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn batches_left(&self, consumed: u64, share: Share) -> PyShardmillResult<u64> {
        let steps = self.steps(&share)?;
        let left = steps.remaining(consumed);
        // Only the last step may have nothing for a rank.
        let whole = steps.lanes.num_rows().saturating_sub(consumed) % steps.global_batch() == 0;
        let last = consumed + left.saturating_sub(1) * steps.global_batch();
        let is_short = steps.tail == Tail::Uneven && !whole && left > 0;
        let has_last = !is_short || steps.step(last).is_some_and(|step| !steps.slice(step, share.rank).rows.is_empty());
        Ok(left - u64::from(!has_last))
    }

    /// Rows of the epoch that are delivered when a step that starts at `consumed` is done; `None` at the end.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn start(&self, py: Python<'_>, options: Bound<'_, PyDict>, share: Share) -> PyResult<PyPass> {
        let number = |name: &str| -> PyResult<u64> { options.get_item(name)?.map_or(Ok(0), |value| value.extract()) };
        let options = PassOptions {
            order: Arc::new(self.order(number("epoch")?)),
            steps: self.steps(&share)?,
            rank: share.rank,
            consumed: number("consumed")?,
            columns: options.get_item("columns")?.map_or(Ok(Vec::new()), |value| value.extract())?,
            threads: usize::try_from(number("threads")?)?,
            prefetch_bytes: number("prefetch_bytes")?,
        };
        let cancel = Cancel::default();
        let finish = |rows, _batches: &[BatchRows]| Ok(rows);
        let pass = py.detach(|| Pass::start(&self.dataset, &self.rows, options, &cancel, finish)).map_err(PyShardmillError::from)?;
        Ok(PyPass { pass: Mutex::new(pass), process: std::process::id() })
    }
}

impl PyRowPlan {
    fn order(&self, epoch: u64) -> RowOrder {
        let blocks = self.rows.order_blocks();
        match self.window_bytes {
            None => RowOrder::sequential(&blocks),
            Some(window) => RowOrder::shuffled(&blocks, window, self.seed, epoch),
        }
    }

    fn steps(&self, share: &Share) -> PyShardmillResult<Steps> {
        let tail = match share.tail.as_str() {
            "drop" => Tail::Drop,
            "pad" => Tail::Pad,
            _ => Tail::Uneven,
        };
        let lanes = Lanes::new(self.rows.num_rows(), self.lanes);
        Ok(Steps { lanes, batch_size: share.batch_size, world_size: share.world_size, tail })
    }
}

fn parsed(filter: &str) -> PyResult<Expression> {
    serde_json::from_str(filter).map_err(|error| PyRuntimeError::new_err(error.to_string()))
}

/// One iteration of one rank.
#[pyclass(name = "Pass", module = "shardmill._native.load", frozen)]
struct PyPass {
    pass: Mutex<Pass<arrow_array::RecordBatch>>,
    process: u32,
}

/// Rows, and (rows, repeats, consumed) of each of their batches.
type PySlab = (PyRecordBatch, Vec<(usize, usize, u64)>);

#[pymethods]
impl PyPass {
    /// The next slab, or `None` at the end.
    fn next_slab(&self, py: Python<'_>) -> PyResult<Option<PySlab>> {
        if self.process != std::process::id() {
            return Err(PyRuntimeError::new_err("this iteration was begun before a fork; its threads are not in this process: iterate anew"));
        }
        loop {
            let polled = py.detach(|| self.pass.lock().unwrap_or_else(PoisonError::into_inner).poll(SIGNAL_POLL));
            match polled {
                Poll::Finished => return Ok(None),
                Poll::Ready(result) => {
                    let slab = result.map_err(Error::from).and_then(|slab| slab).map_err(PyShardmillError::from)?;
                    let batches = slab.batches.iter().map(|batch| (batch.rows, batch.repeats, batch.consumed)).collect();
                    return Ok(Some((PyRecordBatch::new(slab.content), batches)));
                }
                Poll::Pending => {}
            }
            py.check_signals()?;
        }
    }

    /// Ends the threads. Rows that were not delivered are forgotten.
    fn stop(&self, py: Python<'_>) {
        if self.process == std::process::id() {
            py.detach(|| self.pass.lock().unwrap_or_else(PoisonError::into_inner).stop(STOP_PATIENCE));
        }
    }

    fn metrics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let MetricsReport { decode_seconds, assemble_seconds, convert_seconds, wait_seconds, blocks_decoded, slabs } =
            py.detach(|| self.pass.lock().unwrap_or_else(PoisonError::into_inner).metrics());
        let report = PyDict::new(py);
        report.set_item("decode_seconds", decode_seconds)?;
        report.set_item("assemble_seconds", assemble_seconds)?;
        report.set_item("convert_seconds", convert_seconds)?;
        report.set_item("wait_seconds", wait_seconds)?;
        report.set_item("blocks_decoded", blocks_decoded)?;
        report.set_item("slabs", slabs)?;
        Ok(report)
    }
}

pub(crate) fn init(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = crate::submodule(parent, "load")?;
    module.add_class::<PyDataset>()?;
    module.add_class::<PyRowPlan>()?;
    module.add_class::<PyPass>()?;
    module.add_class::<PyRecordBatch>()
}
