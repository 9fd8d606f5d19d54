//! Why the engine stopped, apart from errors of the work itself.

use shardmill_errors::ErrorKind;

pub type Result<T> = std::result::Result<T, Error>;

#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The caller stopped the run, or dropped it.
    #[error("Cancelled")]
    Cancelled,
    /// The work panicked; the pool continues.
    #[error("Split {split} panicked: {message}")]
    Panicked { split: usize, message: String },
    /// The operating system provided no thread.
    #[error("Failed to start a thread")]
    Spawn { source: std::io::Error },
}

impl Error {
    /// What the error is to the caller.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Cancelled => ErrorKind::Cancelled,
            Self::Panicked { .. } | Self::Spawn { .. } => ErrorKind::Engine,
        }
    }
}
