//! Keeps a cache directory below its limit by evicting the least recently used objects.

use super::blocks::{BYTES, NAME, TABLE};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// The directory is checked each time this process has added a `PARTS`-th of the limit.
const PARTS: u64 = 32;

#[derive(Debug)]
pub(super) struct Eviction {
    limit: u64,
    added: AtomicU64,
}

/// An object in the directory.
#[derive(Debug)]
pub(super) struct Kept {
    base: PathBuf,
    pub(super) bytes: u64,
    pub(super) size: u64,
    pub(super) used: SystemTime,
}

impl Eviction {
    pub(super) fn new(limit: u64) -> Self {
        Self { limit, added: AtomicU64::new(0) }
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    pub(super) fn is_due(&self, bytes: u64) -> bool {
        let added = self.added.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        let is_due = added >= self.limit / PARTS;
        if is_due {
            self.added.store(0, Ordering::Relaxed);
        }
        is_due
    }
}

impl Kept {
    pub(super) fn object_path(&self) -> String {
        fs::read_to_string(self.base.with_extension(NAME)).unwrap_or_default()
    }

    /// Removes the entries first: bytes without entries are ignored.
    pub(super) fn remove(&self) -> io::Result<()> {
        for extension in [TABLE, BYTES, NAME] {
            match fs::remove_file(self.base.with_extension(extension)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

/// All objects below `directory`.
pub(super) fn kept(directory: &Path) -> io::Result<Vec<Kept>> {
    let mut found = Vec::new();
    for group in fs::read_dir(directory)? {
        let Ok(objects) = fs::read_dir(group?.path()) else { continue };
        for object in objects.filter_map(io::Result::ok) {
            let path = object.path();
            if path.extension().is_none_or(|extension| extension != BYTES) {
                continue;
            }
            let Ok(metadata) = object.metadata() else { continue };
            let used = fs::metadata(path.with_extension(NAME))
                .and_then(|metadata| metadata.modified())
                .unwrap_or(SystemTime::UNIX_EPOCH);
            found.push(Kept {
                base: path.with_extension(""),
                bytes: metadata.blocks() * 512,
                size: metadata.len(),
                used,
            });
        }
    }
    Ok(found)
}

/// Removes the least recently used objects until a tenth of the limit is free.
pub(super) fn evict(directory: &Path, limit: u64) {
    let Ok(mut all) = kept(directory) else { return };
    let mut total: u64 = all.iter().map(|kept| kept.bytes).sum();
    if total <= limit {
        return;
    }
    all.sort_by_key(|kept| kept.used);
    for kept in all {
        if total <= limit - limit / 10 {
            break;
        }
        if kept.remove().is_ok() {
            total = total.saturating_sub(kept.bytes);
        }
    }
}
