//! Which types of text files a user has given.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The columns whose types are given. Those of the others are inferred from a sample, and their
/// values must fit exactly.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub enum Declared {
    #[default]
    All,
    Columns(Arc<BTreeSet<String>>),
}

impl Declared {
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Columns(names) => names.contains(name),
        }
    }

    /// All types are inferred.
    #[must_use]
    pub fn nothing() -> Self {
        Self::Columns(Arc::default())
    }
}
