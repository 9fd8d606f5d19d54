//! What a file is: a tar, a Parquet file, an ArrayRecord file, or one image.
//!
//! A name and the first bytes enter, a [`FileFormat`] leaves; called by verify and inspect, which take any file. The invariant: a name that says what
//! the file should be is believed, so that a damaged file is judged as what it was meant to be.

use crate::source::tokens::content_type;
use serde::Serialize;
use shardmill_plan::{Error as PlanError, list_files, without_shard_number};
use shardmill_storage::{RangeRead, Result, store_of};

const TAR_SUFFIXES: [&str; 3] = [".tar", ".tar.gz", ".tgz"];
const PARQUET_SUFFIX: &str = ".parquet";
/// Also in front of the number of a shard: `train.array_record-00000-of-00010`.
const ARRAY_RECORD_SUFFIXES: [&str; 3] = [".array_record", ".arrayrecord", ".arecord"];

/// Up to the magic number in the first header of a tar.
const PREFIX_LEN: u64 = 512;
const TAR_MAGIC_OFFSET: usize = 257;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileFormat {
    Tar,
    Parquet,
    #[serde(rename = "arrayrecord")]
    ArrayRecord,
    Image,
    Unknown,
}

impl FileFormat {
    /// By the name where it says something, else by the content.
    #[must_use]
    pub fn of(object: &dyn RangeRead) -> Self {
        let path = object.path().to_ascii_lowercase();
        if TAR_SUFFIXES.iter().any(|suffix| path.ends_with(suffix)) {
            return Self::Tar;
        }
        if path.ends_with(PARQUET_SUFFIX) {
            return Self::Parquet;
        }
        if ARRAY_RECORD_SUFFIXES.iter().any(|suffix| without_shard_number(&path).ends_with(suffix)) {
            return Self::ArrayRecord;
        }
        let mut prefix = Vec::new();
        if crate::payload::append_range(object, &(0..object.size().min(PREFIX_LEN)), &mut prefix).is_err() {
            return Self::Unknown;
        }
        let is_tar = prefix.get(TAR_MAGIC_OFFSET..).is_some_and(|rest| rest.starts_with(b"ustar")) || prefix.starts_with(b"\x1f\x8b");
        if prefix.starts_with(b"PAR1") {
            Self::Parquet
        } else if shardmill_formats::arrayrecord::is_signature(&prefix) {
            Self::ArrayRecord
        } else if is_tar {
            Self::Tar
        } else if shardmill_images::sniff(&prefix).is_some() || content_type(&path).starts_with("image/") {
            Self::Image
        } else {
            Self::Unknown
        }
    }
}

/// The shards at or below `paths`, sorted. A file that is named outright is taken whatever it is called.
///
/// # Errors
/// For a missing path, and for a folder or glob without shards.
pub fn shard_files(paths: Vec<String>) -> std::result::Result<Vec<String>, PlanError> {
    let suffixes: Vec<String> =
        TAR_SUFFIXES.iter().chain([&PARQUET_SUFFIX]).chain(&ARRAY_RECORD_SUFFIXES).map(|suffix| (*suffix).to_owned()).collect();
    let mut files = Vec::new();
    for path in paths {
        if is_file(&path)? {
            files.push(path);
        } else {
            files.extend(list_files(std::slice::from_ref(&path), &suffixes)?);
        }
    }
    files.sort_unstable();
    files.dedup();
    Ok(files)
}

fn is_file(path: &str) -> Result<bool> {
    Ok(store_of(path)?.list(path)?.as_slice() == std::slice::from_ref(&path.to_owned()))
}
