//! Limits the number of decoding threads when there are more readers: threads that wait for a store
//! release their permit for a core.

use crate::spent::queued;
use crate::{Dataset, Result};
use shardmill_engine::{Cancel, CoreSlot, CoreSlots};
use shardmill_storage::{Waiting, with_waiting};
use std::cell::RefCell;
use std::rc::Rc;

/// The permits of a pass; `None` for local files, which are read by as many threads as decode.
#[derive(Debug, Clone)]
pub(super) struct Cores {
    slots: Option<CoreSlots>,
    cancel: Cancel,
}

struct Right {
    slots: CoreSlots,
    slot: RefCell<Option<CoreSlot>>,
    cancel: Cancel,
}

impl Cores {
    pub(super) fn new(dataset: &Dataset, threads: usize, cancel: &Cancel) -> Self {
        let is_shared = dataset.reading_threads(threads) > threads;
        Self { slots: is_shared.then(|| CoreSlots::new(threads)), cancel: cancel.clone() }
    }

    /// Runs `work` with a permit for a core.
    pub(super) fn run<T>(&self, work: impl FnOnce() -> T) -> Result<T> {
        let Some(slots) = &self.slots else { return Ok(work()) };
        let slot = RefCell::new(Some(queued(|| slots.acquire(&self.cancel))?));
        Ok(with_waiting(
            Rc::new(Right { slots: slots.clone(), slot, cancel: self.cancel.clone() }),
            work,
        ))
    }
}

impl Waiting for Right {
    fn begins(&self) {
        self.slot.take();
    }

    fn ends(&self) {
        // A cancelled thread continues without a permit, and then notices the cancellation.
        self.slot.replace(queued(|| self.slots.acquire(&self.cancel)).ok());
    }
}
