//! What can go wrong with ids and records.

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error(transparent)]
    Storage(#[from] shardmill_storage::Error),
    #[error(transparent)]
    Load(#[from] shardmill_load::Error),
    #[error(transparent)]
    Engine(#[from] shardmill_engine::Error),
}

impl Error {
    /// What the user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Storage(inner) => inner.hint(),
            Self::Load(inner) => inner.hint(),
            Self::Engine(_) => None,
        }
    }
}
