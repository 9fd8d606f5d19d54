//! `shardmill._native.resume`

use crate::arrow_data::{ArrowArray, ArrowArrays};
use crate::error::{PyShardmillError, PyShardmillResult};
use crate::interrupt::{answered, interruptible};
use crate::plain::Plain;
use arrow_array::{ArrayRef, BooleanArray, RecordBatch};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use pyo3_arrow::{PyChunkedArray, PySchema};
use shardmill_load::Format;
use shardmill_plan::InputFile;
use shardmill_resume::index::{
    BuildProgress, INDEX_VERSION, IdIndex, IndexBuilder, IndexOptions, IndexSource, contains_on,
};
use shardmill_resume::keys::IdSchema;
use shardmill_resume::{DoneIds, Error, FooterCheck};
use shardmill_storage::RealNames;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

/// A mapped index, held by the Python class.
#[pyclass(name = "IdIndex", module = "shardmill._native.resume", frozen)]
pub(crate) struct PyIdIndex(pub(crate) Arc<IdIndex>);

/// Read by another thread while a build runs.
#[pyclass(name = "BuildProgress", module = "shardmill._native.resume", frozen)]
struct PyBuildProgress(Arc<BuildProgress>);

#[pymethods]
impl PyBuildProgress {
    #[new]
    fn new() -> Self {
        Self(Arc::default())
    }

    /// Files, finished files, rows.
    #[getter]
    fn counts(&self) -> (u64, u64, u64) {
        let count = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
        (count(&self.0.files), count(&self.0.files_done), count(&self.0.rows))
    }
}

#[pymethods]
impl PyIdIndex {
    #[staticmethod]
    fn open(py: Python<'_>, path: &str) -> PyShardmillResult<Self> {
        Ok(Self(Arc::new(py.detach(|| IdIndex::open(path))?)))
    }

    #[staticmethod]
    #[pyo3(signature = (paths, columns, *, path, format, memory_bytes, threads, progress))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of a Python call")]
    fn build_files(
        py: Python<'_>,
        paths: Vec<String>,
        columns: Vec<String>,
        path: String,
        format: Option<&str>,
        memory_bytes: u64,
        threads: usize,
        progress: &PyBuildProgress,
    ) -> PyResult<Self> {
        let format = format.map(Format::parse).transpose().map_err(PyShardmillError::from)?;
        let source = IndexSource { paths, format, columns };
        let progress = Arc::clone(&progress.0);
        let index = interruptible(py, move |cancel| {
            let options =
                IndexOptions { memory_bytes, threads: threads.max(1), cancel: cancel.clone() };
            IdIndex::build(&source, &path, options, &progress).map_err(PyShardmillError::from)
        })?;
        Ok(Self(Arc::new(index)))
    }

    fn verify(&self, py: Python<'_>) -> PyShardmillResult<()> {
        Ok(py.detach(|| self.0.verify())?)
    }

    /// One array per column, of one or several chunks.
    fn contains(
        &self,
        py: Python<'_>,
        ids: Vec<ArrowArrays>,
        threads: usize,
    ) -> PyResult<PyChunkedArray> {
        let columns = ids.into_iter().map(chunks).collect::<PyResult<Vec<_>>>()?;
        let found = py
            .detach(|| contains(&self.0, &columns, threads))
            .map_err(|error| PyShardmillError::from(error.in_file(self.0.path())))?;
        Ok(PyChunkedArray::from_array_refs(found)?)
    }

    /// Whether ids may lie between two values, each an array of length one.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn may_contain(&self, low: ArrowArray, high: ArrowArray) -> bool {
        self.0.may_contain(&low.array, &high.array)
    }

    fn __len__(&self) -> usize {
        usize::try_from(self.0.len()).unwrap_or(usize::MAX)
    }

    #[getter]
    fn path(&self) -> &str {
        self.0.path()
    }

    #[getter]
    fn nbytes(&self) -> u64 {
        self.0.num_bytes()
    }

    #[getter]
    fn columns(&self) -> Vec<String> {
        self.0.columns().to_vec()
    }

    #[getter]
    fn id_type(&self) -> String {
        self.0.schema().to_string()
    }

    fn info<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let info = PyDict::new(py);
        info.set_item("ids", self.0.len())?;
        info.set_item("rows", self.0.rows())?;
        info.set_item("nulls", self.0.nulls())?;
        info.set_item("bytes", self.0.num_bytes())?;
        let segments = PyDict::new(py);
        for segment in self.0.segments() {
            segments.set_item(segment.name, segment.ids)?;
        }
        info.set_item("segments", segments)?;
        Ok(info)
    }
}

/// Looks up columns whose chunks may end at different rows.
fn contains(
    index: &Arc<IdIndex>,
    columns: &[Vec<ArrayRef>],
    threads: usize,
) -> Result<Vec<ArrayRef>, Error> {
    let answer = |ids: &[ArrayRef]| -> Result<ArrayRef, Error> {
        Ok(Arc::new(BooleanArray::new(contains_on(index, ids, threads)?, None)))
    };
    if let [only] = columns {
        return only.iter().map(|chunk| answer(std::slice::from_ref(chunk))).collect();
    }
    let whole = columns.iter().map(|chunks| {
        let chunks: Vec<&dyn arrow_array::Array> = chunks.iter().map(AsRef::as_ref).collect();
        arrow_select::concat::concat(&chunks).map_err(|source| Error::Arrow { source })
    });
    Ok(vec![answer(&whole.collect::<Result<Vec<_>, _>>()?)?])
}

fn chunks(arrays: ArrowArrays) -> PyResult<Vec<ArrayRef>> {
    let empty = arrow_array::new_empty_array(arrays.field().data_type());
    let chunks = arrays
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| PyValueError::new_err(error.to_string()))?;
    Ok(if chunks.is_empty() { vec![empty] } else { chunks })
}

/// Receives ids as Arrow data, for builds that read no files.
#[pyclass(name = "IndexBuilder", module = "shardmill._native.resume", frozen)]
struct PyIndexBuilder {
    path: String,
    columns: Vec<String>,
    options: IndexOptions,
    builder: Mutex<Option<Arc<IndexBuilder>>>,
}

#[pymethods]
impl PyIndexBuilder {
    #[new]
    #[pyo3(signature = (path, columns, *, memory_bytes, threads))]
    fn new(path: String, columns: Vec<String>, memory_bytes: u64, threads: usize) -> Self {
        let options =
            IndexOptions { memory_bytes, threads: threads.max(1), ..IndexOptions::default() };
        Self { path, columns, options, builder: Mutex::new(None) }
    }

    /// Accepts anything with the Arrow PyCapsule methods: a batch, a table, a reader.
    fn add(&self, py: Python<'_>, rows: &Bound<'_, PyAny>) -> PyResult<()> {
        let rows = rows.extract::<ArrowArrays>()?;
        let builder = self.builder_of(rows.schema()?.as_ref())?;
        for batch in rows.into_batches()? {
            let batch = batch.map_err(|error| PyValueError::new_err(error.to_string()))?;
            let ids = self.ids_of(&batch)?;
            py.detach(|| builder.add(&ids)).map_err(PyShardmillError::from)?;
            py.check_signals()?;
        }
        Ok(())
    }

    fn finish(&self, py: Python<'_>) -> PyResult<PyIdIndex> {
        let builder = self.builder.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(builder) = builder else {
            return Err(
                PyShardmillError::option("no ids were given, so their type is not known").into()
            );
        };
        let index = interruptible(py, move |cancel| {
            builder.finish(cancel).map_err(PyShardmillError::from)
        })?;
        Ok(PyIdIndex(Arc::new(index)))
    }
}

impl PyIndexBuilder {
    fn builder_of(&self, schema: &arrow_schema::Schema) -> PyShardmillResult<Arc<IndexBuilder>> {
        let mut builder = self.builder.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(builder) = builder.as_ref() {
            return Ok(Arc::clone(builder));
        }
        let made = Arc::new(IndexBuilder::new(
            &self.path,
            IdSchema::of(schema, &self.columns)?,
            self.options.clone(),
        )?);
        Ok(Arc::clone(builder.insert(made)))
    }

    fn ids_of(&self, batch: &RecordBatch) -> PyShardmillResult<Vec<ArrayRef>> {
        let schema = batch.schema();
        // Also reports a missing column.
        IdSchema::of(&schema, &self.columns)?;
        Ok(self.columns.iter().filter_map(|column| batch.column_by_name(column).cloned()).collect())
    }
}

/// The data files at and below paths, with canonical name, size and modification time.
#[pyfunction]
#[pyo3(signature = (paths, *, format))]
fn versions_of(
    py: Python<'_>,
    paths: Vec<String>,
    format: Option<&str>,
) -> PyResult<Vec<(String, u64, i64)>> {
    let format = format.map(Format::parse).transpose().map_err(PyShardmillError::from)?;
    let source = IndexSource { paths, format, columns: Vec::new() };
    answered(py, || {
        let mut names = RealNames::default();
        let version = |path: String| {
            let file = InputFile::of(path)?;
            Ok((names.of(&file.path), file.size, file.modified_ns))
        };
        source.files()?.1.into_iter().map(version).collect()
    })
}

/// The id types of files by their footers; files without an id pass.
#[pyfunction]
fn id_types(
    py: Python<'_>,
    paths: Vec<String>,
    columns: Vec<String>,
    threads: usize,
) -> PyResult<Option<Plain<IdSchema>>> {
    let check = FooterCheck { columns: columns.clone(), allows_nulls: true };
    let source = IndexSource { paths, format: None, columns };
    let found = interruptible(py, move |cancel| {
        check.of_files(&source, threads, cancel).map_err(PyShardmillError::from)
    })?;
    Ok(found.map(|(types, _place)| Plain(types)))
}

/// Describes the ids of a column of `schema`: equal for types whose values can be the same ids.
#[pyfunction]
fn id_type(schema: PySchema, column: String) -> PyShardmillResult<String> {
    Ok(IdSchema::of(&schema.into_inner(), &[column])?.to_string())
}

pub(crate) fn init(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = crate::submodule(parent, "resume")?;
    module.add_function(wrap_pyfunction!(versions_of, &module)?)?;
    module.add_function(wrap_pyfunction!(id_types, &module)?)?;
    module.add_function(wrap_pyfunction!(id_type, &module)?)?;
    module.add("INDEX_VERSION", INDEX_VERSION)?;
    module.add_class::<PyIdIndex>()?;
    module.add_class::<PyBuildProgress>()?;
    module.add_class::<PyIndexBuilder>()
}
