//! What the driver asks of each format.

use crate::place::Place;
use crate::{Error, Result};
use arrow_array::RecordBatch;
use std::fmt::Debug;

/// The files of one format. Dropping it leaves no file and no job behind.
pub(crate) trait FileSet: Debug + Send {
    /// Adds rows, the first of which is number `first_row` of the output.
    fn write(&mut self, rows: &RecordBatch, first_row: u64, place: &mut Place) -> Result<()>;

    /// Adds a record; true when [`FileSet::flush`] has work to do.
    fn gather(&mut self, record: &[u8], place: &mut Place) -> Result<bool> {
        let (_, path) = (record, place.path().to_owned());
        Err(Error::OnlyRows { path })
    }

    fn flush(&mut self, place: &mut Place) -> Result<()> {
        let _nothing_is_gathered = place;
        Ok(())
    }

    /// Ends the last file. Without rows, makes one that has none.
    fn end(&mut self, place: &mut Place) -> Result<()>;

    /// Leaves what belongs to another process alone.
    fn forget(&mut self);
}
