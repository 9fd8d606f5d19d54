//! `shardmill._native.load`

use crate::columns::{fill_values, kind, nulls, slab_to_python, value_at};
use crate::error::{PyShardmillError, PyShardmillResult};
use crate::interrupt::{SIGNAL_POLL, interruptible};
use arrow_schema::FieldRef;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3_arrow::{PyArray, PyRecordBatch, PySchema};
use shardmill_engine::{Cancel, Poll, STOP_PATIENCE};
use shardmill_formats::mds::ENCODING_KEY;
use shardmill_formats::records::BadLines;
use shardmill_load::explain::{BatchExplanation, RankCost};
use shardmill_load::pass::MetricsReport;
use shardmill_load::{
    Dataset, DatasetOptions, Delivery, Error, Format, Outlet, OutletKind, Pass, PassOptions, RowSet, Slab, TableColumn, TableDataFile, TableOptions,
    explain, fingerprint, rebuild_index, take,
};
use shardmill_plan::Expression;
use shardmill_plan::order::{Lanes, ORDER_VERSION, RowOrder, Steps, Tail};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

/// Path, name in states, constants by column, deleted rows.
type PyTableFile = (String, String, Vec<(usize, PyArray)>, Vec<u64>);

#[pyclass(name = "Dataset", module = "shardmill._native.load", frozen)]
struct PyDataset(Arc<Dataset>);

#[pymethods]
impl PyDataset {
    #[new]
    #[pyo3(signature = (paths, *, format=None, hive=false, filter=None, schema=None, bad_lines="error", skip_bad_files=false, has_pickle_bytes=false, threads=1))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of a Python call")]
    fn new(
        py: Python<'_>,
        paths: Vec<String>,
        format: Option<&str>,
        hive: bool,
        filter: Option<&str>,
        schema: Option<PySchema>,
        bad_lines: &str,
        skip_bad_files: bool,
        has_pickle_bytes: bool,
        threads: usize,
    ) -> PyResult<Self> {
        let bad_lines = match bad_lines {
            "error" => BadLines::Error,
            "skip" => BadLines::Skip,
            "null" => BadLines::Null,
            other => return Err(PyShardmillError::option(format!("bad_lines is 'error', 'skip' or 'null', not {other:?}")).into()),
        };
        let format = format.map(Format::parse).transpose().map_err(PyShardmillError::from)?;
        let options = DatasetOptions {
            paths,
            format,
            hive,
            filter: filter.map(parsed).transpose()?,
            text_schema: schema.map(PySchema::into_inner),
            bad_lines,
            skip_bad_files,
            has_pickle_bytes,
            threads: threads.max(1),
        };
        let dataset = interruptible(py, move |cancel| Dataset::open(&options, cancel).map_err(PyShardmillError::from))?;
        if let Some(filter) = filter.map(parsed).transpose()?.filter(|_| !dataset.files().is_empty()) {
            filter.check(dataset.schema()).map_err(Error::from).map_err(PyShardmillError::from)?;
        }
        Ok(Self(Arc::new(dataset)))
    }

    /// The files of a table, under its own schema: `columns` are (id, names), `files` are (path, name in states, constants by column, deleted rows).
    #[staticmethod]
    #[pyo3(signature = (schema, columns, files, *, filter=None, threads=1))]
    fn of_table(
        py: Python<'_>,
        schema: PySchema,
        columns: Vec<(i64, Vec<String>)>,
        files: Vec<PyTableFile>,
        filter: Option<&str>,
        threads: usize,
    ) -> PyResult<Self> {
        let columns = columns.into_iter().map(|(id, names)| TableColumn { id, names }).collect();
        let files = files.into_iter().map(|(path, relative, constants, deleted)| {
            let constants = constants.into_iter().map(|(column, value)| (column, value.into_inner().0)).collect();
            TableDataFile { path, relative, constants, deleted }
        });
        let options = TableOptions { schema: schema.into_inner(), columns, files: files.collect(), threads };
        let dataset = interruptible(py, move |cancel| Dataset::open_table(&options, cancel).map_err(PyShardmillError::from))?;
        if let Some(filter) = filter.map(parsed).transpose()? {
            filter.check(dataset.schema()).map_err(Error::from).map_err(PyShardmillError::from)?;
        }
        Ok(Self(Arc::new(dataset)))
    }

    #[getter]
    fn format(&self) -> Option<&'static str> {
        self.0.format().map(Format::name)
    }

    /// Of these columns.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn schema(&self, columns: Vec<usize>) -> PyResult<PySchema> {
        let schema = self.0.schema().project(&columns).map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        Ok(PySchema::new(Arc::new(schema)))
    }

    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.0.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// How MDS shards store the columns; empty for other formats.
    #[getter]
    fn encodings(&self) -> HashMap<String, String> {
        if self.0.format() != Some(Format::Mds) {
            return HashMap::new();
        }
        let encoding = |field: &FieldRef| Some((field.name().clone(), field.metadata().get(ENCODING_KEY)?.clone()));
        self.0.schema().fields().iter().filter_map(encoding).collect()
    }

    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn column_numbers(&self, names: Vec<String>) -> PyShardmillResult<Vec<usize>> {
        Ok(self.0.columns(&names)?)
    }

    #[getter]
    fn num_rows(&self) -> u64 {
        self.0.num_rows()
    }

    #[getter]
    fn bytes_read(&self) -> u64 {
        self.0.bytes_read()
    }

    /// (path, path below the root, bytes, rows) of each file.
    #[getter]
    fn files(&self) -> Vec<(String, String, u64, u64)> {
        self.0.files().iter().map(|file| (file.path.clone(), file.relative.clone(), file.size, file.num_rows())).collect()
    }

    /// (path, reason) of each file that was left out.
    #[getter]
    fn skipped(&self) -> Vec<(String, String)> {
        self.0.skipped().iter().map(|(path, error)| (path.clone(), shardmill_curate::reason(error))).collect()
    }

    #[getter]
    fn fingerprint(&self) -> String {
        fingerprint::of_dataset(&self.0)
    }

    #[getter]
    fn file_digests(&self) -> Vec<String> {
        fingerprint::of_files(&self.0)
    }
}

/// What becomes of the rows of a slab.
#[pyclass(name = "Outlet", module = "shardmill._native.load", frozen)]
struct PyOutlet(Arc<Outlet>);

#[pymethods]
impl PyOutlet {
    #[new]
    #[pyo3(signature = (dataset, *, columns, kind, nulls, fill_values, is_padded, is_filtered))]
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn new(
        dataset: PyRef<'_, PyDataset>,
        columns: Vec<usize>,
        kind: &str,
        nulls: &str,
        fill_values: &Bound<'_, PyDict>,
        is_padded: bool,
        is_filtered: bool,
    ) -> PyResult<Self> {
        // Checked for Arrow as well, which has no use for them.
        let (nulls, fill_values) = (self::nulls(nulls)?, self::fill_values(fill_values)?);
        let kind = match kind {
            "arrow" => OutletKind::Arrow,
            name => OutletKind::Columns { kind: self::kind(name)?, nulls, fill_values },
        };
        let outlet = Outlet::new(&dataset.0, columns, kind, is_padded, is_filtered).map_err(PyShardmillError::from)?;
        Ok(Self(Arc::new(outlet)))
    }

    /// Names of the entries of a batch.
    #[getter]
    fn names(&self) -> Vec<String> {
        match self.0.converter() {
            Some(converter) => converter.outputs().iter().map(|output| output.name.clone()).collect(),
            None => self.0.schema().fields().iter().map(|field| field.name().clone()).collect(),
        }
    }

    #[getter]
    fn schema(&self) -> PySchema {
        PySchema::new(Arc::clone(self.0.schema()))
    }

    /// The first column whose type torch has since 2.3 only.
    #[getter]
    fn wide_unsigned(&self) -> Option<&str> {
        self.0.converter()?.wide_unsigned()
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
    #[pyo3(signature = (dataset, *, filter=None, threads=1))]
    fn new(py: Python<'_>, dataset: PyRef<'_, PyDataset>, filter: Option<&str>, threads: usize) -> PyResult<Self> {
        let filter = filter.map(parsed).transpose()?;
        let dataset = Arc::clone(&dataset.0);
        let opened = Arc::clone(&dataset);
        let rows = interruptible(py, move |cancel| RowSet::build(&opened, filter.as_ref(), threads, cancel).map_err(PyShardmillError::from))?;
        Ok(Self { dataset, rows: Arc::new(rows), window_bytes: None, seed: 0, lanes: 1 })
    }

    #[getter]
    fn num_rows(&self) -> u64 {
        self.rows.num_rows()
    }

    /// In memory, all columns of all rows, estimated from metadata.
    #[getter]
    fn decoded_bytes(&self) -> u64 {
        self.rows.blocks().iter().map(|block| block.decoded_bytes).sum()
    }

    /// The same rows in another order.
    #[pyo3(signature = (*, window_bytes, seed, lanes))]
    fn ordered(&self, window_bytes: Option<u64>, seed: i64, lanes: u64) -> Self {
        Self { dataset: Arc::clone(&self.dataset), rows: Arc::clone(&self.rows), window_bytes, seed, lanes }
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
    #[pyo3(signature = (outlet, share, *, epoch, consumed, threads, prefetch_bytes, stride=1))]
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
    ) -> PyResult<PyPass> {
        let outlet = Arc::clone(&outlet.0);
        // In the order of the files, blocks decide nothing but speed.
        let rows = if self.window_bytes.is_none() { Arc::new(self.rows.merged(self.lanes)) } else { Arc::clone(&self.rows) };
        let options = PassOptions {
            order: Arc::new(self.order_of(&rows, epoch)),
            steps: self.steps(&share),
            rank: share.rank,
            consumed,
            stride,
            columns: outlet.columns().to_vec(),
            threads,
            prefetch_bytes,
        };
        let finish = {
            let outlet = Arc::clone(&outlet);
            move |rows, batches: &[_]| outlet.finish(rows, batches)
        };
        let started = py.detach(|| Pass::start(&self.dataset, &rows, options, &Cancel::default(), finish));
        Ok(PyPass { pass: Mutex::new(started.map_err(PyShardmillError::from)?), outlet, process: std::process::id() })
    }

    /// Which rows a batch holds, and what an epoch costs.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn explain<'py>(&self, py: Python<'py>, epoch: u64, step: u64, share: Share, columns: Vec<usize>) -> PyResult<Bound<'py, PyDict>> {
        let (order, steps) = (self.order(epoch), self.steps(&share));
        let (dataset, rows) = (&self.dataset, &self.rows);
        let batch = py.detach(|| explain::batch(dataset, rows, &order, &steps, step, share.rank));
        let costs: Vec<_> = py.detach(|| (0..share.world_size).map(|rank| explain::cost(dataset, rows, &order, &steps, &columns, rank)).collect());
        let mixing = explain::mixing(dataset, rows, &order, &columns);
        let all: u64 = rows.blocks().iter().map(|block| block.delivered_bytes(dataset, &columns)).sum();
        let decoded: u64 = costs.iter().map(|cost| cost.decoded_bytes).sum();
        let own_lanes = steps.lanes_of(share.rank);
        let answer = PyDict::new(py);
        let is_there = batch.is_some();
        let batch = batch.unwrap_or(BatchExplanation { places: 0..0, lanes: Vec::new(), rows: Vec::new(), repeats: 0 });
        let files: Vec<_> = batch.rows.into_iter().map(|run| (run.file, run.start, run.rows)).collect();
        answer.set_item("rows", is_there.then_some(files))?;
        answer.set_item("repeats", batch.repeats)?;
        answer.set_item("places", is_there.then_some((batch.places.start, batch.places.end)))?;
        answer.set_item("lanes", batch.lanes.iter().map(|run| (run.lane, run.position, run.rows)).collect::<Vec<_>>())?;
        answer.set_item("steps", steps.remaining(0))?;
        answer.set_item("rows_of_epoch", rows.num_rows())?;
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

fn rank_cost(py: Python<'_>, cost: RankCost) -> PyResult<Bound<'_, PyDict>> {
    let entry = PyDict::new(py);
    entry.set_item("batches", cost.batches)?;
    entry.set_item("blocks", cost.blocks)?;
    entry.set_item("decoded_bytes", cost.decoded_bytes)?;
    entry.set_item("stored_bytes", cost.stored_bytes)?;
    Ok(entry)
}

#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 1.0 } else { part as f64 / whole as f64 }
}

impl PyRowPlan {
    fn order(&self, epoch: u64) -> RowOrder {
        self.order_of(&self.rows, epoch)
    }

    fn order_of(&self, rows: &RowSet, epoch: u64) -> RowOrder {
        let blocks = rows.order_blocks();
        match self.window_bytes {
            None => RowOrder::sequential(&blocks),
            Some(window) => RowOrder::shuffled(&blocks, window, self.seed, epoch),
        }
    }

    fn steps(&self, share: &Share) -> Steps {
        let tail = match share.tail.as_str() {
            "drop" => Tail::Drop,
            "pad" => Tail::Pad,
            _ => Tail::Uneven,
        };
        let lanes = Lanes::new(self.rows.num_rows(), self.lanes);
        Steps { lanes, batch_size: share.batch_size, world_size: share.world_size, tail }
    }
}

fn parsed(filter: &str) -> PyResult<Expression> {
    serde_json::from_str(filter).map_err(|error| PyShardmillError::option(format!("filter: {error}")).into())
}

/// One iteration of one rank.
#[pyclass(name = "Pass", module = "shardmill._native.load", frozen)]
struct PyPass {
    pass: Mutex<Pass<Delivery>>,
    outlet: Arc<Outlet>,
    process: u32,
}

/// Content, and of each batch: rows, rows of the epoch that are delivered with it.
type PySlab = (Py<PyAny>, Vec<usize>, Vec<u64>);

#[pymethods]
impl PyPass {
    /// The next slab, or `None` at the end.
    fn next_slab(&self, py: Python<'_>) -> PyResult<Option<PySlab>> {
        if self.process != std::process::id() {
            return Err(PyRuntimeError::new_err("this iteration was begun before a fork; its threads are not in this process: iterate anew"));
        }
        loop {
            match py.detach(|| self.pass.lock().unwrap_or_else(PoisonError::into_inner).poll(SIGNAL_POLL)) {
                Poll::Finished => return Ok(None),
                Poll::Ready(result) => {
                    let slab = result.map_err(Error::from).and_then(|slab| slab).map_err(PyShardmillError::from)?;
                    return self.to_python(py, slab).map(Some);
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

impl PyPass {
    fn to_python(&self, py: Python<'_>, slab: Slab<Delivery>) -> PyResult<PySlab> {
        let content = match (slab.content, self.outlet.converter()) {
            (Delivery::Rows(rows), _) => Py::new(py, PyRecordBatch::new(rows))?.into_any(),
            (Delivery::Columns(columns), Some(converter)) => slab_to_python(py, converter, columns)?.into_any().unbind(),
            (Delivery::Columns(_), None) => return Err(PyRuntimeError::new_err("columns without a converter")),
        };
        let rows = slab.batches.iter().map(|batch| batch.rows).collect();
        Ok((content, rows, slab.batches.iter().map(|batch| batch.consumed).collect()))
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
