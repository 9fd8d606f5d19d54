//! The interface between the driver and each format.

use crate::pending_files::PendingFiles;
use crate::{Error, Result};
use arrow_array::RecordBatch;
use std::fmt::Debug;

/// The files of one format. Dropping it removes its files and stops its jobs.
pub(crate) trait FileSet: Debug + Send {
    /// Adds rows; the first of them is row `first_row` of the output.
    fn write(
        &mut self,
        rows: &RecordBatch,
        first_row: u64,
        pending: &mut PendingFiles,
    ) -> Result<()>;

    /// Adds a record; returns true if [`FileSet::flush`] has work to do.
    fn gather(&mut self, record: &[u8], pending: &mut PendingFiles) -> Result<bool> {
        let (_, path) = (record, pending.path().to_owned());
        Err(Error::OnlyRows { path })
    }

    fn flush(&mut self, pending: &mut PendingFiles) -> Result<()> {
        let _nothing_is_gathered = pending;
        Ok(())
    }

    /// Ends the last file. Without rows, creates an empty one.
    fn end(&mut self, pending: &mut PendingFiles) -> Result<()>;

    /// Leaves files of another process untouched.
    fn forget(&mut self);
}
