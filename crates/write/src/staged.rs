//! Files without a name: in the making, and whole.

use crate::{Error, Result};
use shardmill_storage::{Replace, Staged, Unpublished, store_of};
use std::io::{BufWriter, Write};

/// A staged file that can be shown.
pub(crate) struct StagedFile(Box<dyn Staged>);

impl StagedFile {
    pub(crate) fn create(path: &str) -> Result<Self> {
        Ok(Self(store_of(path)?.stage(path, &Unpublished::default())?))
    }
}

impl std::fmt::Debug for StagedFile {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("StagedFile")
    }
}

impl Write for StagedFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0.flush()
    }
}

/// A whole file that waits for its name. Dropping it removes it.
#[derive(Debug)]
pub struct Finished {
    file: StagedFile,
    path: String,
}

impl Finished {
    pub(crate) fn of(buffered: BufWriter<StagedFile>, path: &str) -> Result<Self> {
        let failed = |source| Error::Storage(shardmill_storage::Error::Write { path: path.to_owned(), source });
        let file = buffered.into_inner().map_err(|error| failed(error.into_error()))?;
        Ok(Self { file, path: path.to_owned() })
    }

    /// The name that it will have.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// # Errors
    /// When the name is taken and may not be, or cannot be given.
    pub fn publish(self, replace: Replace) -> Result<()> {
        Ok(self.file.0.publish(replace)?)
    }
}
