//! Finds files of any format, and detects the format of a file: a data format, an index of shards,
//! or an image.
//!
//! The invariant: a name that states a format is trusted, so that a damaged file is judged as what
//! it was meant to be.

use serde::Serialize;
use shardmill_documents::payload::append_range;
use shardmill_documents::source::tokens::{self, content_type};
use shardmill_formats::mds::INDEX_NAME;
use shardmill_formats::signature::Signature;
use shardmill_formats::tar::Compression;
use shardmill_formats::token_files::FlatFile;
use shardmill_jobs::input_files::{InputFiles, format_of_content};
use shardmill_load::{
    Format, has_token_index, indexed_files, is_plain_pair, listing_of_pair, signature_of,
    text_files,
};
use shardmill_plan::{DataFile, Error};
use shardmill_storage::{AnyStore, RangeRead, Store};
use std::collections::HashSet;

const WANTED: &str =
    "Parquet / ORC / CSV / JSONL / ArrayRecord / MDS / tar / Megatron / datatrove / bin";
/// Enough bytes to detect the format of an image.
const HEAD_LEN: u64 = 64;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FileFormat {
    Tar,
    Parquet,
    #[serde(rename = "arrayrecord")]
    ArrayRecord,
    Mds,
    Megatron,
    Datatrove,
    Bin,
    Npy,
    /// Represents all shards that it lists.
    MdsIndex,
    /// Represents all JSON Lines shards that it lists.
    JsonlIndex,
    Orc,
    Csv,
    Jsonl,
    Image,
    #[default]
    Unknown,
}

impl FileFormat {
    /// From the name if it states a format, otherwise from the content. With `has_dtype`, files of
    /// tokens need no header.
    #[must_use]
    pub fn of(object: &dyn RangeRead, has_dtype: bool) -> Self {
        let path = object.path();
        if let Some(shards) = IndexedShards::of(path) {
            return shards.into();
        }
        if let Some(format) = Format::of(path) {
            return format.into();
        }
        if has_token_index(path) {
            return Self::Megatron;
        }
        if Format::Npy.may_be(path) && has_dtype {
            return Self::Npy;
        }
        if is_token_bin(object, has_dtype) {
            return Self::Bin;
        }
        let Ok(signature) = signature_of(object) else { return Self::Unknown };
        match Format::of_signature(signature) {
            Some(format) => format.into(),
            None if matches!(
                signature,
                Signature::Compressed(Compression::Gzip | Compression::Zstd)
            ) =>
            {
                Self::Tar
            }
            None if is_image_file(object) => Self::Image,
            None => Self::Unknown,
        }
    }
}

impl From<Format> for FileFormat {
    fn from(format: Format) -> Self {
        match format {
            Format::Parquet => Self::Parquet,
            Format::Orc => Self::Orc,
            Format::Csv => Self::Csv,
            Format::Jsonl => Self::Jsonl,
            Format::ArrayRecord => Self::ArrayRecord,
            Format::WebDataset => Self::Tar,
            Format::Mds => Self::Mds,
            Format::Megatron => Self::Megatron,
            Format::Datatrove => Self::Datatrove,
            Format::Bin => Self::Bin,
            Format::Npy => Self::Npy,
        }
    }
}

fn is_token_bin(object: &dyn RangeRead, has_dtype: bool) -> bool {
    Format::Bin.may_be(object.path()) && (has_dtype || FlatFile::has_header(object))
}

/// Whether a file in a directory has tokens without an index, or only with `X.csv.gz`.
fn has_flat_tokens(path: &str, has_dtype: bool) -> bool {
    if Format::Npy.may_be(path) {
        return has_dtype && is_plain_pair(path);
    }
    Format::Bin.may_be(path)
        && AnyStore.open(path).is_ok_and(|object| is_token_bin(&*object, has_dtype))
}

fn is_image_file(object: &dyn RangeRead) -> bool {
    let mut head = Vec::new();
    let is_read = append_range(object, &(0..object.size().min(HEAD_LEN)), &mut head).is_ok();
    is_read && shardmill_images::sniff(&head).is_some()
        || content_type(object.path()).starts_with("image/")
}

/// The files at or below `paths` of any format that a data set can read. An explicitly named file
/// is always included. An index represents the shards that it lists. Files with only the extension
/// `.json` are taken for descriptions of other files, if there are any. Files of tokens that do not
/// say how an id is stored are included with `has_dtype`.
///
/// # Errors
/// For a missing path, and for a directory or glob without such files.
pub fn checkable_files(paths: &[String], has_dtype: bool) -> Result<InputFiles, Error> {
    let mut checkable = InputFiles::default();
    for path in paths {
        let listed = listing_of_pair(path)?;
        if listed.is_named {
            checkable.files.extend(listed.files.into_iter().map(|file| file.path));
            continue;
        }
        listed.refuse_lake(path)?;
        let before = checkable.files.len();
        let indexes = listed
            .side_cars
            .into_iter()
            .filter_map(|file| Some((IndexedShards::of(&file.path)?, file.path)));
        let (indexed, indexes): (Vec<IndexedShards>, Vec<String>) = indexes.unzip();
        checkable.files.extend(indexes);
        let (mut data, mut json) = (Vec::new(), Vec::new());
        for DataFile { path, .. } in listed.files {
            match Format::of(&path) {
                format if indexed.iter().any(|shards| shards.include(&path, format)) => {}
                Some(Format::Jsonl) if path.to_ascii_lowercase().ends_with(".json") => {
                    json.push(path);
                }
                // It says where the documents of tokens are.
                Some(Format::Csv) if is_plain_pair(&path) => {}
                Some(_) => data.push(path),
                None if has_token_index(&path)
                    || has_flat_tokens(&path, has_dtype)
                    || format_of_content(&path).is_some() =>
                {
                    data.push(path);
                }
                None if content_type(&path) != tokens::UNKNOWN => {}
                None => checkable.left_out.push(path),
            }
        }
        if data.is_empty() && checkable.files.len() == before {
            data = json;
        }
        checkable.files.append(&mut data);
        if checkable.files.len() == before {
            return Err(Error::NoInput { paths: path.clone(), wanted: WANTED.to_owned() });
        }
    }
    checkable.files.sort_unstable();
    checkable.files.dedup();
    Ok(checkable)
}

/// The formats of the files at or below `paths`.
///
/// # Errors
/// As [`checkable_files`].
pub fn data_formats(paths: &[String]) -> Result<HashSet<Format>, Error> {
    let files = checkable_files(paths, false)?.files;
    Ok(files
        .iter()
        .filter_map(|file| Format::of(file).or_else(|| format_of_content(file)))
        .collect())
}

/// The directory of an index.
pub(crate) fn directory_of(index: &str) -> &str {
    index.rsplit_once('/').map_or(".", |(directory, _name)| directory)
}

/// The shards of an index.
enum IndexedShards {
    /// MDS shards at or below a directory, which ends with its slash.
    Mds { directory: String },
    /// Files of JSON Lines.
    Text(HashSet<String>),
}

impl IndexedShards {
    /// `None` for a file that is not an index. A damaged one is still the index of the MDS shards
    /// in its directory.
    fn of(path: &str) -> Option<Self> {
        if path.rsplit('/').next() != Some(INDEX_NAME) {
            return None;
        }
        let directory = directory_of(path);
        if let Ok(Some(shards)) = text_files(directory) {
            return Some(Self::Text(shards.into_iter().map(|shard| shard.file.path).collect()));
        }
        matches!(indexed_files(directory), Ok(Some(_)) | Err(_)).then(|| Self::Mds {
            directory: path.strip_suffix(INDEX_NAME).unwrap_or(path).to_owned(),
        })
    }

    fn include(&self, path: &str, format: Option<Format>) -> bool {
        match self {
            Self::Mds { directory } => format == Some(Format::Mds) && path.starts_with(directory),
            Self::Text(files) => files.contains(path),
        }
    }
}

impl From<IndexedShards> for FileFormat {
    fn from(shards: IndexedShards) -> Self {
        match shards {
            IndexedShards::Mds { .. } => Self::MdsIndex,
            IndexedShards::Text(_) => Self::JsonlIndex,
        }
    }
}
