//! Folders of MDS shards: their index says which files there are, in which order, and what each of them has to be.
//!
//! Other files of such a folder are nobody's data: shards that were not finished, or that another index lists. The invariant: every shard of an index is
//! opened with its entry, so that no row of a shard is served that is not the one the index describes.

use super::Format;
use crate::Result;
use serde::de::IgnoredAny;
use shardmill_formats::limit::DecodeLimit;
use shardmill_formats::mds::{self, ArrayTypes, Error as MdsError, FileEntry, INDEX_NAME, Index, MdsFile, MdsOptions, ShardEntry};
use shardmill_formats::table::{TableError, TableFile};
use shardmill_plan::{DataFile, data_files};
use shardmill_storage::{Error as StorageError, RangeRead, Roots, is_remote, store_of};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// What indexes say of files, by path.
#[derive(Debug, Clone, Default)]
pub struct MdsShards(HashMap<String, Arc<ShardEntry>>);

impl MdsShards {
    /// Of the folders among `paths` that have an index.
    ///
    /// # Errors
    /// For an index that cannot be read.
    pub fn below(paths: &[String]) -> Result<Self> {
        let mut shards = Self::default();
        for path in paths {
            shards.enter(indexed_files(path)?.unwrap_or_default());
        }
        Ok(shards)
    }

    fn enter(&mut self, files: Vec<IndexedFile>) -> Vec<DataFile> {
        let entered = files.into_iter().map(|indexed| {
            self.0.insert(indexed.file.path.clone(), indexed.entry);
            indexed.file
        });
        entered.collect()
    }

    /// The shards of a folder in the order of its index; `None` for an index of something else.
    pub(super) fn list(&mut self, index: &FolderIndex) -> Result<Option<Vec<DataFile>>> {
        Ok(shards_of(index)?.map(|files| self.enter(files)))
    }

    fn entry(&self, path: &str) -> Option<Arc<ShardEntry>> {
        self.0.get(path).map(Arc::clone)
    }
}

/// One shard of an index.
#[derive(Debug, Clone)]
pub struct IndexedFile {
    pub file: DataFile,
    pub entry: Arc<ShardEntry>,
}

/// The index of a folder, which is not read yet.
#[derive(Debug)]
pub(super) struct FolderIndex {
    pub(super) folder: String,
    pub(super) path: String,
    pub(super) bytes: Vec<u8>,
}

impl FolderIndex {
    /// `None` for what is no folder, and for one without an index.
    ///
    /// # Errors
    /// For an index that cannot be read.
    pub(super) fn of(path: &str) -> Result<Option<Self>> {
        // What is called like a file of another format is no such folder, and asking an object store would cost a request.
        match Format::of(path) {
            None => {}
            Some(Format::Mds) if !matches!(store_of(path)?.open(path), Ok(_) | Err(StorageError::NotFound { .. })) => {}
            Some(_file) => return Ok(None),
        }
        let folder = match path.trim_end_matches('/') {
            // The root of a store keeps the slashes of its scheme.
            root if root.ends_with(':') && path.len() > root.len() => format!("{root}/"),
            folder => folder.to_owned(),
        };
        let path = format!("{folder}/{INDEX_NAME}");
        let Ok(object) = store_of(&path)?.open(&path) else { return Ok(None) };
        Ok(Some(Self { folder, bytes: whole(object.as_ref())?, path }))
    }

    /// Where its shards may lie.
    pub(super) fn roots(&self) -> Roots {
        Roots::new(&[], std::slice::from_ref(&self.folder))
    }
}

/// The shards that the index of a folder lists. `None` for what is no folder, and for one without an index of MDS shards.
///
/// # Errors
/// For an index that cannot be read.
pub fn indexed_files(path: &str) -> Result<Option<Vec<IndexedFile>>> {
    FolderIndex::of(path)?.map_or(Ok(None), |index| shards_of(&index))
}

fn shards_of(index: &FolderIndex) -> Result<Option<Vec<IndexedFile>>> {
    let FolderIndex { folder, path: index_path, bytes } = index;
    let refused = |reason: String| TableError::from(MdsError::Index { path: index_path.clone(), reason });
    let parsed = match Index::parse(index_path, bytes) {
        Ok(parsed) => parsed,
        Err(error) if Index::is_mds(bytes) => return Err(TableError::from(error).into()),
        // What was cut says no more whose index it is; then the files beside it do.
        Err(_) if serde_json::from_slice::<IgnoredAny>(bytes).is_err() && holds_shards(folder)? => {
            return Err(refused("it is no JSON: it was cut, or is still being written".to_owned()).into());
        }
        // Without its index a directory of shards says nothing of those that are missing.
        Err(_) if has_shards_beside(folder)? => {
            return Err(refused("it is not an index of MDS shards, and MDS shards are beside it".to_owned()).into());
        }
        Err(_) => return Ok(None),
    };
    if parsed.shards.is_empty() && has_shards_beside(folder)? {
        return Err(refused("it lists no shard, and MDS shards are beside it".to_owned()).into());
    }
    let mut listed = HashSet::new();
    if let Some(entry) = parsed.shards.iter().find(|entry| !listed.insert(entry.file().basename.as_str())) {
        return Err(refused(format!("it lists `{}` twice", entry.file().basename)).into());
    }
    let roots = index.roots();
    let files = parsed
        .shards
        .into_iter()
        .map(|entry| Ok(IndexedFile { file: stored(index, &roots, &entry.raw_data, entry.zip_data.as_ref())?, entry: Arc::new(entry) }));
    files.collect::<Result<Vec<_>>>().map(Some)
}

/// The file of a shard that is there.
///
/// # Errors
/// When it is a link that leads out of the directory.
pub(super) fn stored(index: &FolderIndex, roots: &Roots, raw: &FileEntry, zip: Option<&FileEntry>) -> Result<DataFile> {
    let at = |basename: &str| format!("{}/{basename}", index.folder);
    // A reader that unpacked the shard leaves only what it unpacked.
    let relative = match zip {
        Some(zip) if !is_absent(&at(&zip.basename))? || is_absent(&at(&raw.basename))? => &zip.basename,
        _ => &raw.basename,
    };
    // The name does not leave the directory, but a link of that name may.
    if !is_remote(&index.folder) && matches!(roots.open(&at(relative)), Err(StorageError::OutsideRoots { .. })) {
        let reason = "it is a link that leads out of the directory of the index".to_owned();
        return Err(TableError::from(MdsError::IndexField { path: index.path.clone(), shard: relative.clone(), field: "basename", reason }).into());
    }
    Ok(DataFile { path: at(relative), relative: relative.clone() })
}

fn holds_shards(folder: &str) -> Result<bool> {
    Ok(data_files(&[folder.to_owned()])?.iter().any(|file| Format::of(&file.path) == Some(Format::Mds)))
}

fn has_shards_beside(folder: &str) -> Result<bool> {
    let is_shard = |file: &DataFile| !file.relative.contains('/') && Format::of(&file.path) == Some(Format::Mds);
    Ok(data_files(&[folder.to_owned()])?.iter().any(is_shard))
}

fn is_absent(path: &str) -> Result<bool> {
    match store_of(path)?.open(path) {
        Ok(_object) => Ok(false),
        Err(StorageError::NotFound { .. }) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

pub(crate) fn whole(object: &dyn RangeRead) -> Result<Vec<u8>> {
    let size = object.size();
    let checked = DecodeLimit::default().check(object.path(), size, "the index has", || "all of it".to_owned());
    checked.map_err(|refusal| TableError::from(MdsError::from(refusal)))?;
    Ok(object.read_ranges(std::slice::from_ref(&(0..size)))?.pop().map(Vec::from).unwrap_or_default())
}

/// Opens shards, each with its entry, all with the same types of arrays.
#[derive(Debug, Clone)]
pub(super) struct MdsOpener {
    shards: MdsShards,
    array_types: Option<Arc<ArrayTypes>>,
    has_pickle_bytes: bool,
    limit: DecodeLimit,
}

impl MdsOpener {
    /// The first of `objects` that has a sample decides about arrays. Without any, each shard decides for itself.
    pub(super) fn new(shards: MdsShards, has_pickle_bytes: bool, limit: DecodeLimit, objects: &[Arc<dyn RangeRead>]) -> Self {
        let mut opener = Self { shards, array_types: None, has_pickle_bytes, limit };
        for object in objects {
            let entry = opener.shards.entry(object.path());
            match MdsFile::first_array_types(Arc::clone(object), entry.as_deref(), limit) {
                Ok(None) => {}
                Ok(Some(types)) => {
                    opener.array_types = Some(Arc::new(types));
                    break;
                }
                // The file says so itself when it is opened.
                Err(_fault) => break,
            }
        }
        opener
    }

    pub(super) fn open(&self, object: Arc<dyn RangeRead>) -> std::result::Result<Arc<dyn TableFile>, mds::Error> {
        let entry = self.shards.entry(object.path());
        let options = MdsOptions { entry, array_types: self.array_types.clone(), has_pickle_bytes: self.has_pickle_bytes, limit: self.limit };
        Ok(Arc::new(MdsFile::open(object, &options)?))
    }
}
