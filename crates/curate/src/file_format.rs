//! What a file is: of a format that a data set reads, an index of MDS shards, or one image.
//!
//! A name and the first bytes enter, a [`FileFormat`] leaves; called by verify and inspect, which take any file. The invariant: a name that says what
//! the file should be is believed, so that a damaged file is judged as what it was meant to be.

use crate::source::tokens::{self, content_type};
use serde::Serialize;
use shardmill_formats::mds::INDEX_NAME;
use shardmill_formats::signature::Signature;
use shardmill_formats::tar::Compression;
use shardmill_load::{Format, indexed_files, signature_of, text_files};
use shardmill_plan::{DataFile, Error as PlanError, listing, visible_files};
use shardmill_storage::{RangeRead, resolved_path, store_of};
use std::collections::HashSet;

const WANTED: &str = "Parquet / ORC / CSV / JSONL / ArrayRecord / MDS / tar";
/// As many bytes as show the format of an image.
const HEAD_LEN: u64 = 64;

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
    /// It stands for all shards of JSON Lines that it lists.
    JsonlIndex,
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
        let path = object.path();
        if let Some(index) = Self::of_index(path) {
            return index;
        }
        if let Some(format) = Format::of(path) {
            return format.into();
        }
        let Ok(signature) = signature_of(object) else { return Self::Unknown };
        match Format::of_signature(signature) {
            Some(format) => format.into(),
            None if signature == Signature::Compressed(Compression::Gzip) => Self::Tar,
            None if is_image_file(object) => Self::Image,
            None => Self::Unknown,
        }
    }

    /// Of which shards a file is the index; `None` for what is not an index.
    fn of_index(path: &str) -> Option<Self> {
        let (folder, name) = path.rsplit_once('/').unwrap_or((".", path));
        if name != INDEX_NAME {
            return None;
        }
        if matches!(text_files(folder), Ok(Some(_))) {
            return Some(Self::JsonlIndex);
        }
        // An index that is damaged is still the one of the shards beside it.
        (matches!(indexed_files(folder), Ok(Some(_)) | Err(_))).then_some(Self::MdsIndex)
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
        }
    }
}

fn is_image_file(object: &dyn RangeRead) -> bool {
    let mut head = Vec::new();
    let is_read = crate::payload::append_range(object, &(0..object.size().min(HEAD_LEN)), &mut head).is_ok();
    is_read && shardmill_images::sniff(&head).is_some() || content_type(object.path()).starts_with("image/")
}

/// The input of a job, and files that are not read because of their format.
#[derive(Debug, Default)]
pub struct InputFiles {
    /// Sorted, each once.
    pub files: Vec<String>,
    pub left_out: Vec<String>,
}

/// The files of a format at or below `paths`, by their names, or by their first bytes where the name does not tell. A file that is named outright is taken
/// unless its name tells another format. Images, texts and other files that members of archives are called after accompany the data.
///
/// # Errors
/// For a missing path, and when nothing has the format.
pub fn input_files(paths: &[String], format: Format) -> crate::Result<InputFiles> {
    let mut input = InputFiles::default();
    for path in paths {
        let named = resolved_path(path).map_err(PlanError::from)?;
        for file in visible_files(&named)? {
            match Format::of(&file) {
                Some(own) if own == format => input.files.push(file),
                None if file == *named => input.files.push(file),
                None if content_type(&file) != tokens::UNKNOWN => {}
                None if format_of_content(&file) == Some(format) => input.files.push(file),
                _ => input.left_out.push(file),
            }
        }
    }
    for files in [&mut input.files, &mut input.left_out] {
        files.sort_unstable();
        files.dedup();
    }
    if input.files.is_empty() {
        return Err(PlanError::NoInput { paths: paths.join(", "), wanted: format.name().to_owned() }.into());
    }
    Ok(input)
}

/// The files of any format that a data set reads at or below `paths`. A file that is named outright is taken whatever it is called. An index stands for the
/// shards that it lists. Files that are merely called `.json` describe the others, if there are any.
///
/// # Errors
/// For a missing path, and for a directory or glob without such files.
pub fn checkable_files(paths: &[String]) -> Result<InputFiles, PlanError> {
    let mut checkable = InputFiles::default();
    for path in paths {
        let listed = listing(path)?;
        if listed.is_named {
            checkable.files.extend(listed.files.into_iter().map(|file| file.path));
            continue;
        }
        let before = checkable.files.len();
        let mut shards = IndexedShards::default();
        for file in listed.side_cars {
            if let Some(format) = FileFormat::of_index(&file.path) {
                shards.enter(&file.path, format);
                checkable.files.push(file.path);
            }
        }
        let (mut data, mut json) = (Vec::new(), Vec::new());
        for DataFile { path, .. } in listed.files {
            match Format::of(&path) {
                format if shards.include(&path, format) => {}
                Some(Format::Jsonl) if path.to_ascii_lowercase().ends_with(".json") => json.push(path),
                Some(_) => data.push(path),
                None if format_of_content(&path).is_some() => data.push(path),
                None if content_type(&path) != tokens::UNKNOWN => {}
                None => checkable.left_out.push(path),
            }
        }
        if data.is_empty() && checkable.files.len() == before {
            data = json;
        }
        checkable.files.append(&mut data);
        if checkable.files.len() == before {
            return Err(PlanError::NoInput { paths: path.clone(), wanted: WANTED.to_owned() });
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
pub fn data_formats(paths: &[String]) -> Result<HashSet<Format>, PlanError> {
    let files = checkable_files(paths)?.files;
    Ok(files.iter().filter_map(|file| Format::of(file).or_else(|| format_of_content(file))).collect())
}

/// By the first bytes. A file that cannot be read has none.
fn format_of_content(path: &str) -> Option<Format> {
    let signature = store_of(path).and_then(|store| store.open(path)).and_then(|object| signature_of(&*object)).ok()?;
    Format::of_signature(signature)
}

/// What indexes stand for.
#[derive(Default)]
struct IndexedShards {
    /// Directories of MDS shards, with the slash at their end.
    folders: Vec<String>,
    files: HashSet<String>,
}

impl IndexedShards {
    fn enter(&mut self, index: &str, format: FileFormat) {
        let folder = index.strip_suffix(INDEX_NAME).unwrap_or(index);
        match format {
            FileFormat::JsonlIndex => {
                let shards = text_files(folder).ok().flatten().unwrap_or_default();
                self.files.extend(shards.into_iter().map(|shard| shard.file.path));
            }
            _ => self.folders.push(folder.to_owned()),
        }
    }

    fn include(&self, path: &str, format: Option<Format>) -> bool {
        self.files.contains(path) || format == Some(Format::Mds) && self.folders.iter().any(|folder| path.starts_with(folder))
    }
}
