//! `shardmill._native.load`

mod dataset;
mod outlet;
mod pass;

pub(crate) use dataset::PyDataset;
pub(crate) use outlet::PyOutlet;
pub(crate) use pass::{PyAudit, PyPass, sums};

use crate::columns::value_at;
use crate::error::PyShardmillError;
use crate::interrupt::interruptible;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3_arrow::PyRecordBatch;
use shardmill_engine::Cancel;
use shardmill_load::explain::{BatchExplanation, RankCost};
use shardmill_load::packing::Packs;
use shardmill_load::{AuditIds, BadRowPolicy, Dataset, OnBadRows, Outlet, Pass, PassOptions, RowSet, expected_audit, explain, rebuild_index, take};
use shardmill_plan::Expression;
use shardmill_plan::order::{Blend, Lanes, MixtureOptions, ORDER_VERSION, RowOrder, Steps, Tail};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

/// The rows of an epoch, and their order.
#[pyclass(name = "RowPlan", module = "shardmill._native.load", frozen)]
pub(crate) struct PyRowPlan {
    pub(crate) dataset: Arc<Dataset>,
    pub(crate) rows: Arc<RowSet>,
    /// `None` keeps the order of the files.
    window_bytes: Option<u64>,
    seed: i64,
    lanes: u64,
    mixture: Option<Arc<Mixture>>,
    /// That of the last epoch that was asked for, unmerged.
    order: Mutex<Option<(u64, Arc<RowOrder>)>>,
}

/// What makes a mixture of rows of several sources.
struct Mixture {
    blend: Blend,
    /// Number of the first file of each source.
    first_files: Vec<usize>,
}

/// How rows are dealt out.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Share {
    pub(crate) batch_size: u64,
    pub(crate) world_size: u64,
    pub(crate) rank: u64,
    tail: String,
}

impl Share {
    pub(crate) fn steps(&self, lanes: Lanes) -> Steps {
        let tail = match self.tail.as_str() {
            "drop" => Tail::Drop,
            "pad" => Tail::Pad,
            _ => Tail::Uneven,
        };
        Steps { lanes, batch_size: self.batch_size, world_size: self.world_size, tail }
    }
}

/// What a pass of one rank needs beside the rows.
pub(crate) struct Passage {
    pub(crate) outlet: Arc<Outlet>,
    pub(crate) steps: Steps,
    pub(crate) rank: u64,
    pub(crate) epoch: u64,
    pub(crate) consumed: u64,
    pub(crate) threads: usize,
    pub(crate) prefetch_bytes: u64,
    pub(crate) stride: u64,
    pub(crate) on_bad_rows: OnBadRows,
    pub(crate) is_audited: bool,
    pub(crate) packs: Option<Packs>,
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
        Ok(Self { dataset, rows: Arc::new(rows), window_bytes: None, seed: 0, lanes: 1, mixture: None, order: Mutex::default() })
    }

    /// Rows of several plans, blended: `dataset` has the files of all of them in this order. `stages` are (row of the run, weights); one stage whose weights
    /// are row counts that add up to `rows` fixes the counts of every epoch.
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
        Self {
            dataset: Arc::clone(&dataset.0),
            rows: Arc::new(joined),
            window_bytes: None,
            seed: 0,
            lanes: 1,
            mixture: Some(Arc::new(Mixture { blend, first_files })),
            order: Mutex::default(),
        }
    }

    /// Of one epoch.
    #[getter]
    fn num_rows(&self) -> u64 {
        self.mixture.as_ref().map_or_else(|| self.rows.num_rows(), |mixture| mixture.blend.rows())
    }

    /// Rows of each source of a mixture in an epoch.
    fn counts(&self, epoch: u64) -> Vec<u64> {
        self.mixture.as_ref().map_or_else(Vec::new, |mixture| mixture.blend.counts(epoch))
    }

    /// Rows of each source of a mixture among the first `consumed` rows of an epoch.
    fn consumed(&self, py: Python<'_>, epoch: u64, consumed: u64) -> Vec<u64> {
        if self.mixture.is_none() {
            return Vec::new();
        }
        py.detach(|| self.order(epoch).mixture().map_or_else(Vec::new, |order| order.consumed(consumed)))
    }

    /// Of the global sequence.
    #[getter]
    fn num_places(&self) -> u64 {
        self.num_rows()
    }

    /// In memory, all columns of all rows, estimated from metadata.
    #[getter]
    fn decoded_bytes(&self) -> u64 {
        self.rows.blocks().iter().map(|block| block.decoded_bytes).sum()
    }

    /// The same rows in another order.
    #[pyo3(signature = (*, window_bytes, seed, lanes))]
    fn ordered(&self, window_bytes: Option<u64>, seed: i64, lanes: u64) -> Self {
        Self {
            dataset: Arc::clone(&self.dataset),
            rows: Arc::clone(&self.rows),
            window_bytes,
            seed,
            lanes,
            mixture: self.mixture.clone(),
            order: Mutex::default(),
        }
    }

    /// Steps that are left when `consumed` rows of the epoch were delivered, the same on every rank.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn steps_left(&self, consumed: u64, share: Share) -> u64 {
        self.steps(&share).remaining(consumed)
    }

    /// Batches that this rank still gets: it may have none in the last step.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn batches_left(&self, consumed: u64, share: Share) -> u64 {
        self.steps(&share).batches(consumed, share.rank)
    }

    /// Rows of the epoch that are delivered when it ends, begun at `consumed`.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn end(&self, consumed: u64, share: Share) -> u64 {
        self.steps(&share).end(consumed)
    }

    /// Starts the threads of one pass.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of a Python call")]
    #[pyo3(signature = (outlet, share, *, epoch, consumed, threads, prefetch_bytes, stride=1, on_bad_rows="raise", is_audited=false))]
    fn start(
        &self,
        py: Python<'_>,
        outlet: PyRef<'_, PyOutlet>,
        share: Share,
        epoch: u64,
        consumed: u64,
        threads: usize,
        prefetch_bytes: u64,
        stride: u64,
        on_bad_rows: &str,
        is_audited: bool,
    ) -> PyResult<PyPass> {
        let (outlet, steps, rank) = (Arc::clone(&outlet.0), self.steps(&share), share.rank);
        let on_bad_rows = policy(on_bad_rows)?;
        self.begin(py, Passage { outlet, steps, rank, epoch, consumed, threads, prefetch_bytes, stride, on_bad_rows, is_audited, packs: None })
    }

    /// (rows, set, sequence) of all ranks between two places of an epoch, without reading anything.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn audit(&self, py: Python<'_>, epoch: u64, start: u64, end: u64, share: Share) -> PyAudit {
        let order = self.order(epoch);
        sums(&py.detach(|| expected_audit(&AuditIds::Rows { order: &order, rows: &self.rows }, &self.steps(&share), start, end)))
    }

    /// Which rows a batch holds, and what an epoch costs.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn explain<'py>(&self, py: Python<'py>, epoch: u64, step: u64, share: Share, columns: Vec<usize>) -> PyResult<Bound<'py, PyDict>> {
        let (order, steps) = (py.detach(|| self.order(epoch)), self.steps(&share));
        let (dataset, rows) = (&self.dataset, &self.rows);
        let batch = py.detach(|| explain::batch(dataset, rows, &order, &steps, step, share.rank));
        let costs: Vec<_> = py.detach(|| (0..share.world_size).map(|rank| explain::cost(dataset, rows, &order, &steps, &columns, rank)).collect());
        let mixing = explain::mixing(dataset, rows, &order, &columns);
        let all: u64 = rows.blocks().iter().map(|block| block.delivered_bytes(dataset, &columns)).sum();
        let decoded: u64 = costs.iter().map(|cost| cost.decoded_bytes).sum();
        let own_lanes = steps.lanes_of(share.rank);
        let answer = PyDict::new(py);
        let is_there = batch.is_some();
        let batch = batch.unwrap_or(BatchExplanation { places: 0..0, lanes: Vec::new(), rows: Vec::new(), repeats: 0, sources: Vec::new() });
        let files: Vec<_> = batch.rows.into_iter().map(|run| (run.file, run.start, run.rows)).collect();
        answer.set_item("rows", is_there.then_some(files))?;
        answer.set_item("repeats", batch.repeats)?;
        answer.set_item("places", is_there.then_some((batch.places.start, batch.places.end)))?;
        answer.set_item("lanes", batch.lanes.iter().map(|run| (run.lane, run.position, run.rows)).collect::<Vec<_>>())?;
        answer.set_item("steps", steps.remaining(0))?;
        answer.set_item("rows_of_epoch", order.num_rows())?;
        if self.mixture.is_some() {
            answer.set_item("sources", batch.sources)?;
            answer.set_item("sources_of_epoch", self.counts(epoch))?;
        }
        answer.set_item("blocks", rows.blocks().len())?;
        answer.set_item("lanes_of_rank", (own_lanes.start, own_lanes.end))?;
        answer.set_item("windows", order.num_windows())?;
        answer.set_item("window_bytes", mixing.window_bytes)?;
        answer.set_item("mixing_distance", mixing.distance)?;
        answer.set_item("decode_amplification", ratio(decoded, all))?;
        answer.set_item("ranks", costs.into_iter().map(|cost| rank_cost(py, cost)).collect::<PyResult<Vec<_>>>()?)?;
        Ok(answer)
    }

    /// One row, a value for each column.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn row<'py>(&self, py: Python<'py>, id: u64, columns: Vec<usize>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let taken = py.detach(|| take(&self.dataset, &self.rows, &[id], &columns)).map_err(PyShardmillError::from)?;
        let schema = taken.schema();
        taken.columns().iter().zip(schema.fields()).map(|(array, field)| value_at(py, field.name(), array, 0)).collect()
    }

    /// Rows by number.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn take(&self, py: Python<'_>, ids: Vec<u64>, columns: Vec<usize>) -> PyResult<PyRecordBatch> {
        // Arrow's kernels panic where a column of binaries outgrows its offsets.
        let taken = py.detach(|| catch_unwind(AssertUnwindSafe(|| take(&self.dataset, &self.rows, &ids, &columns))));
        let taken = taken.map_err(|_panic| PyRuntimeError::new_err("the rows together are too large for one Arrow array; take fewer at once"))?;
        Ok(PyRecordBatch::new(taken.map_err(PyShardmillError::from)?))
    }
}

pub(crate) fn rank_cost(py: Python<'_>, cost: RankCost) -> PyResult<Bound<'_, PyDict>> {
    let entry = PyDict::new(py);
    entry.set_item("batches", cost.batches)?;
    entry.set_item("blocks", cost.blocks)?;
    entry.set_item("decoded_bytes", cost.decoded_bytes)?;
    entry.set_item("stored_bytes", cost.stored_bytes)?;
    Ok(entry)
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
pub(crate) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 1.0 } else { part as f64 / whole as f64 }
}

impl PyRowPlan {
    pub(crate) fn begin(&self, py: Python<'_>, passage: Passage) -> PyResult<PyPass> {
        let Passage { outlet, steps, rank, epoch, consumed, threads, prefetch_bytes, stride, on_bad_rows, is_audited, packs } = passage;
        // In the order of the files, blocks decide nothing but speed.
        let is_merged = self.window_bytes.is_none() && on_bad_rows == OnBadRows::Raise;
        let rows = if is_merged { Arc::new(self.rows.merged(self.lanes)) } else { Arc::clone(&self.rows) };
        let order = py.detach(|| if is_merged { Arc::new(self.order_of(&rows, epoch)) } else { self.order(epoch) });
        let columns = outlet.columns().to_vec();
        let bad_rows = BadRowPolicy { on_bad_rows, seed: self.seed, epoch };
        let options =
            PassOptions { order: Arc::clone(&order), steps, rank, consumed, stride, columns, threads, prefetch_bytes, bad_rows, is_audited, packs };
        let finish = {
            let outlet = Arc::clone(&outlet);
            move |rows, batches: &[_]| outlet.finish(rows, batches)
        };
        let started = py.detach(|| Pass::start(&self.dataset, &rows, options, &Cancel::default(), finish));
        let pass = Mutex::new(started.map_err(PyShardmillError::from)?);
        Ok(PyPass { pass, outlet, dataset: Arc::clone(&self.dataset), rows, order, process: std::process::id() })
    }

    pub(crate) fn row_lanes(&self) -> Lanes {
        Lanes::new(self.num_rows(), self.lanes)
    }

    /// Kept from one call to the next: a state may be taken after every batch.
    pub(crate) fn order(&self, epoch: u64) -> Arc<RowOrder> {
        let mut kept = self.order.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, order)) = kept.as_ref().filter(|(known, _)| *known == epoch) {
            return Arc::clone(order);
        }
        let order = Arc::new(self.order_of(&self.rows, epoch));
        *kept = Some((epoch, Arc::clone(&order)));
        order
    }

    fn order_of(&self, rows: &RowSet, epoch: u64) -> RowOrder {
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

    fn steps(&self, share: &Share) -> Steps {
        share.steps(self.row_lanes())
    }

    pub(crate) fn clone_of(&self) -> Self {
        self.ordered(self.window_bytes, self.seed, self.lanes)
    }
}

fn parsed(filter: &str) -> PyResult<Expression> {
    serde_json::from_str(filter).map_err(|error| PyShardmillError::option(format!("filter: {error}")).into())
}

fn policy(name: &str) -> PyResult<OnBadRows> {
    match name {
        "raise" => Ok(OnBadRows::Raise),
        "skip" => Ok(OnBadRows::Skip),
        "replace" => Ok(OnBadRows::Replace),
        other => Err(PyShardmillError::option(format!("on_bad_rows is 'raise', 'skip' or 'replace', not {other:?}")).into()),
    }
}

/// Makes the index of a folder of MDS shards anew; gives its numbers of shards and samples.
#[pyfunction]
#[pyo3(signature = (path, *, threads=1))]
fn rebuild_mds_index(py: Python<'_>, path: String, threads: usize) -> PyResult<(u64, u64)> {
    interruptible(py, move |cancel| rebuild_index(&path, threads, cancel).map_err(PyShardmillError::from))
}

pub(crate) fn init(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = crate::submodule(parent, "load")?;
    module.add("ORDER_VERSION", ORDER_VERSION)?;
    module.add_class::<PyDataset>()?;
    module.add_class::<PyOutlet>()?;
    module.add_class::<PyRowPlan>()?;
    module.add_class::<PyPass>()?;
    module.add_function(wrap_pyfunction!(rebuild_mds_index, &module)?)
}
