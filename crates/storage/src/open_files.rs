//! The files that rows reference, with a bounded number of them open at a time.
//!
//! A table may name more image files than a process may open. A file that was closed is opened
//! again when it is read; the invariant: it must still be the version that was seen first. A forked
//! child opens files of its own: a thread of its parent may have held the lock.

use crate::process::PerProcess;
use crate::{AnyStore, Error, Identity, RangeRead, Result, Roots, Store};
use bytes::Bytes;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Each running split has a few of these; together they stay below the usual limit
/// of 1,024 descriptors.
const MAX_OPEN: usize = 32;

#[derive(Debug, Default, Clone)]
pub struct OpenFiles {
    recent: Arc<PerProcess<Mutex<Recent>>>,
    /// Where paths may lead. Paths that the user named are not restricted.
    roots: Option<Roots>,
}

#[derive(Debug, Default)]
struct Recent {
    files: HashMap<String, (u64, Arc<dyn RangeRead>)>,
    uses: u64,
}

impl OpenFiles {
    /// For paths stored in data.
    #[must_use]
    pub fn below(roots: Roots) -> Self {
        Self { roots: Some(roots), ..Self::default() }
    }

    /// A file that is open while it is being read.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(&self, path: &str) -> Result<Arc<dyn RangeRead>> {
        let file = self.get(path)?;
        if file.is_remote() {
            self.recent().files.remove(path);
            return Ok(file);
        }
        let identity = file.identity();
        Ok(Arc::new(Reopened { path: path.to_owned(), identity, files: self.clone() }))
    }

    fn get(&self, path: &str) -> Result<Arc<dyn RangeRead>> {
        let mut recent = self.recent();
        recent.uses += 1;
        let now = recent.uses;
        if let Some((used, file)) = recent.files.get_mut(path) {
            *used = now;
            return Ok(Arc::clone(file));
        }
        let file = match &self.roots {
            Some(roots) => roots.open(path)?,
            None => AnyStore.open(path)?,
        };
        if recent.files.len() >= MAX_OPEN {
            let oldest = recent
                .files
                .iter()
                .min_by_key(|(_, (used, _))| *used)
                .map(|(path, _)| path.clone());
            oldest.and_then(|oldest| recent.files.remove(&oldest));
        }
        recent.files.insert(path.to_owned(), (now, Arc::clone(&file)));
        Ok(file)
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.get_or_make(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
struct Reopened {
    path: String,
    identity: Identity,
    files: OpenFiles,
}

impl Reopened {
    fn file(&self) -> Result<Arc<dyn RangeRead>> {
        let file = self.files.get(&self.path)?;
        if file.identity() != self.identity {
            return Err(Error::Changed { path: self.path.clone() });
        }
        Ok(file)
    }
}

impl RangeRead for Reopened {
    fn path(&self) -> &str {
        &self.path
    }

    fn identity(&self) -> Identity {
        self.identity.clone()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.file()?.read_at(offset, buffer)
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        self.file()?.read_ranges(ranges)
    }

    fn gap_bytes(&self) -> u64 {
        self.files.get(&self.path).map_or(0, |file| file.gap_bytes())
    }

    fn is_unchanged(&self) -> bool {
        self.files
            .get(&self.path)
            .is_ok_and(|file| file.identity() == self.identity && file.is_unchanged())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn more_files_than_stay_open_can_all_be_read() {
        let directory = tempfile::tempdir().unwrap();
        let files = OpenFiles::default();
        let path = |number: u8| directory.path().join(number.to_string()).display().to_string();
        let objects: Vec<_> = (0..100)
            .map(|number| {
                fs::write(path(number), [number]).unwrap();
                files.open(&path(number)).unwrap()
            })
            .collect();
        assert_eq!(files.recent().files.len(), MAX_OPEN);
        for (object, number) in objects.iter().zip(0u8..) {
            let mut byte = [0];
            object.read_at(0, &mut byte).unwrap();
            assert_eq!(byte, [number]);
        }
    }

    #[test]
    fn file_that_was_replaced_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a").display().to_string();
        fs::write(&path, "first").unwrap();
        let files = OpenFiles::default();
        let object = files.open(&path).unwrap();
        files.recent().files.clear();
        fs::write(&path, "another").unwrap();
        assert!(object.read_at(0, &mut [0]).is_err());
    }
}
