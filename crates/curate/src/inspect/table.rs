//! Looks into one file as a data set of its own: its columns and how many rows it has.

use super::summary::{ColumnSummary, Inspection};
use crate::error::reason;
use crate::verify::open_alone;
use shardmill_engine::Cancel;
use shardmill_load::Format;

pub(super) fn inspect_table(path: &str, format: Format, cancel: &Cancel, inspection: &mut Inspection) {
    let dataset = match open_alone(path, format, cancel) {
        Ok(dataset) => dataset,
        Err(error) => return inspection.damaged(reason(&error)),
    };
    for (number, file) in dataset.files().iter().enumerate() {
        inspection.samples += file.table.blocks().iter().map(|block| block.rows).sum::<u64>();
        if number > 0 {
            continue;
        }
        inspection.columns.extend(file.table.declared_schema().fields().iter().map(|field| ColumnSummary {
            name: field.name().clone(),
            data_type: field.data_type().to_string(),
            codecs: Vec::new(),
            stored_bytes: None,
            decoded_bytes: None,
        }));
    }
    inspection.rows.other = inspection.samples;
}

/// All shards of JSON Lines that the index at `path` lists.
pub(super) fn inspect_text_index(path: &str, cancel: &Cancel, inspection: &mut Inspection) {
    inspect_table(path.rsplit_once('/').map_or(".", |(folder, _name)| folder), Format::Jsonl, cancel, inspection);
}
