//! Objects of which the journal keeps two copies: without them nothing tells which splits there are and which are done.
//!
//! The copy is made before the object. Either of the two is proof that the object was made, so one that is cut, changed or gone is made again from the other.

use super::journal_store::{Created, JournalStore, encoded, folder_of};
use super::record::from_lines;
use crate::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

const COPY: &str = ".copy";

/// Two paths of one object.
#[derive(Debug, Clone)]
pub(crate) struct Twice {
    pub(crate) path: String,
    pub(crate) copy: String,
}

/// What an object holds, and whether one of its two copies is not whole.
pub(crate) struct Read<T> {
    pub(crate) values: Vec<T>,
    pub(crate) is_whole: bool,
}

impl Twice {
    pub(crate) fn beside(path: String) -> Self {
        let copy = format!("{path}{COPY}");
        Self { path, copy }
    }

    /// `None` when there is neither.
    ///
    /// # Errors
    /// [`Error::Damaged`] when no copy is left that can be read.
    pub(crate) fn read<T: DeserializeOwned>(&self, store: &JournalStore) -> Result<Option<Read<T>>> {
        let (first, second) = (store.read(&self.path)?, store.read(&self.copy)?);
        if first.is_none() && second.is_none() {
            return Ok(None);
        }
        let is_same = first == second;
        let values = first.and_then(|text| from_lines(&text)).map_or_else(|| second.and_then(|text| from_lines(&text)), Some);
        values.map_or_else(|| Err(Error::damaged(&self.path)), |values| Ok(Some(Read { values, is_whole: is_same })))
    }

    /// As [`JournalStore::record_own`].
    pub(crate) fn record_own<T: Serialize>(&self, store: &JournalStore, values: &[T]) -> Result<()> {
        store.record_own(&self.copy, values)?;
        store.record_own(&self.path, values)
    }

    /// Puts `values` in place of what is there, each copy at once.
    pub(crate) fn replace<T: Serialize>(&self, store: &JournalStore, values: &[T]) -> Result<()> {
        for path in [&self.copy, &self.path] {
            let new = format!("{path}.anew-{}", uuid::Uuid::new_v4().simple());
            if !matches!(store.create(&new, &encoded(path, values)?, false)?, Created::Made(_)) || !store.rename(&new, path)? {
                return Err(Error::Fenced { path: path.clone() });
            }
            store.sync_folder(folder_of(path))?;
        }
        Ok(())
    }

    pub(crate) fn remove(&self, store: &JournalStore) -> Result<()> {
        store.remove(&self.path)?;
        store.remove(&self.copy)
    }
}

/// The names of the objects in a directory, each once.
pub(crate) fn names(store: &JournalStore, folder: &str) -> Result<Vec<String>> {
    let mut names: Vec<String> = store.list(folder)?.into_iter().filter(|name| !JournalStore::is_leftover(name) && !is_unfinished(name)).collect();
    names.iter_mut().for_each(|name| *name = name.strip_suffix(COPY).unwrap_or(name).to_owned());
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

/// What [`Twice::replace`] leaves when it dies.
pub(crate) fn is_unfinished(name: &str) -> bool {
    name.contains(".anew-")
}
