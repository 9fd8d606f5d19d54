//! Which format a file has, by its name.

use crate::{Error, Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    Parquet,
    Orc,
    Csv,
    Jsonl,
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
        }
    }

    /// By extension; `None` when it says nothing.
    #[must_use]
    pub fn of(path: &str) -> Option<Self> {
        let extension = path.rsplit('/').next()?.rsplit_once('.')?.1.to_ascii_lowercase();
        match extension.as_str() {
            "parquet" | "pq" => Some(Self::Parquet),
            "orc" => Some(Self::Orc),
            "csv" => Some(Self::Csv),
            "json" | "jsonl" | "ndjson" => Some(Self::Jsonl),
            _ => None,
        }
    }
}
