//! One file, and single records of it.

use super::recent::Recent;
use crate::{Error, Result};
use shardmill_formats::arrayrecord::{ArrayRecordFile, Error as FormatError, Gathered, Scratch, Verify};
use shardmill_formats::table::TableError;
use shardmill_storage::open_with_tail;
use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Gives `work` the buffers that this thread keeps.
pub(super) fn with_scratch<T>(work: impl FnOnce(&mut Scratch) -> T) -> T {
    SCRATCH.with(|scratch| match scratch.try_borrow_mut() {
        Ok(mut scratch) => {
            let result = work(&mut scratch);
            scratch.shrink();
            result
        }
        // `work` of an outer call is on this thread.
        Err(_in_use) => work(&mut Scratch::default()),
    })
}

/// Where a record is.
#[derive(Debug, Clone)]
pub struct Found {
    chunk: usize,
    place: usize,
    range: Range<u64>,
}

impl Found {
    /// Bytes of the file that reading the record takes.
    #[must_use]
    pub fn read_bytes(&self) -> u64 {
        self.range.end - self.range.start
    }
}

/// An open file that any number of threads may read.
#[derive(Debug)]
pub struct Reader {
    file: ArrayRecordFile,
    recent: Recent,
}

impl Reader {
    /// So much of the end of a far file is fetched at once, in the hope that it holds the whole index.
    ///
    /// # Errors
    /// When the file cannot be opened, or its index is damaged.
    pub fn open(path: &str, verify: Verify, tail_bytes: u64) -> Result<Self> {
        let object = open_with_tail(path, tail_bytes)?;
        Ok(Self { file: ArrayRecordFile::open(object, verify).map_err(failed)?, recent: Recent::default() })
    }

    #[must_use]
    pub fn file(&self) -> &ArrayRecordFile {
        &self.file
    }

    /// Finds a record, without reading.
    ///
    /// # Errors
    /// When there is no such record.
    pub fn find(&self, index: u64) -> Result<Found> {
        let (chunk, place) = self.locate(index)?;
        Ok(Found { chunk, place, range: self.file.range_of(chunk).map_err(failed)? })
    }

    /// Calls `use_it` with one record.
    ///
    /// # Errors
    /// When there is no such record; when its chunk cannot be read or is damaged.
    pub fn record<T>(&self, index: u64, use_it: impl FnOnce(&[u8]) -> T) -> Result<T> {
        self.read(&self.find(index)?, use_it)
    }

    /// Calls `use_it` with a record that was found.
    ///
    /// # Errors
    /// When its chunk cannot be read or is damaged.
    pub fn read<T>(&self, found: &Found, use_it: impl FnOnce(&[u8]) -> T) -> Result<T> {
        let Found { chunk, place, range } = found;
        if self.file.is_single() {
            return with_scratch(|scratch| {
                let records = self.file.read_chunk_at(*chunk, range.clone(), scratch).map_err(failed)?;
                Ok(use_it(records.values()))
            });
        }
        let records = match self.recent.get(*chunk) {
            Some(records) => records,
            None => {
                let mut records = Gathered::default();
                with_scratch(|scratch| self.file.append_chunks(&[*chunk], scratch, &mut records)).map_err(failed)?;
                let records = Arc::new(records);
                self.recent.put(*chunk, &records);
                records
            }
        };
        Ok(use_it(records.records().get(*place).unwrap_or_default()))
    }

    /// Where an uncompressed record lies in the file in one piece: offset and length. Its chunk is checked.
    ///
    /// # Errors
    /// As [`Reader::record`].
    pub fn plain_range(&self, index: u64) -> Result<Option<Range<u64>>> {
        with_scratch(|scratch| self.file.plain_range(index, scratch)).map_err(failed)
    }

    /// Bytes of a record that has a chunk of its own, as the index states them.
    pub(super) fn length_of_single(&self, found: &Found) -> Option<usize> {
        self.file.length_of_single(found.chunk)
    }

    pub(super) fn locate(&self, index: u64) -> Result<(usize, usize)> {
        self.file
            .locate(index)
            .ok_or_else(|| failed(FormatError::NoSuchRecord { path: self.file.path().to_owned(), index, num_records: self.file.num_records() }))
    }
}

pub(super) fn failed(error: FormatError) -> Error {
    TableError::from(error).into()
}
