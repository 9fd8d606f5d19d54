//! Columns of tokens.

use super::dataset::PyDataset;
use crate::arrow_data::ArrowArray;
use crate::calls::Calls;
use crate::error::{PyShardmillError, PyShardmillResult};
use crate::interrupt::reason_of;
use crate::tokens::PyTokenizer;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_cast::cast;
use arrow_schema::{DataType, FieldRef, Schema, SchemaRef};
use pyo3::prelude::*;
use pyo3_arrow::PyRecordBatch;
use shardmill_engine::Cancel;
use shardmill_formats::table::type_name;
use shardmill_load::tokenize::{
    AssistantSpans, Chat, CountsDirectory, InvalidBytes, Labels, NullTexts, TokenColumns, TokenCounts, TokenInput, TokenOptions, Tokens,
};
use shardmill_load::{Derive, Underivable, UnderivableRow};
use shardmill_tokens::ChatTemplate;
use std::sync::{Arc, Mutex, PoisonError};

/// The columns that tokens are computed from. It is used once.
#[pyclass(name = "TokenInput", module = "shardmill._native.load", frozen)]
pub(crate) struct PyTokenInput(Mutex<Option<TokenInput>>);

impl PyTokenInput {
    fn new(input: TokenInput) -> Self {
        Self(Mutex::new(Some(input)))
    }

    fn take(&self) -> PyShardmillResult<TokenInput> {
        let taken = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        taken.ok_or_else(|| PyShardmillError::option("the input of tokens is used already"))
    }
}

#[pymethods]
impl PyTokenInput {
    #[staticmethod]
    fn texts(separator: String) -> Self {
        Self::new(TokenInput::Texts { separator })
    }

    /// `templates` are the template, and another one for conversations with tools; `template_kwargs` is a JSON object.
    #[staticmethod]
    #[pyo3(signature = (tokenizer, templates, *, now, by_prefix, template_kwargs, has_tools, has_documents))]
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn chat(
        tokenizer: PyRef<'_, PyTokenizer>,
        templates: (String, Option<String>),
        now: Option<&str>,
        by_prefix: bool,
        template_kwargs: &str,
        has_tools: bool,
        has_documents: bool,
    ) -> PyShardmillResult<Self> {
        let invalid = |error: serde_json::Error| PyShardmillError::option(&format!("template_kwargs is not valid JSON: {error}"));
        let template = |text: &str| ChatTemplate::new(text, tokenizer.tokenizer.roles(), now);
        Ok(Self::new(TokenInput::Chat(Chat {
            template: template(&templates.0)?,
            tool_template: templates.1.as_deref().map(template).transpose()?,
            spans: if by_prefix { AssistantSpans::Prefix } else { AssistantSpans::Generation },
            template_kwargs: serde_json::from_str(template_kwargs).map_err(invalid)?,
            has_tools,
            has_documents,
        })))
    }

    /// A prompt and its completion; `chat` is for those that are messages, and `reason` tells why there is none.
    #[staticmethod]
    #[pyo3(signature = (chat, reason))]
    fn completion(chat: Option<PyRef<'_, Self>>, reason: String) -> PyShardmillResult<Self> {
        let chat = match chat.map(|chat| chat.take()).transpose()? {
            Some(TokenInput::Chat(chat)) => Ok(chat),
            _ => Err(reason),
        };
        Ok(Self::new(TokenInput::Completion(chat)))
    }
}

/// Names and type of the lists: tokens, whether they are int64, and labels.
type Columns = (String, bool, Option<String>);

#[pyclass(name = "Tokens", module = "shardmill._native.load", frozen)]
pub(crate) struct PyTokens(Source);

enum Source {
    Text(Arc<dyn Derive>),
    Function { function: Arc<Py<PyAny>>, columns: TokenColumns, counts: Option<String> },
}

#[pymethods]
impl PyTokens {
    /// `labels` are the ignored label, whether only answers have labels, and whether each row needs one.
    #[new]
    #[pyo3(signature = (tokenizer, source, *, bos, eos, add_special_tokens, special_in_text, has_empty_nulls, is_lossy, max_document_bytes, labels, columns, counts))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of a Python call")]
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn new(
        tokenizer: PyRef<'_, PyTokenizer>,
        source: PyRef<'_, PyTokenInput>,
        bos: Option<u32>,
        eos: Option<u32>,
        add_special_tokens: bool,
        special_in_text: Option<&str>,
        has_empty_nulls: bool,
        is_lossy: bool,
        max_document_bytes: usize,
        labels: Option<(i64, bool, bool)>,
        columns: Columns,
        counts: Option<String>,
    ) -> PyShardmillResult<Self> {
        let labels = labels.map(|(ignore_index, answers_only, required)| Labels { ignore_index, answers_only, required });
        let options = TokenOptions {
            bos,
            eos,
            add_special_tokens,
            special_in_text: special_in_text.map(crate::tokens::parse_special).transpose()?,
            nulls: if has_empty_nulls { NullTexts::Empty } else { NullTexts::Raise },
            invalid: if is_lossy { InvalidBytes::Replace } else { InvalidBytes::Raise },
            max_document_bytes,
            labels,
        };
        let counts = CountsDirectory::new(counts);
        let tokens = Tokens::new(Arc::clone(&tokenizer.tokenizer), source.take()?, options, &named(columns), counts)?;
        Ok(Self(Source::Text(Arc::new(tokens))))
    }

    /// The lists that `function` returns for a batch.
    #[staticmethod]
    #[pyo3(signature = (function, *, columns, counts))]
    fn of_function(function: Py<PyAny>, columns: Columns, counts: Option<String>) -> Self {
        Self(Source::Function { function: Arc::new(function), columns: named(columns), counts })
    }
}

fn named((tokens, is_wide, labels): Columns) -> TokenColumns {
    TokenColumns { tokens, is_wide, labels }
}

impl PyTokens {
    pub(super) fn added_to(&self, dataset: &PyDataset, sources: &[usize]) -> PyShardmillResult<PyDataset> {
        let derive = match &self.0 {
            Source::Text(derive) => Arc::clone(derive),
            Source::Function { function, columns, counts } => {
                let fields = sources.iter().filter_map(|source| dataset.0.schema().fields().get(*source));
                let schema = Arc::new(Schema::new(fields.cloned().collect::<Vec<_>>()));
                let counts = CountsDirectory::new(counts.clone());
                Arc::new(Function { function: Arc::clone(function), calls: Calls::new(), schema, outputs: columns.fields(), counts })
            }
        };
        Ok(PyDataset(Arc::new(dataset.0.with_derived(&derive, sources)?)))
    }
}

/// Lists that a function computes from all source columns of a batch.
#[derive(Debug)]
struct Function {
    function: Arc<Py<PyAny>>,
    calls: Calls,
    schema: SchemaRef,
    outputs: Vec<FieldRef>,
    counts: CountsDirectory,
}

impl Derive for Function {
    fn accepts(&self, _source: usize, _data_type: &DataType) -> bool {
        true
    }

    fn outputs(&self) -> &[FieldRef] {
        &self.outputs
    }

    fn compute(&self, sources: &[ArrayRef]) -> Result<Vec<ArrayRef>, Underivable> {
        let failed = Underivable::Batch;
        let rows = sources.first().map_or(0, Array::len);
        let in_types = sources.iter().zip(self.schema.fields()).map(|(source, field)| cast(source, field.data_type()));
        let columns = in_types.collect::<Result<Vec<_>, _>>().map_err(|error| failed(error.to_string()))?;
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns).map_err(|error| failed(error.to_string()))?;
        let call = |py: Python<'_>| -> PyResult<Vec<ArrayRef>> {
            let _call = self.calls.enter(py)?;
            let lists = self.function.bind(py).call1((PyRecordBatch::new(batch),))?;
            lists.try_iter()?.map(|list| Ok(list?.extract::<ArrowArray>()?.array)).collect()
        };
        let called = |py: Python<'_>| call(py).map_err(|error| failed(format!("the function raised {}", reason_of(py, error))));
        let lists = Python::try_attach(called).ok_or_else(|| failed("the interpreter exits".to_owned()))??;
        check_lists(&lists, &self.outputs, rows)?;
        Ok(lists)
    }

    fn counts(&self, cancel: &Cancel) -> shardmill_load::Result<Option<Arc<TokenCounts>>> {
        self.counts.open(cancel)
    }

    fn output_bytes(&self, source_bytes: u64) -> u64 {
        2 * source_bytes
    }
}

/// Rows whose lists are null, have a null, or differ in length.
fn check_lists(lists: &[ArrayRef], outputs: &[FieldRef], rows: usize) -> Result<(), Underivable> {
    let failed = |row: usize, reason: String| UnderivableRow { row, reason, ..UnderivableRow::default() };
    let mut failures: Vec<UnderivableRow> = Vec::new();
    let mut lengths: Option<Vec<i32>> = None;
    for (list, output) in lists.iter().zip(outputs) {
        let Some(list) = list.as_list_opt::<i32>().filter(|_| list.data_type() == output.data_type()) else {
            return Err(Underivable::Batch(format!("the function returned {} as {}", output.name(), type_name(list.data_type()))));
        };
        if list.len() != rows {
            return Err(Underivable::Batch(format!("the function returned {} rows of {} for {rows} rows", list.len(), output.name())));
        }
        if list.null_count() > 0 || list.values().null_count() > 0 {
            let is_bad = |row: &usize| list.is_null(*row) || list.value(*row).null_count() > 0;
            failures.extend((0..rows).filter(is_bad).map(|row| failed(row, format!("the function returned a null in {}", output.name()))));
        }
        let found: Vec<i32> = list.offsets().windows(2).map(|ends| ends.last().zip(ends.first()).map_or(0, |(end, start)| end - start)).collect();
        match &lengths {
            None => lengths = Some(found),
            Some(first) => {
                let differing = first.iter().zip(&found).enumerate().filter(|(_, (first, other))| first != other);
                failures.extend(differing.map(|(row, _)| failed(row, "the function returned lists of different lengths".to_owned())));
            }
        }
    }
    failures.sort_by_key(|failure| failure.row);
    failures.dedup_by_key(|failure| failure.row);
    if failures.is_empty() { Ok(()) } else { Err(Underivable::Rows(failures)) }
}
