//! Durable objects that are made once, out of the single steps of a disk.
//!
//! The invariant: an object under its name is whole and synced, and its name is synced before [`JournalStore::create`] says that it made it.

use super::record::to_lines;
use crate::{Error, Result};
use serde::Serialize;
use shardmill_storage::{Disk, Locked};
use std::any::Any;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64;

/// What lies in one folder tree.
#[derive(Debug, Clone)]
pub(crate) struct JournalStore {
    disk: Arc<dyn Disk>,
}

/// How the making of an object ended.
#[derive(Debug)]
pub(crate) enum Created {
    /// With the lock of the object, where one was asked for and there are locks.
    Made(Option<Box<dyn Any + Send + Sync>>),
    /// Somebody made it before.
    Taken,
    /// Its folder is gone.
    NoFolder,
    /// It was made, and somebody has taken it and its folder away since.
    Collected,
}

/// Beside the object in the making.
const NEW: &str = ".new-";

impl JournalStore {
    pub(crate) fn new(disk: Arc<dyn Disk>) -> Self {
        Self { disk }
    }

    /// Makes an object that is never changed. Of several who try, one does.
    pub(crate) fn create(&self, path: &str, content: &[u8], is_locked: bool) -> Result<Created> {
        let folder = folder_of(path);
        let new = format!("{folder}/{NEW}{}", uuid::Uuid::new_v4().simple());
        let make = || -> io::Result<(bool, Locked)> {
            self.disk.write_new(&new, content)?;
            // The lock stays with the file when it gets its name: so nobody sees the object unlocked.
            let lock = if is_locked { self.disk.lock(&new)? } else { Locked::Unsupported };
            self.disk.sync(&new)?;
            Ok((self.disk.rename_new(&new, path)?, lock))
        };
        let made = make();
        let is_made = matches!(made, Ok((true, _)));
        if !is_made {
            let _leftover_in_a_private_folder = self.disk.remove(&new);
        }
        match made {
            Ok((true, lock)) => {
                match self.disk.sync_folder(folder) {
                    Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Created::Collected),
                    synced => synced.map_err(failed(folder))?,
                }
                Ok(Created::Made(match lock {
                    Locked::Held(lock) => Some(lock),
                    _ => None,
                }))
            }
            Ok((false, _)) => Ok(Created::Taken),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Created::NoFolder),
            Err(source) => Err(failed(path)(source)),
        }
    }

    /// As [`JournalStore::create`], of values as lines.
    pub(crate) fn record<T: Serialize>(&self, path: &str, values: impl IntoIterator<Item = T>) -> Result<Created> {
        self.create(path, &encoded(path, values)?, false)
    }

    /// As [`JournalStore::record`]; an object that is there already, or whose folder is gone, means that another run has taken over.
    pub(crate) fn record_own<T: Serialize>(&self, path: &str, values: impl IntoIterator<Item = T>) -> Result<()> {
        match self.record(path, values)? {
            Created::Made(_) => Ok(()),
            Created::Taken | Created::NoFolder | Created::Collected => Err(Error::Fenced { path: path.to_owned() }),
        }
    }

    /// True for the leftover of somebody who died while he made an object.
    pub(crate) fn is_leftover(name: &str) -> bool {
        name.starts_with(NEW)
    }

    pub(crate) fn read(&self, path: &str) -> Result<Option<Vec<u8>>> {
        self.disk.read(path).map_err(failed(path))
    }

    pub(crate) fn size(&self, path: &str) -> Result<Option<u64>> {
        self.disk.size(path).map_err(failed(path))
    }

    pub(crate) fn exists(&self, path: &str) -> Result<bool> {
        Ok(self.size(path)?.is_some())
    }

    /// xxHash3 of the content of a file, in hexadecimal digits.
    pub(crate) fn hash(&self, path: &str) -> Result<String> {
        let content = self.read(path)?.unwrap_or_default();
        Ok(format!("{:016x}", xxh3_64(&content)))
    }

    pub(crate) fn list(&self, folder: &str) -> Result<Vec<String>> {
        self.disk.list(folder).map_err(failed(folder))
    }

    pub(crate) fn make_folder(&self, folder: &str) -> Result<()> {
        self.disk.make_folder(folder).map_err(failed(folder))
    }

    pub(crate) fn sync_folder(&self, folder: &str) -> Result<()> {
        self.disk.sync_folder(folder).map_err(failed(folder))
    }

    /// False when another run has removed the folder.
    pub(crate) fn sync_folder_if_there(&self, folder: &str) -> Result<bool> {
        match self.disk.sync_folder(folder) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(source) => Err(failed(folder)(source)),
        }
    }

    /// False when `from` is not there.
    pub(crate) fn rename(&self, from: &str, to: &str) -> Result<bool> {
        match self.disk.rename(from, to) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(source) => Err(failed(to)(source)),
        }
    }

    pub(crate) fn remove(&self, path: &str) -> Result<()> {
        self.disk.remove(path).map_err(failed(path))
    }

    pub(crate) fn remove_empty_folder(&self, folder: &str) -> Result<bool> {
        self.disk.remove_empty_folder(folder).map_err(failed(folder))
    }

    pub(crate) fn remove_folder(&self, folder: &str) -> Result<()> {
        self.disk.remove_folder(folder).map_err(failed(folder))
    }

    /// Whether a file is locked, as [`Disk::probe_lock`] tells; `None` when there is no such file.
    pub(crate) fn probe_lock(&self, path: &str) -> Result<Option<Locked>> {
        match self.disk.probe_lock(path) {
            Ok(locked) => Ok(Some(locked)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(source) => Err(failed(path)(source)),
        }
    }

    /// Whether the disk refuses to make a file that is there: without that, two runs may both make a record. Leaves no file.
    pub(crate) fn refuses_second(&self, folder: &str) -> Result<bool> {
        let probe = format!("{folder}/{NEW}probe-{}", uuid::Uuid::new_v4().simple());
        let put = || self.disk.write_new(&probe, b"");
        put().map_err(failed(&probe))?;
        let second = put();
        self.remove(&probe)?;
        match second {
            Ok(()) => Ok(false),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(true),
            Err(source) => Err(failed(&probe)(source)),
        }
    }

    pub(crate) fn touch(&self, path: &str) -> Result<()> {
        self.disk.touch(path).map_err(failed(path))
    }

    pub(crate) fn age(&self, path: &str) -> Result<Option<Duration>> {
        self.disk.age(path).map_err(failed(path))
    }
}

/// Values as the lines of the object at `path`.
pub(crate) fn encoded<T: Serialize>(path: &str, values: impl IntoIterator<Item = T>) -> Result<Vec<u8>> {
    to_lines(values).map_err(|source| Error::Encode { path: path.to_owned(), source })
}

/// The folder of a path; paths of the journal always have one.
pub(crate) fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or(".", |(folder, _name)| folder)
}

fn failed(path: &str) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Journal { path, source }
}
