//! The single steps of a file system that a commit protocol is made of.
//!
//! A protocol that must survive a crash between any two steps has to say each of them, so nothing here is composed: writing does not sync, syncing a file
//! does not sync its name. [`LocalDisk`] does them for real; tests put a disk in its place that crashes at a chosen step and forgets what was not synced.

use crate::local::NO_WAIT;
use crate::publish::{create_folder, sync_folder};
use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};
use rustix::io::Errno;
use std::any::Any;
use std::fmt::Debug;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// What became of an attempt to lock a file.
#[derive(Debug)]
pub enum Locked {
    /// Until the value is dropped, or the process dies.
    Held(Box<dyn Any + Send + Sync>),
    /// Somebody who lives has it.
    Busy,
    /// The file system knows no locks.
    Unsupported,
}

/// Steps on files and folders, by path. Each is atomic unless it says otherwise.
pub trait Disk: Debug + Send + Sync {
    /// The content, or `None` when there is no such file.
    ///
    /// # Errors
    /// When it cannot be read.
    fn read(&self, path: &str) -> io::Result<Option<Vec<u8>>>;

    /// The size in bytes, or `None` when there is no such file.
    ///
    /// # Errors
    /// When it cannot be told.
    fn size(&self, path: &str) -> io::Result<Option<u64>>;

    /// The names in a folder, sorted; none when there is no such folder.
    ///
    /// # Errors
    /// When it cannot be listed.
    fn list(&self, folder: &str) -> io::Result<Vec<String>>;

    /// Makes a folder and all above it, durably.
    ///
    /// # Errors
    /// When that is not possible.
    fn make_folder(&self, folder: &str) -> io::Result<()>;

    /// Writes a new file. Neither its content nor its name is durable yet, and a crash may leave a part.
    ///
    /// # Errors
    /// When the name is taken, its folder is missing, or the disk is full.
    fn write_new(&self, path: &str, content: &[u8]) -> io::Result<()>;

    /// Makes the content of a file durable.
    ///
    /// # Errors
    /// When the device refuses; the content is lost then, as far as anybody knows.
    fn sync(&self, path: &str) -> io::Result<()>;

    /// Makes the names in a folder durable.
    ///
    /// # Errors
    /// As [`Disk::sync`].
    fn sync_folder(&self, folder: &str) -> io::Result<()>;

    /// Gives a file another name. False when that one is taken; nothing changed then.
    ///
    /// # Errors
    /// When the file or the folder of the new name is missing, or the file system cannot do it atomically.
    fn rename_new(&self, from: &str, to: &str) -> io::Result<bool>;

    /// Gives a file or a folder another name, in place of what has it. Some stores copy and delete: a crash in between leaves both.
    ///
    /// # Errors
    /// When it is missing.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file; one that is not there is fine.
    ///
    /// # Errors
    /// When it cannot be removed.
    fn remove(&self, path: &str) -> io::Result<()>;

    /// Removes a folder unless something is in it, and says whether it is gone. Afterwards no file can be made in it by anybody who still has its path.
    ///
    /// # Errors
    /// When it cannot be removed for another reason.
    fn remove_empty_folder(&self, folder: &str) -> io::Result<bool>;

    /// Removes a folder with all that is in it; one that is not there is fine. Not atomic.
    ///
    /// # Errors
    /// When something in it cannot be removed.
    fn remove_folder(&self, folder: &str) -> io::Result<()>;

    /// Takes the lock of a file without waiting.
    ///
    /// # Errors
    /// When there is no such file.
    fn lock(&self, path: &str) -> io::Result<Locked>;

    /// As [`Disk::lock`] for those who only look whether somebody has the lock: they are not in each other's way, where the file system knows shared locks.
    ///
    /// # Errors
    /// As [`Disk::lock`].
    fn probe_lock(&self, path: &str) -> io::Result<Locked> {
        self.lock(path)
    }

    /// Sets the time of a file to now.
    ///
    /// # Errors
    /// When there is no such file.
    fn touch(&self, path: &str) -> io::Result<()>;

    /// How long ago a file was written or touched; `None` when there is no such file.
    ///
    /// # Errors
    /// When it cannot be told.
    fn age(&self, path: &str) -> io::Result<Option<Duration>>;
}

/// The file systems of this machine, network mounts among them.
#[derive(Debug, Clone, Copy, Default)]
pub struct LocalDisk {}

fn unless_missing<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error),
    }
}

/// For file systems whose rename cannot refuse to replace, network mounts mostly: a hard link never replaces either.
fn link_new(from: &str, to: &str) -> io::Result<bool> {
    match fs::hard_link(from, to) {
        Ok(()) => {}
        // A server repeats a request whose answer was lost, and then finds its own work.
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            if fs::metadata(from)?.ino() != fs::metadata(to)?.ino() {
                return Ok(false);
            }
        }
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(error),
        Err(_no_links) => {
            return Err(io::Error::new(ErrorKind::Unsupported, "the file system has neither a rename that refuses to replace nor hard links"));
        }
    }
    fs::remove_file(from)?;
    Ok(true)
}

fn locked(path: &str, operation: FlockOperation) -> io::Result<Locked> {
    let file = OpenOptions::new().read(true).write(true).custom_flags(NO_WAIT).open(path)?;
    match flock(&file, operation) {
        Ok(()) => Ok(Locked::Held(Box::new(file))),
        Err(Errno::WOULDBLOCK) => Ok(Locked::Busy),
        Err(_no_locks) => Ok(Locked::Unsupported),
    }
}

impl Disk for LocalDisk {
    fn read(&self, path: &str) -> io::Result<Option<Vec<u8>>> {
        unless_missing(fs::read(path))
    }

    fn size(&self, path: &str) -> io::Result<Option<u64>> {
        Ok(unless_missing(fs::metadata(path))?.map(|metadata| metadata.len()))
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let Some(entries) = unless_missing(fs::read_dir(folder))? else { return Ok(Vec::new()) };
        let name = |entry: io::Result<fs::DirEntry>| Ok(entry?.file_name().to_string_lossy().into_owned());
        let mut names = entries.map(name).collect::<io::Result<Vec<String>>>()?;
        names.sort_unstable();
        Ok(names)
    }

    fn make_folder(&self, folder: &str) -> io::Result<()> {
        create_folder(Path::new(folder))
    }

    fn write_new(&self, path: &str, content: &[u8]) -> io::Result<()> {
        OpenOptions::new().write(true).create_new(true).open(path)?.write_all(content)
    }

    fn sync(&self, path: &str) -> io::Result<()> {
        File::open(path)?.sync_all()
    }

    fn sync_folder(&self, folder: &str) -> io::Result<()> {
        sync_folder(Path::new(folder))
    }

    fn rename_new(&self, from: &str, to: &str) -> io::Result<bool> {
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => link_new(from, to),
            Err(errno) => Err(errno.into()),
        }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        unless_missing(fs::remove_file(path)).map(drop)
    }

    fn remove_empty_folder(&self, folder: &str) -> io::Result<bool> {
        match unless_missing(fs::remove_dir(folder)) {
            Ok(_gone) => Ok(true),
            Err(error) if error.kind() == ErrorKind::DirectoryNotEmpty => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn remove_folder(&self, folder: &str) -> io::Result<()> {
        unless_missing(fs::remove_dir_all(folder)).map(drop)
    }

    fn lock(&self, path: &str) -> io::Result<Locked> {
        locked(path, FlockOperation::NonBlockingLockExclusive)
    }

    fn probe_lock(&self, path: &str) -> io::Result<Locked> {
        locked(path, FlockOperation::NonBlockingLockShared)
    }

    fn touch(&self, path: &str) -> io::Result<()> {
        OpenOptions::new().write(true).open(path)?.set_modified(SystemTime::now())
    }

    fn age(&self, path: &str) -> io::Result<Option<Duration>> {
        let Some(metadata) = unless_missing(fs::metadata(path))? else { return Ok(None) };
        // A clock that runs behind makes a file of the future; nothing is younger than now.
        Ok(Some(SystemTime::now().duration_since(metadata.modified()?).unwrap_or_default()))
    }
}
