//! Durable write-once objects, implemented with single steps of a disk.
//!
//! The invariant: an object under its name is complete and synced, and its name is synced before
//! [`JournalStore::create`] reports success.

use super::record::{has_end, to_lines};
use crate::{Error, Result};
use serde::Serialize;
use shardmill_storage::{Disk, Locked};
use std::any::Any;
use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64;

/// The objects of a directory tree.
#[derive(Debug, Clone)]
pub(crate) struct JournalStore {
    disk: Arc<dyn Disk>,
}

/// The result of creating an object.
#[derive(Debug)]
pub(crate) enum Created {
    /// With the lock of the object, if requested and supported.
    Made(Option<Box<dyn Any + Send + Sync>>),
    /// Another process has created it before.
    Taken,
    /// Its directory is missing.
    NoDirectory,
    /// It was created, but has since been removed with its directory by another process.
    Collected,
}

/// Suffix of an object that is being created.
const NEW: &str = ".new-";

impl JournalStore {
    pub(crate) fn new(disk: Arc<dyn Disk>) -> Self {
        Self { disk }
    }

    /// Creates an immutable object. Of several concurrent calls, exactly one succeeds.
    pub(crate) fn create(&self, path: &str, content: &[u8], is_locked: bool) -> Result<Created> {
        let directory = directory_of(path);
        let new = format!("{directory}/{NEW}{}", uuid::Uuid::new_v4().simple());
        let make = || -> io::Result<(bool, Locked)> {
            self.disk.write_new(&new, content)?;
            // The lock stays with the file when it is renamed, so the object is never visible
            // without it.
            let lock = if is_locked { self.disk.lock(&new)? } else { Locked::Unsupported };
            self.disk.sync(&new)?;
            Ok((self.disk.rename_new(&new, path)?, lock))
        };
        let made = make();
        let is_made = matches!(made, Ok((true, _)));
        if !is_made {
            let _leftover_in_a_private_directory = self.disk.remove(&new);
        }
        match made {
            Ok((true, lock)) => {
                match self.disk.sync_directory(directory) {
                    Err(error) if error.kind() == ErrorKind::NotFound => {
                        return Ok(Created::Collected);
                    }
                    synced => synced.map_err(failed(directory))?,
                }
                Ok(Created::Made(match lock {
                    Locked::Held(lock) => Some(lock),
                    _ => None,
                }))
            }
            Ok((false, _)) => Ok(Created::Taken),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Created::NoDirectory),
            Err(source) => Err(failed(path)(source)),
        }
    }

    /// As [`JournalStore::create`], with values as lines.
    pub(crate) fn record<T: Serialize>(
        &self,
        path: &str,
        values: impl IntoIterator<Item = T>,
    ) -> Result<Created> {
        self.create(path, &encoded(path, values)?, false)
    }

    /// As [`JournalStore::record`]; an existing object, or a missing directory, means that another
    /// run has taken over.
    pub(crate) fn record_own<T: Serialize>(
        &self,
        path: &str,
        values: impl IntoIterator<Item = T>,
    ) -> Result<()> {
        match self.record(path, values)? {
            Created::Made(_) => Ok(()),
            Created::Taken | Created::NoDirectory | Created::Collected => {
                Err(Error::Fenced { path: path.to_owned() })
            }
        }
    }

    /// True for the leftover of a process that died while it created an object.
    pub(crate) fn is_leftover(name: &str) -> bool {
        name.starts_with(NEW)
    }

    /// The content of an object. One without its end is read once more,
    /// in case the answer was cut short.
    pub(crate) fn read(&self, path: &str) -> Result<Option<Vec<u8>>> {
        match self.disk.read(path).map_err(failed(path))? {
            Some(content) if !has_end(&content) => self.disk.read(path).map_err(failed(path)),
            content => Ok(content),
        }
    }

    pub(crate) fn size(&self, path: &str) -> Result<Option<u64>> {
        self.disk.size(path).map_err(failed(path))
    }

    pub(crate) fn exists(&self, path: &str) -> Result<bool> {
        Ok(self.size(path)?.is_some())
    }

    /// xxHash3 of the content of a file, in hexadecimal digits.
    pub(crate) fn hash(&self, path: &str) -> Result<String> {
        let content = self.disk.read(path).map_err(failed(path))?.unwrap_or_default();
        Ok(format!("{:016x}", xxh3_64(&content)))
    }

    pub(crate) fn list(&self, directory: &str) -> Result<Vec<String>> {
        self.disk.list(directory).map_err(failed(directory))
    }

    pub(crate) fn make_directory(&self, directory: &str) -> Result<()> {
        self.disk.make_directory(directory).map_err(failed(directory))
    }

    pub(crate) fn sync_directory(&self, directory: &str) -> Result<()> {
        self.disk.sync_directory(directory).map_err(failed(directory))
    }

    /// False if another run has removed the directory.
    pub(crate) fn sync_directory_if_there(&self, directory: &str) -> Result<bool> {
        match self.disk.sync_directory(directory) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(source) => Err(failed(directory)(source)),
        }
    }

    /// False if `from` does not exist.
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

    pub(crate) fn remove_empty_directory(&self, directory: &str) -> Result<bool> {
        self.disk.remove_empty_directory(directory).map_err(failed(directory))
    }

    pub(crate) fn remove_directory(&self, directory: &str) -> Result<()> {
        self.disk.remove_directory(directory).map_err(failed(directory))
    }

    /// Whether a file is locked, as by [`Disk::probe_lock`]; `None` if it does not exist.
    pub(crate) fn probe_lock(&self, path: &str) -> Result<Option<Locked>> {
        match self.disk.probe_lock(path) {
            Ok(locked) => Ok(Some(locked)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(source) => Err(failed(path)(source)),
        }
    }

    /// Whether the disk refuses to create an existing file: otherwise two runs could both create a
    /// record. Leaves no file.
    pub(crate) fn refuses_second(&self, directory: &str) -> Result<bool> {
        let probe = format!("{directory}/{NEW}probe-{}", uuid::Uuid::new_v4().simple());
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
pub(crate) fn encoded<T: Serialize>(
    path: &str,
    values: impl IntoIterator<Item = T>,
) -> Result<Vec<u8>> {
    to_lines(values).map_err(|source| Error::Encode { path: path.to_owned(), source })
}

/// The directory of a path; paths of the journal always have one.
pub(crate) fn directory_of(path: &str) -> &str {
    path.rsplit_once('/').map_or(".", |(directory, _name)| directory)
}

fn failed(path: &str) -> impl FnOnce(io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::Journal { path, source }
}
