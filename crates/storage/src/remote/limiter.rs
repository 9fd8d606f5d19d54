//! Limits the number of concurrent requests to a store.
//!
//! When a store reports overload, the limit is halved; it grows a little with each run of
//! successful responses (additive increase, multiplicative decrease: Chiu and Jain, 1989).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Overload responses to requests of one burst count once.
const BURST: Duration = Duration::from_millis(500);

/// A lower limit would not help the store, because each rejected request backs off by itself.
const LEAST: usize = 8;

#[derive(Debug)]
pub(super) struct ConcurrencyLimiter {
    permits: Arc<Semaphore>,
    most: usize,
    least: usize,
    /// Held together: issued and available permits equal `allowed` plus `surplus`. If they drifted
    /// apart, eventually no request would get a permit.
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    allowed: usize,
    /// Permits that are dropped when they are returned.
    surplus: usize,
    good: usize,
    slowed_at: Option<Instant>,
}

/// A permit for one request in flight.
#[derive(Debug)]
pub(super) struct Permit {
    limiter: Arc<ConcurrencyLimiter>,
    permit: Option<OwnedSemaphorePermit>,
}

impl ConcurrencyLimiter {
    pub(super) fn new(most: usize) -> Self {
        let state = State { allowed: most, surplus: 0, good: 0, slowed_at: None };
        Self {
            permits: Arc::new(Semaphore::new(most)),
            most,
            least: LEAST.min(most),
            state: Mutex::new(state),
        }
    }

    pub(super) async fn acquire(self: &Arc<Self>) -> Permit {
        // The semaphore is never closed; without a permit the request is still sent.
        let permit = Arc::clone(&self.permits).acquire_owned().await.ok();
        Permit { limiter: Arc::clone(self), permit }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    fn allowed(&self) -> usize {
        self.state().allowed
    }

    /// The store responded normally.
    pub(super) fn went_well(&self) {
        let mut state = self.state();
        state.good += 1;
        if state.allowed >= self.most || state.good < state.allowed {
            return;
        }
        state.good = 0;
        state.allowed += 1;
        match state.surplus.checked_sub(1) {
            Some(left) => state.surplus = left,
            None => self.permits.add_permits(1),
        }
    }

    /// The store reported overload.
    pub(super) fn slow_down(&self) {
        let mut state = self.state();
        if state.slowed_at.is_some_and(|before| before.elapsed() < BURST) {
            return;
        }
        state.slowed_at = Some(Instant::now());
        state.good = 0;
        let fewer = (state.allowed / 2).max(self.least);
        state.surplus += state.allowed - fewer;
        state.allowed = fewer;
        tracing::info!(
            target: "shardmill.storage",
            "the store asks for fewer requests: {fewer} at the same time from now on"
        );
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let Some(permit) = self.permit.take() else { return };
        let mut state = self.limiter.state();
        if let Some(left) = state.surplus.checked_sub(1) {
            state.surplus = left;
            permit.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn busy_store_is_asked_half_as_much_and_then_more_again() {
        let limiter = Arc::new(ConcurrencyLimiter::new(16));
        let permits = [
            limiter.acquire().await,
            limiter.acquire().await,
            limiter.acquire().await,
            limiter.acquire().await,
        ];
        limiter.slow_down();
        limiter.slow_down();
        assert_eq!(limiter.allowed(), 8, "one burst counts once");
        drop(permits);
        assert_eq!(
            limiter.permits.available_permits(),
            12,
            "permits above the limit are dropped when they are returned"
        );
        for _ in 0..8 {
            limiter.went_well();
        }
        assert_eq!(
            (limiter.allowed(), limiter.permits.available_permits(), limiter.state().surplus),
            (9, 12, 3)
        );
        for _ in 0..100 {
            limiter.went_well();
        }
        assert_eq!((limiter.allowed(), limiter.permits.available_permits()), (16, 16));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn permits_are_those_that_are_allowed_after_any_run_of_answers() {
        let limiter = Arc::new(ConcurrencyLimiter::new(16));
        let each = (0..8).map(|number| {
            let limiter = Arc::clone(&limiter);
            tokio::spawn(async move {
                for round in 0..2000 {
                    let _permit = limiter.acquire().await;
                    match (round + number) % 7 {
                        0 => {
                            limiter.state().slowed_at = None;
                            limiter.slow_down();
                        }
                        _ => limiter.went_well(),
                    }
                }
            })
        });
        for task in each.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        assert_eq!(
            limiter.permits.available_permits(),
            limiter.allowed() + limiter.state().surplus
        );
        assert!(limiter.allowed() >= 1);
    }
}
