//! Folders that MosaicML Streaming wrote as JSON: shards of JSON Lines, which an index lists with their numbers of rows.
//!
//! Its CSV and TSV shards have separators and no quotes, so a reader of CSV would read other values; they are refused. The invariant: every shard of the
//! index is read, and nothing else of the folder.

use super::mds::{FolderIndex, stored};
use crate::{Error, Result};
use serde::Deserialize;
use shardmill_formats::mds::{Error as MdsError, FileEntry};
use shardmill_formats::table::TableError;
use shardmill_plan::DataFile;
use std::path::{Component, Path};

#[derive(Deserialize)]
struct StatedIndex {
    shards: Vec<StatedShard>,
}

#[derive(Deserialize)]
struct StatedShard {
    format: String,
    raw_data: FileEntry,
    zip_data: Option<FileEntry>,
    samples: u64,
}

/// A shard, and how many rows it has.
#[derive(Debug)]
pub struct TextShard {
    pub file: DataFile,
    pub samples: u64,
    /// What the index says of the file that is there.
    pub entry: FileEntry,
}

/// The shards of JSON Lines that the index of a directory lists. `None` for what is not a directory, and for one without such an index.
///
/// # Errors
/// For an index that cannot be read, and one of CSV or TSV shards.
pub fn text_files(path: &str) -> Result<Option<Vec<TextShard>>> {
    FolderIndex::of(path)?.map_or(Ok(None), |index| text_shards(&index))
}

/// The shards of an index; `None` for an index of something else.
pub(super) fn text_shards(index: &FolderIndex) -> Result<Option<Vec<TextShard>>> {
    let Ok(stated) = serde_json::from_slice::<StatedIndex>(&index.bytes) else { return Ok(None) };
    if let Some(other) = stated.shards.iter().find(|shard| matches!(shard.format.as_str(), "csv" | "tsv" | "xsv")) {
        return Err(Error::TextShards { path: index.path.clone(), format: other.format.clone() });
    }
    if stated.shards.is_empty() || stated.shards.iter().any(|shard| shard.format != "json") {
        return Ok(None);
    }
    let roots = index.roots();
    let shard = |shard: StatedShard| -> Result<TextShard> {
        for entry in [Some(&shard.raw_data), shard.zip_data.as_ref()].into_iter().flatten() {
            if !Path::new(&entry.basename).components().all(|part| matches!(part, Component::Normal(_))) {
                let reason = format!("`{}` does not lie below its folder", entry.basename);
                return Err(TableError::from(MdsError::Index { path: index.path.clone(), reason }).into());
            }
        }
        let file = stored(index, &roots, &shard.raw_data, shard.zip_data.as_ref())?;
        let entry = shard.zip_data.filter(|zip| zip.basename == file.relative).unwrap_or(shard.raw_data);
        Ok(TextShard { file, samples: shard.samples, entry })
    };
    stated.shards.into_iter().map(shard).collect::<Result<_>>().map(Some)
}
