//! Columns of a file of tokens.

use super::Dtype;
use arrow_schema::{DataType, Field};
use std::sync::Arc;

/// Metadata of the column of tokens: how the file stores an id.
pub const STORED_DTYPE: &str = "tokens.dtype";

/// What a column is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Column {
    Tokens,
    LossMask,
    Modes,
    SequenceLengths,
    NumTokens,
}

impl Column {
    pub(super) fn field(self, dtype: Dtype) -> Field {
        let list = |item| DataType::List(Arc::new(Field::new_list_field(item, false)));
        match self {
            Self::Tokens => {
                let stored = [(STORED_DTYPE.to_owned(), dtype.name().to_owned())];
                Field::new("tokens", list(dtype.delivered()), false).with_metadata(stored.into())
            }
            Self::LossMask => Field::new("loss_mask", list(DataType::Boolean), false),
            Self::Modes => Field::new("modes", list(DataType::Int8), false),
            Self::SequenceLengths => Field::new("sequence_lengths", list(DataType::Int32), false),
            Self::NumTokens => Field::new("num_tokens", DataType::Int64, false),
        }
    }
}
