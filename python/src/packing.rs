//! `shardmill._native.packing`

use crate::error::{PyShardmillError, PyShardmillResult};
use crate::interrupt::interruptible;
use crate::load::{PyMark, PyPackColumns, PyRowPlan};
use pyo3::prelude::*;
use shardmill_load::RowPlan;
use shardmill_load::packing::{
    AheadEpoch, AheadPacks, Contents, Lengths, LengthsSource, PACK_WINDOW_ROWS, PackColumns,
    PackSource, Packs, RowColumns,
};
use shardmill_plan::packing::{
    Balance, BatchRules, Choice, Cost, Long, MOST_WINDOW_PACKS, Mark, Packing, Strategy, Within,
};
use std::sync::Arc;

/// The token counts of all rows.
#[pyclass(name = "Lengths", module = "shardmill._native.packing", frozen)]
struct PyLengths(Arc<Lengths>);

#[pymethods]
impl PyLengths {
    #[new]
    #[pyo3(signature = (rows, *, column, source, nulls_are_empty, threads))]
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn new(
        py: Python<'_>,
        rows: PyRef<'_, PyRowPlan>,
        column: usize,
        source: &str,
        nulls_are_empty: bool,
        threads: usize,
    ) -> PyResult<Self> {
        let (plan, counted) = (Arc::clone(&rows.0), counted(column, source, nulls_are_empty)?);
        let find = move |cancel: &_| {
            Lengths::find(plan.dataset(), plan.rows(), counted, threads, cancel)
                .map_err(PyShardmillError::from)
        };
        Ok(Self(Arc::new(interruptible(py, find)?)))
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

    /// Number of images, and of their patches.
    #[getter]
    fn image_totals(&self) -> (u64, u64) {
        self.0.image_totals()
    }

    /// What went wrong with counts that are kept in files.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.0.warnings().to_vec()
    }
}

/// In what order packs come.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct PyBalance {
    cost: PyCost,
    per_step: u32,
    window_packs: u32,
    within: String,
}

/// The work of a pack of tokens.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct PyCost {
    token: u64,
    pair: u64,
    window_pair: u64,
    window: Option<u64>,
    patch: u64,
    patch_pair: u64,
    image: u64,
    count_padding: bool,
}

impl From<PyCost> for Cost {
    fn from(cost: PyCost) -> Self {
        let PyCost { token, pair, window_pair, window, patch, patch_pair, image, count_padding } =
            cost;
        // Documents are shorter than the largest window.
        let window = window.map(|window| u32::try_from(window).unwrap_or(u32::MAX));
        let counts_padding = count_padding;
        Self { token, pair, window_pair, window, patch, patch_pair, image, counts_padding }
    }
}

impl PyBalance {
    fn of(self, seed: i64, epoch: u64) -> Balance {
        let within = if self.within == "alike" { Within::Alike } else { Within::Mixed };
        Balance {
            cost: self.cost.into(),
            per_step: self.per_step,
            window_packs: self.window_packs,
            within,
            seed,
            epoch,
        }
    }
}

/// The most images or patches of a pack; without a limit, only its tokens limit them.
fn limit(most: Option<u32>) -> u32 {
    most.unwrap_or(u32::MAX)
}

/// The plan of one epoch that deals out packs of `rows`.
#[pyfunction]
#[pyo3(signature = (
    rows, columns, lengths, *, epoch, length, strategy, open_packs, long, multiple_of, overlaps,
    looks_ahead, max_images, max_patches, threads, balance=None
))]
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
    multiple_of: u32,
    overlaps: bool,
    looks_ahead: bool,
    max_images: Option<u32>,
    max_patches: Option<u32>,
    threads: usize,
    balance: Option<PyBalance>,
) -> PyResult<PyRowPlan> {
    let strategy = strategy_of(strategy, open_packs, long)?;
    let balance = balance.map(|balance| balance.of(rows.0.seed(), epoch));
    let packing = Packing {
        length,
        strategy,
        multiple_of,
        overlaps,
        looks_ahead,
        max_images: limit(max_images),
        max_patches: limit(max_patches),
        balance,
    };
    let (unpacked, lengths, columns) =
        (Arc::clone(&rows.0), Arc::clone(&lengths.0), Arc::clone(&columns.0));
    let packed = move |cancel: &_| -> PyShardmillResult<RowPlan> {
        let plan = Arc::new(unpacked.pack(epoch, packing, &lengths, threads, cancel)?);
        let source = PackSource::Epoch { plan, lengths, work: Arc::default() };
        Ok(unpacked.with_packs(epoch, Packs { source, contents: Contents::Tokens(columns) }))
    };
    Ok(PyRowPlan(Arc::new(interruptible(py, packed)?)))
}

/// The costs of packs of `length` tokens, given the numbers of tokens of their documents.
#[pyfunction]
#[pyo3(signature = (packs, cost, *, length, multiple_of))]
#[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
fn pack_costs(packs: Vec<Vec<u32>>, cost: PyCost, length: u32, multiple_of: u32) -> Vec<u64> {
    let packing = Packing { multiple_of, ..Packing::new(length, Strategy::Concat) };
    let cost = Cost::from(cost);
    let of_pack = |documents: &Vec<u32>| {
        cost.of_pack(length, documents.iter().map(|tokens| packing.padded(*tokens)))
    };
    packs.iter().map(of_pack).collect()
}

/// The plan of one epoch that deals out batches of whole rows. `counted` are the columns whose
/// lists have the lengths.
#[pyfunction]
#[pyo3(signature = (
    rows, counted, lengths, *, epoch, tokens, max_rows, window_rows, multiple_of, long, threads,
    balance=None
))]
#[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of a Python call")]
fn batched(
    py: Python<'_>,
    rows: PyRef<'_, PyRowPlan>,
    counted: Vec<usize>,
    lengths: PyRef<'_, PyLengths>,
    epoch: u64,
    tokens: u32,
    max_rows: u32,
    window_rows: u32,
    multiple_of: u32,
    long: &str,
    threads: usize,
    balance: Option<PyBalance>,
) -> PyResult<PyRowPlan> {
    let (unpacked, lengths) = (Arc::clone(&rows.0), Arc::clone(&lengths.0));
    let (unit, seed, long) = (lengths.unit(), rows.0.seed(), long_of(long)?);
    let rules = BatchRules { max_rows, window_rows, long, unit, seed, epoch };
    let balance = balance.map(|balance| balance.of(seed, epoch));
    let packing =
        Packing { multiple_of, balance, ..Packing::new(tokens, Strategy::Batches(rules)) };
    let batched = move |cancel: &_| -> PyShardmillResult<RowPlan> {
        let plan = Arc::new(unpacked.pack(epoch, packing, &lengths, threads, cancel)?);
        let source = PackSource::Epoch { plan, lengths, work: Arc::default() };
        let contents = Contents::Rows(RowColumns { counted });
        Ok(unpacked.with_packs(epoch, Packs { source, contents }))
    };
    Ok(PyRowPlan(Arc::new(interruptible(py, batched)?)))
}

/// The packs of endless lanes, for all epochs.
#[pyclass(name = "AheadPacks", module = "shardmill._native.packing", frozen)]
struct PyAheadPacks(Arc<AheadPacks>, Arc<PackColumns>);

#[pymethods]
impl PyAheadPacks {
    #[new]
    #[pyo3(signature = (
        rows, columns, *, column, source, nulls_are_empty, length, strategy, open_packs, long,
        multiple_of, overlaps, looks_ahead, max_images, max_patches, threads, starts, balance=None
    ))]
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of a Python call")]
    fn new(
        py: Python<'_>,
        rows: PyRef<'_, PyRowPlan>,
        columns: PyRef<'_, PyPackColumns>,
        column: usize,
        source: &str,
        nulls_are_empty: bool,
        length: u32,
        strategy: &str,
        open_packs: usize,
        long: &str,
        multiple_of: u32,
        overlaps: bool,
        looks_ahead: bool,
        max_images: Option<u32>,
        max_patches: Option<u32>,
        threads: usize,
        starts: Vec<PyMark>,
        balance: Option<PyBalance>,
    ) -> PyResult<Self> {
        let strategy = strategy_of(strategy, open_packs, long)?;
        let balance = balance.map(|balance| balance.of(rows.0.seed(), 0));
        let packing = Packing {
            length,
            strategy,
            multiple_of,
            overlaps,
            looks_ahead,
            max_images: limit(max_images),
            max_patches: limit(max_patches),
            balance,
        };
        let counted = counted(column, source, nulls_are_empty)?;
        let (plan, columns, packed) =
            (Arc::clone(&rows.0), Arc::clone(&columns.0), Arc::clone(&columns.0));
        let ahead = move |cancel: &_| {
            plan.pack_ahead(packing, counted, packed.columns(), marks(starts), threads, cancel)
                .map_err(PyShardmillError::from)
        };
        Ok(Self(Arc::new(interruptible(py, ahead)?), columns))
    }

    /// What went wrong with counts that are kept in files.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        self.0.counts().warnings().to_vec()
    }

    /// The packs of `rows`, which are the same in another order from a pass on.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn reordered(&self, rows: PyRef<'_, PyRowPlan>, from_pass: u64, starts: Vec<PyMark>) -> Self {
        let packs = rows.0.repack_ahead(&self.0, from_pass, marks(starts));
        Self(Arc::new(packs), Arc::clone(&self.1))
    }

    /// The plan of an epoch of `epoch_packs` places.
    #[pyo3(signature = (rows, *, epoch, epoch_packs))]
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn of_epoch(
        &self,
        rows: PyRef<'_, PyRowPlan>,
        epoch: u64,
        epoch_packs: u64,
    ) -> PyResult<PyRowPlan> {
        let contents = Contents::Tokens(Arc::clone(&self.1));
        let source = PackSource::Ahead(
            AheadEpoch::new(&self.0, epoch, epoch_packs).map_err(PyShardmillError::from)?,
        );
        Ok(PyRowPlan(Arc::new(rows.0.with_packs(epoch, Packs { source, contents }))))
    }
}

fn marks(starts: Vec<PyMark>) -> Vec<Mark> {
    let mark = |(pack, pass, row, first)| Mark { pack, pass, row, first };
    starts.into_iter().map(mark).collect()
}

fn counted(column: usize, source: &str, nulls_are_empty: bool) -> PyResult<LengthsSource> {
    match source {
        "lists" | "blocks" => {
            let has_blocks = source == "blocks";
            Ok(LengthsSource::Lists { column, nulls_are_empty, has_blocks })
        }
        "integers" => Ok(LengthsSource::Stated { column }),
        "numbers" => Ok(LengthsSource::Numbers { column }),
        other => Err(PyShardmillError::option(&format!(
            "source is 'lists', 'blocks', 'integers' or 'numbers', not {other:?}"
        ))
        .into()),
    }
}

fn long_of(name: &str) -> PyResult<Long> {
    match name {
        "split" => Ok(Long::Split),
        "truncate" => Ok(Long::Truncate),
        "drop" => Ok(Long::Drop),
        "raise" => Ok(Long::Error),
        other => Err(PyShardmillError::option(&format!(
            "long is 'split', 'truncate', 'drop' or 'raise', not {other:?}"
        ))
        .into()),
    }
}

fn strategy_of(name: &str, open_packs: usize, long: &str) -> PyResult<Strategy> {
    let long = long_of(long)?;
    match name {
        "concat" => Ok(Strategy::Concat),
        "best_fit" => Ok(Strategy::Fit { choice: Choice::Best, open_packs, long }),
        "first_fit" => Ok(Strategy::Fit { choice: Choice::First, open_packs, long }),
        other => Err(PyShardmillError::option(&format!(
            "strategy is 'concat', 'best_fit' or 'first_fit', not {other:?}"
        ))
        .into()),
    }
}

pub(crate) fn init(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = crate::submodule(parent, "packing")?;
    module.add_class::<PyPackColumns>()?;
    module.add_class::<PyLengths>()?;
    module.add_class::<PyAheadPacks>()?;
    module.add("PACK_WINDOW_ROWS", PACK_WINDOW_ROWS)?;
    module.add("MOST_WINDOW_PACKS", MOST_WINDOW_PACKS)?;
    module.add_function(wrap_pyfunction!(batched, &module)?)?;
    module.add_function(wrap_pyfunction!(pack_costs, &module)?)?;
    module.add_function(wrap_pyfunction!(packed, &module)?)
}
