//! A cache on the local disk of bytes fetched from remote stores, shared
//! by all processes of the machine.
//!
//! An object is stored as two files: its bytes, and a table with one entry per block. Each version
//! of an object is stored separately. A block is valid if its entry contains the checksum of its
//! bytes, so the order in which writes reach the disk before a crash does not matter, and damaged
//! blocks are fetched again. A thread that fetches a block holds the lock of its region; other
//! threads wait and then find the block. The invariant: a read returns the bytes of the store's
//! version, or the store's own response.

mod blocks;
mod descriptors;
mod eviction;
mod locks;
mod object;

pub(crate) use object::CachedObject;

use crate::process::PerProcess;
use crate::{Error, Result};
use descriptors::Descriptors;
use eviction::Eviction;
use locks::Locks;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use xxhash_rust::xxh3::xxh3_128;

const OBJECTS: &str = "objects";

/// Writes to leave out after one that found the disk full. The eviction of another process, or any
/// other program, may make room.
const LEFT_OUT: u64 = 256;

/// A cache directory with a size limit.
#[derive(Debug)]
pub(crate) struct Cache {
    directory: PathBuf,
    locks: Locks,
    eviction: Eviction,
    /// A forked child opens files of its own: a thread of its parent may have held the lock.
    descriptors: PerProcess<Descriptors>,
    /// Writes to leave out before the next attempt, because the disk was full.
    left_out: AtomicU64,
    is_reported: AtomicBool,
    hits: AtomicU64,
    misses: AtomicU64,
}

/// An entry of a cache directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CacheEntry {
    /// The path as the user would write it.
    pub path: String,
    /// Bytes on the disk.
    pub bytes: u64,
    /// Size of the whole object.
    pub size: u64,
    pub used: std::time::SystemTime,
}

impl Cache {
    /// # Errors
    /// [`Error::Cache`] when the directory cannot be created or is not writable for this user.
    pub(crate) fn open(directory: &Path, limit: u64) -> Result<Arc<Self>> {
        let failed = |source| Error::Cache { directory: directory.display().to_string(), source };
        let directory = std::path::absolute(directory).map_err(failed)?;
        let make =
            |name: &str| DirBuilder::new().recursive(true).mode(0o700).create(directory.join(name));
        make(OBJECTS).and_then(|()| make(locks::DIRECTORY)).map_err(failed)?;
        let probe = directory.join(format!(".probe-{}", uuid::Uuid::new_v4().simple()));
        File::create_new(&probe).and_then(|_| fs::remove_file(&probe)).map_err(failed)?;
        let locks = Locks::new(directory.join(locks::DIRECTORY));
        let cache = Arc::new(Self {
            eviction: Eviction::new(limit),
            descriptors: PerProcess::new(),
            locks,
            left_out: AtomicU64::new(0),
            is_reported: AtomicBool::new(false),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            directory,
        });
        // Earlier processes may have left more than this limit, and this one may write nothing.
        cache.shrink();
        Ok(cache)
    }

    /// The cached bytes of a version; `None` when the object is larger than the cache limit.
    ///
    /// # Errors
    /// [`Error::Cache`] when its files cannot be opened.
    pub(crate) fn object(
        self: &Arc<Self>,
        path: &str,
        version: &str,
        size: u64,
    ) -> Result<Option<CachedObject>> {
        if size > self.eviction.limit() || size == 0 {
            return Ok(None);
        }
        let name = format!("{:032x}", xxh3_128(format!("{path}\n{version}\n{size}").as_bytes()));
        let base = self.directory.join(OBJECTS).join(name.get(..2).unwrap_or_default()).join(&name);
        let failed =
            |source| Error::Cache { directory: self.directory.display().to_string(), source };
        match CachedObject::open(Arc::clone(self), &base, path, size) {
            Ok(object) => Ok(Some(object)),
            // The cache cannot keep anything, but the object can still be read.
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                self.not_kept(&error);
                Ok(None)
            }
            Err(error) => Err(failed(error)),
        }
    }

    /// Ranges that were read from the cache, and ranges that were fetched.
    pub(crate) fn hits_and_misses(&self) -> (u64, u64) {
        (self.hits.load(Ordering::Relaxed), self.misses.load(Ordering::Relaxed))
    }

    /// Whether the next write is attempted.
    fn keeps(&self) -> bool {
        self.left_out
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
            .is_err()
    }

    /// Records that a write failed. What was read is not kept, and is fetched again
    /// when it is next needed.
    fn not_kept(&self, error: &io::Error) {
        if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
            self.left_out.store(LEFT_OUT, Ordering::Relaxed);
        }
        if !self.is_reported.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                target: "shardmill.storage",
                "the cache in {} does not keep all that is read: {error}",
                self.directory.display()
            );
        }
    }

    /// Records that `bytes` were added.
    fn grew(&self, bytes: u64) {
        if self.eviction.is_due(bytes) {
            self.shrink();
        }
    }

    /// Removes what exceeds the limit, unless another thread or process is doing so.
    fn shrink(&self) {
        let _held_elsewhere = self
            .locks
            .alone("evict")
            .map(|_held| eviction::evict(&self.directory.join(OBJECTS), self.eviction.limit()));
    }
}

/// The entries of a cache directory, most recently used first.
///
/// # Errors
/// [`Error::Cache`] when the directory cannot be read.
pub fn cache_entries(directory: &str) -> Result<Vec<CacheEntry>> {
    let failed = |source| Error::Cache { directory: directory.to_owned(), source };
    let mut entries = Vec::new();
    for kept in eviction::kept(&Path::new(directory).join(OBJECTS)).map_err(failed)? {
        let path = kept.object_path();
        entries.push(CacheEntry { path, bytes: kept.bytes, size: kept.size, used: kept.used });
    }
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.used));
    Ok(entries)
}

/// Removes the content of a cache directory and returns the number of bytes removed. Processes that
/// read from it continue, and fetch what they need.
///
/// # Errors
/// [`Error::Cache`] when something cannot be removed.
pub fn clear_cache(directory: &str) -> Result<u64> {
    let failed = |source| Error::Cache { directory: directory.to_owned(), source };
    let mut removed = 0;
    for kept in eviction::kept(&Path::new(directory).join(OBJECTS)).map_err(failed)? {
        removed += kept.bytes;
        kept.remove().map_err(failed)?;
    }
    Ok(removed)
}

#[cfg(test)]
mod tests;
