//! Directories of MDS shards: the index lists the files, their order, and their expected content.
//!
//! Other files in such a directory are ignored: they are unfinished shards, or belong to another
//! index. The invariant: every shard of an index is opened with its entry, so that only rows
//! described by the index are delivered.

use super::Format;
use crate::Result;
use serde::de::IgnoredAny;
use shardmill_formats::limit::DecodeLimit;
use shardmill_formats::mds::{
    self, ArrayTypes, Error as MdsError, FileEntry, INDEX_NAME, Index, MdsFile, MdsOptions,
    ShardEntry,
};
use shardmill_formats::table::{TableError, TableFile};
use shardmill_plan::{DataFile, data_files};
use shardmill_storage::{AnyStore, Error as StorageError, RangeRead, Roots, Store, is_remote};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Index entries of files, by path.
#[derive(Debug, Clone, Default)]
pub struct MdsShards(HashMap<String, Arc<ShardEntry>>);

impl MdsShards {
    /// The entries of the directories among `paths` that have an index.
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

    /// The shards of a directory in the order of its index; `None` for an index of something else.
    pub(super) fn list(&mut self, index: &DirectoryIndex) -> Result<Option<Vec<DataFile>>> {
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

/// The index of a directory, which has not been read yet.
#[derive(Debug)]
pub(super) struct DirectoryIndex {
    pub(super) directory: String,
    pub(super) path: String,
    pub(super) bytes: Vec<u8>,
}

impl DirectoryIndex {
    /// `None` for a path that is not a directory, and for a directory without an index.
    ///
    /// # Errors
    /// For an index that cannot be read, and one that cannot be opened beside MDS shards.
    pub(super) fn of(path: &str) -> Result<Option<Self>> {
        // A path with the extension of another format is not such a directory, and a check in an
        // object store would cost a request.
        match Format::of(path) {
            None => {}
            Some(Format::Mds)
                if !matches!(AnyStore.open(path), Ok(_) | Err(StorageError::NotFound { .. })) => {}
            Some(_file) => return Ok(None),
        }
        let directory = match path.trim_end_matches('/') {
            // The root of a store keeps the slashes of its scheme.
            root if root.ends_with(':') && path.len() > root.len() => format!("{root}/"),
            directory => directory.to_owned(),
        };
        let path = format!("{directory}/{INDEX_NAME}");
        let object = match AnyStore.open(&path) {
            Ok(object) => object,
            // A store may refuse to say that there is none, and below a file nothing opens.
            Err(error)
                if !matches!(error, StorageError::NotFound { .. })
                    && holds_shards(&directory).unwrap_or(false) =>
            {
                return Err(error.into());
            }
            Err(_absent) => return Ok(None),
        };
        Ok(Some(Self { directory, bytes: whole(object.as_ref())?, path }))
    }

    /// The roots below which its shards may be.
    pub(super) fn roots(&self) -> Roots {
        Roots::new(&[], std::slice::from_ref(&self.directory))
    }
}

/// The shards that the index of a directory lists. `None` for a path that is not a directory, and
/// for one without an index of MDS shards.
///
/// # Errors
/// For an index that cannot be read.
pub fn indexed_files(path: &str) -> Result<Option<Vec<IndexedFile>>> {
    DirectoryIndex::of(path)?.map_or(Ok(None), |index| shards_of(&index))
}

fn shards_of(index: &DirectoryIndex) -> Result<Option<Vec<IndexedFile>>> {
    let DirectoryIndex { directory, path: index_path, bytes } = index;
    let refused =
        |reason: String| TableError::from(MdsError::Index { path: index_path.clone(), reason });
    let parsed = match Index::parse(index_path, bytes) {
        Ok(parsed) => parsed,
        Err(error) if Index::is_mds(bytes) => return Err(TableError::from(error).into()),
        // A truncated index does not show its kind; the other files of the directory do.
        Err(_)
            if serde_json::from_slice::<IgnoredAny>(bytes).is_err() && holds_shards(directory)? =>
        {
            return Err(refused(
                "it is not valid JSON: it was cut, or is still being written".to_owned(),
            )
            .into());
        }
        // Without its index, missing shards of a directory would go unnoticed.
        Err(_) if has_shards_beside(directory)? => {
            return Err(refused(
                "it is not an index of MDS shards, and MDS shards are beside it".to_owned(),
            )
            .into());
        }
        Err(_) => return Ok(None),
    };
    if parsed.shards.is_empty() && has_shards_beside(directory)? {
        return Err(refused("it lists no shard, and MDS shards are beside it".to_owned()).into());
    }
    let mut listed = HashSet::new();
    if let Some(entry) =
        parsed.shards.iter().find(|entry| !listed.insert(entry.file().basename.as_str()))
    {
        return Err(refused(format!("it lists `{}` twice", entry.file().basename)).into());
    }
    let roots = index.roots();
    let files = parsed.shards.into_iter().map(|entry| {
        Ok(IndexedFile {
            file: stored(index, &roots, &entry.raw_data, entry.zip_data.as_ref())?,
            entry: Arc::new(entry),
        })
    });
    files.collect::<Result<Vec<_>>>().map(Some)
}

/// The existing file of a shard.
///
/// # Errors
/// When it is a link that leads out of the directory.
pub(super) fn stored(
    index: &DirectoryIndex,
    roots: &Roots,
    raw: &FileEntry,
    zip: Option<&FileEntry>,
) -> Result<DataFile> {
    let at = |basename: &str| format!("{}/{basename}", index.directory);
    // A reader that decompressed the shard leaves only the decompressed file.
    let relative = match zip {
        Some(zip) if !is_absent(&at(&zip.basename))? || is_absent(&at(&raw.basename))? => {
            &zip.basename
        }
        _ => &raw.basename,
    };
    // The name stays within the directory, but a link with that name may lead outside.
    if !is_remote(&index.directory)
        && matches!(roots.open(&at(relative)), Err(StorageError::OutsideRoots { .. }))
    {
        let reason = "it is a link that leads out of the directory of the index".to_owned();
        return Err(TableError::from(MdsError::IndexField {
            path: index.path.clone(),
            shard: relative.clone(),
            field: "basename",
            reason,
        })
        .into());
    }
    Ok(DataFile { path: at(relative), relative: relative.clone() })
}

fn holds_shards(directory: &str) -> Result<bool> {
    Ok(data_files(&[directory.to_owned()])?
        .iter()
        .any(|file| Format::of(&file.path) == Some(Format::Mds)))
}

fn has_shards_beside(directory: &str) -> Result<bool> {
    let is_shard = |file: &DataFile| {
        !file.relative.contains('/') && Format::of(&file.path) == Some(Format::Mds)
    };
    Ok(data_files(&[directory.to_owned()])?.iter().any(is_shard))
}

fn is_absent(path: &str) -> Result<bool> {
    match AnyStore.open(path) {
        Ok(_object) => Ok(false),
        Err(StorageError::NotFound { .. }) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

pub(crate) fn whole(object: &dyn RangeRead) -> Result<Vec<u8>> {
    let size = object.size();
    let checked = DecodeLimit::default()
        .check(object.path(), size, "the index has", || "all of it".to_owned());
    checked.map_err(|refusal| TableError::from(MdsError::from(refusal)))?;
    Ok(object
        .read_ranges(std::slice::from_ref(&(0..size)))?
        .pop()
        .map(Vec::from)
        .unwrap_or_default())
}

/// Opens shards, each with its entry, all with the same array types.
#[derive(Debug, Clone)]
pub(super) struct MdsOpener {
    shards: MdsShards,
    array_types: Option<Arc<ArrayTypes>>,
    has_pickle_bytes: bool,
    limit: DecodeLimit,
}

impl MdsOpener {
    /// The first of `objects` with a sample determines array types. Without any, each shard decides
    /// for itself.
    pub(super) fn new(
        shards: MdsShards,
        has_pickle_bytes: bool,
        limit: DecodeLimit,
        objects: &[Arc<dyn RangeRead>],
    ) -> Self {
        let mut opener = Self { shards, array_types: None, has_pickle_bytes, limit };
        for object in objects {
            let entry = opener.shards.entry(object.path());
            match MdsFile::first_array_types(Arc::clone(object), entry.as_deref(), limit) {
                Ok(None) => {}
                Ok(Some(types)) => {
                    opener.array_types = Some(Arc::new(types));
                    break;
                }
                // Opening the file reports the error.
                Err(_fault) => break,
            }
        }
        opener
    }

    pub(super) fn open(
        &self,
        object: Arc<dyn RangeRead>,
    ) -> std::result::Result<Arc<dyn TableFile>, mds::Error> {
        let entry = self.shards.entry(object.path());
        let options = MdsOptions {
            entry,
            array_types: self.array_types.clone(),
            has_pickle_bytes: self.has_pickle_bytes,
            limit: self.limit,
        };
        Ok(Arc::new(MdsFile::open(object, &options)?))
    }
}
