//! The right to commit: a lease with an epoch that only increases.
//!
//! An epoch is a file that only one process can create; the file of the last epoch always
//! stays, earlier ones are removed once their terms are closed. The lock of the file ends
//! with its process; where locks are not visible, its modification time shows when the process
//! was last alive. Before the lease, the process creates the directory for its records,
//! under a unique name. The invariant: of two processes that believe they hold the lease, the one
//! with the lower epoch notices before it commits; and if it is suspended in between, its directory
//! is removed (see [`super::recover`]).

use super::holder::Holder;
use super::journal_store::{Created, JournalStore, encoded};
use super::layout::{lease_directory, units_directory};
use super::record::from_line;
use crate::{Error, Result};
use shardmill_storage::Locked;
use std::any::Any;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

const HEARTBEAT: Duration = Duration::from_secs(5);
const RELEASED: &str = ".released";

/// The right to commit under one epoch. It ends when this value is dropped, or with the process.
#[derive(Debug)]
pub(crate) struct Lease {
    store: JournalStore,
    directory: String,
    epoch: u64,
    term: String,
    _lock: Option<Box<dyn Any + Send + Sync>>,
    heartbeat: Option<Sender<()>>,
    process: u32,
}

impl Lease {
    /// Takes the lease if no living process holds it.
    ///
    /// # Errors
    /// [`Error::LeaseHeld`] if another process holds it.
    pub(crate) fn take(store: &JournalStore, root: &str, lease_age: Duration) -> Result<Self> {
        let directory = &lease_directory(root);
        store.make_directory(directory)?;
        let own = Holder::this_process();
        loop {
            let last = last_epoch(store, directory)?;
            if let Some(holder) = living_holder(store, directory, last, &own, lease_age)? {
                return Err(Error::LeaseHeld {
                    path: directory.to_owned(),
                    holder: holder.to_string(),
                });
            }
            let (epoch, term) = (last + 1, uuid::Uuid::new_v4().simple().to_string());
            let path = path_of(directory, epoch);
            let units = units_directory(root, &term);
            store.make_directory(&units)?;
            let lock = match store.create(&path, &encoded(&path, [&own])?, true)? {
                Created::Made(lock) => lock,
                Created::Taken => {
                    let _ours_and_empty = store.remove_empty_directory(&units)?;
                    continue;
                }
                Created::NoDirectory | Created::Collected => {
                    return Err(Error::Fenced { path: directory.to_owned() });
                }
            };
            // Two later runs may have started and finished since the listing, and removed the file
            // that would have conflicted.
            if last_epoch(store, directory)? > epoch {
                drop(lock);
                store.remove(&path)?;
                let _ours_and_empty = store.remove_empty_directory(&units)?;
                continue;
            }
            let heartbeat = heartbeat(store.clone(), path);
            let (store, directory, process) =
                (store.clone(), directory.to_owned(), std::process::id());
            return Ok(Self { store, directory, epoch, term, _lock: lock, heartbeat, process });
        }
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Removes the files of earlier epochs, whose terms are closed, so that their number does not
    /// grow with the number of runs.
    ///
    /// # Errors
    /// When the disk fails.
    pub(crate) fn remove_earlier(&self) -> Result<()> {
        let epoch_of = |name: &str| name.strip_suffix(RELEASED).unwrap_or(name).parse::<u64>().ok();
        // In ascending order, as listed: an epoch whose successor is missing would be taken for the
        // last one.
        for name in self.store.list(&self.directory)? {
            if epoch_of(&name).is_some_and(|epoch| epoch < self.epoch) {
                self.store.remove(&format!("{}/{name}", self.directory))?;
            }
        }
        Ok(())
    }

    /// Names the directory for the records of this lease.
    pub(crate) fn term(&self) -> &str {
        &self.term
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            // A forked child has a copy; the lease belongs to its parent, of which a thread may
            // have held the channel.
            std::mem::forget(self.heartbeat.take());
            return;
        }
        // Other machines then do not have to wait; this one sees the lock.
        let _only_a_courtesy = self.store.create(
            &format!("{}{RELEASED}", path_of(&self.directory, self.epoch)),
            b"",
            false,
        );
    }
}

/// Whether the holder of `epoch` may still commit.
///
/// # Errors
/// [`Error::Fenced`] when a later run took over.
pub(crate) fn check(store: &JournalStore, directory: &str, epoch: u64) -> Result<()> {
    let is_ours = store.size(&path_of(directory, epoch))?.is_some()
        && store.size(&path_of(directory, epoch + 1))?.is_none();
    if is_ours { Ok(()) } else { Err(Error::Fenced { path: directory.to_owned() }) }
}

/// The current holder of the lease, as far as it can be determined without taking it.
pub(crate) fn holder(
    store: &JournalStore,
    directory: &str,
    lease_age: Duration,
) -> Result<Option<Holder>> {
    living_holder(
        store,
        directory,
        last_epoch(store, directory)?,
        &Holder::this_process(),
        lease_age,
    )
}

fn living_holder(
    store: &JournalStore,
    directory: &str,
    epoch: u64,
    own: &Holder,
    lease_age: Duration,
) -> Result<Option<Holder>> {
    let path = path_of(directory, epoch);
    if epoch == 0 || store.size(&format!("{path}{RELEASED}"))?.is_some() {
        return Ok(None);
    }
    let Some(content) = store.read(&path)? else { return Ok(None) };
    let holder: Holder = from_line(&content).unwrap_or_else(Holder::unknown);
    let is_alive = match store.probe_lock(&path)? {
        None => false,
        Some(Locked::Busy) => true,
        // The lock of a process on this machine ends with it. Locks of other
        // machines may not be visible.
        Some(Locked::Held(_)) if holder.is_of_this_boot(own) => false,
        Some(Locked::Unsupported) if holder.is_gone(own) => false,
        Some(Locked::Held(_) | Locked::Unsupported) => {
            store.age(&path)?.is_some_and(|age| age < lease_age)
        }
    };
    Ok(is_alive.then_some(holder))
}

fn last_epoch(store: &JournalStore, directory: &str) -> Result<u64> {
    // A listing may be stale, so later epochs are looked up by name.
    let mut last = epochs(store, directory)?.into_iter().max().unwrap_or_default();
    while store.size(&path_of(directory, last + 1))?.is_some() {
        last += 1;
    }
    Ok(last)
}

fn epochs(store: &JournalStore, directory: &str) -> Result<Vec<u64>> {
    Ok(store.list(directory)?.iter().filter_map(|name| name.parse().ok()).collect())
}

fn path_of(directory: &str, epoch: u64) -> String {
    format!("{directory}/{epoch:020}")
}

/// Renews the modification time of the lease until the sender is dropped.
fn heartbeat(store: JournalStore, path: String) -> Option<Sender<()>> {
    let (stop, stopped) = channel::<()>();
    let beat = move || {
        while stopped.recv_timeout(HEARTBEAT) == Err(RecvTimeoutError::Timeout) {
            let _next_time_then = store.touch(&path);
        }
    };
    std::thread::Builder::new()
        .name("shardmill-lease".to_owned())
        .spawn(beat)
        .is_ok()
        .then_some(stop)
}
