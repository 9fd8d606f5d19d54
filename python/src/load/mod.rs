//! `shardmill._native.load`

mod converter;
mod dataset;
mod explain;
mod memory;
mod pass;
mod tokenize;

pub(crate) use converter::PyOutputConverter;
pub(crate) use dataset::PyDataset;
pub(crate) use memory::TensorMemory;

use crate::columns::value_at;
use crate::error::PyShardmillError;
use crate::interrupt::{interruptible, listening};
use memory::PyTensorMemory;
use pass::{PyAudit, PyPass, sums};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3_arrow::{PyRecordBatch, PyRecordBatchReader};
use shardmill_engine::Cancel;
use shardmill_load::columns::Converter;
use shardmill_load::images::HostMemory;
use shardmill_load::packing::{AheadEpoch, PackSource, Packs, Passes};
use shardmill_load::{AuditIds, BadRowPolicy, Dataset, OnBadRows, Pass, PassOptions, RowSet, expected_audit, rebuild_index, take};
use shardmill_plan::Expression;
use shardmill_plan::order::{Blend, Lanes, MixtureOptions, ORDER_VERSION, RowOrder, Steps, Tail};
use shardmill_storage::Remembered;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

/// The rows of an epoch, and their order; steps deal out these rows, or packs of them.
#[pyclass(name = "RowPlan", module = "shardmill._native.load", frozen)]
pub(crate) struct PyRowPlan {
    pub(crate) dataset: Arc<Dataset>,
    pub(crate) rows: Arc<RowSet>,
    orders: Orders,
    /// The unmerged order of the last requested epoch.
    order: Remembered<Option<(u64, Arc<RowOrder>)>>,
    pub(crate) packed: Option<PacksOfEpoch>,
}

/// Packs depend on the order of their rows, so they belong to one epoch.
pub(crate) struct PacksOfEpoch {
    pub(crate) epoch: u64,
    pub(crate) packs: Packs,
}

/// The orders of all epochs.
#[derive(Clone)]
struct Orders {
    /// `None` keeps file order.
    window_bytes: Option<u64>,
    seed: i64,
    lanes: u64,
    mixture: Option<Arc<Mixture>>,
}

impl Orders {
    fn of(&self, rows: &RowSet, epoch: u64) -> RowOrder {
        if let Some(mixture) = &self.mixture {
            let sources = rows.order_blocks_by_source(&mixture.first_files);
            let Self { window_bytes, seed, lanes, .. } = *self;
            return RowOrder::mixed(MixtureOptions { blend: &mixture.blend, sources: &sources, window_bytes, seed, lanes }, epoch);
        }
        let blocks = rows.order_blocks();
        match self.window_bytes {
            None => RowOrder::sequential(&blocks),
            Some(window) => RowOrder::shuffled(&blocks, window, self.seed, epoch),
        }
    }
}

/// A mixture of rows from several sources.
struct Mixture {
    blend: Blend,
    /// Index of the first file of each source.
    first_files: Vec<usize>,
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

impl Share {
    fn steps(&self, lanes: Lanes) -> Steps {
        let tail = match self.tail.as_str() {
            "drop" => Tail::Drop,
            "pad" => Tail::Pad,
            _ => Tail::Uneven,
        };
        Steps { lanes, batch_size: self.batch_size, world_size: self.world_size, tail }
    }
}

#[pymethods]
impl PyRowPlan {
    #[new]
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    #[pyo3(signature = (dataset, *, filter=None, threads=1))]
    fn new(py: Python<'_>, dataset: PyRef<'_, PyDataset>, filter: Option<&str>, threads: usize) -> PyResult<Self> {
        let filter = filter.map(parsed).transpose()?;
        let dataset = Arc::clone(&dataset.0);
        let opened = Arc::clone(&dataset);
        let rows = interruptible(py, move |cancel| RowSet::build(&opened, filter.as_ref(), threads, cancel).map_err(PyShardmillError::from))?;
        Ok(Self::of(dataset, Arc::new(rows), None))
    }

    /// Blends the rows of several plans: `dataset` has the files of all of them in this order. `stages` are (row of the run, weights); a single stage
    /// whose weights are row counts that add up to `rows` fixes the counts of every epoch.
    #[staticmethod]
    #[pyo3(signature = (dataset, plans, *, rows, stages, is_linear=false))]
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn mixed(dataset: PyRef<'_, PyDataset>, plans: Vec<PyRef<'_, Self>>, rows: u64, stages: Vec<(u64, Vec<u64>)>, is_linear: bool) -> Self {
        let mut first_files = Vec::with_capacity(plans.len());
        let mut files = 0;
        for plan in &plans {
            first_files.push(files);
            files += plan.dataset.files().len();
        }
        let blend = match stages.as_slice() {
            [(_, weights)] => Blend::weighted(rows, weights),
            stages => Blend::staged(rows, stages, is_linear),
        };
        let joined = RowSet::joined(first_files.iter().copied().zip(plans.iter().map(|plan| &*plan.rows)));
        Self::of(Arc::clone(&dataset.0), Arc::new(joined), Some(Arc::new(Mixture { blend, first_files })))
    }

    /// Number of rows of one epoch.
    #[getter]
    fn num_rows(&self) -> u64 {
        self.orders.mixture.as_ref().map_or_else(|| self.rows.num_rows(), |mixture| mixture.blend.rows())
    }

    /// Number of rows of each file of the data set, after the filter.
    #[getter]
    fn rows_of_files(&self) -> Vec<u64> {
        let mut rows = vec![0; self.dataset.files().len()];
        for block in self.rows.blocks() {
            if let Some(of_file) = rows.get_mut(block.place.file) {
                *of_file += block.rows;
            }
        }
        rows
    }

    /// Rows of each source of a mixture in an epoch.
    fn counts(&self, epoch: u64) -> Vec<u64> {
        self.orders.mixture.as_ref().map_or_else(Vec::new, |mixture| mixture.blend.counts(epoch))
    }

    /// Rows of each source of a mixture among the first `consumed` rows of an epoch.
    fn consumed(&self, py: Python<'_>, epoch: u64, consumed: u64) -> Vec<u64> {
        if self.orders.mixture.is_none() {
            return Vec::new();
        }
        py.detach(|| self.order(epoch).mixture().map_or_else(Vec::new, |order| order.consumed(consumed)))
    }

    /// Number of lanes of the global sequence.
    #[getter]
    fn num_places(&self) -> u64 {
        self.packed.as_ref().map_or_else(|| self.num_rows(), |packed| packed.packs.source.lanes().num_rows())
    }

    /// Estimated size in memory of all columns of all rows, from metadata.
    #[getter]
    fn decoded_bytes(&self) -> u64 {
        self.rows.blocks().iter().map(|block| block.decoded_bytes).sum()
    }

    /// The same rows in another order, without packs.
    #[pyo3(signature = (*, window_bytes, seed, lanes))]
    fn ordered(&self, window_bytes: Option<u64>, seed: i64, lanes: u64) -> Self {
        let orders = Orders { window_bytes, seed, lanes, mixture: self.orders.mixture.clone() };
        Self { orders, ..Self::of(Arc::clone(&self.dataset), Arc::clone(&self.rows), None) }
    }

    /// The remaining steps after `consumed` positions of the epoch were delivered, the same on every rank.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn steps_left(&self, consumed: u64, share: Share) -> u64 {
        self.steps(&share).remaining(consumed)
    }

    /// The remaining batches of this rank: it may have none in the last step.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn batches_left(&self, consumed: u64, share: Share) -> u64 {
        self.steps(&share).batches(consumed, share.rank)
    }

    /// Number of positions delivered at the end of an epoch that is resumed at `consumed`.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn end(&self, consumed: u64, share: Share) -> u64 {
        self.steps(&share).end(consumed)
    }

    /// Starts the threads of one pass.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of a Python call")]
    #[pyo3(signature = (converter, share, *, epoch, consumed, threads, prefetch_bytes, stride=1, on_bad_rows="raise", is_audited=false, memory=None))]
    fn start(
        &self,
        py: Python<'_>,
        converter: PyRef<'_, PyOutputConverter>,
        share: Share,
        epoch: u64,
        consumed: u64,
        threads: usize,
        prefetch_bytes: u64,
        stride: u64,
        on_bad_rows: &str,
        is_audited: bool,
        memory: Option<PyRef<'_, PyTensorMemory>>,
    ) -> PyResult<PyPass> {
        self.check_epoch(epoch)?;
        let on_bad_rows = policy(on_bad_rows)?;
        if self.packed.is_some() && on_bad_rows != OnBadRows::Raise {
            return Err(PyShardmillError::option("packs are planned from the lengths of all rows, so on_bad_rows is \"raise\"").into());
        }
        let converter = Arc::clone(&converter.0);
        let memory = memory.map(|memory| Arc::clone(&memory.0));
        // In file order blocks only affect speed.
        let is_merged = self.orders.window_bytes.is_none() && on_bad_rows == OnBadRows::Raise;
        let (rows, order) = match self.ahead() {
            Some(ahead) => (Arc::clone(ahead.packs.rows()), Arc::clone(ahead.packs.order())),
            None if is_merged => py.detach(|| {
                let rows = Arc::new(self.rows.merged(self.orders.lanes));
                let order = Arc::new(self.orders.of(&rows, epoch));
                (rows, order)
            }),
            None => (Arc::clone(&self.rows), py.detach(|| self.order(epoch))),
        };
        let options = PassOptions {
            order: Arc::clone(&order),
            steps: self.steps(&share),
            rank: share.rank,
            consumed,
            stride,
            columns: converter.columns().to_vec(),
            least_row_bytes: converter.converter().map_or(0, Converter::padded_row_bytes),
            threads,
            prefetch_bytes,
            bad_rows: BadRowPolicy { on_bad_rows, seed: self.orders.seed, epoch },
            is_audited,
            memory: memory.as_ref().map(|memory| Arc::clone(memory) as Arc<dyn HostMemory>),
            packs: self.packed.as_ref().map(|packed| packed.packs.clone()),
        };
        let finish = {
            let converter = Arc::clone(&converter);
            move |rows, batches: &[_]| converter.finish(rows, batches)
        };
        let started = py.detach(|| Pass::start(&self.dataset, &rows, options, &Cancel::default(), finish));
        let pass = started.map_err(PyShardmillError::from)?;
        let (progress, pass) = (pass.progress(), Mutex::new(pass));
        Ok(PyPass { pass, progress, converter, memory, dataset: Arc::clone(&self.dataset), rows, order, process: std::process::id() })
    }

    /// (rows, set, sequence) of all ranks between two positions of an epoch, without reading.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn audit(&self, py: Python<'_>, epoch: u64, start: u64, end: u64, share: Share) -> PyResult<PyAudit> {
        self.check_epoch(epoch)?;
        let order = self.order(epoch);
        let ids = if self.packed.is_some() { AuditIds::Packs } else { AuditIds::Rows { order: &order, rows: &self.rows } };
        Ok(sums(&py.detach(|| expected_audit(&ids, &self.steps(&share), start, end))))
    }

    /// The rows or tokens of a batch, or the cost of an epoch.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn explain<'py>(&self, py: Python<'py>, epoch: u64, step: u64, share: Share, columns: Vec<usize>) -> PyResult<Bound<'py, PyDict>> {
        self.explained(py, epoch, step, &share, &columns)
    }

    /// One row, with a value for each column.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn row<'py>(&self, py: Python<'py>, id: u64, columns: Vec<usize>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let taken = listening(py, || take(&self.dataset, &self.rows, &[id], &columns))?.map_err(PyShardmillError::from)?;
        let schema = taken.schema();
        taken.columns().iter().zip(schema.fields()).map(|(array, field)| value_at(py, field.name(), array, 0)).collect()
    }

    /// Rows by number.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn take(&self, py: Python<'_>, ids: Vec<u64>, columns: Vec<usize>) -> PyResult<PyRecordBatch> {
        // Arrow's kernels panic if a column of binaries exceeds its offsets.
        let taken = listening(py, || catch_unwind(AssertUnwindSafe(|| take(&self.dataset, &self.rows, &ids, &columns))))?;
        let taken = taken.map_err(|_panic| PyRuntimeError::new_err("the rows together are too large for one Arrow array; take fewer"))?;
        Ok(PyRecordBatch::new(taken.map_err(PyShardmillError::from)?))
    }
}

impl PyRowPlan {
    pub(crate) fn row_lanes(&self) -> Lanes {
        Lanes::new(self.num_rows(), self.orders.lanes)
    }

    /// Cached between calls: a state may be taken after every batch.
    pub(crate) fn order(&self, epoch: u64) -> Arc<RowOrder> {
        let mut kept = self.order.lock();
        if let Some((_, order)) = kept.as_ref().filter(|(known, _)| *known == epoch) {
            return Arc::clone(order);
        }
        let order = Arc::new(self.orders.of(&self.rows, epoch));
        *kept = Some((epoch, Arc::clone(&order)));
        order
    }

    /// The rows of a pass as endless lanes need them, and the orders of all passes.
    pub(crate) fn endless(&self) -> (Arc<RowSet>, (Arc<RowOrder>, Passes)) {
        let (orders, num_rows) = (self.orders.clone(), self.num_rows());
        // In file order blocks only affect speed.
        let is_merged = orders.window_bytes.is_none();
        let rows = if is_merged { Arc::new(self.rows.merged(orders.lanes)) } else { Arc::clone(&self.rows) };
        let passes = match (&orders.mixture, orders.window_bytes) {
            (Some(_), _) => Passes::Mixed,
            (None, Some(_)) => Passes::Shuffled,
            (None, None) => Passes::Files,
        };
        let of_rows = Arc::clone(&rows);
        let always = (passes == Passes::Files).then(|| Arc::new(orders.of(&rows, 0)));
        let order = RowOrder::endless(num_rows, move |pass| always.clone().unwrap_or_else(|| Arc::new(orders.of(&of_rows, pass))));
        (rows, (Arc::new(order), passes))
    }

    fn ahead(&self) -> Option<&AheadEpoch> {
        match &self.packed.as_ref()?.packs.source {
            PackSource::Ahead(epoch) => Some(epoch),
            PackSource::Epoch { .. } => None,
        }
    }

    fn steps(&self, share: &Share) -> Steps {
        share.steps(self.packed.as_ref().map_or_else(|| self.row_lanes(), |packed| packed.packs.source.lanes().clone()))
    }

    fn check_epoch(&self, epoch: u64) -> PyResult<()> {
        match &self.packed {
            Some(packed) if packed.epoch != epoch => {
                Err(PyShardmillError::option(&format!("these are the packs of epoch {}, not of {epoch}", packed.epoch)).into())
            }
            _ => Ok(()),
        }
    }

    /// Without packs.
    fn of(dataset: Arc<Dataset>, rows: Arc<RowSet>, mixture: Option<Arc<Mixture>>) -> Self {
        let orders = Orders { window_bytes: None, seed: 0, lanes: 1, mixture };
        Self { dataset, rows, orders, order: Remembered::default(), packed: None }
    }

    pub(crate) fn clone_of(&self) -> Self {
        self.ordered(self.orders.window_bytes, self.orders.seed, self.orders.lanes)
    }
}

fn parsed(filter: &str) -> PyResult<Expression> {
    serde_json::from_str(filter).map_err(|error| PyShardmillError::option(&format!("filter: {error}")).into())
}

fn policy(name: &str) -> PyResult<OnBadRows> {
    match name {
        "raise" => Ok(OnBadRows::Raise),
        "skip" => Ok(OnBadRows::Skip),
        "replace" => Ok(OnBadRows::Replace),
        other => Err(PyShardmillError::option(&format!("on_bad_rows is 'raise', 'skip' or 'replace', not {other:?}")).into()),
    }
}

/// Rebuilds the index of a directory of MDS shards; returns its numbers of shards and samples.
#[pyfunction]
#[pyo3(signature = (path, *, threads=1))]
fn rebuild_mds_index(py: Python<'_>, path: String, threads: usize) -> PyResult<(u64, u64)> {
    interruptible(py, move |cancel| rebuild_index(&path, threads, cancel).map_err(PyShardmillError::from))
}

pub(crate) fn init(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = crate::submodule(parent, "load")?;
    module.add("ORDER_VERSION", ORDER_VERSION)?;
    module.add_class::<PyDataset>()?;
    module.add_class::<PyOutputConverter>()?;
    module.add_class::<PyRowPlan>()?;
    module.add_class::<PyPass>()?;
    module.add_class::<PyTensorMemory>()?;
    module.add_class::<tokenize::PyTokenInput>()?;
    module.add_class::<tokenize::PyTokens>()?;
    // Makes an Arrow stream of batches that Python iterates, without pyarrow.
    module.add_class::<PyRecordBatchReader>()?;
    module.add_function(wrap_pyfunction!(rebuild_mds_index, &module)?)
}
