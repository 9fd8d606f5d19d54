//! Several indexes as one set, so that ids can be added without rebuilding it.

use super::IdIndex;
use crate::{DoneIds, Result};
use arrow_array::{Array, ArrayRef};
use arrow_buffer::BooleanBuffer;
use std::sync::Arc;

/// The union of indexes with the same columns.
#[derive(Debug)]
pub struct Levels(Vec<Arc<IdIndex>>);

impl Levels {
    #[must_use]
    pub fn new(indexes: Vec<Arc<IdIndex>>) -> Self {
        Self(indexes)
    }
}

impl DoneIds for Levels {
    fn columns(&self) -> &[String] {
        self.0.first().map(|index| index.columns()).unwrap_or_default()
    }

    fn contains(&self, ids: &[ArrayRef]) -> Result<BooleanBuffer> {
        let rows = ids.first().map_or(0, Array::len);
        let mut found = BooleanBuffer::new_unset(rows);
        for index in &self.0 {
            found = &found | &index.contains(ids)?;
            if found.count_set_bits() == rows {
                break;
            }
        }
        Ok(found)
    }

    fn may_contain(&self, min: &ArrayRef, max: &ArrayRef) -> bool {
        self.0.iter().any(|index| index.may_contain(min, max))
    }
}
