//! The decoded blocks of a pass, shared by the superbatches that need them, and the budget that
//! bounds how far threads run ahead.
//!
//! A superbatch is planned before it is assembled: from then on its blocks are kept. A block is
//! freed once the last superbatch that was planned with it has taken it and no later one needs it.
//! The invariant: planning only waits while a superbatch is on its way to the consumer, so the
//! smallest budget is slow but never deadlocks.

use crate::{Error, Result};
use arrow_array::RecordBatch;
use shardmill_engine::{Cancel, resting};
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often a waiting thread checks whether its pass was cancelled.
const CANCEL_POLL: Duration = Duration::from_millis(50);

/// Maximal number of superbatches ahead, regardless of their size.
const MAX_SUPERBATCHES_AHEAD: usize = 64;

#[derive(Debug)]
pub(super) struct Blocks {
    limit: u64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    entries: HashMap<usize, Entry>,
    used: u64,
    superbatches_ahead: usize,
}

#[derive(Debug)]
struct Entry {
    slot: Slot,
    bytes: u64,
    /// Number of superbatches that were planned with this block and have not taken it yet.
    pending: usize,
    is_retired: bool,
}

#[derive(Debug, Clone)]
enum Slot {
    Planned,
    Decoding,
    Ready(Arc<RecordBatch>),
    Failed(Error),
}

impl Blocks {
    pub(super) fn new(limit: u64) -> Self {
        Self { limit, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Waits for room for superbatches of `superbatch_bytes` that need `scheduled_blocks`, each
    /// with its decoded size; false if the pass was cancelled.
    pub(super) fn wait_for_room(
        &self,
        scheduled_blocks: &[(usize, u64)],
        superbatch_bytes: u64,
        cancel: &Cancel,
    ) -> bool {
        let mut state = self.lock();
        let missing: u64 = scheduled_blocks
            .iter()
            .filter(|(scheduled, _)| !state.entries.contains_key(scheduled))
            .map(|(_, bytes)| bytes)
            .sum();
        let needed = missing.saturating_add(superbatch_bytes);
        while !cancel.is_cancelled()
            && state.superbatches_ahead > 0
            && (state.used.saturating_add(needed) > self.limit
                || state.superbatches_ahead >= MAX_SUPERBATCHES_AHEAD)
        {
            state = self
                .changed
                .wait_timeout(state, CANCEL_POLL)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        !cancel.is_cancelled()
    }

    /// Waits until the blocks that no later superbatch needs are freed.
    pub(super) fn wait_for_retired(&self, cancel: &Cancel) {
        let mut state = self.lock();
        while !cancel.is_cancelled() && state.entries.values().any(|entry| entry.is_retired) {
            state = resting(|| {
                self.changed
                    .wait_timeout(state, CANCEL_POLL)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0
            });
        }
    }

    /// Announces a superbatch of `superbatch_bytes` with `scheduled_blocks`; `retired` are not
    /// needed after it. Returns the blocks that were not announced before.
    pub(super) fn announce(
        &self,
        scheduled_blocks: &[(usize, u64)],
        retired: &[usize],
        superbatch_bytes: u64,
    ) -> Vec<usize> {
        let mut new = Vec::new();
        let mut state = self.lock();
        state.superbatches_ahead += 1;
        state.used = state.used.saturating_add(superbatch_bytes);
        for (scheduled, bytes) in scheduled_blocks {
            let mut added = 0;
            let entry = state.entries.entry(*scheduled).or_insert_with(|| {
                added = *bytes;
                new.push(*scheduled);
                Entry { slot: Slot::Planned, bytes: *bytes, pending: 0, is_retired: false }
            });
            entry.pending += 1;
            entry.is_retired = false;
            state.used = state.used.saturating_add(added);
        }
        for scheduled in retired {
            if let Some(entry) = state.entries.get_mut(scheduled) {
                entry.is_retired = true;
            }
            state.remove_if_done(*scheduled);
        }
        new
    }

    /// Superbatches between plan and consumer, and the bytes that they and their blocks take.
    pub(super) fn ahead(&self) -> (usize, u64) {
        let state = self.lock();
        (state.superbatches_ahead, state.used)
    }

    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// Makes waiting threads check their [`Cancel`] immediately.
    pub(super) fn wake(&self) {
        let _state = self.lock();
        self.changed.notify_all();
    }

    /// The blocks of a planned superbatch, in the order of `scheduled_blocks`. Blocks that no
    /// thread has started are decoded here; those started by other threads are waited for last.
    pub(super) fn take(
        &self,
        scheduled_blocks: &[usize],
        cancel: &Cancel,
        decode: impl Fn(usize) -> Result<RecordBatch>,
    ) -> Result<Vec<Arc<RecordBatch>>> {
        scheduled_blocks
            .iter()
            .try_for_each(|scheduled| self.prepare(*scheduled, cancel, &decode))?;
        // Waits for every block even after a failure: a block that is not taken
        // would never be freed.
        let taken: Vec<_> =
            scheduled_blocks.iter().map(|scheduled| self.wait_for(*scheduled, cancel)).collect();
        taken.into_iter().collect()
    }

    /// Decodes a block of a planned superbatch, unless another thread has started.
    pub(super) fn prepare(
        &self,
        scheduled: usize,
        cancel: &Cancel,
        decode: impl Fn(usize) -> Result<RecordBatch>,
    ) -> Result<()> {
        if self.begin(scheduled) {
            cancel.check()?;
            let decoded = Unfinished { blocks: self, scheduled }.run(&decode);
            self.lock().set(scheduled, decoded);
            self.changed.notify_all();
        }
        Ok(())
    }

    /// The consumer has received a superbatch of this size.
    pub(super) fn delivered(&self, superbatch_bytes: u64) {
        let mut state = self.lock();
        state.superbatches_ahead = state.superbatches_ahead.saturating_sub(1);
        state.used = state.used.saturating_sub(superbatch_bytes);
        self.changed.notify_all();
    }

    /// A superbatch is delivered in this many parts.
    pub(super) fn divided(&self, parts: usize) {
        self.lock().superbatches_ahead += parts.saturating_sub(1);
    }

    fn begin(&self, scheduled: usize) -> bool {
        match self.lock().entries.get_mut(&scheduled) {
            Some(entry) if matches!(entry.slot, Slot::Planned) => {
                entry.slot = Slot::Decoding;
                true
            }
            _ => false,
        }
    }

    fn wait_for(&self, scheduled: usize, cancel: &Cancel) -> Result<Arc<RecordBatch>> {
        let mut state = self.lock();
        loop {
            let slot = state.entries.get(&scheduled).map(|entry| entry.slot.clone());
            let outcome = match slot {
                Some(Slot::Ready(batch)) => Ok(batch),
                Some(Slot::Failed(error)) => Err(error),
                _ => {
                    cancel.check()?;
                    state = resting(|| {
                        self.changed
                            .wait_timeout(state, CANCEL_POLL)
                            .unwrap_or_else(PoisonError::into_inner)
                            .0
                    });
                    continue;
                }
            };
            if let Some(entry) = state.entries.get_mut(&scheduled) {
                entry.pending = entry.pending.saturating_sub(1);
            }
            if state.remove_if_done(scheduled) {
                self.changed.notify_all();
            }
            return outcome;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn set(&mut self, scheduled: usize, decoded: Result<RecordBatch>) {
        if let Some(entry) = self.entries.get_mut(&scheduled) {
            entry.slot = decoded.map_or_else(Slot::Failed, |batch| Slot::Ready(Arc::new(batch)));
        }
    }

    fn remove_if_done(&mut self, scheduled: usize) -> bool {
        let is_done = self
            .entries
            .get(&scheduled)
            .is_some_and(|entry| entry.is_retired && entry.pending == 0);
        if let Some(entry) = is_done.then(|| self.entries.remove(&scheduled)).flatten() {
            self.used = self.used.saturating_sub(entry.bytes);
        }
        is_done
    }
}

/// Notifies the other threads if the decoding thread panics: otherwise they would wait forever.
struct Unfinished<'a> {
    blocks: &'a Blocks,
    scheduled: usize,
}

impl Unfinished<'_> {
    fn run(self, decode: &impl Fn(usize) -> Result<RecordBatch>) -> Result<RecordBatch> {
        let decoded = decode(self.scheduled);
        std::mem::forget(self);
        decoded
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        self.blocks.lock().set(self.scheduled, Err(shardmill_engine::Error::Cancelled.into()));
        self.blocks.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_schema::Schema;

    fn plan(
        blocks: &Blocks,
        scheduled_blocks: &[(usize, u64)],
        retired: &[usize],
        superbatch_bytes: u64,
        cancel: &Cancel,
    ) -> bool {
        let is_planned = blocks.wait_for_room(scheduled_blocks, superbatch_bytes, cancel);
        blocks.announce(scheduled_blocks, retired, superbatch_bytes);
        is_planned
    }

    fn empty() -> RecordBatch {
        RecordBatch::new_empty(Arc::new(Schema::empty()))
    }

    #[test]
    fn block_is_decoded_once_and_goes_after_its_last_superbatch() {
        let (blocks, cancel) = (Blocks::new(100), Cancel::default());
        assert!(plan(&blocks, &[(1, 10), (2, 10)], &[1], 5, &cancel));
        assert!(plan(&blocks, &[(2, 10)], &[2], 5, &cancel));
        let decoded = Mutex::new(Vec::new());
        let decode = |scheduled| {
            decoded.lock().unwrap().push(scheduled);
            Ok(empty())
        };
        blocks.take(&[1, 2], &cancel, decode).unwrap();
        assert_eq!(blocks.lock().used, 20, "block 2 and two superbatches");
        blocks.take(&[2], &cancel, decode).unwrap();
        assert_eq!(*decoded.lock().unwrap(), [1, 2]);
        blocks.delivered(5);
        blocks.delivered(5);
        let state = blocks.lock();
        assert_eq!((state.used, state.superbatches_ahead, state.entries.len()), (0, 0, 0));
    }

    #[test]
    fn superbatch_beyond_the_budget_waits_for_the_consumer_and_never_for_itself() {
        let blocks = Arc::new(Blocks::new(10));
        let cancel = Cancel::default();
        assert!(
            plan(&blocks, &[(1, 1000)], &[], 5, &cancel),
            "no superbatch is in flight that could free memory"
        );
        let (waiter, stop) = (Arc::clone(&blocks), cancel.clone());
        let planned = std::thread::spawn(move || plan(&waiter, &[(2, 1000)], &[], 5, &stop));
        std::thread::sleep(Duration::from_millis(20));
        assert!(!planned.is_finished());
        blocks.delivered(5);
        assert!(planned.join().unwrap());
    }

    #[test]
    fn failed_block_fails_every_superbatch_that_needs_it() {
        let (blocks, cancel) = (Blocks::new(100), Cancel::default());
        plan(&blocks, &[(1, 1)], &[], 1, &cancel);
        plan(&blocks, &[(1, 1)], &[1], 1, &cancel);
        let fail = |_| Err(Error::NoSuchFormat { name: "x".to_owned() });
        assert!(blocks.take(&[1], &cancel, fail).is_err());
        assert!(blocks.take(&[1], &cancel, |_| Ok(empty())).is_err());
    }

    #[test]
    fn panic_while_decoding_does_not_leave_others_waiting() {
        let (blocks, cancel) = (Blocks::new(100), Cancel::default());
        plan(&blocks, &[(1, 1)], &[], 1, &cancel);
        plan(&blocks, &[(1, 1)], &[], 1, &cancel);
        let call = std::panic::AssertUnwindSafe(|| blocks.take(&[1], &cancel, |_| panic!("fated")));
        assert!(std::panic::catch_unwind(call).is_err());
        assert!(blocks.take(&[1], &cancel, |_| Ok(empty())).is_err());
    }
}
