//! Lets the decoder read ranges of a storage object.

use super::thrift::{Verdict, judge_footer, judge_page_header};
use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::{ChunkReader, Length};
use shardmill_storage::RangeRead;
use std::io::{self, BufReader, Chain, Read};
use std::sync::Arc;

/// A page header is some tens of bytes, statistics included.
const HEADER_BUFFER_LEN: usize = 512;

/// Statistics of long texts make it longer; writers cut them to some kilobytes.
const MAX_HEADER_LEN: usize = 1 << 20;

/// The last bytes of a file: the length of the footer, and the magic number.
const TAIL_LEN: u64 = 8;

#[derive(Debug, Clone)]
pub(super) struct ObjectReader(pub(super) Arc<dyn RangeRead>);

pub(super) struct Cursor {
    object: Arc<dyn RangeRead>,
    offset: u64,
    is_refused: bool,
}

impl ObjectReader {
    /// Refuses a footer that would keep the decoder busy for hours. Any other damage is for the decoder to find.
    pub(super) fn judge_footer(&self) -> Result<()> {
        let Some(end) = self.0.size().checked_sub(TAIL_LEN) else { return Ok(()) };
        let tail = self.get_bytes(end, 4)?;
        let len = tail.iter().rev().fold(0u64, |len, byte| len << 8 | u64::from(*byte));
        let Some(start) = end.checked_sub(len) else { return Ok(()) };
        match judge_footer(&self.get_bytes(start, usize::try_from(len)?)?) {
            Verdict::Foreign => Err(foreign()),
            _ => Ok(()),
        }
    }

    fn cursor(&self, offset: u64, is_refused: bool) -> BufReader<Cursor> {
        BufReader::with_capacity(HEADER_BUFFER_LEN, Cursor { object: Arc::clone(&self.0), offset, is_refused })
    }

    fn prefix(&self, start: u64, len: usize) -> Result<Vec<u8>> {
        let left = usize::try_from(self.0.size().saturating_sub(start)).unwrap_or(usize::MAX);
        let mut prefix = vec![0; len.min(left)];
        self.0.read_at(start, &mut prefix).map_err(|error| ParquetError::External(Box::new(error)))?;
        Ok(prefix)
    }
}

fn foreign() -> ParquetError {
    ParquetError::General(
        "a structure that Parquet does not have: too deep, a collection of booleans, a field of another type, or a page of too many values"
            .to_owned(),
    )
}

impl Read for Cursor {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.is_refused {
            return Err(io::Error::other(foreign()));
        }
        let left = usize::try_from(self.object.size().saturating_sub(self.offset)).unwrap_or(usize::MAX);
        let len = left.min(buffer.len());
        let Some(target) = buffer.get_mut(..len) else { return Ok(0) };
        self.object.read_at(self.offset, target).map_err(io::Error::other)?;
        self.offset += len as u64;
        Ok(len)
    }
}

impl Length for ObjectReader {
    fn len(&self) -> u64 {
        self.0.size()
    }
}

impl ChunkReader for ObjectReader {
    type T = Chain<io::Cursor<Vec<u8>>, BufReader<Cursor>>;

    /// Called for page headers, and for the tail of the file.
    fn get_read(&self, start: u64) -> Result<Self::T> {
        let is_page_header = start.saturating_add(TAIL_LEN) < self.0.size();
        let mut len = HEADER_BUFFER_LEN;
        let header = loop {
            let header = self.prefix(start, len)?;
            match judge_page_header(&header) {
                _ if !is_page_header => break header,
                Verdict::Unfinished if header.len() == len && len < MAX_HEADER_LEN => len *= 8,
                Verdict::Unfinished if header.len() < len => break header,
                Verdict::Harmless => break header,
                // Not an error yet: the decoder also comes here with the place behind a header that it knows, and then reads nothing.
                Verdict::Unfinished | Verdict::Foreign => return Ok(io::Cursor::new(Vec::new()).chain(self.cursor(start, true))),
            }
        };
        let rest = self.cursor(start.saturating_add(header.len() as u64), false);
        Ok(io::Cursor::new(header).chain(rest))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        // A length from a damaged header must not become an allocation.
        let end = start.checked_add(length as u64).filter(|end| *end <= self.0.size());
        if end.is_none() {
            return Err(ParquetError::EOF(format!("{length} bytes at {start} lie beyond the file's {} bytes", self.0.size())));
        }
        let mut bytes = vec![0; length];
        self.0.read_at(start, &mut bytes).map_err(|error| ParquetError::External(Box::new(error)))?;
        Ok(Bytes::from(bytes))
    }
}
