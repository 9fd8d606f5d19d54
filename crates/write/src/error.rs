//! Why a file cannot be written.

pub type Result<T> = std::result::Result<T, Error>;

#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Storage(#[from] shardmill_storage::Error),
    #[error(transparent)]
    Engine(#[from] shardmill_engine::Error),
    #[error(transparent)]
    ArrayRecord(#[from] shardmill_formats::arrayrecord::Error),
    #[error("The writer of `{path}` was closed, or failed before")]
    Closed { path: String },
    /// Its threads and half of its data are in the other process.
    #[error("The writer of `{path}` was made in another process")]
    Forked { path: String },
}

impl Error {
    /// What a user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Storage(error) => error.hint(),
            Self::ArrayRecord(error) => error.hint(),
            Self::Forked { .. } => Some("make a writer, with a path of its own, in each process"),
            _ => None,
        }
    }
}
