//! Objects of which the journal keeps two copies: without them nothing tells which splits there are and which are done.
//!
//! The copy is made before the object. Either of the two is proof that the object was made, so one that is cut, changed or gone is made again from the other.

use super::record::from_lines;
use super::vault::{Created, Vault, encoded, folder_of};
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
    pub(crate) fn read<T: DeserializeOwned>(&self, vault: &Vault) -> Result<Option<Read<T>>> {
        let (first, second) = (vault.read(&self.path)?, vault.read(&self.copy)?);
        if first.is_none() && second.is_none() {
            return Ok(None);
        }
        let is_same = first == second;
        let values = first.and_then(|text| from_lines(&text)).map_or_else(|| second.and_then(|text| from_lines(&text)), Some);
        values.map_or_else(|| Err(Error::damaged(&self.path)), |values| Ok(Some(Read { values, is_whole: is_same })))
    }

    /// As [`Vault::record_own`].
    pub(crate) fn record_own<T: Serialize>(&self, vault: &Vault, values: &[T]) -> Result<()> {
        vault.record_own(&self.copy, values)?;
        vault.record_own(&self.path, values)
    }

    /// Puts `values` in place of what is there, each copy at once.
    pub(crate) fn replace<T: Serialize>(&self, vault: &Vault, values: &[T]) -> Result<()> {
        for path in [&self.copy, &self.path] {
            let new = format!("{path}.anew-{}", uuid::Uuid::new_v4().simple());
            if !matches!(vault.create(&new, &encoded(path, values)?, false)?, Created::Made(_)) || !vault.rename(&new, path)? {
                return Err(Error::Fenced { path: path.clone() });
            }
            vault.sync_folder(folder_of(path))?;
        }
        Ok(())
    }

    pub(crate) fn remove(&self, vault: &Vault) -> Result<()> {
        vault.remove(&self.path)?;
        vault.remove(&self.copy)
    }
}

/// The names of the objects in a directory, each once.
pub(crate) fn names(vault: &Vault, folder: &str) -> Result<Vec<String>> {
    let mut names: Vec<String> = vault.list(folder)?.into_iter().filter(|name| !Vault::is_leftover(name) && !is_unfinished(name)).collect();
    names.iter_mut().for_each(|name| *name = name.strip_suffix(COPY).unwrap_or(name).to_owned());
    names.sort_unstable();
    names.dedup();
    Ok(names)
}

/// What [`Twice::replace`] leaves when it dies.
pub(crate) fn is_unfinished(name: &str) -> bool {
    name.contains(".anew-")
}
