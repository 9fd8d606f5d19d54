//! A job that takes messages in the order in which they are sent, and ends with a result.
//!
//! The invariant: when a follower is dropped, its job has ended and has left nothing behind.

use crate::{Error, Result};
use crossbeam_channel::{Receiver, Sender, bounded};
use shardmill_engine::{Error as EngineError, Pool};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a job gets.
pub(crate) struct Messages<M>(Receiver<Option<M>>);

/// A job that is at work.
pub(crate) struct Follower<M, R> {
    messages: Option<Sender<Option<M>>>,
    outcome: Outcome<R>,
}

/// The result of a job that gets no more messages.
pub(crate) struct Outcome<R>(Option<Receiver<std::thread::Result<Result<R>>>>);

impl<M> Messages<M> {
    /// `None` at the end.
    ///
    /// # Errors
    /// When whoever sends has gone without ending.
    pub(crate) fn next(&self) -> Result<Option<M>> {
        self.0.recv().map_err(|_abandoned| Error::Engine(EngineError::Cancelled))
    }
}

impl<M: Send + 'static, R: Send + 'static> Follower<M, R> {
    /// At most `limit` messages wait for the job, so that a slow disk holds the producer back.
    pub(crate) fn start(limit: usize, work: impl FnOnce(&Messages<M>) -> Result<R> + Send + 'static) -> Result<Self> {
        let (messages, inbox) = bounded(limit.max(1));
        let inbox = Messages(inbox);
        let outcome = Outcome::of(move || work(&inbox))?;
        Ok(Self { messages: Some(messages), outcome })
    }

    /// # Errors
    /// Why the job has ended early.
    pub(crate) fn send(&mut self, message: M) -> Result<()> {
        match self.messages.as_ref().map(|messages| messages.send(Some(message))) {
            Some(Ok(())) => Ok(()),
            _ => {
                self.messages = None;
                Err(self.outcome.take().err().unwrap_or(Error::Engine(EngineError::Cancelled)))
            }
        }
    }

    /// There are no more messages.
    pub(crate) fn end(mut self) -> Outcome<R> {
        if let Some(messages) = self.messages.take() {
            let _job_has_failed = messages.send(None);
        }
        Outcome(self.outcome.0.take())
    }
}

impl<M, R> Drop for Follower<M, R> {
    fn drop(&mut self) {
        // The job ends when nobody can send to it; the outcome then waits for that.
        self.messages = None;
    }
}

impl<R: Send + 'static> Outcome<R> {
    /// Runs `work` on a thread.
    pub(crate) fn of(work: impl FnOnce() -> Result<R> + Send + 'static) -> Result<Self> {
        let (done, outcome) = bounded(1);
        Pool::of_this_process().spawn(move || {
            let result = catch_unwind(AssertUnwindSafe(work));
            let _nobody_waits = done.send(result);
        })?;
        Ok(Self(Some(outcome)))
    }

    /// Waits for the result.
    pub(crate) fn take(&mut self) -> Result<R> {
        match self.0.take().map(|outcome| outcome.recv()) {
            Some(Ok(Ok(result))) => result,
            Some(Ok(Err(_panic))) => Err(Error::Engine(EngineError::Panicked { split: 0, message: "an encoder failed".to_owned() })),
            _ => Err(Error::Engine(EngineError::Cancelled)),
        }
    }
}

impl<R> Drop for Outcome<R> {
    fn drop(&mut self) {
        if let Some(outcome) = self.0.take() {
            let _unwanted = outcome.recv();
        }
    }
}

impl<M, R> std::fmt::Debug for Follower<M, R> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Follower")
    }
}

impl<R> std::fmt::Debug for Outcome<R> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Outcome")
    }
}
