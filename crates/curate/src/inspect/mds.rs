//! Looks into MDS shards: how many samples there are, by heads and index alone.

use super::summary::{DamageSummary, Inspection};
use crate::error::reason;
use shardmill_formats::mds::{MdsFile, MdsOptions};
use shardmill_load::indexed_files;
use shardmill_storage::{RangeRead, store_of};
use std::sync::Arc;

pub(super) fn inspect_shard(object: Arc<dyn RangeRead>, inspection: &mut Inspection) {
    match MdsFile::open(object, &MdsOptions::default()) {
        Ok(file) => {
            inspection.samples = file.num_samples();
            inspection.rows.other = file.num_samples();
        }
        Err(error) => inspection.damaged(reason(&error)),
    }
}

/// The index stands for its shards. Each is held against its entry, by its head and its size.
pub(super) fn inspect_index(path: &str, inspection: &mut Inspection) {
    let folder = path.rsplit_once('/').map_or(".", |(folder, _name)| folder);
    let files = match indexed_files(folder) {
        Ok(Some(files)) => files,
        Ok(None) => return inspection.damaged("it is not an index of MDS shards"),
        Err(error) => return inspection.damaged(reason(&error)),
    };
    for indexed in files {
        inspection.samples += indexed.entry.samples;
        inspection.rows.other += indexed.entry.samples;
        inspection.bytes_by_modality.other += indexed.entry.file().bytes;
        let options = MdsOptions { entry: Some(indexed.entry), ..MdsOptions::default() };
        let opened = store_of(&indexed.file.path).and_then(|store| store.open(&indexed.file.path));
        let damage = match opened.map(|object| MdsFile::open(object, &options)) {
            Ok(Ok(_file)) => continue,
            Ok(Err(error)) => reason(&error),
            Err(error) => reason(&error),
        };
        inspection.damage.push(DamageSummary { member: Some(indexed.file.relative), offset: None, reason: damage });
    }
}
