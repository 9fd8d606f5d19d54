//! What was fetched once, kept on the disk of this machine for all of its processes.
//!
//! An object is two files, its bytes and a table with one entry for each block of them; versions of an object are objects of their own. A block counts when
//! its entry bears the checksum of its bytes, so it does not matter in which order a crash let them reach the disk, and what is damaged is fetched again.
//! Whoever fetches a block holds the lock of its region meanwhile; others wait and find it there. The invariant: a read gives the bytes of the store's
//! version, or what the store said when it was asked.

mod blocks;
mod descriptors;
mod eviction;
mod locks;
mod object;

pub(crate) use object::CachedObject;

use crate::{Error, Result};
use descriptors::Descriptors;
use eviction::Eviction;
use locks::Locks;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use xxhash_rust::xxh3::xxh3_128;

const OBJECTS: &str = "objects";

/// A folder with what was fetched, of a limited size.
#[derive(Debug)]
pub(crate) struct Cache {
    folder: PathBuf,
    locks: Locks,
    eviction: Eviction,
    descriptors: Descriptors,
    /// The disk took nothing more: what comes now is read and not kept.
    is_full: AtomicBool,
}

/// What a cache folder holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheEntry {
    /// As the user would write it.
    pub path: String,
    /// On the disk.
    pub bytes: u64,
    /// Of the whole object.
    pub size: u64,
    pub used: std::time::SystemTime,
}

impl Cache {
    /// # Errors
    /// [`Error::Cache`] when the folder cannot be made or written by this user.
    pub(crate) fn open(folder: &Path, limit: u64) -> Result<Arc<Self>> {
        let failed = |source| Error::Cache { folder: folder.display().to_string(), source };
        let folder = std::path::absolute(folder).map_err(failed)?;
        let make = |name: &str| DirBuilder::new().recursive(true).mode(0o700).create(folder.join(name));
        make(OBJECTS).and_then(|()| make(locks::FOLDER)).map_err(failed)?;
        let probe = folder.join(format!(".probe-{}", uuid::Uuid::new_v4().simple()));
        File::create_new(&probe).and_then(|_| fs::remove_file(&probe)).map_err(failed)?;
        let locks = Locks::new(folder.join(locks::FOLDER));
        Ok(Arc::new(Self { eviction: Eviction::new(limit), descriptors: Descriptors::default(), locks, is_full: AtomicBool::new(false), folder }))
    }

    /// Where the bytes of a version are kept; `None` when the object is larger than the cache may be.
    ///
    /// # Errors
    /// [`Error::Cache`] when its files cannot be opened.
    pub(crate) fn object(self: &Arc<Self>, path: &str, version: &str, size: u64) -> Result<Option<CachedObject>> {
        if size > self.eviction.limit() || size == 0 {
            return Ok(None);
        }
        let name = format!("{:032x}", xxh3_128(format!("{path}\n{version}\n{size}").as_bytes()));
        let base = self.folder.join(OBJECTS).join(name.get(..2).unwrap_or_default()).join(&name);
        let failed = |source| Error::Cache { folder: self.folder.display().to_string(), source };
        match CachedObject::open(Arc::clone(self), &base, path, size) {
            Ok(object) => Ok(Some(object)),
            // Nothing can be kept, and everything can be read.
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                self.disk_is_full();
                Ok(None)
            }
            Err(error) => Err(failed(error)),
        }
    }

    fn keeps(&self) -> bool {
        !self.is_full.load(Ordering::Relaxed)
    }

    fn disk_is_full(&self) {
        self.is_full.store(true, Ordering::Relaxed);
    }

    /// So many bytes were added.
    fn grew(&self, bytes: u64) {
        if self.eviction.is_due(bytes) {
            let _by_somebody_else = self.locks.alone("evict").map(|_held| eviction::evict(&self.folder.join(OBJECTS), self.eviction.limit()));
        }
    }
}

/// What is in a cache folder, the latest used first.
///
/// # Errors
/// [`Error::Cache`] when the folder cannot be read.
pub fn cache_entries(folder: &str) -> Result<Vec<CacheEntry>> {
    let failed = |source| Error::Cache { folder: folder.to_owned(), source };
    let mut entries = Vec::new();
    for kept in eviction::kept(&Path::new(folder).join(OBJECTS)).map_err(failed)? {
        let path = kept.object_path();
        entries.push(CacheEntry { path, bytes: kept.bytes, size: kept.size, used: kept.used });
    }
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.used));
    Ok(entries)
}

/// Removes what a cache folder holds, and says how many bytes that were. Processes that read from it go on, and fetch what they need.
///
/// # Errors
/// [`Error::Cache`] when something cannot be removed.
pub fn clear_cache(folder: &str) -> Result<u64> {
    let failed = |source| Error::Cache { folder: folder.to_owned(), source };
    let mut removed = 0;
    for kept in eviction::kept(&Path::new(folder).join(OBJECTS)).map_err(failed)? {
        removed += kept.bytes;
        kept.remove().map_err(failed)?;
    }
    Ok(removed)
}

#[cfg(test)]
mod tests;
