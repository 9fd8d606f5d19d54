//! Bytes of referenced objects that a run has fetched, shared by all of its threads and stages.
//!
//! Many rows name the same image, and each stage reads it again; over a network each read is a
//! request. Small objects are fetched whole when they are opened; small ranges of large objects are
//! fetched when one of their bytes is first read. The invariant: a fetch in progress is awaited
//! rather than repeated, and memory stays within the budget. Evicted bytes are fetched again when
//! they are read again.

use crate::interrupts::wait_in_pieces;
use crate::waiting::waiting;
use crate::{Error, Identity, RangeRead, Result, Roots, len_within};
use bytes::Bytes;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Objects and ranges up to this size are fetched whole.
const SMALL: u64 = 8 << 20;
/// What an open object without its bytes counts for: the window of its last read.
const OPEN_OBJECT: u64 = 64 << 10;

/// Keeps a limited number of bytes, those used most recently.
#[derive(Debug)]
pub struct Fetched {
    state: Mutex<State>,
    arrived: Condvar,
    budget: u64,
}

#[derive(Debug, Default)]
struct State {
    slots: HashMap<Key, Slot>,
    /// Least recently used first.
    by_use: BTreeMap<u64, Key>,
    uses: u64,
    bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    /// A small object, with all of its bytes.
    Whole(String),
    /// An object that is read by ranges.
    Open(String),
    Range(String, Identity, Range<u64>),
}

#[derive(Debug)]
enum Slot {
    Underway,
    Here { found: Found, used: u64 },
}

#[derive(Debug, Clone)]
enum Found {
    Bytes(Identity, Bytes),
    Object(Arc<dyn RangeRead>),
}

impl Found {
    fn weight(&self) -> u64 {
        match self {
            Self::Bytes(_, bytes) => (bytes.len() as u64).saturating_add(256),
            Self::Object(_) => OPEN_OBJECT,
        }
    }
}

impl Fetched {
    #[must_use]
    pub fn new(budget: u64) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), arrived: Condvar::new(), budget })
    }

    /// Opens a remote object that is read whole; a small one costs a single request.
    ///
    /// # Errors
    /// As [`Roots::open`].
    pub fn whole(self: &Arc<Self>, path: &str, roots: &Roots) -> Result<Arc<dyn RangeRead>> {
        match self.get(&Key::Whole(path.to_owned()), || whole(path, roots))? {
            Found::Object(object) => Ok(object),
            Found::Bytes(identity, _) => {
                let range = 0..identity.size;
                Ok(Arc::new(Part {
                    path: path.to_owned(),
                    identity,
                    range,
                    origin: Origin::Whole(roots.clone()),
                    fetched: Arc::clone(self),
                }))
            }
        }
    }

    /// Opens a remote object that is read by ranges.
    ///
    /// # Errors
    /// As [`Roots::open`].
    pub fn open(&self, path: &str, roots: &Roots) -> Result<Arc<dyn RangeRead>> {
        match self.get(&Key::Open(path.to_owned()), || Ok(Found::Object(roots.open(path)?)))? {
            Found::Object(object) => Ok(object),
            Found::Bytes(..) => roots.open(path),
        }
    }

    /// Wraps `object` so that `range`, if it is small, is fetched whole when one of its bytes is
    /// first read.
    #[must_use]
    pub fn range(
        self: &Arc<Self>,
        object: Arc<dyn RangeRead>,
        range: Range<u64>,
    ) -> Arc<dyn RangeRead> {
        if range.end.saturating_sub(range.start) > SMALL {
            return object;
        }
        let (path, identity) = (object.path().to_owned(), object.identity());
        Arc::new(Part {
            path,
            identity,
            range,
            origin: Origin::Object(object),
            fetched: Arc::clone(self),
        })
    }

    fn get(&self, key: &Key, fetch: impl FnOnce() -> Result<Found>) -> Result<Found> {
        {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            while let Some(slot) = state.slots.get(key) {
                if matches!(slot, Slot::Here { .. }) {
                    return state.touch(key).ok_or_else(|| interrupted(key));
                }
                drop(state);
                state = self.wait_for(key)?;
            }
            state.slots.insert(key.clone(), Slot::Underway);
        }
        // Runs on failure as well: a waiting thread then fetches the bytes itself.
        let underway = Underway { fetched: self, key };
        let found = fetch()?;
        self.state.lock().unwrap_or_else(PoisonError::into_inner).keep(
            key,
            found.clone(),
            self.budget,
        );
        drop(underway);
        Ok(found)
    }

    /// Waits until the fetch of another thread has finished or failed.
    fn wait_for(&self, key: &Key) -> Result<std::sync::MutexGuard<'_, State>> {
        let is_underway = |state: &State| matches!(state.slots.get(key), Some(Slot::Underway));
        let come = waiting(|| {
            wait_in_pieces(|time| {
                let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                let (state, _) = self
                    .arrived
                    .wait_timeout_while(state, time, |state| is_underway(state))
                    .unwrap_or_else(PoisonError::into_inner);
                (!is_underway(&state)).then_some(())
            })
        });
        come.ok_or_else(|| interrupted(key))?;
        Ok(self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn interrupted(key: &Key) -> Error {
    let (Key::Whole(path) | Key::Open(path) | Key::Range(path, ..)) = key;
    Error::Open { path: path.clone(), source: io::Error::other("interrupted") }
}

struct Underway<'a> {
    fetched: &'a Fetched,
    key: &'a Key,
}

impl Drop for Underway<'_> {
    fn drop(&mut self) {
        let mut state = self.fetched.state.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(state.slots.get(self.key), Some(Slot::Underway)) {
            state.slots.remove(self.key);
        }
        drop(state);
        self.fetched.arrived.notify_all();
    }
}

impl State {
    fn touch(&mut self, key: &Key) -> Option<Found> {
        self.uses += 1;
        let Slot::Here { found, used } = self.slots.get_mut(key)? else { return None };
        let key = self.by_use.remove(used)?;
        self.by_use.insert(self.uses, key);
        *used = self.uses;
        Some(found.clone())
    }

    fn keep(&mut self, key: &Key, found: Found, budget: u64) {
        let weight = found.weight();
        if weight > budget {
            return;
        }
        while self.bytes.saturating_add(weight) > budget {
            let Some((_, oldest)) = self.by_use.pop_first() else { break };
            if let Some(Slot::Here { found, .. }) = self.slots.remove(&oldest) {
                self.bytes = self.bytes.saturating_sub(found.weight());
            }
        }
        self.uses += 1;
        self.bytes = self.bytes.saturating_add(weight);
        self.by_use.insert(self.uses, key.clone());
        self.slots.insert(key.clone(), Slot::Here { found, used: self.uses });
    }
}

fn whole(path: &str, roots: &Roots) -> Result<Found> {
    let object = roots.open_with_tail(path, Some(SMALL))?;
    let identity = object.identity();
    if identity.size > SMALL {
        // Opened again, so that the tail read by the first open is not kept in memory.
        return Ok(Found::Object(roots.open(path)?));
    }
    let bytes =
        object.read_ranges(std::slice::from_ref(&(0..identity.size)))?.pop().unwrap_or_default();
    Ok(Found::Bytes(identity, bytes))
}

/// An object with one range that is served from fetched bytes.
#[derive(Debug)]
struct Part {
    path: String,
    identity: Identity,
    range: Range<u64>,
    origin: Origin,
    fetched: Arc<Fetched>,
}

#[derive(Debug)]
enum Origin {
    /// Fetched whole, by path.
    Whole(Roots),
    Object(Arc<dyn RangeRead>),
}

impl Part {
    fn bytes(&self) -> Result<Bytes> {
        let found = match &self.origin {
            Origin::Whole(roots) => {
                self.fetched.get(&Key::Whole(self.path.clone()), || whole(&self.path, roots))?
            }
            Origin::Object(object) => {
                let key = Key::Range(self.path.clone(), self.identity.clone(), self.range.clone());
                let fetch = || {
                    let bytes = object
                        .read_ranges(std::slice::from_ref(&self.range))?
                        .pop()
                        .unwrap_or_default();
                    Ok(Found::Bytes(self.identity.clone(), bytes))
                };
                self.fetched.get(&key, fetch)?
            }
        };
        match found {
            // An evicted object may have been replaced since.
            Found::Bytes(identity, bytes) if identity == self.identity => Ok(bytes),
            _ => Err(Error::Changed { path: self.path.clone() }),
        }
    }
}

impl RangeRead for Part {
    fn path(&self) -> &str {
        &self.path
    }

    fn identity(&self) -> Identity {
        self.identity.clone()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let asked = offset..offset.saturating_add(buffer.len() as u64);
        len_within(self, &asked)?;
        let is_held = self.range.start <= asked.start && asked.end <= self.range.end;
        match &self.origin {
            Origin::Object(object) if !is_held => return object.read_at(offset, buffer),
            _ => {}
        }
        let bytes = self.bytes()?;
        let start =
            asked.start.checked_sub(self.range.start).and_then(|start| usize::try_from(start).ok());
        let found = start.and_then(|start| bytes.get(start..start.checked_add(buffer.len())?));
        let short = || Error::ShortRead {
            path: self.path.clone(),
            offset,
            len: buffer.len(),
            end: asked.end,
        };
        buffer.copy_from_slice(found.ok_or_else(short)?);
        Ok(())
    }

    fn is_remote(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[derive(Debug)]
    struct Counted(AtomicUsize);

    impl RangeRead for Counted {
        fn path(&self) -> &str {
            "s3://bucket/shard.tar"
        }

        fn identity(&self) -> Identity {
            Identity { size: 1 << 30, modified_ns: 0 }
        }

        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
            self.0.fetch_add(1, Ordering::SeqCst);
            // Gives the other threads time to arrive.
            std::thread::yield_now();
            buffer
                .iter_mut()
                .zip(offset..)
                .for_each(|(byte, at)| *byte = u8::try_from(at % 251).unwrap_or_default());
            Ok(())
        }
    }

    fn read(object: &dyn RangeRead, range: Range<u64>) -> Vec<u8> {
        let mut buffer = vec![0; usize::try_from(range.end - range.start).unwrap()];
        object.read_at(range.start, &mut buffer).unwrap();
        assert!(buffer.iter().zip(range).all(|(byte, at)| u64::from(*byte) == at % 251));
        buffer
    }

    #[test]
    fn range_is_fetched_once_for_all_threads_and_all_looks_at_it() {
        let object = Arc::new(Counted(AtomicUsize::new(0)));
        let fetched = Fetched::new(1 << 20);
        std::thread::scope(|scope| {
            for thread in 0..8 {
                let part = fetched.range(Arc::clone(&object) as Arc<dyn RangeRead>, 1000..9000);
                scope.spawn(move || {
                    (0..100).for_each(|look| {
                        drop(read(&*part, 1000 + thread * 10 + look..8000 + look));
                    });
                });
            }
        });
        assert_eq!(object.0.load(Ordering::SeqCst), 1);
        let part = fetched.range(Arc::clone(&object) as Arc<dyn RangeRead>, 1000..9000);
        read(&*part, 0..10);
        assert_eq!(
            object.0.load(Ordering::SeqCst),
            2,
            "reads outside of the range go to the object itself"
        );
        assert!(part.read_at(1 << 30, &mut [0]).is_err());
        assert_eq!(
            fetched.range(Arc::clone(&object) as Arc<dyn RangeRead>, 0..1 << 29).path(),
            object.path()
        );
    }

    #[test]
    fn what_was_used_longest_ago_goes_when_the_budget_is_spent() {
        let object = Arc::new(Counted(AtomicUsize::new(0)));
        let fetched = Fetched::new(3500);
        let look = |start: u64| {
            drop(read(
                &*fetched.range(Arc::clone(&object) as Arc<dyn RangeRead>, start..start + 1000),
                start..start + 1000,
            ));
        };
        for (start, asked) in [(0, 1), (1000, 2), (0, 2), (2000, 3), (0, 3), (1000, 4), (0, 4)] {
            look(start);
            assert_eq!(object.0.load(Ordering::SeqCst), asked, "{start}");
        }
        assert!(fetched.state.lock().unwrap().bytes <= 3500);
    }
}
