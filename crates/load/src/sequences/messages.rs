//! The tokens of conversations, as those of texts are computed, before images take their places.

use crate::dataset::{Derive, Underivable};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{ArrayRef, ListArray};

/// Tokens and labels of the conversations of a batch.
pub(super) struct Messages {
    tokens: ListArray,
    labels: Option<ListArray>,
}

impl Messages {
    /// `before` is the number of sources before those of conversations.
    pub(super) fn of(
        derive: &dyn Derive,
        sources: &[ArrayRef],
        before: usize,
    ) -> Result<Self, Underivable> {
        let made = derive.compute(sources).map_err(|failure| match failure {
            Underivable::Rows(mut rows) => {
                rows.iter_mut().for_each(|row| row.source += before);
                Underivable::Rows(rows)
            }
            batch @ Underivable::Batch(_) => batch,
        })?;
        let mut lists = made.iter().filter_map(|lists| lists.as_list_opt::<i32>().cloned());
        let missing = || Underivable::Batch("the tokens of messages are not lists".to_owned());
        Ok(Self { tokens: lists.next().ok_or_else(missing)?, labels: lists.next() })
    }

    /// The tokens of a row, each with its label if there are labels.
    pub(super) fn of_row(&self, row: usize) -> (Vec<i32>, Vec<i64>) {
        let tokens = self.tokens.value(row);
        let tokens = tokens.as_primitive_opt::<Int32Type>();
        let labels = self.labels.as_ref().map(|labels| labels.value(row));
        let labels = labels.as_ref().and_then(|labels| labels.as_primitive_opt::<Int64Type>());
        (
            tokens.map_or_else(Vec::new, |tokens| tokens.values().to_vec()),
            labels.map_or_else(Vec::new, |labels| labels.values().to_vec()),
        )
    }
}
