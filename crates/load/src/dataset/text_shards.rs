//! Directories that MosaicML Streaming wrote as JSON: JSON Lines shards, which an index lists with
//! their numbers of rows.
//!
//! Its CSV and TSV shards have separators but no quotes, so a CSV reader would read other values;
//! they are rejected. The invariant: exactly the shards of the index are read.

use super::mds::{DirectoryIndex, stored};
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

/// A shard, and its number of rows.
#[derive(Debug)]
pub struct TextShard {
    pub file: DataFile,
    pub samples: u64,
    /// The index entry of the stored file.
    pub entry: FileEntry,
}

/// The JSON Lines shards that the index of a directory lists. `None` for a path that is not a
/// directory, and for one without such an index.
///
/// # Errors
/// For an index that cannot be read, and one of CSV or TSV shards.
pub fn text_files(path: &str) -> Result<Option<Vec<TextShard>>> {
    DirectoryIndex::of(path)?.map_or(Ok(None), |index| text_shards(&index))
}

/// The shards of an index; `None` for an index of something else.
pub(super) fn text_shards(index: &DirectoryIndex) -> Result<Option<Vec<TextShard>>> {
    let Ok(stated) = serde_json::from_slice::<StatedIndex>(&index.bytes) else { return Ok(None) };
    if let Some(other) =
        stated.shards.iter().find(|shard| matches!(shard.format.as_str(), "csv" | "tsv" | "xsv"))
    {
        return Err(Error::TextShards { path: index.path.clone(), format: other.format.clone() });
    }
    if stated.shards.is_empty() || stated.shards.iter().any(|shard| shard.format != "json") {
        return Ok(None);
    }
    let roots = index.roots();
    let shard = |shard: StatedShard| -> Result<TextShard> {
        for entry in [Some(&shard.raw_data), shard.zip_data.as_ref()].into_iter().flatten() {
            if !Path::new(&entry.basename)
                .components()
                .all(|part| matches!(part, Component::Normal(_)))
            {
                let reason = format!("`{}` does not lie below its directory", entry.basename);
                return Err(
                    TableError::from(MdsError::Index { path: index.path.clone(), reason }).into()
                );
            }
        }
        let file = stored(index, &roots, &shard.raw_data, shard.zip_data.as_ref())?;
        let entry =
            shard.zip_data.filter(|zip| zip.basename == file.relative).unwrap_or(shard.raw_data);
        Ok(TextShard { file, samples: shard.samples, entry })
    };
    stated.shards.into_iter().map(shard).collect::<Result<_>>().map(Some)
}
