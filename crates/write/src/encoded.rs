//! Jobs that threads finish in any order, with results taken in submission order.

use crate::Result;
use crate::follower::received;
use crossbeam_channel::{Receiver, TryRecvError};
use shardmill_engine::Pool;
use std::collections::VecDeque;

/// Pending results, the oldest first.
#[derive(Debug)]
pub(crate) struct Encoded<T> {
    waiting: VecDeque<Receiver<std::thread::Result<T>>>,
    limit: usize,
}

impl<T: Send + 'static> Encoded<T> {
    /// At most `limit` jobs are in flight, so that a slow disk holds the producer back.
    pub(crate) fn new(limit: usize) -> Self {
        Self { waiting: VecDeque::new(), limit: limit.max(1) }
    }

    pub(crate) fn give(&mut self, job: impl FnOnce() -> T + Send + 'static) -> Result<()> {
        self.waiting.push_back(Pool::of_this_process().run(job)?);
        Ok(())
    }

    /// The next result: if it is ready, if too many are pending, or if `all` are wanted. `None` if
    /// there is none to take.
    pub(crate) fn take(&mut self, all: bool) -> Result<Option<T>> {
        let must_wait = all || self.waiting.len() >= self.limit;
        let Some(front) = self.waiting.front() else { return Ok(None) };
        let outcome = if must_wait {
            front.recv().ok()
        } else {
            match front.try_recv() {
                Ok(outcome) => Some(outcome),
                Err(TryRecvError::Empty) => return Ok(None),
                Err(TryRecvError::Disconnected) => None,
            }
        };
        self.waiting.pop_front();
        received(outcome).map(Some)
    }
}
