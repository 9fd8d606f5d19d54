//! `shardmill._native.write`

use crate::error::{PyShardmillError, PyShardmillResult};
use arrow_array::cast::AsArray;
use arrow_array::{Array, RecordBatch};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use pyo3_arrow::PySchema;
use pyo3_arrow::input::AnyArray;
use shardmill_formats::arrayrecord::WriterOptions;
use shardmill_storage::Replace;
use shardmill_write::{Format, Gather, RowDigest, Shards, Target};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Of the only column of rows that come as an array without a name.
const COLUMN: &str = "record";

#[pyclass(name = "Writer", module = "shardmill._native.write", frozen)]
struct PyWriter(Mutex<Shards>);

#[pymethods]
impl PyWriter {
    /// `first_shard` is the number of the first file of a folder; `None` for one file.
    #[new]
    #[expect(clippy::too_many_arguments, reason = "they are those of the Python class")]
    #[pyo3(signature = (path, *, format, options, columns, schema, first_shard, size_limit, replaces, threads))]
    fn new(
        path: String,
        format: &str,
        options: &str,
        columns: Option<Vec<String>>,
        schema: Option<PySchema>,
        first_shard: Option<u64>,
        size_limit: u64,
        replaces: bool,
        threads: usize,
    ) -> PyResult<Self> {
        let refused = |error: &dyn std::error::Error| PyShardmillError::option(error.to_string());
        let format = match format {
            "arrayrecord" => Format::ArrayRecord(WriterOptions::parse(options).map_err(|error| refused(&error))?),
            _ => Format::Parquet { compression: options.parse().map_err(|error| refused(&error))?, schema: schema.map(PySchema::into_inner) },
        };
        let target = match first_shard {
            Some(first) => Target::Folder { path, first, size_limit },
            None => Target::File(path),
        };
        let replace = if replaces { Replace::Atomically } else { Replace::Never };
        Ok(Self(Mutex::new(Shards::new(target, format, columns, replace, threads))))
    }

    #[getter]
    fn rows(&self, py: Python<'_>) -> u64 {
        py.detach(|| self.lock().rows())
    }

    fn write_record(&self, py: Python<'_>, record: &Bound<'_, PyBytes>) -> PyResult<()> {
        Ok(write_record(py, &self.0, record.as_bytes())?)
    }

    /// Anything with the Arrow PyCapsule methods: a batch, a table, a reader; an array is one column without a name.
    fn write_batch(&self, py: Python<'_>, rows: &Bound<'_, PyAny>) -> PyResult<()> {
        for batch in batches(rows)? {
            let batch = batch.map_err(|error| PyValueError::new_err(error.to_string()))?;
            py.detach(|| self.lock().write(&batch)).map_err(PyShardmillError::from)?;
            py.check_signals()?;
        }
        Ok(())
    }

    /// Publishes the files and tells their names.
    fn close(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        Ok(py.detach(|| self.lock().close()).map_err(PyShardmillError::from)?)
    }

    /// Removes what was written.
    fn abandon(&self, py: Python<'_>) {
        py.detach(|| self.lock().abandon());
    }
}

impl PyWriter {
    fn lock(&self) -> MutexGuard<'_, Shards> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds a record to a writer, and lets it work when enough have gathered.
pub(crate) fn write_record(py: Python<'_>, writer: &Mutex<impl Gather + Send>, record: &[u8]) -> PyShardmillResult<()> {
    // Whoever holds the lock may be waiting for the interpreter.
    let is_due = match writer.try_lock() {
        Ok(mut writer) => writer.gather(record),
        Err(_busy) => py.detach(|| writer.lock().unwrap_or_else(PoisonError::into_inner).gather(record)),
    };
    if is_due? {
        py.detach(|| writer.lock().unwrap_or_else(PoisonError::into_inner).flush())?;
    }
    Ok(())
}

type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>>;

fn batches(rows: &Bound<'_, PyAny>) -> PyResult<Batches> {
    let Ok(array) = rows.extract::<AnyArray>() else {
        return Err(PyTypeError::new_err(format!("{} holds no Arrow data", rows.get_type().name()?)));
    };
    let reader = array.into_reader()?;
    let data_type = reader.field().data_type().clone();
    if matches!(data_type, DataType::Struct(_)) {
        return Ok(Box::new(reader.map(|array| match array?.as_struct_opt() {
            Some(rows) if rows.null_count() == 0 => Ok(RecordBatch::from(rows)),
            _ => Err(ArrowError::InvalidArgumentError("a row is null as a whole".to_owned())),
        })));
    }
    let schema = Arc::new(Schema::new(vec![Field::new(COLUMN, data_type, true)]));
    Ok(Box::new(reader.map(move |array| RecordBatch::try_new(Arc::clone(&schema), vec![array?]))))
}

/// Compares what was written with what was to be written.
#[pyclass(name = "RowDigest", module = "shardmill._native.write", frozen)]
struct PyRowDigest(Mutex<RowDigest>);

#[pymethods]
impl PyRowDigest {
    #[new]
    fn new() -> Self {
        Self(Mutex::default())
    }

    fn update(&self, py: Python<'_>, rows: &Bound<'_, PyAny>) -> PyResult<()> {
        for batch in batches(rows)? {
            let batch = batch.map_err(|error| PyValueError::new_err(error.to_string()))?;
            py.detach(|| self.0.lock().unwrap_or_else(PoisonError::into_inner).update(&batch)).map_err(PyShardmillError::from)?;
        }
        Ok(())
    }

    #[getter]
    fn rows(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).rows()
    }

    #[getter]
    fn value(&self) -> String {
        format!("{:032x}", self.0.lock().unwrap_or_else(PoisonError::into_inner).value())
    }
}

pub(crate) fn init(parent: &Bound<'_, PyModule>) -> PyResult<()> {
    let module = crate::submodule(parent, "write")?;
    module.add_class::<PyWriter>()?;
    module.add_class::<PyRowDigest>()
}
