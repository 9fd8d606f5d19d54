//! What the user chooses.

use serde::Deserialize;
use shardmill_documents::source::keys::SampleKeys;
use shardmill_formats::token_files::{Dtype, TokenOptions};
use shardmill_load::TokenFileOptions;
use std::collections::HashMap;

/// The rules that a tar must follow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// `Written` if one of the first samples begins with the keys that the sink writes first.
    #[default]
    Auto,
    /// Any shard that can be a source: entries may be opaque, and other members may exist.
    Source,
    /// As written by the sink: `sample_id`, lists of equal length, each image member named by one
    /// entry of its own sample.
    Written,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CheckOptions {
    pub keys: SampleKeys,
    /// Read concatenated tars to their last member.
    pub ignore_zeros: bool,
    /// For `inspect`: number of first texts and image names in the result.
    pub first: usize,
    /// For `verify`.
    pub layout: Layout,
    /// For `verify`: a filter ran, so positions must be exactly 0..n−1, without duplicates.
    pub is_renumbered: bool,
    /// For `verify`: maximal number of problems listed per file; all are counted.
    pub max_problems: usize,
    /// Every token id must be below it.
    pub vocab_size: Option<u64>,
    /// How files of tokens without a header store an id.
    pub dtype: Option<String>,
    /// The mask of each `.npy` file of tokens that has one.
    pub label_masks: HashMap<String, String>,
}

impl CheckOptions {
    pub(crate) fn token_files(&self, path: &str) -> TokenFileOptions {
        let dtype = self.dtype.as_deref().and_then(Dtype::parse);
        let tokens = TokenOptions { dtype, vocab_size: self.vocab_size, ..TokenOptions::default() };
        let label_masks = self.label_masks.get(path).cloned().into_iter().collect();
        TokenFileOptions { tokens, label_masks, ..TokenFileOptions::default() }
    }
}
