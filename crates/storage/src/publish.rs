//! Atomic publish on POSIX: hidden staging name beside the target → sync → rename → sync of the folder.
//!
//! A staging file is locked for as long as its writer lives. So a later run can tell the leftovers of a killed process from the work of a living
//! one, and removes only the former.

use crate::local::NO_WAIT;
use crate::{Error, Replace, Result, Sealed, Staged, Unpublished, local_path};
use rustix::fs::{Advice, CWD, FlockOperation, RenameFlags, fadvise, flock, renameat_with};
use rustix::io::Errno;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const PREFIX: &str = ".shardmill-";
const SUFFIX: &str = ".staging";
/// The disk begins to write after so many bytes.
const PUSH_BYTES: u64 = 8 << 20;

/// A local file in the making.
#[derive(Debug)]
pub struct LocalStaged {
    target: PathBuf,
    staging: PathBuf,
    file: File,
    unpublished: Unpublished,
    is_published: bool,
    /// Bytes written so far, and how many of them the disk was asked to write.
    written: u64,
    pushed: u64,
}

impl LocalStaged {
    /// # Errors
    /// [`Error::Stage`] when the folder cannot be made or written, or the run was abandoned.
    pub fn create(target: &str, unpublished: &Unpublished) -> Result<Self> {
        Self::create_as(target, None, unpublished)
    }

    /// With a hidden name of the caller's beside the target, which no clean-up of leftovers knows.
    ///
    /// # Errors
    /// As [`LocalStaged::create`]; when the hidden name is taken.
    pub fn create_as(target: &str, hidden: Option<&str>, unpublished: &Unpublished) -> Result<Self> {
        let failed = |source| Error::Stage { path: target.to_owned(), source };
        // A process may go to another folder before the file is whole.
        let target_path = std::path::absolute(target).map_err(failed)?;
        // A rename would put a file in place of a device or a pipe, which nobody asks for by writing to it.
        let replaced = fs::metadata(&target_path).ok();
        if replaced.as_ref().is_some_and(|metadata| !metadata.is_file() && !metadata.is_dir()) {
            return Err(failed(io::Error::new(io::ErrorKind::InvalidInput, "it is a device, a pipe or a socket, not a file")));
        }
        create_folder(folder_of(&target_path)).map_err(failed)?;
        loop {
            let name = hidden.map_or_else(|| format!("{PREFIX}{}{SUFFIX}", uuid::Uuid::new_v4().simple()), str::to_owned);
            let staging = folder_of(&target_path).join(name);
            let file = OpenOptions::new().write(true).create_new(true).open(&staging).map_err(failed)?;
            if is_ours(&file, &staging).map_err(failed)? {
                // Who could not read the old file shall not read the new one.
                if let Some(replaced) = replaced.as_ref().filter(|metadata| metadata.is_file()) {
                    file.set_permissions(replaced.permissions()).map_err(failed)?;
                }
                unpublished.enter(&staging, target)?;
                return Ok(Self { target: target_path, staging, file, unpublished: unpublished.clone(), is_published: false, written: 0, pushed: 0 });
            }
        }
    }
}

/// Locks a new staging file. False when a clean-up saw it before it was locked, and took it for a leftover.
fn is_ours(file: &File, staging: &Path) -> io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file.metadata()?.nlink() > 0),
        Err(Errno::WOULDBLOCK) => {
            let _gone_or_about_to = fs::remove_file(staging);
            Ok(false)
        }
        // File systems without locks (some network mounts) still publish atomically; only the clean-up of leftovers is lost there.
        Err(_no_locks) => Ok(true),
    }
}

fn rename(staging: &Path, target: &Path, replace: Replace) -> io::Result<()> {
    if replace == Replace::Atomically {
        return fs::rename(staging, target);
    }
    match renameat_with(CWD, staging, CWD, target, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(()),
        Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => link_into_place(staging, target),
        Err(errno) => Err(errno.into()),
    }
}

/// For file systems whose rename cannot refuse to replace: a hard link never replaces either.
fn link_into_place(staging: &Path, target: &Path) -> io::Result<()> {
    match fs::hard_link(staging, target) {
        Ok(()) => {
            // The file has its name now. A second, hidden one is a leftover like any other, if it cannot be removed.
            let _removed_by_a_later_run = fs::remove_file(staging);
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        // No links either (FAT, some network mounts): names are unique to their inputs, so two writers at one name within a moment are one too many.
        Err(_) if target.symlink_metadata().is_ok() => Err(io::ErrorKind::AlreadyExists.into()),
        Err(_) => fs::rename(staging, target),
    }
}

/// Makes `folder` with all that lies above it, and syncs the names of what it made: a file in a folder that a power cut forgets is lost as well.
///
/// # Errors
/// When a part of the path cannot be made, e.g. because it is a file.
pub fn create_folder(folder: &Path) -> io::Result<()> {
    if folder.as_os_str().is_empty() || folder.is_dir() {
        return Ok(());
    }
    let parent = folder_of(folder);
    create_folder(parent)?;
    match fs::create_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        // "File exists" would say that the output is there already.
        Err(_) if !folder.is_dir() => Err(Errno::NOTDIR.into()),
        _made_by_us_or_meanwhile => sync_folder(parent),
    }
}

/// Makes the names durable that the folder of `path` was given.
///
/// # Errors
/// [`Error::Publish`] when the sync fails.
pub fn sync_names(path: &str) -> Result<()> {
    // What a store took is durable.
    let Some(local) = local_path(path)? else { return Ok(()) };
    sync_folder(folder_of(Path::new(&*local))).map_err(|source| Error::Publish { path: path.to_owned(), source })
}

pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    match File::open(folder).and_then(|folder| folder.sync_all()) {
        // Some network file systems have no sync for folders, and no need for it.
        Err(error) if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) => Ok(()),
        result => result,
    }
}

impl Write for LocalStaged {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let len = self.file.write(buffer)?;
        self.written += len as u64;
        if self.written - self.pushed >= PUSH_BYTES {
            // "Not needed" makes Linux begin to write what is new, without waiting; a sync at the end then finds little left. It is advice: nothing is lost
            // when it is not taken, and pages that are not on the disk yet stay in memory.
            let _advice = fadvise(&self.file, self.pushed, NonZeroU64::new(self.written - self.pushed), Advice::DontNeed);
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
        sync_folder(folder_of(&target)).map_err(|source| Error::Publish { path: target.display().to_string(), source })
    }

    fn sync(&mut self) -> Result<()> {
        self.file.sync_all().map_err(|source| Error::Publish { path: self.target.display().to_string(), source })
    }

    fn name(mut self: Box<Self>, name: Option<&str>, replace: Replace) -> Result<()> {
        let target = name.map_or_else(|| self.target.clone(), |name| self.target.with_file_name(name));
        let path = || target.display().to_string();
        rename(&self.staging, &target, replace).map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => Error::AlreadyExists { path: path() },
            _ => Error::Publish { path: path(), source },
        })?;
        self.is_published = true;
        self.unpublished.leave(&self.staging);
        Ok(())
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

/// Removes staging files in `folder` whose writers are dead; returns how many.
#[must_use]
pub fn remove_stale_staging(folder: &str) -> usize {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    entries
        .filter_map(io::Result::ok)
        .filter(|entry| is_staging_name(&entry.file_name().to_string_lossy()))
        .filter(|entry| remove_if_stale(&entry.path()))
        .count()
}

fn remove_if_stale(staging: &Path) -> bool {
    // Whoever holds the lock has the right to remove; so it is kept until the file is gone.
    let Ok(file) = OpenOptions::new().read(true).custom_flags(NO_WAIT).open(staging) else { return false };
    let is_stale = file.metadata().is_ok_and(|metadata| metadata.is_file()) && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
    is_stale && fs::remove_file(staging).is_ok()
}

fn is_staging_name(name: &str) -> bool {
    name.strip_prefix(PREFIX).and_then(|rest| rest.strip_suffix(SUFFIX)).is_some_and(|id| id.len() == 32)
}

fn folder_of(target: &Path) -> &Path {
    match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type TestResult = std::result::Result<(), Box<dyn std::error::Error>>;

    fn target(folder: &tempfile::TempDir, name: &str) -> String {
        folder.path().join(name).display().to_string()
    }

    #[test]
    fn unpublished_file_leaves_nothing() -> TestResult {
        let folder = tempfile::tempdir()?;
        let mut staged = LocalStaged::create(&target(&folder, "out.tar"), &Unpublished::default())?;
        staged.write_all(b"half")?;
        drop(staged);
        assert_eq!(fs::read_dir(folder.path())?.count(), 0);
        Ok(())
    }

    #[test]
    fn published_file_is_whole_and_alone() -> TestResult {
        let folder = tempfile::tempdir()?;
        let path = target(&folder, "out.tar");
        let mut staged = Box::new(LocalStaged::create(&path, &Unpublished::default())?);
        staged.write_all(b"whole")?;
        assert!(!Path::new(&path).exists());
        staged.publish(Replace::Never)?;
        assert_eq!(fs::read(&path)?, b"whole");
        assert_eq!(fs::read_dir(folder.path())?.count(), 1);
        Ok(())
    }

    #[test]
    fn taken_name_is_refused_and_kept() -> TestResult {
        let folder = tempfile::tempdir()?;
        let path = target(&folder, "out.tar");
        fs::write(&path, b"first")?;
        let mut staged = Box::new(LocalStaged::create(&path, &Unpublished::default())?);
        staged.write_all(b"second")?;
        let error = staged.publish(Replace::Never).unwrap_err();
        assert!(matches!(error, Error::AlreadyExists { .. }));
        assert_eq!(fs::read(&path)?, b"first");
        Ok(())
    }

    /// Exercises the way around a rename that cannot refuse to replace.
    #[test]
    fn link_into_place_publishes_and_refuses_a_taken_name() -> TestResult {
        let folder = tempfile::tempdir()?;
        let (staging, target) = (folder.path().join("staging"), folder.path().join("target"));
        fs::write(&staging, b"first")?;
        link_into_place(&staging, &target)?;
        assert_eq!((fs::read(&target)?, staging.exists()), (b"first".to_vec(), false));
        fs::write(&staging, b"second")?;
        assert_eq!(link_into_place(&staging, &target).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read(&target)?, b"first");
        Ok(())
    }

    #[test]
    fn one_of_many_writers_gets_the_name() -> TestResult {
        let folder = tempfile::tempdir()?;
        let path = target(&folder, "out.tar");
        let writers: Vec<_> = (0..8u8)
            .map(|writer| {
                let path = path.clone();
                std::thread::spawn(move || -> Result<u8> {
                    let mut staged = Box::new(LocalStaged::create(&path, &Unpublished::default())?);
                    staged.write_all(&[writer; 100]).map_err(|source| Error::Write { path, source })?;
                    staged.publish(Replace::Never).map(|()| writer)
                })
            })
            .collect();
        let results: Vec<_> = writers.into_iter().map(|writer| writer.join().unwrap()).collect();
        let winners: Vec<u8> = results.iter().filter_map(|result| result.as_ref().ok().copied()).collect();
        assert_eq!(winners.len(), 1);
        assert!(results.iter().filter_map(|result| result.as_ref().err()).all(|error| matches!(error, Error::AlreadyExists { .. })));
        assert_eq!(fs::read(&path)?, [winners[0]; 100]);
        assert_eq!(fs::read_dir(folder.path())?.count(), 1);
        Ok(())
    }

    #[test]
    fn replaced_file_is_never_seen_in_part() -> TestResult {
        let folder = tempfile::tempdir()?;
        let path = target(&folder, "out.tar");
        fs::write(&path, [0u8; 4096])?;
        let reader = std::thread::spawn({
            let path = path.clone();
            move || (0..2000).all(|_| fs::read(&path).is_ok_and(|bytes| bytes.len() == 4096 && bytes.iter().all(|byte| *byte == bytes[0])))
        });
        for version in 1..100u8 {
            let mut staged = Box::new(LocalStaged::create(&path, &Unpublished::default())?);
            staged.write_all(&[version; 4096])?;
            staged.publish(Replace::Atomically)?;
        }
        assert!(matches!(reader.join(), Ok(true)));
        Ok(())
    }

    /// A clean-up that runs all the time must not take a file that was made this moment.
    #[test]
    fn clean_up_never_takes_the_file_of_a_living_writer() -> TestResult {
        let folder = tempfile::tempdir()?;
        let path = folder.path().display().to_string();
        let is_done = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let cleaner = std::thread::spawn({
            let is_done = std::sync::Arc::clone(&is_done);
            move || {
                while !is_done.load(std::sync::atomic::Ordering::Relaxed) {
                    let _count = remove_stale_staging(&path);
                }
            }
        });
        for number in 0..300 {
            let mut staged = Box::new(LocalStaged::create(&target(&folder, &format!("{number}.tar")), &Unpublished::default())?);
            staged.write_all(b"whole")?;
            staged.publish(Replace::Never)?;
        }
        is_done.store(true, std::sync::atomic::Ordering::Relaxed);
        assert!(cleaner.join().is_ok());
        assert_eq!(fs::read_dir(folder.path())?.count(), 300);
        Ok(())
    }

    /// The moment between the making of a file and its lock, at which a clean-up may look at it.
    #[test]
    fn new_file_that_a_clean_up_saw_first_is_given_up() -> TestResult {
        let folder = tempfile::tempdir()?;
        let staging = folder.path().join("staging");
        let make = || OpenOptions::new().write(true).create_new(true).open(&staging);
        assert!(is_ours(&make()?, &staging)?);
        fs::remove_file(&staging)?;

        let ours = make()?;
        let cleaner = File::open(&staging)?;
        flock(&cleaner, FlockOperation::NonBlockingLockExclusive)?;
        assert!(!is_ours(&ours, &staging)?, "the clean-up holds the lock and is about to remove it");
        assert!(!staging.exists());

        let ours = make()?;
        fs::remove_file(&staging)?;
        assert!(!is_ours(&ours, &staging)?, "the clean-up has removed it");
        Ok(())
    }

    #[test]
    fn folder_below_a_file_is_an_error_that_names_the_target() -> TestResult {
        let folder = tempfile::tempdir()?;
        fs::write(folder.path().join("file"), b"x")?;
        let path = target(&folder, "file/out/part.tar");
        let error = LocalStaged::create(&path, &Unpublished::default()).unwrap_err();
        assert!(matches!(&error, Error::Stage { path: named, .. } if *named == path));
        assert_eq!(error.io_kind(), Some(io::ErrorKind::NotADirectory));
        Ok(())
    }

    #[test]
    fn missing_folders_are_made_and_relative_ones_as_well() -> TestResult {
        let folder = tempfile::tempdir()?;
        create_folder(&folder.path().join("a/b/c"))?;
        assert!(folder.path().join("a/b/c").is_dir());
        create_folder(Path::new(""))?;
        create_folder(Path::new("."))?;
        Ok(())
    }

    #[test]
    fn staging_of_a_living_writer_survives_the_clean_up_and_that_of_a_dead_one_does_not() -> TestResult {
        let folder = tempfile::tempdir()?;
        let alive = LocalStaged::create(&target(&folder, "a.tar"), &Unpublished::default())?;
        fs::write(folder.path().join(format!("{PREFIX}{}{SUFFIX}", "0".repeat(32))), b"left behind")?;
        assert_eq!(remove_stale_staging(&folder.path().display().to_string()), 1);
        assert!(alive.staging.exists());
        Ok(())
    }
}
