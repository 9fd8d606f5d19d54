//! How many requests a store is asked at once.
//!
//! A store that says it is asked too much is asked half as much, and a little more with each run of good answers (additive increase, multiplicative
//! decrease: Chiu and Jain, 1989).

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Answers to requests of one burst tell the same thing once.
const BURST: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(super) struct Gate {
    permits: Arc<Semaphore>,
    most: usize,
    allowed: AtomicUsize,
    /// Permits that are to vanish when they come back.
    surplus: AtomicUsize,
    good: AtomicUsize,
    born: Instant,
    slowed_at_ms: AtomicU64,
}

/// The right to have one request under way.
#[derive(Debug)]
pub(super) struct Passage {
    gate: Arc<Gate>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Gate {
    pub(super) fn new(most: usize) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(most)),
            most,
            allowed: AtomicUsize::new(most),
            surplus: AtomicUsize::new(0),
            good: AtomicUsize::new(0),
            born: Instant::now(),
            slowed_at_ms: AtomicU64::new(u64::MAX),
        }
    }

    pub(super) async fn enter(self: &Arc<Self>) -> Passage {
        // The semaphore is never closed; without a permit the request still goes out.
        let permit = Arc::clone(&self.permits).acquire_owned().await.ok();
        Passage { gate: Arc::clone(self), permit }
    }

    #[cfg(test)]
    fn allowed(&self) -> usize {
        self.allowed.load(Ordering::Relaxed)
    }

    /// The store answered in good order.
    pub(super) fn went_well(&self) {
        let allowed = self.allowed.load(Ordering::Relaxed);
        if allowed >= self.most || self.good.fetch_add(1, Ordering::Relaxed) + 1 < allowed {
            return;
        }
        self.good.store(0, Ordering::Relaxed);
        self.allowed.store(allowed + 1, Ordering::Relaxed);
        let had_surplus = self.surplus.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |surplus| surplus.checked_sub(1)).is_ok();
        if !had_surplus {
            self.permits.add_permits(1);
        }
    }

    /// The store asked to be asked less.
    pub(super) fn slow_down(&self) {
        let now = u64::try_from(self.born.elapsed().as_millis()).unwrap_or(u64::MAX);
        let before = self.slowed_at_ms.load(Ordering::Relaxed);
        if before != u64::MAX && now.saturating_sub(before) < u64::try_from(BURST.as_millis()).unwrap_or(u64::MAX) {
            return;
        }
        self.slowed_at_ms.store(now, Ordering::Relaxed);
        self.good.store(0, Ordering::Relaxed);
        let allowed = self.allowed.load(Ordering::Relaxed);
        let fewer = (allowed / 2).max(1);
        self.allowed.store(fewer, Ordering::Relaxed);
        self.surplus.fetch_add(allowed - fewer, Ordering::Relaxed);
    }
}

impl Drop for Passage {
    fn drop(&mut self) {
        let Some(permit) = self.permit.take() else { return };
        if self.gate.surplus.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |surplus| surplus.checked_sub(1)).is_ok() {
            permit.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn busy_store_is_asked_half_as_much_and_then_more_again() {
        let gate = Arc::new(Gate::new(8));
        let passages = [gate.enter().await, gate.enter().await, gate.enter().await, gate.enter().await];
        gate.slow_down();
        gate.slow_down();
        assert_eq!(gate.allowed(), 4, "one burst counts once");
        drop(passages);
        assert_eq!(gate.permits.available_permits(), 4);
        for _ in 0..4 {
            gate.went_well();
        }
        assert_eq!((gate.allowed(), gate.permits.available_permits()), (5, 5));
        for _ in 0..100 {
            gate.went_well();
        }
        assert_eq!((gate.allowed(), gate.permits.available_permits()), (8, 8));
    }
}
