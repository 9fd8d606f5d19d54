//! Folders of MDS shards: their index says which files there are, in which order, and what each of them has to be.
//!
//! Other files of such a folder are nobody's data: shards that were not finished, or that another index lists. The invariant: every shard of an index is
//! opened with its entry, so that no row of a shard is served that is not the one the index describes.

use super::Format;
use crate::Result;
use serde::de::IgnoredAny;
use shardmill_formats::mds::{self, ArrayTypes, Error as MdsError, INDEX_NAME, Index, MdsFile, MdsOptions, ShardEntry};
use shardmill_formats::table::{TableError, TableFile};
use shardmill_plan::{DataFile, data_files};
use shardmill_storage::{Error as StorageError, RangeRead, store_of};
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

    /// The shards of `path` in the order of its index; `None` when it has none.
    pub(super) fn list(&mut self, path: &str) -> Result<Option<Vec<DataFile>>> {
        Ok(indexed_files(path)?.map(|files| self.enter(files)))
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

/// The shards that the index of a folder lists. `None` for what is no folder, and for one without an index of MDS shards.
///
/// # Errors
/// For an index that cannot be read.
pub fn indexed_files(path: &str) -> Result<Option<Vec<IndexedFile>>> {
    // What is called like a file of another format is no such folder, and asking an object store would cost a request.
    match Format::of(path) {
        None => {}
        Some(Format::Mds) if !matches!(store_of(path)?.open(path), Ok(_) | Err(StorageError::NotFound { .. })) => {}
        Some(_file) => return Ok(None),
    }
    let folder = path.trim_end_matches('/');
    let index_path = format!("{folder}/{INDEX_NAME}");
    let Ok(object) = store_of(&index_path)?.open(&index_path) else { return Ok(None) };
    let bytes = whole(object.as_ref())?;
    let refused = |reason: String| TableError::from(MdsError::Index { path: index_path.clone(), reason });
    let index = match Index::parse(&index_path, &bytes) {
        Ok(index) => index,
        Err(error) if Index::is_mds(&bytes) => return Err(TableError::from(error).into()),
        // What was cut says no more whose index it is; then the files beside it do.
        Err(_) if serde_json::from_slice::<IgnoredAny>(&bytes).is_err() && holds_shards(folder)? => {
            return Err(refused("it is no JSON: it was cut, or is still being written".to_owned()).into());
        }
        Err(_) => return Ok(None),
    };
    let mut listed = HashSet::new();
    if let Some(entry) = index.shards.iter().find(|entry| !listed.insert(entry.file().basename.as_str())) {
        return Err(refused(format!("it lists `{}` twice", entry.file().basename)).into());
    }
    let files = index.shards.into_iter().map(|entry| {
        let at = |basename: &str| format!("{folder}/{basename}");
        let mut relative = entry.file().basename.clone();
        // A reader that unpacked the shard leaves only what it unpacked.
        if let Some(zip) = &entry.zip_data
            && is_absent(&at(&zip.basename))?
            && !is_absent(&at(&entry.raw_data.basename))?
        {
            relative.clone_from(&entry.raw_data.basename);
        }
        Ok(IndexedFile { file: DataFile { path: at(&relative), relative }, entry: Arc::new(entry) })
    });
    files.collect::<Result<Vec<_>>>().map(Some)
}

fn holds_shards(folder: &str) -> Result<bool> {
    Ok(data_files(&[folder.to_owned()])?.iter().any(|file| Format::of(&file.path) == Some(Format::Mds)))
}

fn is_absent(path: &str) -> Result<bool> {
    match store_of(path)?.open(path) {
        Ok(_object) => Ok(false),
        Err(StorageError::NotFound { .. }) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

pub(crate) fn whole(object: &dyn RangeRead) -> Result<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(object.size()).unwrap_or(usize::MAX)];
    object.read_at(0, &mut bytes)?;
    Ok(bytes)
}

/// Opens shards, each with its entry, all with the same types of arrays.
#[derive(Debug, Clone)]
pub(super) struct MdsOpener {
    shards: MdsShards,
    array_types: Option<Arc<ArrayTypes>>,
    has_pickle_bytes: bool,
}

impl MdsOpener {
    /// The first of `objects` that has a sample decides about arrays. Without any, each shard decides for itself.
    pub(super) fn new(shards: MdsShards, has_pickle_bytes: bool, objects: &[Arc<dyn RangeRead>]) -> Self {
        let mut opener = Self { shards, array_types: None, has_pickle_bytes };
        for object in objects {
            let entry = opener.shards.entry(object.path());
            match MdsFile::first_array_types(Arc::clone(object), entry.as_deref()) {
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
        let options = MdsOptions { entry, array_types: self.array_types.clone(), has_pickle_bytes: self.has_pickle_bytes };
        Ok(Arc::new(MdsFile::open(object, &options)?))
    }
}
