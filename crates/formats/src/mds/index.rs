//! `index.json`: the shards of a data set, in order.

use super::Error;
use super::config::{COUNT, FieldFault, ShardConfig, StatedConfig, WrittenConfig, field};
use crate::json::json_dumps;
use serde::{Deserialize, Serialize};
use serde_json::Value;
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

/// Content of a JSON file, without the byte order mark that some editors write.
fn json_of(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(bytes)
}

impl FileEntry {
    /// The file named `part` of a shard.
    fn of(shard: &Value, part: &'static str) -> Result<Self, FieldFault> {
        let in_part = |(name, reason): FieldFault| (part, format!("`{name}`: {reason}"));
        let file: serde_json::Map<String, Value> = field(shard, part, "an object")?;
        let file = Value::Object(file);
        let hashes =
            file.get("hashes").map(|_| field(&file, "hashes", "an object of strings")).transpose();
        Ok(Self {
            basename: field(&file, "basename", "a string").map_err(in_part)?,
            bytes: field(&file, "bytes", COUNT).map_err(in_part)?,
            hashes: hashes.map_err(in_part)?.unwrap_or_default(),
        })
    }
}

impl Index {
    /// Whether these bytes are an index of MDS shards, or of no shards at all; other libraries use
    /// the same file name.
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
        let stated = serde_json::from_slice::<Shards>(json_of(bytes));
        stated.is_ok_and(|stated| {
            stated.shards.is_empty()
                || stated.shards.iter().any(|shard| shard.format.as_deref() == Some("mds"))
        })
    }

    /// Parses the content of the file at `path`. Unknown keys are ignored.
    ///
    /// # Errors
    /// [`Error::Index`], and [`Error::IndexField`] for a shard of another version or format, with
    /// invalid columns, or outside of the directory.
    pub fn parse(path: &str, bytes: &[u8]) -> Result<Self, Error> {
        #[derive(Deserialize)]
        struct Shards {
            shards: Vec<Value>,
            version: u64,
        }
        let failed = |reason: String| Error::Index { path: path.to_owned(), reason };
        let stated: Shards =
            serde_json::from_slice(json_of(bytes)).map_err(|error| failed(error.to_string()))?;
        if stated.version != 2 {
            return Err(failed(format!("its version is `{}`, `2` is supported", stated.version)));
        }
        let shards = stated
            .shards
            .into_iter()
            .enumerate()
            .map(|(number, shard)| ShardEntry::parse(path, number, &shard));
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
    json_dumps(
        &Written { shards: shards.iter().map(ShardEntry::written).collect(), version: 2 },
        true,
    )
}

impl ShardEntry {
    fn parse(path: &str, number: usize, stated: &Value) -> Result<Self, Error> {
        // The name of the shard, if it is given.
        let basename = |part: &str| {
            stated
                .get(part)
                .and_then(|file| file.get("basename"))
                .and_then(|name| name.as_str())
                .map(str::to_owned)
        };
        let shard = basename("zip_data")
            .or_else(|| basename("raw_data"))
            .unwrap_or_else(|| number.to_string());
        Self::of(stated).map_err(|(field, reason)| Error::IndexField {
            path: path.to_owned(),
            shard,
            field,
            reason,
        })
    }

    fn of(stated: &Value) -> Result<Self, FieldFault> {
        let config = StatedConfig::of(stated)?.checked()?;
        let raw_data = FileEntry::of(stated, "raw_data")?;
        let zip_data = stated
            .get("zip_data")
            .filter(|file| !file.is_null())
            .map(|_| FileEntry::of(stated, "zip_data"))
            .transpose()?;
        let samples: u64 = field(stated, "samples", COUNT)?;
        for file in std::iter::once(&raw_data).chain(&zip_data) {
            if !is_below(&file.basename) {
                return Err((
                    "basename",
                    format!("`{}` is not a path below the directory of the index", file.basename),
                ));
            }
        }
        if zip_data.is_some() != config.compression.is_some() {
            return Err(("zip_data", "zip_data and compression must occur together".to_owned()));
        }
        if u32::try_from(samples).is_err() {
            return Err(("samples", format!("`{samples}` are too many for a shard")));
        }
        Ok(Self { config, raw_data, zip_data, samples })
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
        (written.raw_data, written.samples, written.zip_data) =
            (Some(&self.raw_data), Some(self.samples), Some(self.zip_data.as_ref()));
        written
    }
}

/// Whether a name stays within its directory when it is appended to it.
fn is_below(name: &str) -> bool {
    !name.contains(['\0', '\\']) && name.split('/').all(|part| !matches!(part, "" | "." | ".."))
}
