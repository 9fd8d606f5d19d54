//! Looks into MDS shards: how many samples there are, by heads and index alone.

use super::summary::Inspection;
use crate::error::reason;
use shardmill_formats::mds::{Index, MdsFile, MdsOptions};
use shardmill_storage::RangeRead;
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

/// The index stands for its shards.
pub(super) fn inspect_index(object: &dyn RangeRead, inspection: &mut Inspection) {
    let mut bytes = Vec::new();
    if let Err(error) = crate::payload::append_range(object, &(0..object.size()), &mut bytes) {
        inspection.damaged(reason(&error));
        return;
    }
    match Index::parse(object.path(), &bytes) {
        Ok(index) => {
            inspection.samples = index.shards.iter().map(|shard| shard.samples).sum();
            inspection.rows.other = inspection.samples;
            inspection.bytes_by_modality.other = index.shards.iter().map(|shard| shard.file().bytes).sum();
        }
        Err(error) => inspection.damaged(reason(&error)),
    }
}
