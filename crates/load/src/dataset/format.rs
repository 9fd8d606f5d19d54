//! Which format a file has, by its name.

use crate::{Error, Result};
use shardmill_formats::mds::Compression;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    Parquet,
    Orc,
    Csv,
    Jsonl,
    ArrayRecord,
    WebDataset,
    Mds,
}

impl Format {
    /// # Errors
    /// [`Error::NoSuchFormat`].
    pub fn parse(name: &str) -> Result<Self> {
        match name {
            "parquet" => Ok(Self::Parquet),
            "orc" => Ok(Self::Orc),
            "csv" => Ok(Self::Csv),
            // Both names mean one JSON document a line.
            "json" | "jsonl" => Ok(Self::Jsonl),
            "arrayrecord" | "array_record" => Ok(Self::ArrayRecord),
            "webdataset" => Ok(Self::WebDataset),
            "mds" => Ok(Self::Mds),
            _ => Err(Error::NoSuchFormat { name: name.to_owned() }),
        }
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Orc => "orc",
            Self::Csv => "csv",
            Self::Jsonl => "jsonl",
            Self::ArrayRecord => "arrayrecord",
            Self::WebDataset => "webdataset",
            Self::Mds => "mds",
        }
    }

    /// By extension; `None` when it says nothing.
    #[must_use]
    pub fn of(path: &str) -> Option<Self> {
        let name = path.rsplit('/').next()?.to_ascii_lowercase();
        if [".tar", ".tar.gz", ".tgz", ".tar.zst"].iter().any(|extension| name.ends_with(extension)) {
            return Some(Self::WebDataset);
        }
        let packed = name.strip_suffix(".gz").or_else(|| name.strip_suffix(".zst"));
        if packed.is_some_and(|name| [".jsonl", ".ndjson", ".json"].iter().any(|extension| name.ends_with(extension))) {
            return Some(Self::Jsonl);
        }
        let extension = name.rsplit_once('.')?.1;
        // Its users number the files behind the extension: `train.array_record-00000-of-00010`.
        match extension.split_once('-').map_or(extension, |(extension, _shard)| extension) {
            "array_record" | "arrayrecord" | "arecord" => return Some(Self::ArrayRecord),
            _ => {}
        }
        if extension == "mds" || Compression::of_path(path).is_some() {
            return Some(Self::Mds);
        }
        match extension {
            "parquet" | "pq" => Some(Self::Parquet),
            "orc" => Some(Self::Orc),
            "csv" => Some(Self::Csv),
            "json" | "jsonl" | "ndjson" => Some(Self::Jsonl),
            _ => None,
        }
    }
}
