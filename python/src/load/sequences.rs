//! Sequences of documents.

use super::tokenize::PyTokens;
use crate::pixels::PyImages;
use crate::tokens::PyTokenizer;
use pyo3::prelude::*;
use shardmill_load::sequences::{Chats, LabelKind, SequenceLabels, SequenceOptions, Sequences};
use shardmill_load::tokenize::CountsDirectory;
use std::sync::Arc;

#[pyclass(name = "Sequences", module = "shardmill._native.load", frozen)]
pub(crate) struct PySequences(pub(super) Arc<Sequences>);

#[pymethods]
impl PySequences {
    /// `block` has the placeholder of an image, the ids before and after its replacement, and those
    /// of the pieces of the rule. `chats` has the tokens of messages and the columns that they are
    /// computed from. `labels` are the name of their column, the ignored label, the kind, and
    /// whether each document must have a label.
    #[new]
    #[pyo3(signature = (
        tokenizer, images, *, bos, eos, separator, block, marker, chats, tokens, labels, counts,
    ))]
    #[expect(clippy::too_many_arguments, reason = "keyword arguments of a Python call")]
    #[expect(clippy::needless_pass_by_value, reason = "arguments from Python arrive by value")]
    fn new(
        tokenizer: PyRef<'_, PyTokenizer>,
        images: Option<PyRef<'_, PyImages>>,
        bos: Option<u32>,
        eos: Option<u32>,
        separator: Vec<u32>,
        block: (u32, Vec<u32>, Vec<u32>, Vec<Vec<u32>>),
        marker: Option<String>,
        chats: Option<(PyRef<'_, PyTokens>, Vec<String>)>,
        tokens: String,
        labels: Option<(String, i64, String, bool)>,
        counts: String,
    ) -> Self {
        let (placeholder, prefix, suffix, pieces) = block;
        let labels = labels.map(|(column, ignore_index, kind, required)| SequenceLabels {
            column,
            ignore_index,
            kind: match kind.as_str() {
                "all" => LabelKind::All,
                "completion" => LabelKind::Completion,
                // The labels of "assistant" come with the messages.
                _ => LabelKind::Texts,
            },
            required,
        });
        let options = SequenceOptions {
            bos,
            eos,
            separator,
            prefix,
            suffix,
            placeholder,
            pieces,
            marker,
            labels,
            tokens,
        };
        Self(Arc::new(Sequences::new(
            Arc::clone(&tokenizer.tokenizer),
            images.map(|images| Arc::clone(&images.0)),
            options,
            chats.map(|(tokens, columns)| Chats { tokens: tokens.derive(Vec::new()), columns }),
            CountsDirectory::new(Some(counts)),
        )))
    }

    /// Names of the columns that are computed.
    #[getter]
    fn outputs(&self) -> Vec<String> {
        self.0.names().map(str::to_owned).collect()
    }
}
