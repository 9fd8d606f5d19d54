//! Opens the files of a data set.

use crate::spent::reading;
use bytes::Bytes;
use shardmill_storage::{Identity, OpenFiles, RangeRead};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Opens the files of a data set, and counts the bytes that are read.
#[derive(Debug, Clone, Default)]
pub(super) struct Objects {
    open: OpenFiles,
    bytes: Arc<AtomicU64>,
}

impl Objects {
    /// `bytes` counts those that are read.
    pub(super) fn new(bytes: &Arc<AtomicU64>) -> Self {
        Self { open: OpenFiles::default(), bytes: Arc::clone(bytes) }
    }

    pub(super) fn open(&self, path: &str) -> shardmill_storage::Result<Arc<dyn RangeRead>> {
        let bytes = Arc::clone(&self.bytes);
        Ok(Arc::new(Counted { object: self.open.open(path)?, bytes }))
    }
}

/// Counts bytes requested from the storage.
#[derive(Debug)]
struct Counted {
    object: Arc<dyn RangeRead>,
    bytes: Arc<AtomicU64>,
}

impl Counted {
    /// Checked after a read: bytes read before a concurrent write are valid.
    fn check_unchanged(&self, offset: u64, len: usize) -> shardmill_storage::Result<()> {
        if self.object.is_unchanged() {
            return Ok(());
        }
        let source = std::io::Error::other("the file was changed while it was being read");
        Err(shardmill_storage::Error::Read {
            path: self.object.path().to_owned(),
            offset,
            len,
            source,
        })
    }
}

impl RangeRead for Counted {
    fn path(&self) -> &str {
        self.object.path()
    }

    fn identity(&self) -> Identity {
        self.object.identity()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> shardmill_storage::Result<()> {
        self.bytes.fetch_add(buffer.len() as u64, Ordering::Relaxed);
        reading(|| self.object.read_at(offset, buffer))?;
        self.check_unchanged(offset, buffer.len())
    }

    fn read_ranges(&self, ranges: &[Range<u64>]) -> shardmill_storage::Result<Vec<Bytes>> {
        let read = reading(|| self.object.read_ranges(ranges))?;
        let len = read.iter().map(Bytes::len).sum();
        self.bytes.fetch_add(len as u64, Ordering::Relaxed);
        self.check_unchanged(ranges.first().map_or(0, |range| range.start), len)?;
        Ok(read)
    }

    fn gap_bytes(&self) -> u64 {
        self.object.gap_bytes()
    }

    fn is_unchanged(&self) -> bool {
        self.object.is_unchanged()
    }

    fn is_remote(&self) -> bool {
        self.object.is_remote()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_whose_bytes_are_counted_is_read_over_the_same_gaps() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        let gap = OpenFiles::default().open(path).unwrap().gap_bytes();
        assert!(gap > 0);
        assert_eq!(Objects::default().open(path).unwrap().gap_bytes(), gap);
    }
}
