//! `shardmill._native.packing`

use crate::columns::fill_values;
use crate::error::PyShardmillError;
use crate::interrupt::interruptible;
use crate::load::{PacksOfEpoch, PyDataset, PyRowPlan};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use shardmill_load::Error;
use shardmill_load::packing::{
    AheadEpoch, AheadPacks, Lengths, LengthsSource, PACK_WINDOW_ROWS, PackColumns, PackSource, Packs, PlannedRows, RowCounts,
};
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

    /// Number of rows, sum, and the largest.
    #[getter]
    fn totals(&self) -> (usize, u64, u32) {
        self.0.totals()
    }

    /// What went wrong with counts that are kept in files.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.0.warnings().to_vec()
    }
}

/// The plan of one epoch that deals out packs of `rows`.
#[pyfunction]
#[pyo3(signature = (rows, columns, lengths, *, epoch, length, strategy, open_packs, long, threads))]
#[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of a Python call")]
fn packed(
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
) -> PyResult<PyRowPlan> {
    let packing = Packing { length, strategy: strategy_of(strategy, open_packs, long)? };
    let (mut rows, columns, lengths) = (rows.clone_of(), Arc::clone(&columns.0), Arc::clone(&lengths.0));
    let planned = PlannedRows {
        dataset: Arc::clone(&rows.dataset),
        rows: Arc::clone(&rows.rows),
        order: rows.order(epoch),
        lanes: rows.row_lanes(),
        lengths: Arc::clone(&lengths),
    };
    let plan = interruptible(py, move |cancel| Packs::plan(packing, &planned, threads, cancel).map_err(PyShardmillError::from))?;
    let packs = Packs { source: PackSource::Epoch { plan: Arc::new(plan), lengths }, columns };
    rows.packed = Some(PacksOfEpoch { epoch, packs });
    Ok(rows)
}

/// The packs of endless lanes, for all epochs.
#[pyclass(name = "AheadPacks", module = "shardmill._native.packing", frozen)]
struct PyAheadPacks(Arc<AheadPacks>, Arc<PackColumns>);

#[pymethods]
impl PyAheadPacks {
    #[new]
    #[pyo3(signature = (rows, columns, *, column, is_stated, nulls_are_empty, length, strategy, open_packs, long, threads))]
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of a Python call")]
    fn new(
        py: Python<'_>,
        rows: PyRef<'_, PyRowPlan>,
        columns: PyRef<'_, PyPackColumns>,
        column: usize,
        is_stated: bool,
        nulls_are_empty: bool,
        length: u32,
        strategy: &str,
        open_packs: usize,
        long: &str,
        threads: usize,
    ) -> PyResult<Self> {
        let source = if is_stated { LengthsSource::Stated { column } } else { LengthsSource::Lists { column, nulls_are_empty } };
        let packing = Packing { length, strategy: strategy_of(strategy, open_packs, long)? };
        let (dataset, row_lanes) = (Arc::clone(&rows.dataset), rows.row_lanes());
        let (pass_rows, order) = rows.endless();
        let (columns, packed) = (Arc::clone(&columns.0), Arc::clone(&columns.0));
        let opened = move |cancel: &_| -> Result<AheadPacks, PyShardmillError> {
            let counts = RowCounts::open(&dataset, &pass_rows, source, packed.columns(), threads, cancel)?;
            Ok(AheadPacks::new(&dataset, &pass_rows, order, row_lanes, packing, counts))
        };
        Ok(Self(Arc::new(interruptible(py, opened)?), columns))
    }

    /// What went wrong with counts that are kept in files.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.0.counts().warnings().to_vec()
    }

    /// The plan of an epoch of `epoch_packs` places.
    #[pyo3(signature = (rows, *, epoch, epoch_packs))]
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn of_epoch(&self, rows: PyRef<'_, PyRowPlan>, epoch: u64, epoch_packs: u64) -> PyResult<PyRowPlan> {
        let start = epoch.checked_mul(epoch_packs).filter(|start| start.checked_add(epoch_packs).is_some_and(|end| end < 1 << 63));
        let start = start.ok_or_else(|| {
            PyShardmillError::option(&format!("epoch {epoch} of {epoch_packs} packs begins past place 2^63\nhint: choose an earlier epoch"))
        })?;
        let mut rows = rows.clone_of();
        let source = PackSource::Ahead(AheadEpoch::new(Arc::clone(&self.0), start, epoch_packs));
        rows.packed = Some(PacksOfEpoch { epoch, packs: Packs { source, columns: Arc::clone(&self.1) } });
        Ok(rows)
    }
}

fn strategy_of(name: &str, open_packs: usize, long: &str) -> PyResult<Strategy> {
    let long = match long {
        "split" => Long::Split,
        "truncate" => Long::Truncate,
        "drop" => Long::Drop,
        "raise" => Long::Error,
        other => return Err(PyShardmillError::option(&format!("long is 'split', 'truncate', 'drop' or 'raise', not {other:?}")).into()),
    };
    match name {
        "concat" => Ok(Strategy::Concat),
        "best_fit" => Ok(Strategy::Fit { choice: Choice::Best, open_packs, long }),
        "first_fit" => Ok(Strategy::Fit { choice: Choice::First, open_packs, long }),
        other => Err(PyShardmillError::option(&format!("strategy is 'concat', 'best_fit' or 'first_fit', not {other:?}")).into()),
    }
}

pub(crate) fn init(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = crate::submodule(parent, "packing")?;
    module.add_class::<PyPackColumns>()?;
    module.add_class::<PyLengths>()?;
    module.add_class::<PyAheadPacks>()?;
    module.add("PACK_WINDOW_ROWS", PACK_WINDOW_ROWS)?;
    module.add_function(wrap_pyfunction!(packed, &module)?)
}
