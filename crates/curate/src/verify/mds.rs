//! Checks MDS shards: the index against its shards, every hash, and the structure of every sample.

use super::table::read_blocks;
use super::{FileCheck, Problem, Rule};
use crate::Result;
use crate::error::reason;
use crate::file_format::directory_of;
use shardmill_engine::Cancel;
use shardmill_formats::mds::{Error, FileEntry, HashAlgorithm, MdsFile, MdsOptions, ShardEntry};
use shardmill_load::indexed_files;
use shardmill_storage::{RangeRead, store_of};
use std::collections::BTreeSet;
use std::sync::Arc;

/// All shards that the index at `path` lists.
pub(super) fn verify_index(path: &str, cancel: &Cancel, check: &mut FileCheck) -> Result<()> {
    let Some(files) = check.readable(indexed_files(directory_of(path))) else { return Ok(()) };
    let Some(files) = files else {
        check.report(Problem::new(Rule::Readable, "it is not an index of MDS shards"));
        return Ok(());
    };
    for indexed in files {
        cancel.check()?;
        let place = &indexed.file.relative;
        report_unknown_hashes(std::iter::once(&indexed.entry.raw_data).chain(&indexed.entry.zip_data), place, check);
        match store_of(&indexed.file.path).and_then(|store| store.open(&indexed.file.path)) {
            Ok(object) => verify_shard(object, Some(Arc::clone(&indexed.entry)), place, cancel, check)?,
            Err(error) => check.report(Problem::new(Rule::Readable, reason(&error)).at_member(place, 0)),
        }
    }
    Ok(())
}

/// Checks one shard, by itself or against its entry.
pub(super) fn verify_shard(
    object: Arc<dyn RangeRead>,
    entry: Option<Arc<ShardEntry>>,
    place: &str,
    cancel: &Cancel,
    check: &mut FileCheck,
) -> Result<()> {
    let options = MdsOptions { entry, has_pickle_bytes: true, ..MdsOptions::default() };
    let verified = MdsFile::open(object, &options).and_then(|file| file.verify().map(|()| file));
    match verified {
        // Checks what the structure does not show: text that is not UTF-8, arrays of the wrong type.
        Ok(file) => read_blocks(&file, Some(place), cancel, check)?,
        Err(error) => {
            let rule = if matches!(error, Error::IndexMismatch { .. } | Error::Hash { .. }) { Rule::Structure } else { Rule::Readable };
            check.report(Problem::new(rule, reason(&error)).at_member(place, 0));
        }
    }
    Ok(())
}

/// Reports hashes of unsupported algorithms, each algorithm once.
pub(super) fn report_unknown_hashes<'a>(files: impl IntoIterator<Item = &'a FileEntry>, place: &str, check: &mut FileCheck) {
    let names = files.into_iter().flat_map(|file| file.hashes.keys());
    let unknown: BTreeSet<&String> = names.filter(|name| HashAlgorithm::parse(name).is_none()).collect();
    for algorithm in unknown {
        check.report(Problem::new(Rule::Structure, format!("hash `{algorithm}` cannot be computed here")).at_member(place, 0));
    }
}
