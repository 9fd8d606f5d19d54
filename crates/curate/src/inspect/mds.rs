//! Inspects MDS shards: samples and columns, using only heads and index.

use super::summary::{ColumnSummary, DamageSummary, Inspection};
use crate::error::reason;
use crate::file_format::directory_of;
use shardmill_formats::mds::{MdsFile, MdsOptions};
use shardmill_formats::table::TableFile;
use shardmill_load::indexed_files;
use shardmill_storage::{RangeRead, store_of};
use std::sync::Arc;

pub(super) fn inspect_shard(object: Arc<dyn RangeRead>, inspection: &mut Inspection) {
    if let Some(file) = inspection.readable(MdsFile::open(object, &MdsOptions::default())) {
        inspection.samples = file.num_samples();
        inspection.rows.other = file.num_samples();
        inspection.columns = columns_of(&file);
    }
}

fn columns_of(file: &MdsFile) -> Vec<ColumnSummary> {
    file.declared_schema().fields().iter().map(|field| ColumnSummary::of(field)).collect()
}

/// The index represents its shards. Each is checked against its entry, by its head and its size.
pub(super) fn inspect_index(path: &str, inspection: &mut Inspection) {
    let Some(files) = inspection.readable(indexed_files(directory_of(path))) else { return };
    let Some(files) = files else { return inspection.damaged("it is not an index of MDS shards") };
    for indexed in files {
        inspection.samples += indexed.entry.samples;
        inspection.rows.other += indexed.entry.samples;
        inspection.bytes_by_modality.other += indexed.entry.file().bytes;
        let options = MdsOptions { entry: Some(indexed.entry), ..MdsOptions::default() };
        let opened = store_of(&indexed.file.path).and_then(|store| store.open(&indexed.file.path));
        let damage = match opened.map(|object| MdsFile::open(object, &options)) {
            Ok(Ok(file)) => {
                // All shards of an index have the same columns.
                if inspection.columns.is_empty() {
                    inspection.columns = columns_of(&file);
                }
                continue;
            }
            Ok(Err(error)) => reason(&error),
            Err(error) => reason(&error),
        };
        inspection.damage.push(DamageSummary { member: Some(indexed.file.relative), offset: None, reason: damage });
    }
}
