//! Files of one schema.

use super::sequences::PySequences;
use super::tokenize::PyTokens;
use crate::arrow_data::ArrowArray;
use crate::error::{PyShardmillError, PyShardmillResult};
use crate::interrupt::interruptible;
use crate::pixels::PyImages;
use crate::plain::Plain;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3_arrow::PySchema;
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::Error as ValueError;
use shardmill_formats::limit::DecodeLimit;
use shardmill_formats::records::{BadLines, Encoding};
use shardmill_formats::token_files::{Dtype, MegatronRows, Separator, TokenOptions};
use shardmill_load::images::ImageLimits;
use shardmill_load::tokenize::CountsDirectory;
use shardmill_load::{
    Dataset, DatasetOptions, DocumentOptions, DocumentRows, Format, HiveKeys, MixedSource, Nan,
    TableColumn, TableDataFile, TableOptions, TextForm, TextOptions, TokenFileOptions,
    disagreement, fingerprint,
};
use shardmill_plan::Expression;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Path, name in states, constants by column, deleted rows.
type PyTableFile = (String, String, Vec<(usize, ArrowArray)>, Vec<u64>);

/// A column of a table.
#[derive(FromPyObject)]
struct PyTableColumn {
    id: Option<i64>,
    names: Vec<String>,
    default: Option<ArrowArray>,
    parts: Vec<PyTableColumn>,
}

impl From<PyTableColumn> for TableColumn {
    fn from(column: PyTableColumn) -> Self {
        let parts = column.parts.into_iter().map(Self::from).collect();
        Self {
            id: column.id,
            names: column.names,
            default: column.default.map(|value| value.array),
            parts,
        }
    }
}

/// How the text of CSV and JSONL files is written.
#[derive(FromPyObject)]
struct PyTextOptions {
    delimiter: char,
    quote: Option<char>,
    encoding: String,
    nan: String,
}

impl TryFrom<PyTextOptions> for TextForm {
    type Error = PyErr;

    fn try_from(options: PyTextOptions) -> PyResult<Self> {
        let refused = |error: ValueError| {
            PyErr::from(PyShardmillError::option(&format!("TextOptions: {error}")))
        };
        Ok(Self {
            delimiter: options.delimiter,
            quote: options.quote,
            encoding: Encoding::deserialize(options.encoding.into_deserializer())
                .map_err(refused)?,
            nan: Nan::deserialize(options.nan.into_deserializer()).map_err(refused)?,
        })
    }
}

/// How files of tokens are read.
#[derive(FromPyObject)]
struct PyTokenFiles {
    rows: String,
    vocab_size: Option<u64>,
    dtype: Option<String>,
    bos: Option<i64>,
    eos: Option<i64>,
    row_tokens: u32,
    counts: Option<String>,
    label_mask_paths: Option<Vec<String>>,
}

impl From<PyTokenFiles> for TokenFileOptions {
    fn from(options: PyTokenFiles) -> Self {
        let rows = match options.rows.as_str() {
            "sequences" => MegatronRows::Sequences,
            _ => MegatronRows::Documents,
        };
        let separator = match (options.bos, options.eos) {
            (Some(bos), _) => Separator::Bos(bos),
            (None, Some(eos)) => Separator::Eos(eos),
            (None, None) => Separator::Every(options.row_tokens),
        };
        let dtype = options.dtype.and_then(|name| Dtype::parse(&name));
        let vocab_size = options.vocab_size;
        let tokens = TokenOptions { rows, dtype, separator, vocab_size, ..TokenOptions::default() };
        let kept = options.counts.map(|directory| CountsDirectory::new(Some(directory)));
        let kept = kept.map(Arc::new);
        Self { tokens, kept, label_masks: options.label_mask_paths.unwrap_or_default() }
    }
}

/// Where the parts of documents are.
#[derive(FromPyObject)]
enum Documents {
    /// In this column of images, and in messages.
    Messages(String),
    /// In these columns, or in rows of interleaved files.
    Parts(Vec<String>),
}

#[pyclass(name = "Dataset", module = "shardmill._native.load", frozen)]
pub(crate) struct PyDataset(pub(crate) Arc<Dataset>);

#[pymethods]
impl PyDataset {
    #[new]
    #[pyo3(signature = (
        paths, *,
        format=None, hive=None, filter=None, schema=None, text=None,
        bad_lines="raise", skip_bad_files=false, has_pickle_bytes=false, ignores_zeros=false,
        token_files=None, documents=None, sizes=None, max_decoded_bytes=None, threads=1,
    ))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of a Python call")]
    fn new(
        py: Python<'_>,
        paths: Vec<String>,
        format: Option<&str>,
        hive: Option<&str>,
        filter: Option<Plain<Expression>>,
        schema: Option<PySchema>,
        text: Option<PyTextOptions>,
        bad_lines: &str,
        skip_bad_files: bool,
        has_pickle_bytes: bool,
        ignores_zeros: bool,
        token_files: Option<PyTokenFiles>,
        documents: Option<Documents>,
        sizes: Option<[String; 2]>,
        max_decoded_bytes: Option<u64>,
        threads: usize,
    ) -> PyResult<Self> {
        let bad_lines = match bad_lines {
            "raise" => BadLines::Error,
            "skip" => BadLines::Skip,
            "null" => BadLines::Null,
            other => {
                return Err(PyShardmillError::option(&format!(
                    "ErrorPolicy.lines is 'raise', 'skip' or 'null', not {other:?}"
                ))
                .into());
            }
        };
        // Without parts, rows of the files are the parts.
        let documents = documents.map(|documents| DocumentOptions {
            rows: match documents {
                Documents::Messages(images) => DocumentRows::Messages(images),
                Documents::Parts(parts) if parts.is_empty() => DocumentRows::Interleaved,
                Documents::Parts(parts) => DocumentRows::Parts(parts),
            },
            sizes,
        });
        let hive = match hive {
            None => None,
            Some("below") => Some(HiveKeys::Below),
            Some("path") => Some(HiveKeys::Path),
            Some(other) => {
                return Err(PyShardmillError::option(&format!(
                    "hive keys must be 'below' or 'path', not {other:?}"
                ))
                .into());
            }
        };
        let format = format.map(Format::parse).transpose().map_err(PyShardmillError::from)?;
        let options = DatasetOptions {
            paths,
            format,
            hive,
            filter: filter.map(|Plain(filter)| filter),
            text: TextOptions {
                schema: schema.map(PySchema::into_inner),
                bad_lines,
                form: text.map(TextForm::try_from).transpose()?.unwrap_or_default(),
                ..TextOptions::default()
            },
            skip_bad_files,
            has_pickle_bytes,
            ignores_zeros,
            tokens: token_files.map(TokenFileOptions::from).unwrap_or_default(),
            documents,
            limit: max_decoded_bytes.map(DecodeLimit::new).unwrap_or_default(),
            threads: threads.max(1),
        };
        let dataset = interruptible(py, move |cancel| {
            Dataset::open(&options, cancel).map_err(PyShardmillError::from)
        })?;
        Ok(Self(Arc::new(dataset)))
    }

    /// The files of a table, with the table's schema: `columns` have an id, names, a default and
    /// parts, `files` are (path, name in states, constants by column, deleted rows).
    #[staticmethod]
    #[pyo3(signature = (schema, columns, files, *, filter=None, threads=1))]
    fn of_table(
        py: Python<'_>,
        schema: PySchema,
        columns: Vec<PyTableColumn>,
        files: Vec<PyTableFile>,
        filter: Option<Plain<Expression>>,
        threads: usize,
    ) -> PyResult<Self> {
        let columns = columns.into_iter().map(TableColumn::from).collect();
        let files = files.into_iter().map(|(path, relative, constants, deleted)| {
            let constants =
                constants.into_iter().map(|(column, value)| (column, value.array)).collect();
            TableDataFile { path, relative, constants, deleted }
        });
        let options =
            TableOptions { schema: schema.into_inner(), columns, files: files.collect(), threads };
        let dataset = interruptible(py, move |cancel| {
            Dataset::open_table(&options, cancel).map_err(PyShardmillError::from)
        })?;
        if let Some(Plain(filter)) = filter {
            dataset.check_filter(&filter).map_err(PyShardmillError::from)?;
        }
        Ok(Self(Arc::new(dataset)))
    }

    /// Combines several data sets, each given as (name, data set, indices of its columns).
    #[staticmethod]
    #[pyo3(signature = (sources, *, number_column=None))]
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn mixed(
        sources: Vec<(String, PyRef<'_, Self>, Vec<usize>)>,
        number_column: Option<&str>,
    ) -> PyShardmillResult<Self> {
        let source =
            |(name, dataset, columns): &(String, PyRef<'_, Self>, Vec<usize>)| MixedSource {
                name: name.clone(),
                dataset: Arc::clone(&dataset.0),
                columns: columns.clone(),
            };
        let sources: Vec<MixedSource> = sources.iter().map(source).collect();
        Ok(Self(Arc::new(Dataset::mixed(&sources, number_column)?)))
    }

    /// The data set with columns of tokens of the columns `sources`.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn with_tokens(
        &self,
        tokens: PyRef<'_, PyTokens>,
        sources: Vec<usize>,
    ) -> PyShardmillResult<Self> {
        let fields = sources.iter().filter_map(|source| self.0.schema().fields().get(*source));
        let derive = tokens.derive(fields.cloned().collect());
        Ok(Self(Arc::new(self.0.with_derived(&derive, &sources)?)))
    }

    /// The data set of documents with the columns of their sequences.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn with_sequences(&self, sequences: PyRef<'_, PySequences>) -> PyShardmillResult<Self> {
        Ok(Self(Arc::new(self.0.with_sequences(&sequences.0)?)))
    }

    /// The same documents without images of more tokens or patches.
    fn with_image_limits(&self, tokens: u32, patches: Option<u32>) -> Self {
        let patches = patches.unwrap_or(u32::MAX);
        Self(Arc::new(self.0.with_image_limits(ImageLimits { tokens, patches })))
    }

    /// The data set with pixels in place of a column of encoded images.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn with_images(&self, images: PyRef<'_, PyImages>) -> PyShardmillResult<Self> {
        Ok(Self(Arc::new(self.0.with_images(&images.0)?)))
    }

    #[getter]
    fn format(&self) -> Option<&'static str> {
        self.0.format().map(Format::name)
    }

    /// The schema of these columns.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn schema(&self, columns: Vec<usize>) -> PyResult<PySchema> {
        let schema = self
            .0
            .schema()
            .project(&columns)
            .map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
        Ok(PySchema::new(Arc::new(schema)))
    }

    /// Why rows with such a schema cannot be added to the files; `None` if they can.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn disagreement(&self, schema: PySchema) -> Option<String> {
        disagreement(self.0.format()?, &self.0.top_level_schema(), schema.as_ref())
    }

    /// Of the top-level columns that are delivered by default.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.0.column_names()
    }

    /// Metadata of each of these columns.
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn metadata(&self, columns: Vec<usize>) -> Vec<HashMap<String, String>> {
        let fields = columns.iter().filter_map(|column| self.0.schema().fields().get(*column));
        fields.map(|field| field.metadata().clone().into_iter().collect()).collect()
    }

    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn column_numbers(&self, names: Vec<String>) -> PyShardmillResult<Vec<usize>> {
        Ok(self.0.columns(&names)?)
    }

    /// The length of the rows of list columns whose rows are all equally long.
    /// It may read two blocks.
    fn list_lengths(
        &self,
        py: Python<'_>,
        columns: Vec<usize>,
    ) -> PyResult<BTreeMap<String, usize>> {
        let dataset = Arc::clone(&self.0);
        interruptible(py, move |_cancel| {
            dataset.list_lengths(&columns).map_err(PyShardmillError::from)
        })
    }

    /// Whether a column has floats.
    fn is_floating(&self, column: usize) -> bool {
        let field = self.0.schema().fields().get(column);
        field.is_some_and(|field| field.data_type().is_floating())
    }

    #[getter]
    fn num_rows(&self) -> u64 {
        self.0.num_rows()
    }

    #[getter]
    fn is_remote(&self) -> bool {
        self.0.is_remote()
    }

    #[getter]
    fn bytes_read(&self) -> u64 {
        self.0.bytes_read()
    }

    /// (path, path below the root, bytes, rows) of each file.
    #[getter]
    fn files(&self) -> Vec<(String, String, u64, u64)> {
        self.0
            .files()
            .iter()
            .map(|file| (file.path.clone(), file.relative.clone(), file.size, file.num_rows()))
            .collect()
    }

    /// (path, reason) of each skipped file; those that could not be opened come last.
    #[getter]
    fn skipped(&self) -> Vec<(String, String)> {
        let left_out =
            self.0.left_out().iter().map(|file| (file.path.clone(), file.reason.clone()));
        left_out
            .chain(
                self.0
                    .skipped()
                    .iter()
                    .map(|(path, error)| (path.clone(), shardmill_documents::reason(error))),
            )
            .collect()
    }

    /// Paths of skipped files whose names do not mark them as side cars.
    #[getter]
    fn left_out(&self) -> Vec<String> {
        self.0
            .left_out()
            .iter()
            .filter(|file| !file.is_side_car)
            .map(|file| file.path.clone())
            .collect()
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
