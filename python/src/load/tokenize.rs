//! Columns of tokens.

use crate::arrow_data::ArrowArray;
use crate::calls::Calls;
use crate::error::{PyShardmillError, PyShardmillResult};
use crate::interrupt::reason_of;
use crate::tokens::PyTokenizer;
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::FieldRef;
use pyo3::prelude::*;
use pyo3_arrow::PyRecordBatch;
use shardmill_load::Derive;
use shardmill_load::tokenize::{
    AssistantSpans, Chat, CountsDirectory, FunctionTokens, InvalidBytes, Labels, ListFunction,
    NullTexts, TokenColumns, TokenInput, TokenOptions, Tokens,
};
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

    /// `templates` are the template, and another one for conversations with tools; `spans` is
    /// `generation`, `prefix` or `last`; `template_kwargs` is a JSON object.
    #[staticmethod]
    #[pyo3(signature = (
        tokenizer, templates, *,
        now, spans, template_kwargs, has_tools, has_documents, has_images,
    ))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of a Python call")]
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn chat(
        tokenizer: PyRef<'_, PyTokenizer>,
        templates: (String, Option<String>),
        now: Option<&str>,
        spans: &str,
        template_kwargs: &str,
        has_tools: bool,
        has_documents: bool,
        has_images: bool,
    ) -> PyShardmillResult<Self> {
        let invalid = |error: serde_json::Error| {
            PyShardmillError::option(&format!("template_kwargs is not valid JSON: {error}"))
        };
        let spans = match spans {
            "generation" => AssistantSpans::Generation,
            "prefix" => AssistantSpans::Prefix,
            "last" => AssistantSpans::Last,
            _ => return Err(PyShardmillError::option(&format!("unknown spans {spans:?}"))),
        };
        let template = |text: &str| {
            let template = ChatTemplate::new(text, tokenizer.tokenizer.roles(), now)?;
            Ok::<_, shardmill_tokens::Error>(if has_images {
                template.with_images()
            } else {
                template
            })
        };
        Ok(Self::new(TokenInput::Chat(Chat {
            template: template(&templates.0)?,
            tool_template: templates.1.as_deref().map(template).transpose()?,
            spans,
            template_kwargs: serde_json::from_str(template_kwargs).map_err(invalid)?,
            has_tools,
            has_documents,
        })))
    }

    /// A prompt and its completion; `chat` is for those that are messages, and `reason` tells why
    /// there is none.
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
    /// `labels` are the ignored label, whether only answers have labels,
    /// and whether each row needs one.
    #[new]
    #[pyo3(signature = (
        tokenizer, source, *,
        bos, eos, add_special_tokens, special_in_text, has_empty_nulls, is_lossy,
        max_document_bytes, labels, columns, counts,
    ))]
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
        let labels = labels.map(|(ignore_index, answers_only, required)| Labels {
            ignore_index,
            answers_only,
            required,
        });
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
        let tokens = Tokens::new(
            Arc::clone(&tokenizer.tokenizer),
            source.take()?,
            options,
            &named(columns),
            counts,
        )?;
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
    /// What computes them from the columns of these fields.
    pub(super) fn derive(&self, fields: Vec<FieldRef>) -> Arc<dyn Derive> {
        match &self.0 {
            Source::Text(derive) => Arc::clone(derive),
            Source::Function { function, columns, counts } => {
                let function =
                    Arc::new(Function { function: Arc::clone(function), calls: Calls::new() });
                let counts = CountsDirectory::new(counts.clone());
                Arc::new(FunctionTokens::new(function, fields.into(), columns, counts))
            }
        }
    }
}

/// A function of Python that gets a batch.
#[derive(Debug)]
struct Function {
    function: Arc<Py<PyAny>>,
    calls: Calls,
}

impl ListFunction for Function {
    fn call(&self, rows: RecordBatch) -> Result<Vec<ArrayRef>, String> {
        let call = |py: Python<'_>| -> PyResult<Vec<ArrayRef>> {
            let _call = self.calls.enter(py)?;
            let lists = self.function.bind(py).call1((PyRecordBatch::new(rows),))?;
            lists.try_iter()?.map(|list| Ok(list?.extract::<ArrowArray>()?.array)).collect()
        };
        let called = |py: Python<'_>| {
            call(py).map_err(|error| format!("the function raised {}", reason_of(py, error)))
        };
        Python::try_attach(called).unwrap_or_else(|| Err("the interpreter exits".to_owned()))
    }
}
