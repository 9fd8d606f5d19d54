//! Rebuilds the index of a directory of MDS shards from the shards.
//!
//! Every shard is read completely before anything is written. The invariant: the index is replaced
//! atomically, or the old one stays.

use super::mds::whole;
use crate::{Error, Result};
use shardmill_engine::{Cancel, run_in_order};
use shardmill_formats::mds::{
    Compression, Error as MdsError, INDEX_NAME, Index, RebuiltShard, ShardEntry, rebuild_shard,
};
use shardmill_formats::table::TableError;
use shardmill_plan::data_files;
use shardmill_storage::{AnyStore, Replace, Store};
use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

/// Rebuilds `index.json` of a directory from its shards, and returns the number of shards and
/// samples that it lists.
///
/// # Errors
/// For a directory without shards, and for the first shard that is damaged or has different
/// columns; nothing is written then.
pub fn rebuild_index(directory: &str, threads: usize, cancel: &Cancel) -> Result<(u64, u64)> {
    let directory = directory.trim_end_matches('/');
    let files = data_files(&[directory.to_owned()])?;
    let is_shard = |name: &str| {
        name.starts_with("shard.")
            && (name.ends_with(".mds") || Compression::of_path(name).is_some())
    };
    let mut names: Vec<String> = files
        .into_iter()
        .map(|file| file.relative)
        .filter(|name| !name.contains('/') && is_shard(name))
        .collect();
    // If a shard exists twice, the stored file counts, not the copy that a reader decompressed.
    let stored: HashSet<String> = names
        .iter()
        .filter_map(|name| {
            Some(
                name.strip_suffix(Compression::of_path(name)?.extension())?
                    .trim_end_matches('.')
                    .to_owned(),
            )
        })
        .collect();
    names.retain(|name| !stored.contains(name));
    // From 100,000 shards on, the order of bytes is not that of numbers.
    let number_of = |name: &str| -> u64 {
        name.split('.').nth(1).and_then(|number| number.parse().ok()).unwrap_or(u64::MAX)
    };
    names.sort_by_cached_key(|name| (number_of(name), name.clone()));
    if names.is_empty() {
        return Err(shardmill_plan::Error::NoInput {
            paths: directory.to_owned(),
            wanted: "`shard.*.mds`".to_owned(),
        }
        .into());
    }
    let paths: Vec<(String, String)> =
        names.into_iter().map(|name| (format!("{directory}/{name}"), name)).collect();
    let count = paths.len();
    let work = move |number: usize| -> Result<RebuiltShard> {
        let Some((path, name)) = paths.get(number) else {
            return Err(shardmill_engine::Error::Cancelled.into());
        };
        let rebuilt = rebuild_shard(AnyStore.open(path)?, name).map_err(TableError::from)?;
        if rebuilt.is_uncompressed_copy {
            let reason =
                "its config names a compression, and only a copy without it is there".to_owned();
            return Err(TableError::from(MdsError::Shard {
                path: path.clone(),
                field: "compression",
                reason,
            })
            .into());
        }
        Ok(rebuilt)
    };
    let rebuilt = run_in_order(count, threads.max(1), cancel, move |number| {
        ControlFlow::Continue(work(number))
    })?;
    let mut index = Index::default();
    for shard in rebuilt {
        let entry = shard.map_err(Error::from)??.entry;
        if let Some(first) = index.shards.first() {
            first.config.columns.check_equal(&entry.config.columns).map_err(TableError::from)?;
        }
        index.shards.push(entry);
    }
    check_old_index(directory, &index)?;
    let samples = index.shards.iter().map(|shard| shard.samples).sum();
    publish(&format!("{directory}/{INDEX_NAME}"), index.to_json().as_bytes())?;
    Ok((index.shards.len() as u64, samples))
}

/// A readable index still describes its shards: a new one must not hide damage.
fn check_old_index(directory: &str, new: &Index) -> Result<()> {
    let path = format!("{directory}/{INDEX_NAME}");
    let Ok(object) = AnyStore.open(&path) else { return Ok(()) };
    let Ok(old) = Index::parse(&path, &whole(object.as_ref())?) else { return Ok(()) };
    let shards: HashMap<&str, &ShardEntry> =
        new.shards.iter().map(|shard| (shard.file().basename.as_str(), shard)).collect();
    for entry in &old.shards {
        let basename = &entry.file().basename;
        let refused = |field, reason| {
            let reason =
                format!("{reason}; to index what is there all the same, remove `{path}` first");
            TableError::from(MdsError::Shard {
                path: format!("{directory}/{basename}"),
                field,
                reason,
            })
        };
        let Some(found) = shards.get(basename.as_str()) else {
            return Err(
                refused("basename", "the index lists it, and it is not there".to_owned()).into()
            );
        };
        let files = [
            (Some(&entry.raw_data), Some(&found.raw_data)),
            (entry.zip_data.as_ref(), found.zip_data.as_ref()),
        ];
        for (listed, found) in files.into_iter().filter_map(|(listed, found)| listed.zip(found)) {
            let differs = |(name, hash): &(&String, &String)| {
                found.hashes.get(*name).is_some_and(|found| found != *hash)
            };
            if let Some((name, hash)) = listed.hashes.iter().find(differs) {
                return Err(refused(
                    "hashes",
                    format!("the index has {name} `{hash}`, and its content has another"),
                )
                .into());
            }
        }
    }
    Ok(())
}

fn publish(path: &str, content: &[u8]) -> Result<()> {
    // An identical index is not written again.
    if AnyStore
        .open(path)
        .is_ok_and(|object| whole(object.as_ref()).is_ok_and(|old| old == content))
    {
        return Ok(());
    }
    Ok(AnyStore.publish(path, content, Replace::Atomically)?)
}
