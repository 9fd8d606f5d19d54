//! The individual file system operations that a commit protocol consists of.
//!
//! A protocol that must survive a crash between any two steps has to name each step, so nothing
//! here is composed: writing does not sync, and syncing a file does not sync its name.
//! [`LocalDisk`] performs them on real files; tests use a disk that crashes at a chosen step and
//! drops whatever was not synced.

use crate::local::file::NO_WAIT;
use crate::local::publish::{create_directory, sync_directory};
use crate::local::rename::rename_new;
use std::any::Any;
use std::fmt::Debug;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// The result of an attempt to lock a file.
#[derive(Debug)]
pub enum Locked {
    /// Held until the value is dropped or the process dies.
    Held(Box<dyn Any + Send + Sync>),
    /// Another living process holds the lock.
    Busy,
    /// The file system does not support locks.
    Unsupported,
}

/// Operations on files and directories, by path. Each is atomic unless documented otherwise.
pub trait Disk: Debug + Send + Sync {
    /// The content, or `None` when the file does not exist.
    ///
    /// # Errors
    /// When it cannot be read.
    fn read(&self, path: &str) -> io::Result<Option<Vec<u8>>>;

    /// The size in bytes, or `None` when the file does not exist.
    ///
    /// # Errors
    /// When it cannot be determined.
    fn size(&self, path: &str) -> io::Result<Option<u64>>;

    /// The names in a directory, sorted; empty when the directory does not exist.
    ///
    /// # Errors
    /// When it cannot be listed.
    fn list(&self, directory: &str) -> io::Result<Vec<String>>;

    /// Creates a directory and its parents, durably.
    ///
    /// # Errors
    /// When they cannot be created.
    fn make_directory(&self, directory: &str) -> io::Result<()>;

    /// Writes a new file. Neither its content nor its name is durable yet, and a crash may leave a
    /// partial file.
    ///
    /// # Errors
    /// When the name exists, its directory is missing, or the disk is full.
    fn write_new(&self, path: &str, content: &[u8]) -> io::Result<()>;

    /// Makes the content of a file durable.
    ///
    /// # Errors
    /// When the device fails; the content must then be assumed lost.
    fn sync(&self, path: &str) -> io::Result<()>;

    /// Makes the names in a directory durable.
    ///
    /// # Errors
    /// As [`Disk::sync`].
    fn sync_directory(&self, directory: &str) -> io::Result<()>;

    /// Renames a file. Returns false, without any change, when the new name exists.
    ///
    /// # Errors
    /// When the file or the directory of the new name is missing, or the file
    /// system cannot do it atomically.
    fn rename_new(&self, from: &str, to: &str) -> io::Result<bool>;

    /// Renames a file or a directory and replaces an existing one. Some stores copy and delete: a
    /// crash in between leaves both.
    ///
    /// # Errors
    /// When it is missing.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file; a missing file is not an error.
    ///
    /// # Errors
    /// When it cannot be removed.
    fn remove(&self, path: &str) -> io::Result<()>;

    /// Removes a directory if it is empty, and returns whether it was removed. Afterwards no
    /// process that still has its path can create a file in it.
    ///
    /// # Errors
    /// When it cannot be removed for another reason.
    fn remove_empty_directory(&self, directory: &str) -> io::Result<bool>;

    /// Removes a directory and its content; a missing directory is not an error. Not atomic.
    ///
    /// # Errors
    /// When something in it cannot be removed.
    fn remove_directory(&self, directory: &str) -> io::Result<()>;

    /// Takes the lock of a file without waiting.
    ///
    /// # Errors
    /// When the file does not exist.
    fn lock(&self, path: &str) -> io::Result<Locked>;

    /// As [`Disk::lock`], for callers that only test whether the lock is held. Such callers do not
    /// block each other on file systems with shared locks.
    ///
    /// # Errors
    /// As [`Disk::lock`].
    fn probe_lock(&self, path: &str) -> io::Result<Locked> {
        self.lock(path)
    }

    /// Sets the time of a file to now.
    ///
    /// # Errors
    /// When the file does not exist.
    fn touch(&self, path: &str) -> io::Result<()>;

    /// How long ago a file was written or touched; `None` when it does not exist.
    ///
    /// # Errors
    /// When it cannot be determined.
    fn age(&self, path: &str) -> io::Result<Option<Duration>>;
}

/// The file systems of this machine, including network mounts.
#[derive(Debug, Clone, Copy, Default)]
pub struct LocalDisk {}

fn unless_missing<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// For file systems, usually network mounts, whose rename cannot refuse to replace: a hard link
/// never replaces an existing name either.
fn link_new(from: &str, to: &str) -> io::Result<bool> {
    match fs::hard_link(from, to) {
        Ok(()) => {}
        // A server repeats a request whose response was lost, and then finds
        // the link it created before.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            if fs::metadata(from)?.ino() != fs::metadata(to)?.ino() {
                return Ok(false);
            }
        }
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(error),
        Err(_no_links) => {
            return Err(io::Error::new(
                ErrorKind::Unsupported,
                "the file system has neither a rename that refuses to replace nor hard links",
            ));
        }
    }
    fs::remove_file(from)?;
    Ok(true)
}

fn locked(path: &str, lock: fn(&File) -> Result<(), TryLockError>) -> io::Result<Locked> {
    let file = OpenOptions::new().read(true).write(true).custom_flags(NO_WAIT).open(path)?;
    match lock(&file) {
        Ok(()) => Ok(Locked::Held(Box::new(file))),
        Err(TryLockError::WouldBlock) => Ok(Locked::Busy),
        Err(TryLockError::Error(_no_locks)) => Ok(Locked::Unsupported),
    }
}

impl Disk for LocalDisk {
    fn read(&self, path: &str) -> io::Result<Option<Vec<u8>>> {
        unless_missing(fs::read(path))
    }

    fn size(&self, path: &str) -> io::Result<Option<u64>> {
        Ok(unless_missing(fs::metadata(path))?.map(|metadata| metadata.len()))
    }

    fn list(&self, directory: &str) -> io::Result<Vec<String>> {
        let Some(entries) = unless_missing(fs::read_dir(directory))? else { return Ok(Vec::new()) };
        let name =
            |entry: io::Result<fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
        let mut names = entries.map(name).collect::<io::Result<Vec<String>>>()?;
        names.sort_unstable();
        Ok(names)
    }

    fn make_directory(&self, directory: &str) -> io::Result<()> {
        create_directory(Path::new(directory))
    }

    fn write_new(&self, path: &str, content: &[u8]) -> io::Result<()> {
        OpenOptions::new().write(true).create_new(true).open(path)?.write_all(content)
    }

    fn sync(&self, path: &str) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn sync_directory(&self, directory: &str) -> io::Result<()> {
        sync_directory(Path::new(directory))
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<bool> {
        match rename_new(Path::new(from), Path::new(to)) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
            Err(error) if error.kind() == ErrorKind::Unsupported => link_new(from, to),
            Err(error) => Err(error),
        }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        unless_missing(fs::remove_file(path)).map(drop)
    }

    fn remove_empty_directory(&self, directory: &str) -> io::Result<bool> {
        match unless_missing(fs::remove_dir(directory)) {
            Ok(_gone) => Ok(true),
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn remove_directory(&self, directory: &str) -> io::Result<()> {
        unless_missing(fs::remove_dir_all(directory)).map(drop)
    }

    fn lock(&self, path: &str) -> io::Result<Locked> {
        locked(path, File::try_lock)
    }

    fn probe_lock(&self, path: &str) -> io::Result<Locked> {
        locked(path, File::try_lock_shared)
    }

    fn touch(&self, path: &str) -> io::Result<()> {
        OpenOptions::new().write(true).open(path)?.set_modified(SystemTime::now())
    }

    fn age(&self, path: &str) -> io::Result<Option<Duration>> {
        let Some(metadata) = unless_missing(fs::metadata(path))? else { return Ok(None) };
        // If the clock is behind, a file may appear to be from the future; its age is then zero.
        Ok(Some(SystemTime::now().duration_since(metadata.modified()?).unwrap_or_default()))
    }
}
