//! `shardmill._native.write`

mod columns;
mod rows;
mod types;
mod weight;

use crate::arrow_data::{ArrowArrays, whole_rows};
use crate::error::PyShardmillError;
use crate::interrupt::listening;
use crate::plain::Plain;
use arrow_array::RecordBatch;
use arrow_schema::{ArrowError, DataType, Field, Schema};
use columns::invalid;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use pyo3_arrow::PySchema;
use rows::PyRowBuffer;
use serde::Deserialize;
use shardmill_formats::arrayrecord::WriterOptions;
use shardmill_formats::json::Dialect;
use shardmill_formats::mds::{Columns, HashAlgorithm, ShardOptions};
use shardmill_formats::table::type_name;
use shardmill_formats::tar::MemberStamp;
use shardmill_formats::token_files::Dtype;
use shardmill_storage::{AnyStore, Replace, Store, remove_stale_staging};
use shardmill_write::{
    Format, Gather, RowDigest, Shards, ShardsOptions, Target, TokenKind, TokenLayout,
};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use types::{name_of, with_value};

/// Column name for rows that are passed as an array without a name.
const COLUMN: &str = "record";

/// Options of a format beyond the columns, as sent by Python.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum FormatOptions {
    ArrayRecord {
        options: String,
    },
    Parquet {
        compression: String,
        page_checksums: bool,
    },
    Jsonl {
        compression: String,
    },
    WebDataset {
        compression: String,
        modified: u64,
        first_key: u64,
    },
    Mds {
        columns: Option<Vec<(String, String)>>,
        size_limit: Option<u32>,
        compression: Option<String>,
        hashes: Vec<String>,
    },
    Megatron {
        dtype: Option<String>,
        vocab_size: Option<u64>,
    },
    Bin {
        dtype: Option<String>,
        vocab_size: Option<u64>,
        has_header: bool,
        cuts_documents: bool,
    },
}

#[pyclass(name = "Writer", module = "shardmill._native.write", frozen)]
struct PyWriter(Mutex<Shards>);

#[pymethods]
impl PyWriter {
    /// Shards of a directory are named after `prefix`; for a single file it is `None`.
    #[new]
    #[expect(clippy::too_many_arguments, reason = "they are those of the Python class")]
    #[pyo3(signature = (
        path, *,
        options, columns, schema, prefix, size_limit, replaces, threads, first_number=0,
    ))]
    fn new(
        path: String,
        options: Plain<FormatOptions>,
        columns: Option<Vec<String>>,
        schema: Option<PySchema>,
        prefix: Option<String>,
        size_limit: u64,
        replaces: bool,
        threads: usize,
        first_number: u64,
    ) -> PyResult<Self> {
        let format = format_of(options.0, schema)?;
        let (target, name_prefix) = match prefix {
            Some(prefix) => (Target::Directory { path, size_limit }, prefix),
            None => (Target::File(path), String::new()),
        };
        let replace = if replaces { Replace::Atomically } else { Replace::Never };
        Ok(Self(Mutex::new(Shards::new(
            target,
            format,
            ShardsOptions { name_prefix, columns, replace, first_number, threads },
        ))))
    }

    #[getter]
    fn rows(&self, py: Python<'_>) -> u64 {
        py.detach(|| self.lock().rows())
    }

    /// The given schema of Parquet, or that of the first rows; `None` before any rows.
    #[getter]
    fn schema(&self, py: Python<'_>) -> Option<PySchema> {
        py.detach(|| self.lock().schema()).map(PySchema::new)
    }

    fn write_record(&self, py: Python<'_>, record: &Bound<'_, PyBytes>) -> PyResult<()> {
        write_record(py, &self.0, record.as_bytes())
    }

    /// Accepts anything with the Arrow PyCapsule methods: a batch, a table, a reader; an array is
    /// one column without a name.
    fn write_batch(&self, py: Python<'_>, rows: &Bound<'_, PyAny>) -> PyResult<()> {
        for batch in batches(rows)? {
            let batch = batch.map_err(invalid)?;
            listening(py, || self.lock().write(&batch))?.map_err(PyShardmillError::from)?;
            py.check_signals()?;
        }
        Ok(())
    }

    /// Writes the rows of `buffer`, and empties it.
    fn write_buffer(&self, py: Python<'_>, buffer: &PyRowBuffer) -> PyResult<()> {
        let batch = buffer.take(py, py.detach(|| self.lock().rows()))?;
        listening(py, || self.lock().write(&batch))?.map_err(PyShardmillError::from)?;
        py.check_signals()
    }

    /// Writes remaining data; returns for each file its rows, bytes and index entry.
    fn finish(&self, py: Python<'_>) -> PyResult<Vec<(u64, u64, Option<String>)>> {
        let files = listening(py, || self.lock().finish())?.map_err(PyShardmillError::from)?;
        Ok(files.into_iter().map(|file| (file.rows, file.bytes, file.entry)).collect())
    }

    /// Gives the files their names, with numbers from `first` on, and returns their paths.
    fn publish(&self, py: Python<'_>, first: u64) -> PyResult<Vec<String>> {
        Ok(listening(py, || self.lock().publish(first))?.map_err(PyShardmillError::from)?)
    }

    /// Removes everything written so far.
    fn abandon(&self, py: Python<'_>) {
        py.detach(|| self.lock().abandon());
    }
}

fn format_of(options: FormatOptions, schema: Option<PySchema>) -> PyResult<Format> {
    Ok(match options {
        FormatOptions::ArrayRecord { options } => {
            Format::ArrayRecord(WriterOptions::parse(&options).map_err(refused)?)
        }
        FormatOptions::Parquet { compression, page_checksums } => {
            let compression = compression.parse().map_err(refused)?;
            Format::Parquet {
                compression,
                omits_checksums: !page_checksums,
                schema: schema.map(PySchema::into_inner),
            }
        }
        FormatOptions::Jsonl { compression } => {
            Format::Jsonl { compression: compression.parse().map_err(refused)? }
        }
        FormatOptions::WebDataset { compression, modified, first_key } => Format::WebDataset {
            compression: compression.parse().map_err(refused)?,
            first_key,
            stamp: MemberStamp::of_webdataset(modified),
        },
        FormatOptions::Mds { columns, size_limit, compression, hashes } => {
            let hashes: Vec<&str> = hashes.iter().map(String::as_str).collect();
            let columns = columns.map(|columns| {
                Columns::new(
                    columns.iter().map(|(name, encoding)| (name.as_str(), encoding.as_str())),
                )
            });
            Format::Mds {
                columns: columns.transpose().map_err(|error| explained(&error))?,
                options: ShardOptions::parse(size_limit, compression.as_deref(), &hashes)
                    .map_err(|error| explained(&error))?,
            }
        }
        FormatOptions::Megatron { dtype, vocab_size } => {
            Format::Tokens(layout(TokenKind::Megatron, dtype.as_deref(), vocab_size))
        }
        FormatOptions::Bin { dtype, vocab_size, has_header, cuts_documents } => {
            let kind = TokenKind::Bin { has_header, cuts_documents };
            Format::Tokens(layout(kind, dtype.as_deref(), vocab_size))
        }
    })
}

fn layout(kind: TokenKind, dtype: Option<&str>, vocab_size: Option<u64>) -> TokenLayout {
    TokenLayout { kind, dtype: dtype.and_then(Dtype::parse), vocab_size }
}

fn refused(error: impl std::fmt::Display) -> PyErr {
    PyShardmillError::option(&error.to_string()).into()
}

fn explained(error: &shardmill_formats::mds::Error) -> PyErr {
    let hint = error.hint().map(|hint| format!("\nhint: {hint}")).unwrap_or_default();
    PyShardmillError::option(&format!("{error}{hint}")).into()
}

/// MDS encodings for the columns of a schema.
#[pyfunction]
fn mds_encodings(schema: PySchema) -> PyResult<Vec<(String, String)>> {
    let columns = Columns::of_schema(&schema.into_inner()).map_err(|error| explained(&error))?;
    Ok(columns.iter().map(|column| (column.name.clone(), column.encoding_name.clone())).collect())
}

/// The schema of columns by the names that Arrow gives their types, such as `List(Int8)`.
#[pyfunction]
fn schema(columns: Vec<(String, String)>) -> PyResult<PySchema> {
    let field = |(name, data_type): (String, String)| {
        Ok(Field::new(name, data_type.parse().map_err(invalid)?, true))
    };
    Ok(PySchema::new(Arc::new(Schema::new(
        columns.into_iter().map(field).collect::<PyResult<Vec<_>>>()?,
    ))))
}

/// The schema that pyarrow would find for rows; `None` if they have values that are not plain.
/// Columns in `binaries` may have no values.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
fn plain_schema(
    rows: Vec<Bound<'_, PyDict>>,
    names: Vec<Bound<'_, PyAny>>,
    mut metadata: HashMap<String, HashMap<String, String>>,
    binaries: HashSet<String>,
) -> Option<PySchema> {
    let field = |column: Bound<'_, PyAny>| {
        let name = name_of(&column)?;
        let known = if binaries.contains(&name) { DataType::Binary } else { DataType::Null };
        let mut values = rows.iter().filter_map(|row| row.get_item(&column).ok()?);
        let data_type = values.try_fold(known, |known, value| with_value(&known, &value))?;
        let metadata = metadata.remove(&name).unwrap_or_default();
        Some(Field::new(name, data_type, true).with_metadata(metadata))
    };
    Some(PySchema::new(Arc::new(Schema::new(
        names.into_iter().map(field).collect::<Option<Vec<_>>>()?,
    ))))
}

/// Why JSON does not support a column of this schema: its name and type.
#[pyfunction]
fn column_without_json(schema: PySchema) -> Option<(String, String)> {
    let schema = schema.into_inner();
    let refused = schema.fields().iter().find(|field| !Dialect::Plain.holds(field.data_type()))?;
    Some((refused.name().clone(), type_name(refused.data_type())))
}

/// Digests of a file, in hexadecimal digits, in the order of the algorithms.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
fn file_hashes(py: Python<'_>, path: &str, algorithms: Vec<String>) -> PyResult<Vec<String>> {
    let algorithms = algorithms
        .iter()
        .map(|name| {
            HashAlgorithm::parse(name)
                .ok_or_else(|| refused(format!("hashes names {name:?}, which does not exist")))
        })
        .collect::<PyResult<Vec<_>>>()?;
    Ok(listening(py, || shardmill_write::file_hashes(path, &algorithms))?
        .map_err(PyShardmillError::from)?)
}

/// Approximate size of a Python object in memory.
#[pyfunction]
fn approximate_size(value: &Bound<'_, PyAny>) -> usize {
    weight::weight(value)
}

/// Writes a small file durably and atomically.
#[pyfunction]
fn publish_bytes(py: Python<'_>, path: &str, content: &[u8], replaces: bool) -> PyResult<()> {
    let replace = if replaces { Replace::Atomically } else { Replace::Never };
    Ok(listening(py, || AnyStore.publish(path, content, replace))?
        .map_err(PyShardmillError::from)?)
}

/// Removes leftovers of killed writers in a directory.
#[pyfunction]
fn remove_leftovers(py: Python<'_>, directory: &str) -> usize {
    py.detach(|| remove_stale_staging(directory))
}

impl Drop for PyWriter {
    fn drop(&mut self) {
        // No thread of this process has it. One of a parent may have held the lock at a fork, so
        // the lock is not taken.
        let shards = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        // Threads that release Arrow data of Python need the interpreter, so a thread that waits
        // for them must not hold it.
        Python::attach(|py| py.detach(|| shards.abandon()));
    }
}

impl PyWriter {
    fn lock(&self) -> MutexGuard<'_, Shards> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Adds a record to a writer, and flushes it when enough are collected.
pub(crate) fn write_record(
    py: Python<'_>,
    writer: &Mutex<impl Gather + Send>,
    record: &[u8],
) -> PyResult<()> {
    // The holder of the lock may be waiting for the interpreter.
    let is_due = match writer.try_lock() {
        Ok(mut writer) => writer.gather(record),
        Err(_busy) => {
            py.detach(|| writer.lock().unwrap_or_else(PoisonError::into_inner).gather(record))
        }
    };
    if is_due.map_err(PyShardmillError::from)? {
        listening(py, || writer.lock().unwrap_or_else(PoisonError::into_inner).flush())?
            .map_err(PyShardmillError::from)?;
    }
    Ok(())
}

type Batches = Box<dyn Iterator<Item = Result<RecordBatch, ArrowError>>>;

fn batches(rows: &Bound<'_, PyAny>) -> PyResult<Batches> {
    let arrays = rows.extract::<ArrowArrays>()?;
    let data_type = arrays.field().data_type().clone();
    if matches!(data_type, DataType::Struct(_)) {
        return Ok(Box::new(arrays.map(|array| Ok(RecordBatch::from(whole_rows(&array?)?)))));
    }
    let schema = Arc::new(Schema::new(vec![Field::new(COLUMN, data_type, true)]));
    Ok(Box::new(arrays.map(move |array| RecordBatch::try_new(Arc::clone(&schema), vec![array?]))))
}

/// Digest for comparing written rows with the intended ones.
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
            let batch = batch.map_err(invalid)?;
            py.detach(|| self.0.lock().unwrap_or_else(PoisonError::into_inner).update(&batch))
                .map_err(PyShardmillError::from)?;
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
    module.add_class::<PyRowBuffer>()?;
    module.add_function(wrap_pyfunction!(approximate_size, &module)?)?;
    module.add_function(wrap_pyfunction!(mds_encodings, &module)?)?;
    module.add_function(wrap_pyfunction!(schema, &module)?)?;
    module.add_function(wrap_pyfunction!(plain_schema, &module)?)?;
    module.add_function(wrap_pyfunction!(column_without_json, &module)?)?;
    module.add_function(wrap_pyfunction!(file_hashes, &module)?)?;
    module.add_function(wrap_pyfunction!(publish_bytes, &module)?)?;
    module.add_function(wrap_pyfunction!(remove_leftovers, &module)?)?;
    module.add_class::<PyRowDigest>()
}
