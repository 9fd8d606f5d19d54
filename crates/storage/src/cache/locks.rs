//! Locks between the processes and threads of a machine, on a fixed number of files.

use crate::interrupts::is_interrupted;
use crate::waiting::waiting;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::xxh3_64;

pub(super) const FOLDER: &str = "locks";
/// Two regions that share a file wait for each other now and then.
const FILES: u64 = 1024;

#[derive(Debug)]
pub(super) struct Locks(PathBuf);

/// Whoever holds a lock for longer is stopped, or waits for a store that does not answer: then others fetch for themselves.
const PATIENCE: Duration = Duration::from_secs(20);
const FIRST_LOOK: Duration = Duration::from_micros(200);
const LONGEST_LOOK: Duration = Duration::from_millis(10);

/// Dropping it lets the next one in; so does the death of the process.
#[derive(Debug)]
pub(super) struct Held(Vec<File>);

impl Drop for Held {
    fn drop(&mut self) {
        // Closing would not do: a child that was forked meanwhile has the descriptors too.
        for file in &self.0 {
            let _closed_behind_this = flock(file, FlockOperation::Unlock);
        }
    }
}

impl Locks {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self(folder)
    }

    fn file(&self, name: &str) -> io::Result<File> {
        File::options().create(true).truncate(false).write(true).open(self.0.join(name))
    }

    /// Waits, within reason, until all regions of an object are this thread's. Everybody takes them in the same order, so nobody waits in a circle.
    pub(super) fn regions(&self, object: &str, regions: impl Iterator<Item = u64>) -> io::Result<Held> {
        let numbers: BTreeSet<u64> = regions.map(|region| xxh3_64(format!("{object}/{region}").as_bytes()) % FILES).collect();
        let mut held = Held(Vec::with_capacity(numbers.len()));
        let until = Instant::now() + PATIENCE;
        for number in numbers {
            // A descriptor of its own: a lock of one that is shared would let other threads in.
            let file = self.file(&format!("{number:04}"))?;
            // Whoever has it may be about to ask for the core that this thread would keep.
            waiting(|| lock(&file, until));
            held.0.push(file);
        }
        Ok(held)
    }

    /// `None` when somebody has it.
    pub(super) fn alone(&self, name: &str) -> Option<Held> {
        let file = self.file(name).ok()?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
        Some(Held(vec![file]))
    }
}

/// Without the lock, which file systems may lack, some blocks are fetched twice.
fn lock(file: &File, until: Instant) {
    let mut pause = FIRST_LOOK;
    while let Err(Errno::WOULDBLOCK | Errno::INTR) = flock(file, FlockOperation::NonBlockingLockExclusive) {
        if Instant::now() >= until || (pause == LONGEST_LOOK && is_interrupted()) {
            return;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(LONGEST_LOOK);
    }
}
