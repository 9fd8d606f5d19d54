//! Why the engine stopped, apart from the errors of the work itself.

pub type Result<T> = std::result::Result<T, Error>;

#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The caller asked to stop, or walked away.
    #[error("Cancelled")]
    Cancelled,
    /// The work panicked; the pool goes on.
    #[error("Split {split} panicked: {message}")]
    Panicked { split: usize, message: String },
    /// The operating system gave no thread.
    #[error("Failed to start a thread")]
    Spawn {
        #[source]
        source: std::io::Error,
    },
}
