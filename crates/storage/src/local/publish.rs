//! Atomic publish on POSIX: hidden staging name in the target's directory → sync → rename → sync of
//! the directory.
//!
//! A staging file is locked as long as its writer lives. A later run can therefore distinguish the
//! leftovers of a killed process from the files of a running one, and removes only the former.

use crate::local::file::NO_WAIT;
use crate::local::rename::rename_new;
use crate::local::writeback;
use crate::{Error, Replace, Result, Sealed, Staged, Unpublished, local_path};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const PREFIX: &str = ".shardmill-";
const SUFFIX: &str = ".staging";
/// The disk starts to write after this many bytes.
const PUSH_BYTES: u64 = 8 << 20;

/// A local file that is being written.
#[derive(Debug)]
pub struct LocalStaged {
    target: PathBuf,
    staging: PathBuf,
    file: File,
    unpublished: Unpublished,
    is_published: bool,
    /// Bytes written so far; `pushed` of them were handed to the disk.
    written: u64,
    pushed: u64,
}

impl LocalStaged {
    /// # Errors
    /// [`Error::Stage`] when the directory cannot be created or written, or the run was abandoned.
    pub fn create(target: &str, unpublished: &Unpublished) -> Result<Self> {
        Self::create_as(target, None, unpublished)
    }

    /// As [`LocalStaged::create`], with a hidden name that the caller chooses. The clean-up of
    /// leftovers ignores it.
    ///
    /// # Errors
    /// As [`LocalStaged::create`]; when the hidden name exists.
    pub fn create_as(
        target: &str,
        hidden: Option<&str>,
        unpublished: &Unpublished,
    ) -> Result<Self> {
        let failed = |source| Error::Stage { path: target.to_owned(), source };
        // The process may change its working directory before the file is complete.
        let target_path = std::path::absolute(target).map_err(failed)?;
        // A rename would replace a device or a pipe with a file, which no writer to it wants.
        let replaced = fs::metadata(&target_path).ok();
        if replaced.as_ref().is_some_and(|metadata| !metadata.is_file() && !metadata.is_dir()) {
            return Err(failed(io::Error::new(
                io::ErrorKind::InvalidInput,
                "it is a device, a pipe or a socket, not a file",
            )));
        }
        create_directory(directory_of(&target_path)).map_err(failed)?;
        loop {
            let name = hidden.map_or_else(
                || format!("{PREFIX}{}{SUFFIX}", uuid::Uuid::new_v4().simple()),
                str::to_owned,
            );
            let staging = directory_of(&target_path).join(name);
            let file =
                OpenOptions::new().write(true).create_new(true).open(&staging).map_err(failed)?;
            if is_ours(&file, &staging).map_err(failed)? {
                // The new file must not be readable for users who could not read the old one.
                if let Some(replaced) = replaced.as_ref().filter(|metadata| metadata.is_file()) {
                    file.set_permissions(replaced.permissions()).map_err(failed)?;
                }
                unpublished.enter(&staging, target)?;
                return Ok(Self {
                    target: target_path,
                    staging,
                    file,
                    unpublished: unpublished.clone(),
                    is_published: false,
                    written: 0,
                    pushed: 0,
                });
            }
        }
    }
}

/// Locks a new staging file. False when a clean-up saw it before it was locked,
/// and took it for a leftover.
fn is_ours(file: &File, staging: &Path) -> io::Result<bool> {
    match file.try_lock() {
        Ok(()) => Ok(file.metadata()?.nlink() > 0),
        Err(TryLockError::WouldBlock) => {
            let _gone_or_about_to = fs::remove_file(staging);
            Ok(false)
        }
        // File systems without locks (some network mounts) still publish atomically; only the
        // clean-up of leftovers does not work there.
        Err(TryLockError::Error(_no_locks)) => Ok(true),
    }
}

fn rename(staging: &Path, target: &Path, replace: Replace) -> io::Result<()> {
    if replace == Replace::Atomically {
        return fs::rename(staging, target);
    }
    match rename_new(staging, target) {
        Err(error) if error.kind() == io::ErrorKind::Unsupported => {
            link_into_place(staging, target)
        }
        result => result,
    }
}

/// For file systems whose rename cannot refuse to replace: a hard link never replaces an existing
/// name either.
fn link_into_place(staging: &Path, target: &Path) -> io::Result<()> {
    match fs::hard_link(staging, target) {
        Ok(()) => {
            // The file has its final name. If its hidden name cannot be removed, it is a leftover
            // like any other.
            let _removed_by_a_later_run = fs::remove_file(staging);
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        // Without hard links (FAT, some network mounts), two writers of one name at the same moment
        // could race; names are unique to their inputs.
        Err(_) if target.symlink_metadata().is_ok() => Err(io::ErrorKind::AlreadyExists.into()),
        Err(_) => fs::rename(staging, target),
    }
}

/// Creates `directory` and its parents, and syncs the names it created: a file is lost if a power
/// failure removes its directory.
///
/// # Errors
/// When a component cannot be created, e.g. because it is a file.
pub fn create_directory(directory: &Path) -> io::Result<()> {
    if directory.as_os_str().is_empty() || directory.is_dir() {
        return Ok(());
    }
    let parent = directory_of(directory);
    create_directory(parent)?;
    match fs::create_dir(directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        // "File exists" would suggest that the output exists.
        Err(_) if !directory.is_dir() => Err(io::ErrorKind::NotADirectory.into()),
        _made_by_us_or_meanwhile => sync_directory(parent),
    }
}

/// Makes the names in the directory of `path` durable.
///
/// # Errors
/// [`Error::Publish`] when the sync fails.
pub fn sync_names(path: &str) -> Result<()> {
    // Objects of a store are durable once accepted.
    let Some(local) = local_path(path)? else { return Ok(()) };
    sync_directory(directory_of(Path::new(&*local)))
        .map_err(|source| Error::Publish { path: path.to_owned(), source })
}

pub(crate) fn sync_directory(directory: &Path) -> io::Result<()> {
    match File::open(directory).and_then(|directory| directory.sync_all()) {
        // Some network file systems do not support sync for directories, and do not need it.
        Err(error)
            if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) =>
        {
            Ok(())
        }
        result => result,
    }
}

impl Write for LocalStaged {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let len = self.file.write(buffer)?;
        self.written += len as u64;
        if self.written - self.pushed >= PUSH_BYTES {
            writeback::start(&self.file, self.pushed, self.written - self.pushed);
            self.pushed = self.written;
        }
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Staged for LocalStaged {
    fn publish(mut self: Box<Self>, replace: Replace) -> Result<()> {
        self.sync()?;
        let target = self.target.clone();
        self.name(None, replace)?;
        sync_directory(directory_of(&target))
            .map_err(|source| Error::Publish { path: target.display().to_string(), source })
    }

    fn sync(&mut self) -> Result<()> {
        self.file
            .sync_all()
            .map_err(|source| Error::Publish { path: self.target.display().to_string(), source })
    }

    fn name(mut self: Box<Self>, name: Option<&str>, replace: Replace) -> Result<()> {
        let target =
            name.map_or_else(|| self.target.clone(), |name| self.target.with_file_name(name));
        let path = || target.display().to_string();
        rename(&self.staging, &target, replace).map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => Error::AlreadyExists { path: path() },
            _ => Error::Publish { path: path(), source },
        })?;
        self.is_published = true;
        self.unpublished.leave(&self.staging);
        Ok(())
    }

    fn replace_start(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all_at(bytes, 0)
    }

    fn seal(mut self: Box<Self>) -> Result<Sealed> {
        let failed = |source| Error::Publish { path: self.target.display().to_string(), source };
        self.file.sync_all().map_err(failed)?;
        self.is_published = true;
        self.unpublished.leave(&self.staging);
        let utf8 = |path: &Path| path.display().to_string();
        Ok(Sealed { path: utf8(&self.staging), target: utf8(&self.target), bytes: self.written })
    }
}

impl Drop for LocalStaged {
    fn drop(&mut self) {
        if !self.is_published {
            let _already_gone = fs::remove_file(&self.staging);
            self.unpublished.leave(&self.staging);
        }
    }
}

/// Removes staging files in `directory` whose writers are dead; returns their number.
#[must_use]
pub fn remove_stale_staging(directory: &str) -> usize {
    let Ok(entries) = fs::read_dir(directory) else { return 0 };
    entries
        .filter_map(io::Result::ok)
        .filter(|entry| is_staging_name(&entry.file_name().to_string_lossy()))
        .filter(|entry| remove_if_stale(&entry.path()))
        .count()
}

fn remove_if_stale(staging: &Path) -> bool {
    // Only the holder of the lock may remove the file, so the lock is kept
    // until the file is removed.
    let Ok(file) = OpenOptions::new().read(true).custom_flags(NO_WAIT).open(staging) else {
        return false;
    };
    let is_stale =
        file.metadata().is_ok_and(|metadata| metadata.is_file()) && file.try_lock().is_ok();
    is_stale && fs::remove_file(staging).is_ok()
}

fn is_staging_name(name: &str) -> bool {
    name.strip_prefix(PREFIX)
        .and_then(|rest| rest.strip_suffix(SUFFIX))
        .is_some_and(|id| id.len() == 32)
}

fn directory_of(target: &Path) -> &Path {
    match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests;
