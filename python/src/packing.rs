//! `shardmill._native.packing`

use crate::columns::fill_values;
use crate::error::PyShardmillError;
use crate::interrupt::interruptible;
use crate::load::{Passage, PyAudit, PyDataset, PyOutlet, PyPass, PyRowPlan, Share, rank_cost, ratio, sums};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use shardmill_load::packing::{Lengths, LengthsSource, PackColumns, Packs, PlannedRows, explain};
use shardmill_load::{AuditIds, Error, OnBadRows, expected_audit, explain as rows_explained};
use shardmill_plan::order::Steps;
use shardmill_plan::packing::{Choice, Long, Packing, Strategy};
use std::sync::Arc;

/// Which columns are packed.
#[pyclass(name = "PackColumns", module = "shardmill._native.packing", frozen)]
pub(crate) struct PyPackColumns(pub(crate) Arc<PackColumns>);

#[pymethods]
impl PyPackColumns {
    #[new]
    #[pyo3(signature = (dataset, *, columns, length, pad_values, nulls_are_empty))]
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn new(dataset: PyRef<'_, PyDataset>, columns: Vec<usize>, length: u32, pad_values: &Bound<'_, PyDict>, nulls_are_empty: bool) -> PyResult<Self> {
        let columns = PackColumns::new(&dataset.0, columns, length, &fill_values(pad_values)?, nulls_are_empty);
        Ok(Self(Arc::new(columns.map_err(Error::from).map_err(PyShardmillError::from)?)))
    }
}

/// The token counts of all rows.
#[pyclass(name = "Lengths", module = "shardmill._native.packing", frozen)]
struct PyLengths(Arc<Lengths>);

#[pymethods]
impl PyLengths {
    #[new]
    #[pyo3(signature = (rows, *, column, is_stated, nulls_are_empty, threads))]
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn new(py: Python<'_>, rows: PyRef<'_, PyRowPlan>, column: usize, is_stated: bool, nulls_are_empty: bool, threads: usize) -> PyResult<Self> {
        let (dataset, rows) = (Arc::clone(&rows.dataset), Arc::clone(&rows.rows));
        let source = if is_stated { LengthsSource::Stated { column } } else { LengthsSource::Lists { column, nulls_are_empty } };
        let found = move |cancel: &_| Lengths::find(&dataset, &rows, source, threads, cancel).map_err(PyShardmillError::from);
        Ok(Self(Arc::new(interruptible(py, found)?)))
    }

    #[getter]
    fn digest(&self) -> &str {
        self.0.digest()
    }
}

/// The packs of one epoch.
#[pyclass(name = "PackPlan", module = "shardmill._native.packing", frozen)]
struct PyPackPlan {
    rows: PyRowPlan,
    packs: Packs,
    epoch: u64,
}

#[pymethods]
impl PyPackPlan {
    #[new]
    #[pyo3(signature = (rows, columns, lengths, *, epoch, length, strategy, open_packs, long, threads))]
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of a Python call")]
    fn new(
        py: Python<'_>,
        rows: PyRef<'_, PyRowPlan>,
        columns: PyRef<'_, PyPackColumns>,
        lengths: PyRef<'_, PyLengths>,
        epoch: u64,
        length: u32,
        strategy: &str,
        open_packs: usize,
        long: &str,
        threads: usize,
    ) -> PyResult<Self> {
        let packing = Packing { length, strategy: strategy_of(strategy, open_packs, long)? };
        let (rows, columns, lengths) = (rows.clone_of(), Arc::clone(&columns.0), Arc::clone(&lengths.0));
        let planned = PlannedRows {
            dataset: Arc::clone(&rows.dataset),
            rows: Arc::clone(&rows.rows),
            order: rows.order(epoch),
            lanes: rows.row_lanes(),
            lengths: Arc::clone(&lengths),
        };
        let plan = interruptible(py, move |cancel| Packs::plan(packing, &planned, threads, cancel).map_err(PyShardmillError::from));
        let plan = Arc::new(plan?);
        Ok(Self { rows, packs: Packs { plan, lengths, columns }, epoch })
    }

    /// Packs.
    #[getter]
    fn num_places(&self) -> u64 {
        self.packs.plan.num_packs()
    }

    /// As `RowPlan.steps_left`, of packs; and so are the next two.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn steps_left(&self, consumed: u64, share: Share) -> u64 {
        self.steps(&share).remaining(consumed)
    }

    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn batches_left(&self, consumed: u64, share: Share) -> u64 {
        self.steps(&share).batches(consumed, share.rank)
    }

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
        self.check_epoch(epoch)?;
        let (outlet, steps, rank) = (Arc::clone(&outlet.0), self.steps(&share), share.rank);
        if on_bad_rows != "raise" {
            return Err(PyShardmillError::option("packs are planned from the lengths of all rows, so on_bad_rows is \"raise\"".to_owned()).into());
        }
        let (on_bad_rows, packs) = (OnBadRows::Raise, Some(self.packs.clone()));
        self.rows.begin(py, Passage { outlet, steps, rank, epoch, consumed, threads, prefetch_bytes, stride, on_bad_rows, is_audited, packs })
    }

    /// As `RowPlan.audit`, of packs.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn audit(&self, py: Python<'_>, epoch: u64, start: u64, end: u64, share: Share) -> PyResult<PyAudit> {
        self.check_epoch(epoch)?;
        Ok(sums(&py.detach(|| expected_audit(&AuditIds::Packs, &self.steps(&share), start, end))))
    }

    /// Which tokens a batch holds, and what an epoch costs.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn explain<'py>(&self, py: Python<'py>, epoch: u64, step: u64, share: Share, columns: Vec<usize>) -> PyResult<Bound<'py, PyDict>> {
        let (order, steps) = (self.rows.order(epoch), self.steps(&share));
        let (dataset, rows) = (&self.rows.dataset, &self.rows.rows);
        let packed = explain::PackedEpoch { dataset, rows, order: &order, packs: &self.packs, steps: &steps };
        let batch = py.detach(|| packed.batch(step, share.rank));
        let costs: Vec<_> = py.detach(|| (0..share.world_size).map(|rank| packed.cost(&columns, rank)).collect());
        let mixing = rows_explained::mixing(dataset, rows, &order, &columns);
        let all: u64 = rows.blocks().iter().map(|block| block.delivered_bytes(dataset, &columns)).sum();
        let decoded: u64 = costs.iter().map(|cost| cost.decoded_bytes).sum();
        let (plan, own_lanes) = (&self.packs.plan, share.steps(self.rows.row_lanes()).lanes_of(share.rank));
        let totals = plan.totals();
        let answer = PyDict::new(py);
        let places = batch.as_ref().map(|batch| (batch.places.start, batch.places.end));
        let files = batch.as_ref().map(|batch| batch.rows().into_iter().map(|run| (run.file, run.start, run.rows)).collect::<Vec<_>>());
        answer.set_item("rows", files)?;
        answer.set_item("repeats", batch.as_ref().map_or(0, |batch| batch.repeats))?;
        answer.set_item("places", places)?;
        answer.set_item("lanes", batch.as_ref().map_or_else(Vec::new, |batch| batch.lanes.clone()))?;
        let pieces = |pack: Vec<explain::FilePiece>| pack.into_iter().map(|piece| (piece.file, piece.row, piece.first_token, piece.tokens)).collect();
        answer.set_item("packs", batch.map(|batch| batch.packs.into_iter().map(pieces).collect::<Vec<Vec<_>>>()))?;
        answer.set_item("steps", steps.remaining(0))?;
        answer.set_item("rows_of_epoch", rows.num_rows())?;
        answer.set_item("packs_of_epoch", plan.num_packs())?;
        answer.set_item("tokens_of_epoch", totals.tokens)?;
        answer.set_item("truncated_tokens", totals.truncated_tokens)?;
        answer.set_item("dropped_tokens", totals.dropped_tokens)?;
        answer.set_item("dropped_rows", totals.dropped_rows)?;
        answer.set_item("fill_rate", ratio(totals.tokens, plan.num_packs().saturating_mul(u64::from(plan.length()))))?;
        answer.set_item("blocks", rows.blocks().len())?;
        answer.set_item("lanes_of_rank", (own_lanes.start, own_lanes.end))?;
        answer.set_item("windows", order.num_windows())?;
        answer.set_item("window_bytes", mixing.window_bytes)?;
        answer.set_item("mixing_distance", mixing.distance)?;
        answer.set_item("decode_amplification", ratio(decoded, all))?;
        answer.set_item("ranks", costs.into_iter().map(|cost| rank_cost(py, cost)).collect::<PyResult<Vec<_>>>()?)?;
        Ok(answer)
    }
}

impl PyPackPlan {
    fn check_epoch(&self, epoch: u64) -> PyResult<()> {
        if epoch == self.epoch {
            return Ok(());
        }
        Err(PyShardmillError::option(format!("these are the packs of epoch {}, not of {epoch}", self.epoch)).into())
    }

    fn steps(&self, share: &Share) -> Steps {
        share.steps(self.packs.plan.lanes().clone())
    }
}

fn strategy_of(name: &str, open_packs: usize, long: &str) -> PyResult<Strategy> {
    let long = match long {
        "split" => Long::Split,
        "truncate" => Long::Truncate,
        "drop" => Long::Drop,
        "error" => Long::Error,
        other => return Err(PyShardmillError::option(format!("long is 'split', 'truncate', 'drop' or 'error', not {other:?}")).into()),
    };
    match name {
        "concat" => Ok(Strategy::Concat),
        "best_fit" => Ok(Strategy::Fit { choice: Choice::Best, open_packs, long }),
        "first_fit" => Ok(Strategy::Fit { choice: Choice::First, open_packs, long }),
        other => Err(PyShardmillError::option(format!("strategy is 'concat', 'best_fit' or 'first_fit', not {other:?}")).into()),
    }
}

pub(crate) fn init(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = crate::submodule(parent, "packing")?;
    module.add_class::<PyPackColumns>()?;
    module.add_class::<PyLengths>()?;
    module.add_class::<PyPackPlan>()
}
