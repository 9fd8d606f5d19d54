//! What a file is: of a format that a data set reads, an index of MDS shards, or one image.
//!
//! A name and the first bytes enter, a [`FileFormat`] leaves; called by verify and inspect, which take any file. The invariant: a name that says what
//! the file should be is believed, so that a damaged file is judged as what it was meant to be.

use crate::source::tokens::content_type;
use serde::Serialize;
use shardmill_formats::mds::{INDEX_NAME, Index};
use shardmill_load::Format;
use shardmill_plan::{Error as PlanError, list_files, without_shard_number};
use shardmill_storage::{RangeRead, Result, store_of};

const TAR_SUFFIXES: [&str; 3] = [".tar", ".tar.gz", ".tgz"];
const PARQUET_SUFFIX: &str = ".parquet";
/// Also in front of the number of a shard: `train.array_record-00000-of-00010`.
const ARRAY_RECORD_SUFFIXES: [&str; 3] = [".array_record", ".arrayrecord", ".arecord"];

/// Of all formats that a data set reads, but for MDS.
const SUFFIXES: [&str; 20] = [
    ".tar",
    ".tar.gz",
    ".tgz",
    ".tar.zst",
    ".parquet",
    ".pq",
    ".array_record",
    ".arrayrecord",
    ".arecord",
    ".orc",
    ".csv",
    ".jsonl",
    ".jsonl.gz",
    ".jsonl.zst",
    ".ndjson",
    ".ndjson.gz",
    ".ndjson.zst",
    ".json",
    ".json.gz",
    ".json.zst",
];

/// A shard, and what it is compressed with.
const MDS_SUFFIXES: [&str; 6] = [".mds", ".mds.br", ".mds.bz2", ".mds.gz", ".mds.snappy", ".mds.zstd"];

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
    Mds,
    /// It stands for all shards that it lists.
    MdsIndex,
    Orc,
    Csv,
    Jsonl,
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
        if is_mds_shard(&path) {
            return Self::Mds;
        }
        if path.rsplit('/').next() == Some(INDEX_NAME) && (is_mds_index(object) || stands_beside_shards(object.path())) {
            return Self::MdsIndex;
        }
        match Format::of(&path) {
            Some(Format::Parquet) => return Self::Parquet,
            Some(Format::Orc) => return Self::Orc,
            Some(Format::Csv) => return Self::Csv,
            Some(Format::Jsonl) => return Self::Jsonl,
            Some(Format::WebDataset) => return Self::Tar,
            Some(Format::ArrayRecord | Format::Mds) | None => {}
        }
        let mut prefix = Vec::new();
        if crate::payload::append_range(object, &(0..object.size().min(PREFIX_LEN)), &mut prefix).is_err() {
            return Self::Unknown;
        }
        let is_tar = prefix.get(TAR_MAGIC_OFFSET..).is_some_and(|rest| rest.starts_with(b"ustar")) || prefix.starts_with(b"\x1f\x8b");
        if prefix.starts_with(b"PAR1") {
            Self::Parquet
        } else if prefix.starts_with(b"ORC") {
            Self::Orc
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
            files.extend(listed(&path, &suffixes)?);
        }
    }
    files.sort_unstable();
    files.dedup();
    Ok(files)
}

/// The files of any format that a data set reads at or below `paths`, sorted. A file that is named outright is taken whatever it is called. Files that
/// are merely called `.json` describe the others, if there are any.
///
/// # Errors
/// As [`shard_files`].
pub fn readable_files(paths: Vec<String>) -> std::result::Result<Vec<String>, PlanError> {
    let mut files = Vec::new();
    for path in paths {
        if is_file(&path)? {
            files.push(path);
            continue;
        }
        let suffixes: Vec<String> = SUFFIXES.iter().map(|suffix| (*suffix).to_owned()).collect();
        let mut found = listed(&path, &suffixes)?;
        let is_merely_json = |file: &String| file.to_ascii_lowercase().ends_with(".json") && !file.ends_with(&format!("/{INDEX_NAME}"));
        if found.iter().any(|file| !is_merely_json(file)) {
            found.retain(|file| !is_merely_json(file));
        }
        files.extend(found);
    }
    files.sort_unstable();
    files.dedup();
    Ok(files)
}

/// An index stands for the shards at or below its folder; shards without one are taken each by itself.
fn listed(path: &str, suffixes: &[String]) -> std::result::Result<Vec<String>, PlanError> {
    let mut wanted = suffixes.to_vec();
    wanted.extend(MDS_SUFFIXES.iter().map(|suffix| (*suffix).to_owned()));
    wanted.push(format!("/{INDEX_NAME}"));
    let mut found = list_files(std::slice::from_ref(&path.to_owned()), &wanted)?;
    let is_index = |file: &String| file.ends_with(&format!("/{INDEX_NAME}"));
    found.retain(|file| {
        let is_mds = || store_of(file).and_then(|store| store.open(file)).is_ok_and(|object| is_mds_index(&*object));
        !is_index(file) || stands_beside_shards(file) || is_mds()
    });
    let folders: Vec<String> =
        found.iter().filter(|file| is_index(file)).filter_map(|file| Some(file.strip_suffix(INDEX_NAME)?.to_owned())).collect();
    found.retain(|file| !(is_mds_shard(&file.to_ascii_lowercase()) && folders.iter().any(|folder| file.starts_with(folder))));
    if found.is_empty() {
        return Err(PlanError::NoInput { paths: path.to_owned(), wanted: wanted.join(" / ") });
    }
    Ok(found)
}

fn is_mds_shard(path: &str) -> bool {
    MDS_SUFFIXES.iter().any(|suffix| path.ends_with(suffix))
}

/// Whether MDS shards lie in the directory of this index, so that it is theirs however damaged it is.
fn stands_beside_shards(index: &str) -> bool {
    let Some((folder, _name)) = index.rsplit_once('/') else { return false };
    let is_beside = |file: &String| file.rsplit_once('/').is_some_and(|(own, _name)| own == folder) && is_mds_shard(&file.to_ascii_lowercase());
    store_of(folder).and_then(|store| store.list(folder)).is_ok_and(|files| files.iter().any(is_beside))
}

fn is_mds_index(object: &dyn RangeRead) -> bool {
    let mut bytes = Vec::new();
    crate::payload::append_range(object, &(0..object.size()), &mut bytes).is_ok() && Index::is_mds(&bytes)
}

fn is_file(path: &str) -> Result<bool> {
    Ok(store_of(path)?.list(path)?.as_slice() == std::slice::from_ref(&path.to_owned()))
}
