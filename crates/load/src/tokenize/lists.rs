//! Builds the lists of tokens and labels of a batch.

use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{ArrayRef, ListArray, PrimitiveArray};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, FieldRef};
use std::sync::Arc;

/// Only a single long text has this number of ids.
const LARGE_IDS: usize = 16 << 20;

/// Tokens row after row. The invariant: there are as many labels as tokens, or none at all.
#[derive(Debug)]
pub(crate) struct Lists {
    pub(crate) tokens: Vec<u32>,
    pub(crate) labels: Vec<i64>,
    ends: Vec<i32>,
}

impl Lists {
    pub(crate) fn with_rows(rows: usize) -> Self {
        let mut ends = Vec::with_capacity(rows + 1);
        ends.push(0);
        Self { tokens: Vec::new(), labels: Vec::new(), ends }
    }

    /// Makes room for the tokens of `left` more rows, which are expected to be as long as the
    /// `done` ones.
    pub(crate) fn reserve(&mut self, done: usize, left: usize) {
        let each = self.tokens.len().div_ceil(done.max(1));
        self.tokens.reserve(each.saturating_mul(left).saturating_add(self.tokens.len() / 16));
    }

    /// Ends a row: its tokens are those since the last end. False if a batch cannot hold that many.
    #[must_use]
    pub(crate) fn end_row(&mut self) -> bool {
        i32::try_from(self.tokens.len()).map(|end| self.ends.push(end)).is_ok()
    }

    /// Arrays of the types of `fields`: tokens, and labels if there is a second field.
    pub(crate) fn into_arrays(self, fields: &[FieldRef]) -> Result<Vec<ArrayRef>, ArrowError> {
        let offsets = OffsetBuffer::new(ScalarBuffer::from(self.ends));
        let (mut tokens, mut labels) = (self.tokens, Some(self.labels));
        let mut arrays = Vec::with_capacity(fields.len());
        for (place, field) in fields.iter().enumerate() {
            let DataType::List(item) = field.data_type() else { continue };
            let values: ArrayRef = match (place, item.data_type()) {
                (0, DataType::Int32) => {
                    let mut ids = std::mem::take(&mut tokens);
                    // Shrinking in place releases no memory, so the ids are copied. The unused end
                    // of a large vector was never touched, and costs less than a copy would.
                    let is_loose = ids.capacity() > ids.len() + ids.len() / 16;
                    if is_loose && ids.len() < LARGE_IDS {
                        ids = ids.as_slice().to_vec();
                    }
                    let count = ids.len();
                    Arc::new(PrimitiveArray::<Int32Type>::new(
                        ScalarBuffer::new(Buffer::from_vec(ids), 0, count),
                        None,
                    ))
                }
                (0, _) => Arc::new(PrimitiveArray::<Int64Type>::from_iter_values(
                    tokens.iter().map(|id| i64::from(*id)),
                )),
                _ => Arc::new(PrimitiveArray::<Int64Type>::from(labels.take().unwrap_or_default())),
            };
            arrays.push(Arc::new(ListArray::try_new(
                Arc::clone(item),
                offsets.clone(),
                values,
                None,
            )?) as ArrayRef);
        }
        Ok(arrays)
    }
}
