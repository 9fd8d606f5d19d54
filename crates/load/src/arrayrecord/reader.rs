//! One file, and single records of it.

use super::recent::Recent;
use crate::{Error, Result};
use shardmill_formats::arrayrecord::{ArrayRecordFile, Error as FormatError, Gathered, Scratch, Verify};
use shardmill_formats::table::TableError;
use shardmill_storage::open_with_tail;
use std::cell::RefCell;
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

    /// Calls `use_it` with one record.
    ///
    /// # Errors
    /// [`FormatError::NoSuchRecord`]; when the record's chunk cannot be read or is damaged.
    pub fn record<T>(&self, index: u64, use_it: impl FnOnce(&[u8]) -> T) -> Result<T> {
        let (chunk, place) = self.locate(index)?;
        if self.file.is_single() {
            return with_scratch(|scratch| {
                let records = self.file.read_chunk(chunk, scratch).map_err(failed)?;
                Ok(use_it(records.values()))
            });
        }
        let segment = match self.recent.get(chunk) {
            Some(segment) => segment,
            None => {
                let mut records = Gathered::default();
                with_scratch(|scratch| self.file.append_chunks(&[chunk], scratch, &mut records)).map_err(failed)?;
                let segment = Arc::new(records);
                self.recent.put(chunk, &segment);
                segment
            }
        };
        Ok(use_it(segment.get(place).unwrap_or_default()))
    }

    /// Bytes of the file that reading a record takes; 0 for a record that is not there.
    #[must_use]
    pub fn read_bytes(&self, index: u64) -> u64 {
        self.file.locate(index).and_then(|(chunk, _)| self.file.range_of(chunk).ok()).map_or(0, |range| range.end - range.start)
    }

    /// Where an uncompressed record lies in the file in one piece: offset and length. Its chunk is checked.
    ///
    /// # Errors
    /// As [`Reader::record`].
    pub fn plain_range(&self, index: u64) -> Result<Option<std::ops::Range<u64>>> {
        with_scratch(|scratch| self.file.plain_range(index, scratch)).map_err(failed)
    }

    /// Bytes of a record that has a chunk of its own, as the index states them.
    pub(super) fn length_of_single(&self, index: u64) -> Option<usize> {
        self.file.locate(index).and_then(|(chunk, _)| self.file.length_of_single(chunk))
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
