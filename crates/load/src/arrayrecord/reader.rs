//! Reads single records of a file.

use super::recent::Recent;
use crate::{Error, Result};
use shardmill_formats::arrayrecord::{
    ArrayRecordFile, Error as FormatError, Gathered, Scratch, Verify,
};
use shardmill_formats::table::TableError;
use shardmill_storage::{AnyStore, Store};
use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Passes this thread's buffers to `work`.
pub(super) fn with_scratch<T>(work: impl FnOnce(&mut Scratch) -> T) -> T {
    SCRATCH.with(|scratch| match scratch.try_borrow_mut() {
        Ok(mut scratch) => {
            let result = work(&mut scratch);
            scratch.shrink();
            result
        }
        // An outer call of this thread is using them.
        Err(_in_use) => work(&mut Scratch::default()),
    })
}

/// The position of a record.
#[derive(Debug, Clone)]
pub struct Found {
    chunk: usize,
    place: usize,
    range: Range<u64>,
}

impl Found {
    /// File bytes that are read for the record.
    #[must_use]
    pub fn read_bytes(&self) -> u64 {
        self.range.end - self.range.start
    }
}

/// An open file, shared by any number of threads.
#[derive(Debug)]
pub struct Reader {
    file: ArrayRecordFile,
    recent: Recent,
    is_remote: bool,
}

impl Reader {
    /// For a remote file, `tail_bytes` of its end are fetched with one request, which usually
    /// include the whole index.
    ///
    /// # Errors
    /// When the file cannot be opened, or its index is damaged.
    pub fn open(path: &str, verify: Verify, tail_bytes: u64) -> Result<Self> {
        let object = AnyStore.open_with_tail(path, tail_bytes)?;
        let is_remote = object.is_remote();
        Ok(Self {
            file: ArrayRecordFile::open(object, verify).map_err(failed)?,
            recent: Recent::default(),
            is_remote,
        })
    }

    /// Whether a read may wait for a network.
    #[must_use]
    pub fn is_remote(&self) -> bool {
        self.is_remote
    }

    #[must_use]
    pub fn file(&self) -> &ArrayRecordFile {
        &self.file
    }

    /// Locates a record without reading.
    ///
    /// # Errors
    /// When the record does not exist.
    pub fn find(&self, index: u64) -> Result<Found> {
        let (chunk, place) = self.locate(index)?;
        Ok(Found { chunk, place, range: self.file.range_of(chunk).map_err(failed)? })
    }

    /// Calls `use_it` with one record.
    ///
    /// # Errors
    /// When the record does not exist, or its chunk cannot be read or is damaged.
    pub fn record<T>(&self, index: u64, use_it: impl FnOnce(&[u8]) -> T) -> Result<T> {
        self.read(&self.find(index)?, use_it)
    }

    /// Calls `use_it` with a located record.
    ///
    /// # Errors
    /// When its chunk cannot be read or is damaged.
    pub fn read<T>(&self, found: &Found, use_it: impl FnOnce(&[u8]) -> T) -> Result<T> {
        let Found { chunk, place, range } = found;
        if self.file.is_single() {
            return with_scratch(|scratch| {
                let records =
                    self.file.read_chunk_at(*chunk, range.clone(), scratch).map_err(failed)?;
                Ok(use_it(records.values()))
            });
        }
        let records = match self.recent.get(*chunk) {
            Some(records) => records,
            None => {
                let mut records = Gathered::default();
                with_scratch(|scratch| self.file.append_chunks(&[*chunk], scratch, &mut records))
                    .map_err(failed)?;
                let records = Arc::new(records);
                self.recent.put(*chunk, &records);
                records
            }
        };
        Ok(use_it(records.records().get(*place).unwrap_or_default()))
    }

    /// Offset and length of an uncompressed record that is contiguous in the file.
    /// Its chunk is checked.
    ///
    /// # Errors
    /// As [`Reader::record`].
    pub fn plain_range(&self, index: u64) -> Result<Option<Range<u64>>> {
        with_scratch(|scratch| self.file.plain_range(index, scratch)).map_err(failed)
    }

    /// Size of a record with its own chunk, as stated by the index.
    pub(super) fn length_of_single(&self, found: &Found) -> Option<usize> {
        self.file.length_of_single(found.chunk)
    }

    pub(super) fn locate(&self, index: u64) -> Result<(usize, usize)> {
        self.file.locate(index).ok_or_else(|| {
            failed(FormatError::NoSuchRecord {
                path: self.file.path().to_owned(),
                index,
                num_records: self.file.num_records(),
            })
        })
    }
}

pub(super) fn failed(error: FormatError) -> Error {
    TableError::from(error).into()
}
