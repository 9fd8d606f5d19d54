//! `index.json`: the shards of a data set, in order.

use super::Error;
use super::config::{ShardConfig, StatedConfig, WrittenConfig};
use crate::json::json_dumps;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Name of the index of a directory.
pub const INDEX_NAME: &str = "index.json";

/// A shard as described by its index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardEntry {
    pub config: ShardConfig,
    /// The uncompressed shard.
    pub raw_data: FileEntry,
    /// The compressed file, which is the stored one.
    pub zip_data: Option<FileEntry>,
    pub samples: u64,
}

/// One file of a shard.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
pub struct FileEntry {
    /// Below the directory of the index.
    pub basename: String,
    pub bytes: u64,
    /// Hexadecimal digests by algorithm.
    #[serde(default)]
    pub hashes: BTreeMap<String, String>,
}

/// All shards of a data set.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Index {
    pub shards: Vec<ShardEntry>,
}

#[derive(Deserialize)]
struct StatedFiles {
    raw_data: FileEntry,
    zip_data: Option<FileEntry>,
    samples: u64,
}

impl Index {
    /// Whether these bytes are an index of MDS shards, or of no shards at all; other libraries use the same file name.
    #[must_use]
    pub fn is_mds(bytes: &[u8]) -> bool {
        #[derive(Deserialize)]
        struct Shard {
            format: Option<String>,
        }
        #[derive(Deserialize)]
        struct Shards {
            shards: Vec<Shard>,
        }
        let stated = serde_json::from_slice::<Shards>(bytes);
        stated.is_ok_and(|stated| stated.shards.is_empty() || stated.shards.iter().any(|shard| shard.format.as_deref() == Some("mds")))
    }

    /// Parses the content of the file at `path`. Unknown keys are ignored.
    ///
    /// # Errors
    /// [`Error::Index`], and [`Error::IndexField`] for a shard of another version or format, with invalid columns, or outside of the directory.
    pub fn parse(path: &str, bytes: &[u8]) -> Result<Self, Error> {
        #[derive(Deserialize)]
        struct Shards {
            shards: Vec<serde_json::Value>,
            version: u64,
        }
        let failed = |reason: String| Error::Index { path: path.to_owned(), reason };
        let stated: Shards = serde_json::from_slice(bytes).map_err(|error| failed(error.to_string()))?;
        if stated.version != 2 {
            return Err(failed(format!("its version is `{}`, `2` is supported", stated.version)));
        }
        let shards = stated.shards.into_iter().enumerate().map(|(number, shard)| ShardEntry::parse(path, number, shard));
        Ok(Self { shards: shards.collect::<Result<_, _>>()? })
    }

    /// As written to a file.
    #[must_use]
    pub fn to_json(&self) -> String {
        index_json(&self.shards)
    }
}

/// The content of `index.json` for these shards.
#[must_use]
pub fn index_json(shards: &[ShardEntry]) -> String {
    #[derive(Serialize)]
    struct Written<'a> {
        shards: Vec<WrittenConfig<'a>>,
        version: u64,
    }
    json_dumps(&Written { shards: shards.iter().map(ShardEntry::written).collect(), version: 2 }, true)
}

impl ShardEntry {
    fn parse(path: &str, number: usize, stated: serde_json::Value) -> Result<Self, Error> {
        // The name of the shard, if it is given.
        let basename = |part: &str| stated.get(part).and_then(|file| file.get("basename")).and_then(|name| name.as_str()).map(str::to_owned);
        let shard = basename("zip_data").or_else(|| basename("raw_data")).unwrap_or_else(|| number.to_string());
        let failed = |(field, reason)| Error::IndexField { path: path.to_owned(), shard: shard.clone(), field, reason };
        let config = serde_json::from_value::<StatedConfig>(stated.clone()).map_err(|error| failed(("shards", error.to_string())))?;
        let config = config.checked().map_err(failed)?;
        let files: StatedFiles = serde_json::from_value(stated).map_err(|error| failed(("shards", error.to_string())))?;
        for file in std::iter::once(&files.raw_data).chain(&files.zip_data) {
            if !is_below(&file.basename) {
                return Err(failed(("basename", format!("`{}` is not a path below the directory of the index", file.basename))));
            }
        }
        if files.zip_data.is_some() != config.compression.is_some() {
            return Err(failed(("zip_data", "zip_data and compression must occur together".to_owned())));
        }
        if u32::try_from(files.samples).is_err() {
            return Err(failed(("samples", format!("`{}` are too many for a shard", files.samples))));
        }
        Ok(Self { config, raw_data: files.raw_data, zip_data: files.zip_data, samples: files.samples })
    }

    /// The stored file.
    #[must_use]
    pub fn file(&self) -> &FileEntry {
        self.zip_data.as_ref().unwrap_or(&self.raw_data)
    }

    /// Relative to the index of the parent directory, as after a merge.
    #[must_use]
    pub fn below(&self, directory: &str) -> Self {
        let mut moved = self.clone();
        for file in std::iter::once(&mut moved.raw_data).chain(&mut moved.zip_data) {
            file.basename = format!("{directory}/{}", file.basename);
        }
        moved
    }

    fn written(&self) -> WrittenConfig<'_> {
        let mut written = self.config.written();
        (written.raw_data, written.samples, written.zip_data) = (Some(&self.raw_data), Some(self.samples), Some(self.zip_data.as_ref()));
        written
    }
}

/// Whether a name stays within its directory when it is appended to it.
fn is_below(name: &str) -> bool {
    !name.contains(['\0', '\\']) && name.split('/').all(|part| !matches!(part, "" | "." | ".."))
}
