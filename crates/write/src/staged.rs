//! Files without a name: in the making, and whole.

use crate::{Error, Result};
use shardmill_storage::{Replace, Staged, Unpublished, store_of};
use std::io::{BufWriter, Write};

/// A staged file that counts its bytes.
pub(crate) struct StagedFile {
    file: Box<dyn Staged>,
    path: String,
    bytes: u64,
}

impl StagedFile {
    pub(crate) fn create(path: &str) -> Result<Self> {
        Ok(Self { file: store_of(path)?.stage(path, &Unpublished::default())?, path: path.to_owned(), bytes: 0 })
    }

    /// Syncs it, so that it waits for its name only.
    pub(crate) fn finish(mut self, rows: u64) -> Result<Finished> {
        self.file.sync()?;
        Ok(Finished { file: self.file, summary: FileSummary { path: self.path, rows, bytes: self.bytes, ..FileSummary::default() } })
    }

    pub(crate) fn failed(path: &str, source: std::io::Error) -> Error {
        Error::Storage(shardmill_storage::Error::Write { path: path.to_owned(), source })
    }
}

impl std::fmt::Debug for StagedFile {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("StagedFile")
    }
}

impl Write for StagedFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let len = self.file.write(bytes)?;
        self.bytes += len as u64;
        Ok(len)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

/// What is in a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileSummary {
    /// The name that it has, or will have.
    pub path: String,
    pub rows: u64,
    pub bytes: u64,
    /// What an index says of it, for formats that have one.
    pub entry: Option<String>,
}

/// A whole file that waits for its name. Dropping it removes it.
pub struct Finished {
    file: Box<dyn Staged>,
    pub(crate) summary: FileSummary,
}

impl std::fmt::Debug for Finished {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Finished").field("summary", &self.summary).finish_non_exhaustive()
    }
}

impl Finished {
    pub(crate) fn of(buffered: BufWriter<StagedFile>, path: &str, rows: u64) -> Result<Self> {
        buffered.into_inner().map_err(|error| StagedFile::failed(path, error.into_error()))?.finish(rows)
    }

    #[must_use]
    pub fn summary(&self) -> &FileSummary {
        &self.summary
    }

    /// Gives it its name, durably.
    ///
    /// # Errors
    /// When the name is taken and may not be, or cannot be given.
    pub fn publish(self, replace: Replace) -> Result<()> {
        Ok(self.file.publish(replace)?)
    }

    /// Gives it `name` in its folder, without a sync of the folder.
    pub(crate) fn name(self, name: Option<&str>, replace: Replace) -> Result<()> {
        Ok(self.file.name(name, replace)?)
    }
}
