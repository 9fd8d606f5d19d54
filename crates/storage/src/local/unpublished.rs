//! The unpublished files of one run, so that all of them can be removed together.
//!
//! A thread that syncs a large file to a slow disk cannot be interrupted. If the process exited
//! meanwhile, it would leave the file's hidden name behind, so a run that is stopped and cannot
//! wait removes the names of its files itself. The invariant: a file with its final name is no
//! longer in this list.

use crate::{Error, Result};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug, Clone, Default)]
pub struct Unpublished(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    staging: BTreeSet<PathBuf>,
    is_abandoned: bool,
}

impl Unpublished {
    /// Removes every file of the run that has no final name yet. Its writers get an error when they
    /// publish, and no new file can be started.
    pub fn abandon(&self) {
        let mut state = self.lock();
        state.is_abandoned = true;
        for staging in std::mem::take(&mut state.staging) {
            let _published_this_moment = fs::remove_file(staging);
        }
    }

    /// # Errors
    /// [`Error::Stage`] when the run was abandoned; the file is then removed.
    pub(crate) fn enter(&self, staging: &Path, target: &str) -> Result<()> {
        let mut state = self.lock();
        if state.is_abandoned {
            let _already_gone = fs::remove_file(staging);
            return Err(Error::Stage {
                path: target.to_owned(),
                source: io::Error::new(io::ErrorKind::Interrupted, "the run was stopped"),
            });
        }
        state.staging.insert(staging.to_owned());
        Ok(())
    }

    /// # Errors
    /// [`Error::Stage`] when the run was abandoned.
    pub(crate) fn check(&self, target: &str) -> Result<()> {
        match self.lock().is_abandoned {
            true => Err(Error::Stage {
                path: target.to_owned(),
                source: io::Error::new(io::ErrorKind::Interrupted, "the run was stopped"),
            }),
            false => Ok(()),
        }
    }

    pub(crate) fn leave(&self, staging: &Path) {
        self.lock().staging.remove(staging);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LocalStaged, Replace, Staged};
    use std::io::Write;

    #[test]
    fn abandoned_run_leaves_what_it_published_and_nothing_else()
    -> std::result::Result<(), Box<dyn std::error::Error>> {
        let directory = tempfile::tempdir()?;
        let target = |name: &str| directory.path().join(name).display().to_string();
        let (unpublished, other_run) = (Unpublished::default(), Unpublished::default());
        let done = LocalStaged::create(&target("done.tar"), &unpublished)?;
        Box::new(done).publish(Replace::Never)?;
        let mut half = LocalStaged::create(&target("half.tar"), &unpublished)?;
        half.write_all(b"half")?;
        let _other = LocalStaged::create(&target("other.tar"), &other_run)?;
        unpublished.abandon();
        assert_eq!(fs::read_dir(directory.path())?.count(), 2);
        assert!(matches!(Box::new(half).publish(Replace::Never), Err(Error::Publish { .. })));
        assert!(matches!(
            LocalStaged::create(&target("late.tar"), &unpublished),
            Err(Error::Stage { .. })
        ));
        assert_eq!(fs::read_dir(directory.path())?.count(), 2);
        Ok(())
    }
}
