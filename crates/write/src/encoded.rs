//! Jobs that threads finish in any order, taken in the order in which they were given.

use crate::{Error, Result};
use crossbeam_channel::{Receiver, TryRecvError, bounded};
use shardmill_engine::{Error as EngineError, Pool};
use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Results that are still to come, the oldest in front.
#[derive(Debug)]
pub(crate) struct Encoded<T> {
    waiting: VecDeque<Receiver<std::thread::Result<T>>>,
    limit: usize,
}

impl<T: Send + 'static> Encoded<T> {
    /// At most `limit` jobs are on their way, so that a slow disk holds the producer back.
    pub(crate) fn new(limit: usize) -> Self {
        Self { waiting: VecDeque::new(), limit: limit.max(1) }
    }

    pub(crate) fn give(&mut self, job: impl FnOnce() -> T + Send + 'static) -> Result<()> {
        let (done, result) = bounded(1);
        Pool::of_this_process().spawn(move || {
            let outcome = catch_unwind(AssertUnwindSafe(job));
            let _writer_is_gone = done.send(outcome);
        })?;
        self.waiting.push_back(result);
        Ok(())
    }

    /// The next result: when it is there, when too many are waiting, or when `all` are wanted. `None` when there is none to take.
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
        match outcome {
            Some(Ok(result)) => Ok(Some(result)),
            Some(Err(_panic)) => Err(Error::Engine(EngineError::Panicked { split: 0, message: "an encoder failed".to_owned() })),
            None => Err(Error::Engine(EngineError::Cancelled)),
        }
    }
}
