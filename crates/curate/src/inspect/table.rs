//! Inspects a file as a data set: its columns and its number of rows.

use super::summary::{ColumnSummary, Inspection};
use crate::file_format::directory_of;
use crate::verify::open_alone;
use shardmill_engine::Cancel;
use shardmill_load::Format;

pub(super) fn inspect_table(path: &str, format: Format, cancel: &Cancel, inspection: &mut Inspection) {
    let Some(dataset) = inspection.readable(open_alone(path, format, cancel)) else { return };
    inspection.samples = dataset.files().iter().flat_map(|file| file.table.blocks()).map(|block| block.rows).sum();
    let fields = dataset.files().first().map(|file| file.table.declared_schema().fields());
    inspection.columns.extend(fields.into_iter().flatten().map(|field| ColumnSummary::of(field)));
    inspection.rows.other = inspection.samples;
}

/// All JSON Lines shards that the index at `path` lists.
pub(super) fn inspect_text_index(path: &str, cancel: &Cancel, inspection: &mut Inspection) {
    inspect_table(directory_of(path), Format::Jsonl, cancel, inspection);
}
