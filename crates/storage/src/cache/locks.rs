//! Locks between the processes and threads of a machine, on a fixed number of files.

use crate::waiting::waiting;
use rustix::fs::{FlockOperation, flock};
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use xxhash_rust::xxh3::xxh3_64;

pub(super) const FOLDER: &str = "locks";
/// Two regions that share a file wait for each other now and then.
const FILES: u64 = 1024;

#[derive(Debug)]
pub(super) struct Locks(PathBuf);

/// Dropping it lets the next one in; so does the death of the process.
#[derive(Debug)]
pub(super) struct Held(#[expect(dead_code, reason = "held for its drop")] Vec<File>);

impl Locks {
    pub(super) fn new(folder: PathBuf) -> Self {
        Self(folder)
    }

    fn file(&self, name: &str) -> io::Result<File> {
        File::options().create(true).truncate(false).write(true).open(self.0.join(name))
    }

    /// Waits until all regions of an object are this thread's. Everybody takes them in the same order, so nobody waits in a circle.
    pub(super) fn regions(&self, object: &str, regions: impl Iterator<Item = u64>) -> io::Result<Held> {
        let numbers: BTreeSet<u64> = regions.map(|region| xxh3_64(format!("{object}/{region}").as_bytes()) % FILES).collect();
        let mut held = Vec::with_capacity(numbers.len());
        for number in numbers {
            // A descriptor of its own: a lock of one that is shared would let other threads in.
            let file = self.file(&format!("{number:04}"))?;
            loop {
                // Whoever has it may be about to ask for the core that this thread would keep.
                match waiting(|| flock(&file, FlockOperation::LockExclusive)) {
                    Ok(()) => break,
                    Err(rustix::io::Errno::INTR) => {}
                    // File systems without locks fetch some blocks twice.
                    Err(_no_locks) => break,
                }
            }
            held.push(file);
        }
        Ok(Held(held))
    }

    /// `None` when somebody has it.
    pub(super) fn alone(&self, name: &str) -> Option<Held> {
        let file = self.file(name).ok()?;
        flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
        Some(Held(vec![file]))
    }
}
