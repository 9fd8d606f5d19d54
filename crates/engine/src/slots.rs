//! Slots for work that needs a core. A thread releases its slot while it waits for the disk, so
//! that another one can compute.
//!
//! Slots are granted in the order of requests, so a thread that requests repeatedly cannot starve
//! others. A thread that holds a slot must not wait for another one.

use crate::{Cancel, Result};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often a waiting thread checks whether its run was cancelled.
pub const CANCEL_POLL: Duration = Duration::from_millis(50);

/// As many slots as cores may be busy.
#[derive(Debug, Clone)]
pub struct CoreSlots(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    free: usize,
    /// Turns of the waiting threads, the next one first.
    waiting: VecDeque<u64>,
    last_turn: u64,
    /// The next of the places that ask in order.
    next_place: usize,
}

/// The right to keep one core busy; dropping it releases the slot.
#[derive(Debug)]
pub struct CoreSlot(Arc<Shared>);

impl CoreSlots {
    #[must_use]
    pub fn new(cores: usize) -> Self {
        let state = State { free: cores.max(1), ..State::default() };
        Self(Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() }))
    }

    /// # Errors
    /// [`crate::Error::Cancelled`] if the run is stopped meanwhile.
    pub fn acquire(&self, cancel: &Cancel) -> Result<CoreSlot> {
        self.granted(self.0.lock(), cancel)
    }

    /// The same, after all lower places have asked. Places are consecutive, from 0.
    ///
    /// # Errors
    /// As [`CoreSlots::acquire`].
    pub fn acquire_in_order(&self, place: usize, cancel: &Cancel) -> Result<CoreSlot> {
        let mut state = self.0.lock();
        while state.next_place < place {
            cancel.check()?;
            state = self.0.waited(state);
        }
        state.next_place += 1;
        self.0.changed.notify_all();
        self.granted(state, cancel)
    }

    fn granted<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        cancel: &Cancel,
    ) -> Result<CoreSlot> {
        state.last_turn += 1;
        let turn = state.last_turn;
        state.waiting.push_back(turn);
        while state.waiting.front() != Some(&turn) || state.free == 0 {
            if let Err(cancelled) = cancel.check() {
                state.waiting.retain(|waiting| *waiting != turn);
                self.0.changed.notify_all();
                return Err(cancelled);
            }
            state = self.0.waited(state);
        }
        state.waiting.pop_front();
        state.free -= 1;
        // There may be a slot for the next thread as well.
        self.0.changed.notify_all();
        Ok(CoreSlot(Arc::clone(&self.0)))
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waited<'a>(&'a self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait_timeout(state, CANCEL_POLL).unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Drop for CoreSlot {
    fn drop(&mut self) {
        self.0.lock().free += 1;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    #[test]
    fn no_more_threads_are_at_work_than_there_are_slots() {
        let (slots, at_work) = (CoreSlots::new(3), Arc::new(AtomicUsize::new(0)));
        let threads = (0..8).map(|_| {
            let (slots, at_work) = (slots.clone(), Arc::clone(&at_work));
            thread::spawn(move || {
                for _ in 0..50 {
                    let _slot = slots.acquire(&Cancel::default()).unwrap();
                    assert!(at_work.fetch_add(1, Ordering::SeqCst) < 3);
                    thread::yield_now();
                    at_work.fetch_sub(1, Ordering::SeqCst);
                }
            })
        });
        threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(slots.0.lock().free, 3);
    }

    #[test]
    fn cancelled_head_of_the_line_lets_the_next_one_pass() {
        let (slots, cancel) = (CoreSlots::new(1), Cancel::default());
        let held = slots.acquire(&Cancel::default()).unwrap();
        let wait = |cancel: Cancel, line: usize| {
            let waiting = slots.clone();
            let thread = thread::spawn(move || waiting.acquire(&cancel).map(|_slot| ()));
            while slots.0.lock().waiting.len() < line {
                thread::yield_now();
            }
            thread
        };
        let (first, second) = (wait(cancel.clone(), 1), wait(Cancel::default(), 2));
        cancel.cancel();
        assert!(matches!(first.join().unwrap(), Err(Error::Cancelled)));
        drop(held);
        second.join().unwrap().unwrap();
    }

    #[test]
    fn places_are_granted_in_order_even_if_later_ones_ask_first() {
        let (slots, cancel) = (CoreSlots::new(1), Cancel::default());
        let granted = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for place in [2, 1, 0] {
                let (slots, cancel, granted) = (&slots, &cancel, &granted);
                scope.spawn(move || {
                    let _slot = slots.acquire_in_order(place, cancel).unwrap();
                    granted.lock().unwrap().push(place);
                });
            }
        });
        assert_eq!(granted.into_inner().unwrap(), [0, 1, 2]);
    }
}
