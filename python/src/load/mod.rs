//! `shardmill._native.load`

mod converter;
mod dataset;
mod explain;
mod pack_columns;
mod pass;
mod row_stream;
mod sequences;
mod tokenize;

pub(crate) use converter::PyOutputConverter;
pub(crate) use dataset::PyDataset;
pub(crate) use pack_columns::PyPackColumns;

use crate::columns::{PyTensorMemory, value_at};
use crate::error::PyShardmillError;
use crate::interrupt::{interruptible, listening};
use crate::plain::Plain;
use pass::{PyAudit, PyPass, sums};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3_arrow::{PyRecordBatch, PyRecordBatchReader};
use shardmill_engine::Cancel;
use shardmill_load::columns::Converter;
use shardmill_load::images::HostMemory;
use shardmill_load::{
    BadRowPolicy, OnBadRows, Pass, PassOptions, RowPlan, Share, rebuild_index, take,
};
use shardmill_plan::Expression;
use shardmill_plan::order::{Blend, ORDER_VERSION, Tail};
use shardmill_plan::packing::Mark;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

/// The rows of an epoch, and their order; steps deal out these rows, or packs of them.
#[pyclass(name = "RowPlan", module = "shardmill._native.load", frozen)]
pub(crate) struct PyRowPlan(pub(crate) Arc<RowPlan>);

/// How rows are dealt out.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct PyShare {
    batch_size: u64,
    world_size: u64,
    rank: u64,
    tail: String,
}

impl From<PyShare> for Share {
    fn from(share: PyShare) -> Self {
        let tail = match share.tail.as_str() {
            "drop" => Tail::Drop,
            "pad" => Tail::Pad,
            _ => Tail::Uneven,
        };
        Self { batch_size: share.batch_size, world_size: share.world_size, rank: share.rank, tail }
    }
}

/// Lane, position, pass.
type PyBegun = (u64, PyMark, u64);

/// Pack, pass, row, first token.
pub(crate) type PyMark = (u64, u64, u64, u32);

#[pymethods]
impl PyRowPlan {
    #[new]
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    #[pyo3(signature = (dataset, *, filter=None, threads=1))]
    fn new(
        py: Python<'_>,
        dataset: PyRef<'_, PyDataset>,
        filter: Option<Plain<Expression>>,
        threads: usize,
    ) -> PyResult<Self> {
        let (dataset, filter) = (Arc::clone(&dataset.0), filter.map(|Plain(filter)| filter));
        let plan = interruptible(py, move |cancel| {
            RowPlan::build(&dataset, filter.as_ref(), threads, cancel)
                .map_err(PyShardmillError::from)
        })?;
        Ok(Self(Arc::new(plan)))
    }

    /// The same rows of another data set of the same files.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn with_dataset(&self, dataset: PyRef<'_, PyDataset>) -> Self {
        Self(Arc::new(self.0.with_dataset(&dataset.0)))
    }

    /// Blends the rows of several plans: `dataset` has the files of all of them in this order.
    /// `stages` are (row of the run, weights); a single stage whose weights are row counts that add
    /// up to `rows` fixes the counts of every epoch.
    #[staticmethod]
    #[pyo3(signature = (dataset, plans, *, rows, stages, is_linear=false))]
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn mixed(
        dataset: PyRef<'_, PyDataset>,
        plans: Vec<PyRef<'_, Self>>,
        rows: u64,
        stages: Vec<(u64, Vec<u64>)>,
        is_linear: bool,
    ) -> Self {
        let plans: Vec<&RowPlan> = plans.iter().map(|plan| &*plan.0).collect();
        Self(Arc::new(RowPlan::mixed(
            &dataset.0,
            &plans,
            Blend::of_stages(rows, &stages, is_linear),
        )))
    }

    /// Number of rows of one epoch.
    #[getter]
    fn num_rows(&self) -> u64 {
        self.0.num_rows()
    }

    /// Number of rows of each file of the data set, after the filter.
    #[getter]
    fn rows_of_files(&self) -> Vec<u64> {
        self.0.rows_of_files()
    }

    /// Rows of each source of a mixture in an epoch.
    fn counts(&self, epoch: u64) -> Vec<u64> {
        self.0.blend().map_or_else(Vec::new, |blend| blend.counts(epoch))
    }

    /// Rows of each source of a mixture among the first `consumed` rows of an epoch.
    fn consumed(&self, py: Python<'_>, epoch: u64, consumed: u64) -> Vec<u64> {
        py.detach(|| self.0.consumed(epoch, consumed))
    }

    /// Rows of each source of a mixture in all epochs before one.
    fn counts_before(&self, epoch: u64) -> Vec<u128> {
        self.0.counts_before(epoch)
    }

    /// Number of places of the global sequence.
    #[getter]
    fn num_places(&self) -> u64 {
        self.0.lanes().num_rows()
    }

    /// Estimated size in memory of all columns of all rows, from metadata.
    #[getter]
    fn decoded_bytes(&self) -> u64 {
        self.0.decoded_bytes()
    }

    /// The same rows in another order, without packs.
    #[pyo3(signature = (*, window_bytes, seed, lanes))]
    fn ordered(&self, window_bytes: Option<u64>, seed: i64, lanes: u64) -> Self {
        Self(Arc::new(self.0.ordered(window_bytes, seed, lanes)))
    }

    /// The same rows with the weights (epoch, weights) of the sources of a mixture from these epochs
    /// on, without packs. `before` are the rows of each source before the first of them.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn reweighted(&self, changes: Vec<(u64, Vec<u64>)>, before: Vec<u128>) -> Self {
        Self(Arc::new(self.0.reweighted(&changes, before)))
    }

    /// For each endless lane that a rank reads: the lane, a position before its packs of this epoch
    /// (pack, pass, row, first token), and the first pass of which nothing is in what is delivered
    /// with `consumed` packs.
    fn begun(&self, py: Python<'_>, consumed: u64, share: PyShare) -> PyResult<Vec<PyBegun>> {
        let (plan, share) = (Arc::clone(&self.0), Share::from(share));
        let found = interruptible(py, move |cancel| {
            plan.begun(consumed, share, cancel).map_err(PyShardmillError::from)
        })?;
        let lane = |(lane, mark, pass): (u64, Mark, u64)| {
            (lane, (mark.pack, mark.pass, mark.row, mark.first), pass)
        };
        Ok(found.into_iter().map(lane).collect())
    }

    /// The remaining steps after `consumed` positions of the epoch were delivered, the same on
    /// every rank.
    fn steps_left(&self, consumed: u64, share: PyShare) -> u64 {
        self.0.steps(share.into()).remaining(consumed)
    }

    /// The remaining batches of this rank: it may have none in the last step.
    fn batches_left(&self, consumed: u64, share: PyShare) -> u64 {
        let share = Share::from(share);
        self.0.steps(share).batches(consumed, share.rank)
    }

    /// Number of positions delivered at the end of an epoch that is resumed at `consumed`.
    fn end(&self, consumed: u64, share: PyShare) -> u64 {
        self.0.steps(share.into()).end(consumed)
    }

    /// Starts the threads of one pass.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of a Python call")]
    #[pyo3(signature = (
        converter, share, *,
        epoch, consumed, threads, prefetch_bytes,
        stride=1, on_bad_rows="raise", is_audited=false, memory=None,
    ))]
    fn start(
        &self,
        py: Python<'_>,
        converter: PyRef<'_, PyOutputConverter>,
        share: PyShare,
        epoch: u64,
        consumed: u64,
        threads: usize,
        prefetch_bytes: u64,
        stride: u64,
        on_bad_rows: &str,
        is_audited: bool,
        memory: Option<PyRef<'_, PyTensorMemory>>,
    ) -> PyResult<PyPass> {
        let (plan, share, on_bad_rows) = (&self.0, Share::from(share), policy(on_bad_rows)?);
        let converter = Arc::clone(&converter.0);
        let memory = memory.map(|memory| Arc::clone(&memory.0));
        let (rows, order) =
            py.detach(|| plan.read_order(epoch, on_bad_rows)).map_err(PyShardmillError::from)?;
        let options = PassOptions {
            order,
            steps: plan.steps(share),
            rank: share.rank,
            consumed,
            stride,
            columns: converter.columns().to_vec(),
            least_row_bytes: converter.converter().map_or(0, Converter::padded_row_bytes),
            threads,
            prefetch_bytes,
            bad_rows: BadRowPolicy { on_bad_rows, seed: plan.seed(), epoch },
            is_audited,
            memory: memory.as_ref().map(|memory| Arc::clone(memory) as Arc<dyn HostMemory>),
            packs: plan.packs().cloned(),
        };
        let finish = {
            let converter = Arc::clone(&converter);
            move |rows, batches: &[_]| converter.finish(rows, batches)
        };
        let started =
            py.detach(|| Pass::start(plan.dataset(), &rows, options, &Cancel::default(), finish));
        let pass = started.map_err(PyShardmillError::from)?;
        Ok(PyPass {
            progress: pass.progress(),
            pass: Mutex::new(pass),
            converter,
            memory,
            process: std::process::id(),
        })
    }

    /// (rows, set, sequence) of all ranks between two positions of an epoch, without reading.
    fn audit(
        &self,
        py: Python<'_>,
        epoch: u64,
        start: u64,
        end: u64,
        share: PyShare,
    ) -> PyResult<PyAudit> {
        let share = share.into();
        let audit =
            py.detach(|| self.0.audit(epoch, start..end, share)).map_err(PyShardmillError::from)?;
        Ok(sums(&audit))
    }

    /// The rows or tokens of a batch, and the cost of an epoch.
    fn explain<'py>(
        &self,
        py: Python<'py>,
        epoch: u64,
        step: u64,
        share: PyShare,
        columns: Vec<usize>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (plan, share) = (Arc::clone(&self.0), share.into());
        let explained = interruptible(py, move |cancel| {
            plan.explain(epoch, step, share, &columns, cancel).map_err(PyShardmillError::from)
        })?;
        explain::to_python(py, explained, self.0.dataset())
    }

    /// One row, with a value for each column.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn row<'py>(
        &self,
        py: Python<'py>,
        id: u64,
        columns: Vec<usize>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let taken = listening(py, || take(self.0.dataset(), self.0.rows(), &[id], &columns))?
            .map_err(PyShardmillError::from)?;
        let schema = taken.schema();
        taken
            .columns()
            .iter()
            .zip(schema.fields())
            .map(|(array, field)| value_at(py, field.name(), array, 0))
            .collect()
    }

    /// Rows by number.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn take(&self, py: Python<'_>, ids: Vec<u64>, columns: Vec<usize>) -> PyResult<PyRecordBatch> {
        let taking = AssertUnwindSafe(|| take(self.0.dataset(), self.0.rows(), &ids, &columns));
        // Arrow's kernels panic if a column of binaries exceeds its offsets.
        let taken = listening(py, || catch_unwind(taking))?;
        let taken = taken.map_err(|_panic| {
            PyRuntimeError::new_err(
                "the rows together are too large for one Arrow array; take fewer",
            )
        })?;
        Ok(PyRecordBatch::new(taken.map_err(PyShardmillError::from)?))
    }
}

fn policy(name: &str) -> PyResult<OnBadRows> {
    match name {
        "raise" => Ok(OnBadRows::Raise),
        "skip" => Ok(OnBadRows::Skip),
        "replace" => Ok(OnBadRows::Replace),
        other => Err(PyShardmillError::option(&format!(
            "on_bad_rows is 'raise', 'skip' or 'replace', not {other:?}"
        ))
        .into()),
    }
}

/// Rebuilds the index of a directory of MDS shards; returns its numbers of shards and samples.
#[pyfunction]
#[pyo3(signature = (path, *, threads=1))]
fn rebuild_mds_index(py: Python<'_>, path: String, threads: usize) -> PyResult<(u64, u64)> {
    interruptible(py, move |cancel| {
        rebuild_index(&path, threads, cancel).map_err(PyShardmillError::from)
    })
}

pub(crate) fn init(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = crate::submodule(parent, "load")?;
    module.add("ORDER_VERSION", ORDER_VERSION)?;
    module.add_class::<PyDataset>()?;
    module.add_class::<PyOutputConverter>()?;
    module.add_class::<PyRowPlan>()?;
    module.add_class::<PyPass>()?;
    module.add_class::<PyTensorMemory>()?;
    module.add_class::<sequences::PySequences>()?;
    module.add_class::<tokenize::PyTokenInput>()?;
    module.add_class::<tokenize::PyTokens>()?;
    module.add_class::<PyRecordBatchReader>()?;
    module.add_function(wrap_pyfunction!(row_stream::row_stream, &module)?)?;
    module.add_function(wrap_pyfunction!(rebuild_mds_index, &module)?)
}
