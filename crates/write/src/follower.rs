//! A job that takes messages in the order in which they are sent, and ends with a result.
//!
//! The invariant: when a follower is dropped, its job has ended and has left nothing behind. Only a signal does not wait for a job that waits for a store; that
//! one ends by itself, since it gets no more messages.

use crate::{Error, Result};
use crossbeam_channel::{Receiver, RecvTimeoutError, SendTimeoutError, Sender, bounded};
use shardmill_engine::{Error as EngineError, Pool};
use shardmill_storage::wait_in_pieces;
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
        if self.messages.as_ref().is_some_and(|messages| is_sent(messages, Some(message))) {
            return Ok(());
        }
        self.messages = None;
        Err(self.outcome.take().err().unwrap_or(Error::Engine(EngineError::Cancelled)))
    }

    /// There are no more messages.
    pub(crate) fn end(mut self) -> Outcome<R> {
        if let Some(messages) = self.messages.take() {
            let _job_has_failed = is_sent(&messages, None);
        }
        Outcome(self.outcome.0.take())
    }
}

/// Whether the job has the message: it may have failed, or this thread be wanted elsewhere.
fn is_sent<M>(messages: &Sender<Option<M>>, message: Option<M>) -> bool {
    let mut unsent = Some(message);
    let sent = wait_in_pieces(|piece| match messages.send_timeout(unsent.take()?, piece) {
        Ok(()) => Some(true),
        Err(SendTimeoutError::Disconnected(_)) => Some(false),
        Err(SendTimeoutError::Timeout(message)) => {
            unsent = Some(message);
            None
        }
    });
    sent.unwrap_or(false)
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
        match self.received() {
            Some(Ok(result)) => result,
            Some(Err(_panic)) => Err(Error::Engine(EngineError::Panicked { split: 0, message: "an encoder failed".to_owned() })),
            None => Err(Error::Engine(EngineError::Cancelled)),
        }
    }
}

impl<R> Outcome<R> {
    /// `None` when there is none, or when this thread is wanted before.
    fn received(&mut self) -> Option<std::thread::Result<Result<R>>> {
        let outcome = self.0.take()?;
        wait_in_pieces(|piece| match outcome.recv_timeout(piece) {
            Ok(result) => Some(Some(result)),
            Err(RecvTimeoutError::Disconnected) => Some(None),
            Err(RecvTimeoutError::Timeout) => None,
        })?
    }
}

impl<R> Drop for Outcome<R> {
    fn drop(&mut self) {
        let _unwanted = self.received();
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
