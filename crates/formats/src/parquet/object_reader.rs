//! Adapts a storage object to the decoder's reads of ranges.

use super::gauge::Gauge;
use super::thrift::{Verdict, judge_page_header};
use crate::limit::{DecodeLimit, TooLarge};
use bytes::Bytes;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::FooterTail;
use parquet::file::reader::{ChunkReader, Length};
use shardmill_storage::RangeRead;
use std::io::{self, BufReader, Chain, Read};
use std::ops::Range;
use std::sync::Arc;

/// A page header has some tens of bytes, including statistics.
const HEADER_BUFFER_LEN: usize = 512;

/// Statistics of long texts enlarge it; writers truncate them to some kilobytes.
const MAX_HEADER_LEN: usize = 1 << 20;

/// Read together from the end of a file: most footers are smaller. A second read of a local file is
/// cheaper than always reading a long tail.
const TAIL_READ: u64 = 64 << 10;
const LOCAL_TAIL_READ: u64 = 16 << 10;

/// The last bytes of a file: the length of the footer, and the magic number.
const TAIL_LEN: u64 = 8;

/// Ranges with a smaller gap are read together: a request costs more than the bytes of the gap.
const MERGED_GAP: u64 = 64 << 10;

/// The object, and the parts of it that are in memory.
#[derive(Debug, Clone)]
pub(super) struct ObjectReader {
    object: Arc<dyn RangeRead>,
    spans: Arc<[Span]>,
    /// Set for readers of pages.
    gauge: Option<Arc<Gauge>>,
}

/// Bytes of the object from an offset on.
#[derive(Debug)]
struct Span {
    start: u64,
    bytes: Bytes,
}

pub(super) struct Cursor {
    reader: ObjectReader,
    offset: u64,
    refusal: Option<Refusal>,
}

/// Why bytes are withheld from the decoder.
enum Refusal {
    UnsupportedField,
    TooLarge(TooLarge),
}

impl ObjectReader {
    pub(super) fn new(object: Arc<dyn RangeRead>) -> Self {
        Self { object, spans: Arc::new([]), gauge: None }
    }

    pub(super) fn gauged(self, gauge: Arc<Gauge>) -> Self {
        Self { gauge: Some(gauge), ..self }
    }

    /// Reads `ranges` with few requests, and keeps them in memory for the decoder.
    pub(super) fn fetch(object: Arc<dyn RangeRead>, mut ranges: Vec<Range<u64>>) -> Result<Self> {
        ranges.sort_unstable_by_key(|range| range.start);
        let gap = MERGED_GAP.max(object.gap_bytes());
        let mut merged: Vec<Range<u64>> = Vec::new();
        for range in ranges {
            match merged.last_mut() {
                Some(last) if range.start <= last.end.saturating_add(gap) => {
                    last.end = last.end.max(range.end);
                }
                _ => merged.push(range),
            }
        }
        merged.retain(|range| !range.is_empty());
        let reader = Self::new(object);
        let bytes = match merged.as_slice() {
            // Together, because a store can answer several requests in the time of one.
            [_, _, ..] if reader.object.is_remote() => reader
                .object
                .read_ranges(&merged)
                .map_err(|error| ParquetError::External(Box::new(error)))?,
            _ => merged
                .iter()
                .map(|range| {
                    reader.get_bytes(range.start, usize::try_from(range.end - range.start)?)
                })
                .collect::<Result<_>>()?,
        };
        let spans = merged
            .into_iter()
            .zip(bytes)
            .map(|(range, bytes)| Span { start: range.start, bytes })
            .collect();
        Ok(Self { spans, ..reader })
    }

    fn span_at(&self, start: u64) -> Option<(&Bytes, usize)> {
        let next = self.spans.partition_point(|span| span.start <= start);
        let span = self.spans.get(next.checked_sub(1)?)?;
        Some((&span.bytes, usize::try_from(start - span.start).ok()?))
    }

    fn in_memory(&self, start: u64, len: usize) -> Option<Bytes> {
        let (bytes, from) = self.span_at(start)?;
        let to = from.checked_add(len).filter(|to| *to <= bytes.len())?;
        Some(bytes.slice(from..to))
    }

    fn span_from(&self, start: u64) -> Option<&[u8]> {
        let (bytes, from) = self.span_at(start)?;
        bytes.get(from..).filter(|rest| !rest.is_empty())
    }

    fn read_at(&self, offset: u64, target: &mut [u8]) -> shardmill_storage::Result<()> {
        match self.in_memory(offset, target.len()) {
            Some(bytes) => {
                target.copy_from_slice(&bytes);
                Ok(())
            }
            None => self.object.read_at(offset, target),
        }
    }

    /// Reads the end of the object into memory: the footer, with one request if it is not large,
    /// and without reading a byte twice. A footer above the limit is not fetched.
    pub(super) fn with_footer(object: Arc<dyn RangeRead>, limit: DecodeLimit) -> Result<Self> {
        let size = object.size();
        let reader = Self::new(object);
        let start = size.saturating_sub(if reader.object.is_remote() {
            TAIL_READ
        } else {
            LOCAL_TAIL_READ
        });
        let tail = reader.get_bytes(start, usize::try_from(size - start)?)?;
        let reader = reader.with_span(start, tail.clone());
        let Some(end) = size.checked_sub(TAIL_LEN) else { return Ok(reader) };
        let len = reader.footer_len(end)?;
        let refused = |refusal: TooLarge| ParquetError::External(Box::new(refusal));
        limit
            .check(reader.object.path(), len.min(end), "the footer states", || {
                format!("byte {end}")
            })
            .map_err(refused)?;
        match end.checked_sub(len) {
            Some(footer) if footer < start => {
                let mut whole =
                    reader.get_bytes(footer, usize::try_from(start - footer)?)?.to_vec();
                whole.extend_from_slice(&tail);
                Ok(reader.with_span(footer, whole.into()))
            }
            _ => Ok(reader),
        }
    }

    fn with_span(self, start: u64, bytes: Bytes) -> Self {
        Self { spans: Arc::new([Span { start, bytes }]), ..self }
    }

    fn footer_len(&self, end: u64) -> Result<u64> {
        let tail = self.get_bytes(end, 4)?;
        Ok(tail.iter().rev().fold(0u64, |len, byte| len << 8 | u64::from(*byte)))
    }

    /// The bytes of the footer, and whether they are encrypted.
    ///
    /// # Errors
    /// When the file does not end as a Parquet file does.
    pub(super) fn footer(&self) -> Result<(Bytes, bool)> {
        let size = self.object.size();
        let short = || {
            ParquetError::EOF(format!(
                "the file has {size} bytes, which are too few for its footer"
            ))
        };
        let end = size.checked_sub(TAIL_LEN).ok_or_else(short)?;
        let tail = FooterTail::try_from(&*self.get_bytes(end, usize::try_from(TAIL_LEN)?)?)?;
        let start = end.checked_sub(tail.metadata_length() as u64).ok_or_else(short)?;
        Ok((self.get_bytes(start, tail.metadata_length())?, tail.is_encrypted_footer()))
    }

    fn cursor(&self, offset: u64, refusal: Option<Refusal>) -> BufReader<Cursor> {
        BufReader::with_capacity(
            HEADER_BUFFER_LEN,
            Cursor { reader: self.clone(), offset, refusal },
        )
    }

    fn prefix(&self, start: u64, len: usize) -> Result<Vec<u8>> {
        let left = usize::try_from(self.object.size().saturating_sub(start)).unwrap_or(usize::MAX);
        let mut prefix = vec![0; len.min(left)];
        self.read_at(start, &mut prefix)
            .map_err(|error| ParquetError::External(Box::new(error)))?;
        Ok(prefix)
    }
}

pub(super) fn unsupported_field() -> ParquetError {
    ParquetError::General(
        "a structure that Parquet does not have: too deep, a collection of booleans, \
         a field of another type, or a page of too many values"
            .to_owned(),
    )
}

impl Read for Cursor {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match &self.refusal {
            Some(Refusal::UnsupportedField) => return Err(io::Error::other(unsupported_field())),
            Some(Refusal::TooLarge(refusal)) => {
                self.reader.gauge.iter().for_each(|gauge| gauge.stop(refusal));
                return Err(io::Error::other(refusal.clone()));
            }
            None => {}
        }
        let left = usize::try_from(self.reader.object.size().saturating_sub(self.offset))
            .unwrap_or(usize::MAX);
        let len = left.min(buffer.len());
        let Some(target) = buffer.get_mut(..len) else { return Ok(0) };
        self.reader.read_at(self.offset, target).map_err(io::Error::other)?;
        self.offset += len as u64;
        Ok(len)
    }
}

impl Length for ObjectReader {
    fn len(&self) -> u64 {
        self.object.size()
    }
}

impl ChunkReader for ObjectReader {
    type T = Chain<io::Cursor<Vec<u8>>, BufReader<Cursor>>;

    /// Called for page headers, and for the tail of the file.
    fn get_read(&self, start: u64) -> Result<Self::T> {
        let is_page_header = start.saturating_add(TAIL_LEN) < self.object.size();
        let mut len = HEADER_BUFFER_LEN;
        // The last header of a column is followed by its page: the bytes in memory suffice, unless
        // the file is damaged.
        let mut known =
            self.span_from(start).map(|bytes| bytes.get(..len).unwrap_or(bytes).to_vec());
        // Not an error yet: the decoder also calls this for the position after a header that it
        // already has, and then reads nothing.
        let refused =
            |refusal| Ok(io::Cursor::new(Vec::new()).chain(self.cursor(start, Some(refusal))));
        let header = loop {
            let (is_known, header) =
                (known.is_some(), known.take().map_or_else(|| self.prefix(start, len), Ok)?);
            let (verdict, facts) = judge_page_header(&header);
            match verdict {
                Verdict::Unfinished if is_known && is_page_header => continue,
                _ if !is_page_header => break header,
                Verdict::Unfinished if header.len() == len && len < MAX_HEADER_LEN => len *= 8,
                Verdict::Unfinished if header.len() < len => break header,
                Verdict::Harmless => {
                    match self.gauge.as_ref().map_or(Ok(()), |gauge| gauge.announce(start, facts)) {
                        Ok(()) => break header,
                        Err(refusal) => return refused(Refusal::TooLarge(refusal)),
                    }
                }
                Verdict::Unfinished | Verdict::UnsupportedField => {
                    return refused(Refusal::UnsupportedField);
                }
            }
        };
        let rest = self.cursor(start.saturating_add(header.len() as u64), None);
        Ok(io::Cursor::new(header).chain(rest))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes> {
        let bytes = self.bytes_at(start, length)?;
        match &self.gauge {
            Some(gauge) => gauge.enter(start, bytes),
            None => Ok(bytes),
        }
    }
}

impl ObjectReader {
    fn bytes_at(&self, start: u64, length: usize) -> Result<Bytes> {
        if let Some(bytes) = self.in_memory(start, length) {
            return Ok(bytes);
        }
        // A length from a damaged header must not cause an allocation.
        let Some(end) = start.checked_add(length as u64).filter(|end| *end <= self.object.size())
        else {
            return Err(ParquetError::EOF(format!(
                "{length} bytes at {start} lie beyond the file's {} bytes",
                self.object.size()
            )));
        };
        let read = self
            .object
            .read_ranges(std::slice::from_ref(&(start..end)))
            .map_err(|error| ParquetError::External(Box::new(error)))?;
        Ok(read.into_iter().next().unwrap_or_default())
    }
}
