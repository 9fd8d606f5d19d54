//! The open files of the most recently used objects. A data set may have more objects than a
//! process may have open files.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Each object has two files; all of them together stay far below the usual limit
/// of 1,024 descriptors.
const MAX_OPEN: usize = 64;

/// The two files of an object.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) bytes: File,
    pub(super) table: File,
}

impl Files {
    /// Writing to unlinked files would use disk space that no directory entry accounts for.
    fn are_removed(&self) -> bool {
        [&self.bytes, &self.table]
            .into_iter()
            .any(|file| file.metadata().is_ok_and(|metadata| metadata.nlink() == 0))
    }
}

#[derive(Debug, Default)]
pub(super) struct Descriptors(Mutex<VecDeque<(PathBuf, Arc<Files>)>>);

impl Descriptors {
    /// The files of the object at `base`. They are opened by `open` if they are not open or were
    /// removed by an eviction.
    pub(super) fn get(
        &self,
        base: &Path,
        open: impl FnOnce() -> io::Result<Files>,
    ) -> io::Result<Arc<Files>> {
        let mut recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = recent
            .iter()
            .position(|(of, _)| of == base)
            .and_then(|place| recent.remove(place))
            .filter(|(_, files)| !files.are_removed());
        let (base, files) = match known {
            Some(known) => known,
            None => (base.to_owned(), Arc::new(open()?)),
        };
        recent.push_front((base, Arc::clone(&files)));
        recent.truncate(MAX_OPEN);
        Ok(files)
    }
}
