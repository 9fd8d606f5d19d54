//! What every format becomes.

use super::engine::Normalizer;
use super::unigram::Unigram;
use super::vocabulary::Vocabulary;
use serde_json::Value;

pub(crate) struct Model {
    /// A canonical `tokenizer.json` without pre-tokenizer, truncation and padding.
    pub(crate) text: String,
    /// The pre-tokenizer.
    pub(crate) splitter: Option<Value>,
    /// In place of the normalizer of `text`.
    pub(crate) normalizer: Option<Box<dyn Normalizer>>,
    /// What writes markers for spaces, after added tokens are found.
    pub(crate) spaces: Option<Value>,
    /// Whether unknown characters become tokens of their bytes.
    pub(crate) has_byte_tokens: bool,
    pub(crate) vocabulary: Vocabulary,
    /// The Unigram model, which is not in `text`.
    pub(crate) unigram: Option<Unigram>,
    /// Changes of ids by the settings of a directory.
    pub(crate) changes: Vec<String>,
    pub(crate) template: Template,
}

/// The ids that the file's post-processor adds around a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Template {
    pub(crate) prefix: Vec<u32>,
    pub(crate) suffix: Vec<u32>,
}
