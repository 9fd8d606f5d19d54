//! Unnamed files: unfinished and complete ones.

use crate::{Error, Result};
use shardmill_storage::{AnyStore, Replace, Staged, Store, Unpublished};
use std::io::{BufWriter, Write};

/// A staged file that counts its bytes.
#[derive(Debug)]
pub(crate) struct StagedFile {
    file: Box<dyn Staged>,
    path: String,
    bytes: u64,
}

impl StagedFile {
    pub(crate) fn create(path: &str) -> Result<Self> {
        Ok(Self {
            file: AnyStore.stage(path, &Unpublished::default())?,
            path: path.to_owned(),
            bytes: 0,
        })
    }

    pub(crate) fn hold_start(&mut self) {
        self.file.hold_start();
    }

    /// Replaces the first bytes, which were written before.
    pub(crate) fn replace_start(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.file.replace_start(bytes)
    }

    /// Syncs the file, so that only its name is missing.
    pub(crate) fn finish(mut self, rows: u64) -> Result<Finished> {
        self.file.sync()?;
        Ok(Finished {
            file: self.file,
            summary: FileSummary {
                path: self.path,
                rows,
                bytes: self.bytes,
                ..FileSummary::default()
            },
        })
    }

    pub(crate) fn failed(path: &str, source: std::io::Error) -> Error {
        Error::Storage(shardmill_storage::Error::Write { path: path.to_owned(), source })
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

/// Summary of a file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileSummary {
    /// The final name.
    pub path: String,
    pub rows: u64,
    pub bytes: u64,
    /// Its index entry, for formats with an index; the type of tokens.
    pub entry: Option<String>,
}

/// A complete file without its final name. Dropping it removes it.
#[derive(Debug)]
pub struct Finished {
    file: Box<dyn Staged>,
    pub(crate) summary: FileSummary,
}

impl Finished {
    pub(crate) fn of(buffered: BufWriter<StagedFile>, path: &str, rows: u64) -> Result<Self> {
        buffered
            .into_inner()
            .map_err(|error| StagedFile::failed(path, error.into_error()))?
            .finish(rows)
    }

    pub(crate) fn with_entry(mut self, entry: Option<String>) -> Self {
        self.summary.entry = entry;
        self
    }

    #[must_use]
    pub fn summary(&self) -> &FileSummary {
        &self.summary
    }

    /// Gives the file its name, durably.
    ///
    /// # Errors
    /// When the name exists and must not be replaced, or the file cannot be renamed.
    pub fn publish(self, replace: Replace) -> Result<()> {
        Ok(self.file.publish(replace)?)
    }

    /// Renames the file to `name` in its directory, without a sync of the directory.
    pub(crate) fn name(self, name: Option<&str>, replace: Replace) -> Result<()> {
        Ok(self.file.name(name, replace)?)
    }
}
