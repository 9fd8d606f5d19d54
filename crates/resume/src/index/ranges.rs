//! Whether ids of an index may lie between two values, without looking for them.

use super::IdIndex;
use crate::keys::Keys;
use arrow_array::{Array, ArrayRef};

/// False only when it is certain.
pub(super) fn may_contain(index: &IdIndex, min: &ArrayRef, max: &ArrayRef) -> bool {
    if index.is_empty() {
        return false;
    }
    let Some(column) = index.schema().single() else { return true };
    if !column.id_type.is_narrow() || index.footer.narrow.is_some() {
        return true;
    }
    match (key_of(index, min), key_of(index, max)) {
        (Some(from), Some(to)) => index.footer.dense.may_contain(&index.file, from..=to),
        _ => true,
    }
}

fn key_of(index: &IdIndex, value: &ArrayRef) -> Option<u64> {
    let ids = index.encoder.prepare(std::slice::from_ref(value)).ok()?;
    let mut keys = Keys::default();
    index.encoder.encode(&ids, 0..value.len().min(1), &mut keys).ok()?;
    keys.narrow.keys.first().copied()
}
