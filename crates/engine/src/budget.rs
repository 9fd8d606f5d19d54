//! A limit on bytes in memory, shared by all threads of a run.
//!
//! Requests are served in the order of their arrival, so a large one is never passed by small ones for ever. One request larger than the whole budget
//! is granted when it is alone, so that a single oversize sample slows a run down and never stops it. A thread that holds a permit must not wait for
//! another one of the same budget.

use crate::{Cancel, Result};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often a waiting thread looks whether its run was cancelled.
const CANCEL_POLL: Duration = Duration::from_millis(50);

#[derive(Debug, Clone)]
pub struct ByteBudget(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limit: u64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    used: u64,
    /// Turns of the waiting threads, the next one in front.
    waiting: VecDeque<u64>,
    last_turn: u64,
}

/// Bytes taken from a budget; dropping it gives them back.
#[derive(Debug)]
pub struct Permit {
    shared: Arc<Shared>,
    bytes: u64,
}

impl ByteBudget {
    #[must_use]
    pub fn new(limit_bytes: u64) -> Self {
        Self(Arc::new(Shared { limit: limit_bytes, state: Mutex::default(), changed: Condvar::new() }))
    }

    /// Waits until `bytes` fit and everybody who asked before was served.
    ///
    /// # Errors
    /// [`crate::Error::Cancelled`] when the run is stopped meanwhile.
    pub fn acquire(&self, bytes: u64, cancel: &Cancel) -> Result<Permit> {
        let mut state = self.0.lock();
        state.last_turn += 1;
        let turn = state.last_turn;
        state.waiting.push_back(turn);
        while state.waiting.front() != Some(&turn) || (state.used != 0 && state.used.saturating_add(bytes) > self.0.limit) {
            if let Err(cancelled) = cancel.check() {
                state.waiting.retain(|waiting| *waiting != turn);
                self.0.changed.notify_all();
                return Err(cancelled);
            }
            state = self.0.changed.wait_timeout(state, CANCEL_POLL).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.waiting.pop_front();
        state.used = state.used.saturating_add(bytes);
        // The next in line may fit beside this one.
        self.0.changed.notify_all();
        Ok(Permit { shared: Arc::clone(&self.0), bytes })
    }

    #[must_use]
    pub fn used(&self) -> u64 {
        self.0.lock().used
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.used = state.used.saturating_sub(self.bytes);
        self.shared.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use proptest::prelude::*;
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    use std::thread;
    use std::time::Instant;

    #[test]
    fn request_beyond_the_limit_is_granted_when_alone() {
        let budget = ByteBudget::new(10);
        let permit = budget.acquire(100, &Cancel::default()).unwrap();
        assert_eq!(budget.used(), 100);
        drop(permit);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn waiting_thread_goes_on_when_bytes_are_freed() {
        let budget = ByteBudget::new(10);
        let first = budget.acquire(8, &Cancel::default()).unwrap();
        let waiter = thread::spawn({
            let budget = budget.clone();
            move || budget.acquire(8, &Cancel::default()).map(|_permit| ())
        });
        drop(first);
        waiter.join().unwrap().unwrap();
    }

    #[test]
    fn cancelled_wait_ends_with_an_error() {
        let budget = ByteBudget::new(10);
        let _first = budget.acquire(8, &Cancel::default()).unwrap();
        let cancel = Cancel::default();
        cancel.cancel();
        assert!(matches!(budget.acquire(8, &cancel), Err(Error::Cancelled)));
        assert!(budget.0.lock().waiting.is_empty());
    }

    #[test]
    fn large_request_is_not_passed_by_small_ones_for_ever() {
        let budget = ByteBudget::new(10);
        let is_done = Arc::new(AtomicBool::new(false));
        let small: Vec<_> = (0..4)
            .map(|_| {
                let (budget, is_done) = (budget.clone(), Arc::clone(&is_done));
                thread::spawn(move || {
                    // Permits overlap, so the budget is hardly ever empty.
                    let mut held = budget.acquire(3, &Cancel::default()).unwrap();
                    while !is_done.load(Ordering::Relaxed) {
                        drop(held);
                        held = budget.acquire(3, &Cancel::default()).unwrap();
                        thread::sleep(Duration::from_micros(200));
                    }
                    drop(held);
                })
            })
            .collect();
        for _ in 0..20 {
            let start = Instant::now();
            drop(budget.acquire(10, &Cancel::default()).unwrap());
            assert!(start.elapsed() < Duration::from_secs(60));
        }
        is_done.store(true, Ordering::Relaxed);
        small.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn cancelled_head_of_the_line_lets_the_next_one_pass() {
        let budget = ByteBudget::new(10);
        let held = budget.acquire(6, &Cancel::default()).unwrap();
        let cancel = Cancel::default();
        let large = thread::spawn({
            let (budget, cancel) = (budget.clone(), cancel.clone());
            move || budget.acquire(10, &cancel).map(|_permit| ())
        });
        while budget.0.lock().waiting.is_empty() {
            thread::yield_now();
        }
        let small = thread::spawn({
            let budget = budget.clone();
            move || budget.acquire(4, &Cancel::default()).map(|_permit| ())
        });
        cancel.cancel();
        assert!(matches!(large.join().unwrap(), Err(Error::Cancelled)));
        small.join().unwrap().unwrap();
        drop(held);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn limit_holds_except_for_one_oversize_request_alone(limit in 1u64..50, sizes in prop::collection::vec(0u64..80, 1..40), threads in 1usize..6) {
            let budget = ByteBudget::new(limit);
            let (in_use, largest) = (Arc::new(AtomicU64::new(0)), sizes.iter().copied().max().unwrap_or(0));
            let sizes = Arc::new(sizes);
            let workers: Vec<_> = (0..threads).map(|_| {
                let (budget, in_use, sizes) = (budget.clone(), Arc::clone(&in_use), Arc::clone(&sizes));
                thread::spawn(move || {
                    let mut most = 0;
                    for size in sizes.iter() {
                        let permit = budget.acquire(*size, &Cancel::default()).unwrap();
                        most = most.max(in_use.fetch_add(*size, Ordering::SeqCst) + size);
                        in_use.fetch_sub(*size, Ordering::SeqCst);
                        drop(permit);
                    }
                    most
                })
            }).collect();
            for worker in workers {
                prop_assert!(worker.join().unwrap() <= limit.max(largest));
            }
            prop_assert_eq!(budget.used(), 0);
        }
    }
}
