//! Who may commit: a lease with an epoch that only grows.
//!
//! An epoch is a file that one process can make; the file of the last epoch always stays, earlier ones are removed once their terms are closed. The lock of
//! the file ends with its process; where locks do not reach, its time says when it was last alive. Before the lease, the process makes the folder for its records, under a name that nobody else will make again. The invariant: of two
//! processes that believe to hold the lease, the one of the lower epoch finds out before it commits; and should it look away in between, its folder is
//! gone (see [`super::recover`]).

use super::holder::Holder;
use super::journal_store::{Created, JournalStore, encoded};
use super::layout::{lease_folder, units_folder};
use super::record::from_line;
use crate::{Error, Result};
use shardmill_storage::Locked;
use std::any::Any;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

const HEARTBEAT: Duration = Duration::from_secs(5);
const RELEASED: &str = ".released";

/// The right to commit under one epoch. It ends when this is dropped, or with the process.
#[derive(Debug)]
pub(crate) struct Lease {
    store: JournalStore,
    folder: String,
    epoch: u64,
    term: String,
    _lock: Option<Box<dyn Any + Send + Sync>>,
    _heartbeat: Option<Sender<()>>,
}

impl Lease {
    /// Takes the lease that nobody alive holds.
    ///
    /// # Errors
    /// [`Error::LeaseHeld`] when somebody does.
    pub(crate) fn take(store: &JournalStore, root: &str, lease_age: Duration) -> Result<Self> {
        let folder = &lease_folder(root);
        store.make_folder(folder)?;
        let own = Holder::this_process(store);
        loop {
            let last = last_epoch(store, folder)?;
            if let Some(holder) = living_holder(store, folder, last, &own, lease_age)? {
                return Err(Error::LeaseHeld { path: folder.to_owned(), holder: holder.to_string() });
            }
            let (epoch, term) = (last + 1, uuid::Uuid::new_v4().simple().to_string());
            let path = path_of(folder, epoch);
            let units = units_folder(root, &term);
            store.make_folder(&units)?;
            let lock = match store.create(&path, &encoded(&path, [&own])?, true)? {
                Created::Made(lock) => lock,
                Created::Taken => {
                    let _ours_and_empty = store.remove_empty_folder(&units)?;
                    continue;
                }
                Created::NoFolder | Created::Collected => return Err(Error::Fenced { path: folder.to_owned() }),
            };
            // Two later runs may have come and gone since the listing, and removed the file that would have been in the way.
            if last_epoch(store, folder)? > epoch {
                drop(lock);
                store.remove(&path)?;
                let _ours_and_empty = store.remove_empty_folder(&units)?;
                continue;
            }
            let heartbeat = heartbeat(store.clone(), path);
            return Ok(Self { store: store.clone(), folder: folder.to_owned(), epoch, term, _lock: lock, _heartbeat: heartbeat });
        }
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Removes the files of earlier epochs, whose terms are closed: so their number does not grow with the number of runs.
    ///
    /// # Errors
    /// When the disk fails.
    pub(crate) fn remove_earlier(&self) -> Result<()> {
        let epoch_of = |name: &str| name.strip_suffix(RELEASED).unwrap_or(name).parse::<u64>().ok();
        // In ascending order, as listed: an epoch whose successor is gone would pass for the last one.
        for name in self.store.list(&self.folder)? {
            if epoch_of(&name).is_some_and(|epoch| epoch < self.epoch) {
                self.store.remove(&format!("{}/{name}", self.folder))?;
            }
        }
        Ok(())
    }

    /// Names the folder for the records of this lease.
    pub(crate) fn term(&self) -> &str {
        &self.term
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // Tells other machines that they need not wait; this one knows by the lock.
        let _only_a_courtesy = self.store.create(&format!("{}{RELEASED}", path_of(&self.folder, self.epoch)), b"", false);
    }
}

/// Whether the holder of `epoch` may still commit.
///
/// # Errors
/// [`Error::Fenced`] when a later run took over.
pub(crate) fn check(store: &JournalStore, folder: &str, epoch: u64) -> Result<()> {
    let is_ours = store.size(&path_of(folder, epoch))?.is_some() && store.size(&path_of(folder, epoch + 1))?.is_none();
    if is_ours { Ok(()) } else { Err(Error::Fenced { path: folder.to_owned() }) }
}

/// Who holds the lease now, as far as can be told without asking for it.
pub(crate) fn holder(store: &JournalStore, folder: &str, lease_age: Duration) -> Result<Option<Holder>> {
    living_holder(store, folder, last_epoch(store, folder)?, &Holder::this_process(store), lease_age)
}

fn living_holder(store: &JournalStore, folder: &str, epoch: u64, own: &Holder, lease_age: Duration) -> Result<Option<Holder>> {
    let path = path_of(folder, epoch);
    if epoch == 0 || store.size(&format!("{path}{RELEASED}"))?.is_some() {
        return Ok(None);
    }
    let Some(content) = store.read(&path)? else { return Ok(None) };
    let holder: Holder = from_line(&content).unwrap_or_else(Holder::unknown);
    let is_alive = match store.probe_lock(&path)? {
        None => false,
        Some(Locked::Busy) => true,
        // The lock of a process of this machine ends with it. Another machine's may not reach us.
        Some(Locked::Held(_)) if holder.boot == own.boot => false,
        Some(Locked::Unsupported) if holder.is_gone(own) => false,
        Some(Locked::Held(_) | Locked::Unsupported) => store.age(&path)?.is_some_and(|age| age < lease_age),
    };
    Ok(is_alive.then_some(holder))
}

fn last_epoch(store: &JournalStore, folder: &str) -> Result<u64> {
    // A listing is a hint: what follows it is looked for by name.
    let mut last = epochs(store, folder)?.into_iter().max().unwrap_or_default();
    while store.size(&path_of(folder, last + 1))?.is_some() {
        last += 1;
    }
    Ok(last)
}

fn epochs(store: &JournalStore, folder: &str) -> Result<Vec<u64>> {
    Ok(store.list(folder)?.iter().filter_map(|name| name.parse().ok()).collect())
}

fn path_of(folder: &str, epoch: u64) -> String {
    format!("{folder}/{epoch:020}")
}

/// Keeps the time of the lease young until the sender is dropped.
fn heartbeat(store: JournalStore, path: String) -> Option<Sender<()>> {
    let (stop, stopped) = channel::<()>();
    let beat = move || {
        while stopped.recv_timeout(HEARTBEAT) == Err(RecvTimeoutError::Timeout) {
            let _next_time_then = store.touch(&path);
        }
    };
    std::thread::Builder::new().name("shardmill-lease".to_owned()).spawn(beat).is_ok().then_some(stop)
}
