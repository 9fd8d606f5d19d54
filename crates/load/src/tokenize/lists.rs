//! Builds the lists of tokens and labels of a batch.

use arrow_array::types::{ArrowPrimitiveType, Int32Type, Int64Type};
use arrow_array::{ArrayRef, ListArray, PrimitiveArray};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, FieldRef};
use std::sync::Arc;

/// From this number on, tokens become an array in place. Fewer are copied to memory of their size.
const MANY_TOKENS: usize = 4 << 20;

/// Tokens row after row. The invariant: there are as many labels as tokens, or none at all.
#[derive(Debug)]
pub(super) struct Lists {
    pub(super) tokens: Vec<u32>,
    pub(super) labels: Vec<i64>,
    ends: Vec<i32>,
}

impl Lists {
    pub(super) fn with_rows(rows: usize) -> Self {
        let mut ends = Vec::with_capacity(rows + 1);
        ends.push(0);
        Self { tokens: Vec::new(), labels: Vec::new(), ends }
    }

    /// Ends a row: its tokens are those since the last end. False if a batch cannot hold that many.
    #[must_use]
    pub(super) fn end_row(&mut self) -> bool {
        i32::try_from(self.tokens.len()).map(|end| self.ends.push(end)).is_ok()
    }

    /// Arrays of the types of `fields`: tokens, and labels if there is a second field.
    pub(super) fn into_arrays(self, fields: &[FieldRef]) -> Result<Vec<ArrayRef>, ArrowError> {
        let offsets = OffsetBuffer::new(ScalarBuffer::from(self.ends));
        let (mut tokens, mut labels) = (self.tokens, Some(self.labels));
        let mut arrays = Vec::with_capacity(fields.len());
        for (place, field) in fields.iter().enumerate() {
            let DataType::List(item) = field.data_type() else { continue };
            let values: ArrayRef = match (place, item.data_type()) {
                (0, DataType::Int32) if tokens.len() >= MANY_TOKENS => {
                    let ids: Vec<i32> = std::mem::take(&mut tokens).into_iter().map(u32::cast_signed).collect();
                    Arc::new(PrimitiveArray::<Int32Type>::from(ids))
                }
                (0, DataType::Int32) => Arc::new(in_type::<Int32Type>(tokens.iter().map(|id| id.cast_signed()))),
                (0, _) => Arc::new(in_type::<Int64Type>(tokens.iter().map(|id| i64::from(*id)))),
                _ => Arc::new(PrimitiveArray::<Int64Type>::from(labels.take().unwrap_or_default())),
            };
            arrays.push(Arc::new(ListArray::try_new(Arc::clone(item), offsets.clone(), values, None)?) as ArrayRef);
        }
        Ok(arrays)
    }
}

fn in_type<T: ArrowPrimitiveType>(values: impl ExactSizeIterator<Item = T::Native>) -> PrimitiveArray<T> {
    PrimitiveArray::from_iter_values(values)
}
