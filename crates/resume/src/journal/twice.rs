//! Objects that the journal stores twice: without them it is unknown which splits there are and
//! which are done.
//!
//! The copy is created before the object. Either of the two proves that the object was created, so
//! a damaged or missing one is restored from the other.

use super::journal_store::{Created, JournalStore, directory_of, encoded};
use super::record::from_lines;
use crate::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

const COPY: &str = ".copy";

/// The two paths of an object.
#[derive(Debug, Clone)]
pub(crate) struct Twice {
    pub(crate) path: String,
    pub(crate) copy: String,
}

/// The content of an object, and whether one of its two copies is damaged.
pub(crate) struct Read<T> {
    pub(crate) values: Vec<T>,
    pub(crate) is_whole: bool,
}

impl Twice {
    pub(crate) fn beside(path: String) -> Self {
        let copy = format!("{path}{COPY}");
        Self { path, copy }
    }

    /// `None` if both are missing.
    ///
    /// # Errors
    /// [`Error::Damaged`] if no copy can be read.
    pub(crate) fn read<T: DeserializeOwned>(
        &self,
        store: &JournalStore,
    ) -> Result<Option<Read<T>>> {
        let (first, second) = (store.read(&self.path)?, store.read(&self.copy)?);
        if first.is_none() && second.is_none() {
            return Ok(None);
        }
        let is_same = first == second;
        let values = first
            .and_then(|text| from_lines(&text))
            .map_or_else(|| second.and_then(|text| from_lines(&text)), Some);
        values.map_or_else(
            || Err(Error::damaged(&self.path)),
            |values| Ok(Some(Read { values, is_whole: is_same })),
        )
    }

    /// As [`JournalStore::record_own`].
    pub(crate) fn record_own<T: Serialize>(
        &self,
        store: &JournalStore,
        values: &[T],
    ) -> Result<()> {
        store.record_own(&self.copy, values)?;
        store.record_own(&self.path, values)
    }

    /// Replaces the content with `values`, each copy atomically.
    pub(crate) fn replace<T: Serialize>(&self, store: &JournalStore, values: &[T]) -> Result<()> {
        for path in [&self.copy, &self.path] {
            let new = format!("{path}.anew-{}", uuid::Uuid::new_v4().simple());
            if !matches!(store.create(&new, &encoded(path, values)?, false)?, Created::Made(_))
                || !store.rename(&new, path)?
            {
                return Err(Error::Fenced { path: path.clone() });
            }
            store.sync_directory(directory_of(path))?;
        }
        Ok(())
    }

    pub(crate) fn remove(&self, store: &JournalStore) -> Result<()> {
        store.remove(&self.path)?;
        store.remove(&self.copy)
    }
}

/// The names of the objects in a directory, each once.
pub(crate) fn names(store: &JournalStore, directory: &str) -> Result<Vec<String>> {
    let mut names: Vec<String> = store
        .list(directory)?
        .into_iter()
        .filter(|name| !JournalStore::is_leftover(name) && !is_unfinished(name))
        .collect();
    names.iter_mut().for_each(|name| *name = name.strip_suffix(COPY).unwrap_or(name).to_owned());
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

/// A leftover of an interrupted [`Twice::replace`].
pub(crate) fn is_unfinished(name: &str) -> bool {
    name.contains(".anew-")
}
