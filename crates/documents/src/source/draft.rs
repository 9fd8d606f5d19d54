//! Documents whose passthrough values are not in a table yet.

use super::values::{JobColumns, Values};
use crate::{Chunk, Lineage, Result, Row};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Draft {
    pub id: String,
    pub rows: Vec<(Row, Values)>,
    /// The input file, as index in the split.
    pub file: usize,
}

impl Draft {
    /// Approximate size, for splitting batches.
    pub(super) fn byte_size(&self) -> u64 {
        self.rows.iter().map(|(row, values)| row.byte_size() + values.byte_size()).sum()
    }

    /// The keys of rescued values.
    pub(super) fn rescued(&self) -> impl Iterator<Item = &String> {
        self.rows.iter().flat_map(|(_, values)| values.rescued())
    }
}

/// # Errors
/// For a value that a declared type does not hold.
pub(super) fn chunk_of(
    drafts: impl Iterator<Item = Draft>,
    columns: &JobColumns<'_>,
    lineage: Lineage,
) -> Result<Chunk> {
    let (mut documents, mut rows, mut values) = (Vec::new(), Vec::new(), Vec::new());
    for draft in drafts {
        documents.push(draft.id);
        rows.extend(
            draft.rows.into_iter().map(|(row, row_values)| {
                numbered(row, row_values, documents.len() - 1, &mut values)
            }),
        );
    }
    let extras = columns.table(&values)?;
    Ok(Chunk { documents, rows, extras, schema: Arc::clone(&columns.schema), lineage })
}

fn numbered(row: Row, row_values: Values, document: usize, values: &mut Vec<Values>) -> Row {
    let extra = if row_values.is_empty() {
        None
    } else {
        values.push(row_values);
        u32::try_from(values.len() - 1).ok()
    };
    Row { document, extra, ..row }
}
