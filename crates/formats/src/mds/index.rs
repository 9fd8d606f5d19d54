//! `index.json`: the shards of a data set, in order.

use super::config::{ShardConfig, StatedConfig};
use super::{Error, json};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Name of the index of a folder.
pub const INDEX_NAME: &str = "index.json";

/// One shard as its index describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShardEntry {
    pub config: ShardConfig,
    /// The shard before it is compressed.
    pub raw_data: FileEntry,
    /// The compressed file, which is the one that is stored.
    pub zip_data: Option<FileEntry>,
    pub samples: u64,
}

/// One file of a shard.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct FileEntry {
    /// Below the folder of the index.
    pub basename: String,
    pub bytes: u64,
    /// Hexadecimal digests by the name of their algorithm.
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
    /// Whether these bytes are an index of MDS shards, or of no shards at all; other libraries have files of this name, too.
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

    /// Reads the content of the file at `path`. Unknown keys are nobody's business.
    ///
    /// # Errors
    /// [`Error::Index`], and [`Error::IndexField`] for a shard of another version or format, of columns that cannot be, or outside of the folder.
    pub fn parse(path: &str, bytes: &[u8]) -> Result<Self, Error> {
        #[derive(Deserialize)]
        struct Shards {
            shards: Vec<serde_json::Value>,
            version: u64,
        }
        let failed = |reason: String| Error::Index { path: path.to_owned(), reason };
        let stated: Shards = serde_json::from_slice(bytes).map_err(|error| failed(error.to_string()))?;
        if stated.version != 2 {
            return Err(failed(format!("its version is `{}`, `2` is read", stated.version)));
        }
        let shards = stated.shards.into_iter().enumerate().map(|(number, shard)| ShardEntry::parse(path, number, shard));
        Ok(Self { shards: shards.collect::<Result<_, _>>()? })
    }

    /// As it stands in a file.
    #[must_use]
    pub fn to_json(&self) -> String {
        index_json(&self.shards)
    }
}

/// The content of `index.json` for these shards.
#[must_use]
pub fn index_json(shards: &[ShardEntry]) -> String {
    let mut text = String::from("{\"shards\": ");
    super::config::write_list(shards.iter(), &mut text, ShardEntry::write);
    text.push_str(", \"version\": 2}");
    text
}

impl ShardEntry {
    fn parse(path: &str, number: usize, stated: serde_json::Value) -> Result<Self, Error> {
        // Which one it is, as far as it tells.
        let basename = |part: &str| stated.get(part).and_then(|file| file.get("basename")).and_then(|name| name.as_str()).map(str::to_owned);
        let shard = basename("zip_data").or_else(|| basename("raw_data")).unwrap_or_else(|| number.to_string());
        let failed = |(field, reason)| Error::IndexField { path: path.to_owned(), shard: shard.clone(), field, reason };
        let config = serde_json::from_value::<StatedConfig>(stated.clone()).map_err(|error| failed(("shards", error.to_string())))?;
        let config = config.checked().map_err(failed)?;
        let files: StatedFiles = serde_json::from_value(stated).map_err(|error| failed(("shards", error.to_string())))?;
        for file in std::iter::once(&files.raw_data).chain(&files.zip_data) {
            if !is_below(&file.basename) {
                return Err(failed(("basename", format!("`{}` is no path below the folder of the index", file.basename))));
            }
        }
        if files.zip_data.is_some() != config.compression.is_some() {
            return Err(failed(("zip_data", "a compressed file goes with a compression, and no other does".to_owned())));
        }
        if u32::try_from(files.samples).is_err() {
            return Err(failed(("samples", format!("`{}` do not fit into a shard", files.samples))));
        }
        Ok(Self { config, raw_data: files.raw_data, zip_data: files.zip_data, samples: files.samples })
    }

    /// The file that is stored.
    #[must_use]
    pub fn file(&self) -> &FileEntry {
        self.zip_data.as_ref().unwrap_or(&self.raw_data)
    }

    /// As the index of the folder above knows it, as after a merge.
    #[must_use]
    pub fn below(&self, folder: &str) -> Self {
        let mut moved = self.clone();
        for file in std::iter::once(&mut moved.raw_data).chain(&mut moved.zip_data) {
            file.basename = format!("{folder}/{}", file.basename);
        }
        moved
    }

    fn write(&self, out: &mut String) {
        out.push('{');
        self.config.write_head(out);
        out.push_str(", \"raw_data\": ");
        self.raw_data.write(out);
        out.push_str(&format!(", \"samples\": {}, ", self.samples));
        self.config.write_tail(out);
        out.push_str(", \"zip_data\": ");
        match &self.zip_data {
            Some(file) => file.write(out),
            None => out.push_str("null"),
        }
        out.push('}');
    }
}

impl FileEntry {
    fn write(&self, out: &mut String) {
        out.push_str("{\"basename\": ");
        json::write_text(&self.basename, out);
        out.push_str(&format!(", \"bytes\": {}, \"hashes\": {{", self.bytes));
        for (number, (algorithm, digest)) in self.hashes.iter().enumerate() {
            out.push_str(if number == 0 { "" } else { ", " });
            json::write_text(algorithm, out);
            out.push_str(": ");
            json::write_text(digest, out);
        }
        out.push_str("}}");
    }
}

/// Whether a name stays within its folder, whatever it is put behind.
fn is_below(name: &str) -> bool {
    !name.contains(['\0', '\\']) && name.split('/').all(|part| !matches!(part, "" | "." | ".."))
}
