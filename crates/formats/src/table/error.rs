//! What can be wrong with a file of rows.

/// One situation for each format, so that a caller can print a reason and a hint without knowing which one it reads.
#[non_exhaustive]
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    #[error(transparent)]
    Storage(#[from] shardmill_storage::Error),
    #[error(transparent)]
    Parquet(#[from] crate::parquet::Error),
    #[error(transparent)]
    Csv(#[from] crate::csv::Error),
    #[error(transparent)]
    Jsonl(#[from] crate::jsonl::Error),
    #[error(transparent)]
    Orc(#[from] crate::orc::Error),
    #[error(transparent)]
    ArrayRecord(#[from] crate::arrayrecord::Error),
    #[error(transparent)]
    Mds(#[from] crate::mds::Error),
    #[error(transparent)]
    WebDataset(#[from] crate::tar::samples::Error),
    #[error("Blocks of `{path}` cannot be put together")]
    Join {
        path: String,
        #[source]
        source: arrow_schema::ArrowError,
    },
}

impl TableError {
    /// What a user can do about it.
    #[must_use]
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Storage(error) => error.hint(),
            Self::Join { .. } => None,
            Self::Parquet(error) => error.hint(),
            Self::Csv(error) => error.hint(),
            Self::Jsonl(error) => error.hint(),
            Self::Orc(error) => error.hint(),
            Self::ArrayRecord(error) => error.hint(),
            Self::Mds(error) => error.hint(),
            Self::WebDataset(error) => error.hint(),
        }
    }
}
