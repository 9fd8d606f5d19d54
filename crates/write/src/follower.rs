//! A job that receives messages in order, and ends with a result.
//!
//! The invariant: when a follower is dropped, its job has ended and cleaned up. Only after
//! a signal is a job not awaited while it waits for a store; it ends by itself, because it
//! receives no more messages.

use crate::{Error, Result};
use crossbeam_channel::{Receiver, RecvTimeoutError, SendTimeoutError, Sender, bounded};
use shardmill_engine::{Error as EngineError, Pool};
use shardmill_storage::wait_in_pieces;

/// The receiving end of a job.
pub(crate) struct Messages<M>(Receiver<Option<M>>);

/// A running job.
#[derive(Debug)]
pub(crate) struct Follower<M, R> {
    messages: Option<Sender<Option<M>>>,
    outcome: Outcome<R>,
}

/// The result of a job that receives no more messages.
#[derive(Debug)]
pub(crate) struct Outcome<R>(Option<Receiver<std::thread::Result<Result<R>>>>);

impl<M> Messages<M> {
    /// `None` at the end.
    ///
    /// # Errors
    /// When the sender was dropped without ending the job.
    pub(crate) fn next(&self) -> Result<Option<M>> {
        self.0.recv().map_err(|_abandoned| Error::Engine(EngineError::Cancelled))
    }
}

impl<M: Send + 'static, R: Send + 'static> Follower<M, R> {
    /// At most `limit` messages are queued, so that a slow disk holds the producer back.
    pub(crate) fn start(
        limit: usize,
        work: impl FnOnce(&Messages<M>) -> Result<R> + Send + 'static,
    ) -> Result<Self> {
        let (messages, inbox) = bounded(limit.max(1));
        let inbox = Messages(inbox);
        let outcome = Outcome::of(move || work(&inbox))?;
        Ok(Self { messages: Some(messages), outcome })
    }

    /// # Errors
    /// The reason why the job has ended early.
    pub(crate) fn send(&mut self, message: M) -> Result<()> {
        if self.messages.as_ref().is_some_and(|messages| is_sent(messages, Some(message))) {
            return Ok(());
        }
        self.messages = None;
        Err(self.outcome.take().err().unwrap_or(Error::Engine(EngineError::Cancelled)))
    }

    /// Signals the end of messages.
    pub(crate) fn end(mut self) -> Outcome<R> {
        if let Some(messages) = self.messages.take() {
            let _job_has_failed = is_sent(&messages, None);
        }
        Outcome(self.outcome.0.take())
    }
}

/// Whether the job received the message: it may have failed, or this thread
/// may have been interrupted.
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
        // The job ends when its sender is dropped; the outcome then waits for that.
        self.messages = None;
    }
}

impl<R: Send + 'static> Outcome<R> {
    /// Runs `work` on a thread.
    pub(crate) fn of(work: impl FnOnce() -> Result<R> + Send + 'static) -> Result<Self> {
        Ok(Self(Some(Pool::of_this_process().run(work)?)))
    }

    /// Waits for the result.
    pub(crate) fn take(&mut self) -> Result<R> {
        received(self.received())?
    }
}

impl<R> Outcome<R> {
    /// `None` if there is no result, or if this thread is interrupted before.
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

/// The result of a job; `None` if it will never end.
pub(crate) fn received<T>(outcome: Option<std::thread::Result<T>>) -> Result<T> {
    match outcome {
        Some(Ok(result)) => Ok(result),
        Some(Err(_panic)) => Err(Error::Engine(EngineError::Panicked {
            split: 0,
            message: "an encoder failed".to_owned(),
        })),
        None => Err(Error::Engine(EngineError::Cancelled)),
    }
}
