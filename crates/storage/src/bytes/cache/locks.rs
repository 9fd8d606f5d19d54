//! Locks between the processes and threads of one machine, on a fixed number of files.

use crate::interrupts::is_interrupted;
use crate::waiting::waiting;
use std::collections::BTreeSet;
use std::fs::{File, TryLockError};
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::xxh3_64;

pub(super) const DIRECTORY: &str = "locks";
/// Regions that share a file occasionally block each other.
const FILES: u64 = 1024;

#[derive(Debug)]
pub(super) struct Locks(PathBuf);

/// After this long the holder is assumed to be stopped or to be waiting for a store that does not
/// respond; other threads then fetch the blocks themselves.
const PATIENCE: Duration = Duration::from_secs(20);
const FIRST_LOOK: Duration = Duration::from_micros(200);
const LONGEST_LOOK: Duration = Duration::from_millis(10);

/// Releases the lock on drop, or when the process dies.
#[derive(Debug)]
pub(super) struct Held(Vec<File>);

impl Drop for Held {
    fn drop(&mut self) {
        // Closing is not enough: a child forked in the meantime holds the descriptors too.
        for file in &self.0 {
            let _closed_behind_this = file.unlock();
        }
    }
}

impl Locks {
    pub(super) fn new(directory: PathBuf) -> Self {
        Self(directory)
    }

    fn file(&self, name: &str) -> io::Result<File> {
        File::options().create(true).truncate(false).write(true).open(self.0.join(name))
    }

    /// Waits, for a limited time, until this thread holds all regions of an object. All threads
    /// acquire them in the same order, so there is no deadlock.
    pub(super) fn regions(
        &self,
        object: &str,
        regions: impl Iterator<Item = u64>,
    ) -> io::Result<Held> {
        let numbers: BTreeSet<u64> = regions
            .map(|region| xxh3_64(format!("{object}/{region}").as_bytes()) % FILES)
            .collect();
        let mut held = Held(Vec::with_capacity(numbers.len()));
        let until = Instant::now() + PATIENCE;
        for number in numbers {
            // Uses its own descriptor: a lock on a shared descriptor would
            // not exclude other threads.
            let file = self.file(&format!("{number:04}"))?;
            // The holder may need the core that this thread would otherwise keep.
            waiting(|| lock(&file, until));
            held.0.push(file);
        }
        Ok(held)
    }

    /// `None` when another thread or process holds the lock.
    pub(super) fn alone(&self, name: &str) -> Option<Held> {
        let file = self.file(name).ok()?;
        file.try_lock().ok()?;
        Some(Held(vec![file]))
    }
}

/// Some file systems have no locks; without them some blocks are fetched twice.
fn lock(file: &File, until: Instant) {
    let mut pause = FIRST_LOOK;
    while let Err(TryLockError::WouldBlock) = file.try_lock() {
        if Instant::now() >= until || (pause == LONGEST_LOOK && is_interrupted()) {
            return;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_LOOK);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lock that is held, and another descriptor of its file.
    fn held() -> (tempfile::TempDir, Held, File) {
        let directory = tempfile::tempdir().unwrap();
        let locks = Locks::new(directory.path().to_owned());
        let held = locks.alone("name").unwrap();
        let file = locks.file("name").unwrap();
        (directory, held, file)
    }

    #[test]
    fn wait_for_a_held_lock_ends_at_its_deadline() {
        let (_directory, _held, file) = held();
        lock(&file, Instant::now());
        assert!(matches!(file.try_lock(), Err(TryLockError::WouldBlock)));
    }

    #[test]
    fn wait_for_a_held_lock_ends_when_the_thread_is_interrupted() {
        let (_directory, _held, file) = held();
        crate::with_interrupts(|| true, || lock(&file, Instant::now() + Duration::from_secs(3600)));
        assert!(matches!(file.try_lock(), Err(TryLockError::WouldBlock)));
    }
}
