//! Footer and postscript: the position of each chunk, and its number of records.
//!
//! The invariant of a parsed [`Index`]: chunks ascend without overlap, lie after the signature and
//! before the footer, and have no more records than bytes.

use super::block::{CHUNK_HEADER, is_legal};
use super::offsets::Offsets;
use super::wire::{Value, fields, put_bytes, put_number};
use super::{Fault, varint};
use std::ops::Range;

/// After the header of the first block and the signature chunk.
pub(super) const FIRST_CHUNK: u64 = 64;
pub(super) const MAGIC: u64 = 0x7193_0e70_4fda_e05e;
const VERSION: u64 = 1;

/// The footer entry of one chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ChunkEntry {
    pub offset: u64,
    pub decoded_size: u64,
    pub num_records: u64,
}

#[derive(Debug)]
pub(super) struct Index {
    /// Begin of each chunk, and of the footer after the last chunk.
    offsets: Offsets,
    grouping: Grouping,
    pub num_records: u64,
    /// Decoded size of all records.
    pub decoded_size: u64,
    pub writer_options: Option<String>,
}

/// Distribution of the records over the chunks.
#[derive(Debug)]
enum Grouping {
    /// One record per chunk; their lengths, if they fit into 32 bits.
    Single { lengths: Vec<u32> },
    /// The same number in each chunk but the last.
    Equal { records: u64 },
    /// Number of the first record of each chunk, and the total number of records.
    Unequal { firsts: Vec<u64> },
}

impl Index {
    pub(super) fn num_chunks(&self) -> usize {
        self.offsets.len() - 1
    }

    pub(super) fn footer_offset(&self) -> u64 {
        self.offsets.last().unwrap_or(FIRST_CHUNK)
    }

    /// Byte range of a chunk in the file, including padding that may follow it.
    pub(super) fn range(&self, chunk: usize) -> Option<Range<u64>> {
        Some(self.offsets.get(chunk)?..self.offsets.get(chunk + 1)?)
    }

    /// The record numbers of a chunk.
    pub(super) fn records(&self, chunk: usize) -> Range<u64> {
        match &self.grouping {
            Grouping::Single { .. } => chunk as u64..(chunk as u64 + 1).min(self.num_records),
            Grouping::Equal { records } => {
                let first = (chunk as u64).saturating_mul(*records).min(self.num_records);
                first..first.saturating_add(*records).min(self.num_records)
            }
            Grouping::Unequal { firsts } => {
                let at = |chunk: usize| firsts.get(chunk).copied().unwrap_or(self.num_records);
                at(chunk)..at(chunk + 1)
            }
        }
    }

    /// The chunk of a record, and its position in the chunk.
    pub(super) fn locate(&self, record: u64) -> Option<(usize, usize)> {
        if record >= self.num_records {
            return None;
        }
        let (chunk, first) = match &self.grouping {
            Grouping::Single { .. } => (record, record),
            Grouping::Equal { records } => (record / records, record / records * records),
            Grouping::Unequal { firsts } => {
                let chunk = firsts.partition_point(|first| *first <= record).checked_sub(1)?;
                (chunk as u64, *firsts.get(chunk)?)
            }
        };
        Some((usize::try_from(chunk).ok()?, usize::try_from(record - first).ok()?))
    }

    /// Size of the only record of a chunk, if the footer states it.
    pub(super) fn length_of_single(&self, chunk: usize) -> Option<usize> {
        match &self.grouping {
            Grouping::Single { lengths } => lengths
                .get(chunk)
                .copied()
                .filter(|length| *length < u32::MAX)
                .map(|length| length as usize),
            _ => None,
        }
    }

    pub(super) fn is_single(&self) -> bool {
        matches!(self.grouping, Grouping::Single { .. })
    }
}

/// Builds an [`Index`] from the records of the footer, one after another.
#[derive(Debug)]
pub(super) struct IndexBuilder {
    footer_offset: u64,
    /// Maximal number of index records.
    limit: usize,
    metadata: Option<Metadata>,
    offsets: Offsets,
    lengths: Vec<u32>,
    counts: Counts,
    decoded_size: u64,
}

impl IndexBuilder {
    /// For the footer at `footer_offset`, which has `num_records` records.
    pub(super) fn new(footer_offset: u64, num_records: usize) -> Self {
        Self {
            footer_offset,
            limit: num_records.saturating_sub(1),
            metadata: None,
            offsets: Offsets::default(),
            lengths: Vec::new(),
            counts: Counts::default(),
            decoded_size: 0,
        }
    }

    pub(super) fn push(&mut self, record: &[u8]) -> Result<(), Fault> {
        let Self { footer_offset, offsets, lengths, counts, .. } = self;
        if self.metadata.is_none() {
            let metadata = Metadata::parse(record)?;
            if metadata.num_chunks != self.limit as u64 {
                return Err(Fault::Mismatch {
                    what: "number of chunks in the metadata",
                    value: metadata.num_chunks,
                    expected: self.limit as u64,
                });
            }
            offsets.reserve_exact(self.limit + 1);
            if metadata.num_records == metadata.num_chunks {
                lengths.reserve_exact(self.limit);
            }
            self.metadata = Some(metadata);
            return Ok(());
        }
        let entry = ChunkEntry::parse(record)?;
        let least = offsets.last().map_or(FIRST_CHUNK, |last| last + CHUNK_HEADER);
        if entry.offset < least || entry.offset >= *footer_offset || !is_legal(entry.offset) {
            return Err(Fault::Malformed("chunks overlap, or lie outside of the file"));
        }
        counts.check_last(entry.offset, offsets)?;
        if counts.push(entry.num_records, offsets.len())? {
            lengths.push(u32::try_from(entry.decoded_size).unwrap_or(u32::MAX));
        } else if !lengths.is_empty() {
            *lengths = Vec::new();
        }
        offsets.push(entry.offset);
        self.decoded_size = self.decoded_size.saturating_add(entry.decoded_size);
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<Index, Fault> {
        let metadata = self.metadata.ok_or(Fault::Malformed("no metadata"))?;
        self.counts.check_last(self.footer_offset, &self.offsets)?;
        self.offsets.push(self.footer_offset);
        let num_records = self.counts.total;
        if metadata.num_records != num_records {
            return Err(Fault::Mismatch {
                what: "number of records in the metadata",
                value: metadata.num_records,
                expected: num_records,
            });
        }
        let grouping = self.counts.grouping(self.lengths);
        Ok(Index {
            offsets: self.offsets,
            grouping,
            num_records,
            decoded_size: self.decoded_size,
            writer_options: metadata.writer_options,
        })
    }
}

/// The number of records of each chunk, stored as a list only once the numbers differ.
#[derive(Debug, Default)]
struct Counts {
    group: u64,
    last: u64,
    total: u64,
    firsts: Option<Vec<u64>>,
}

impl Counts {
    /// A chunk has at least one byte per record, so its claimed number is bounded by the file.
    fn check_last(&self, next_offset: u64, offsets: &Offsets) -> Result<(), Fault> {
        match offsets.last() {
            Some(begin) if self.last > next_offset - begin => Err(Fault::TooLarge {
                what: "number of records in a chunk",
                value: self.last,
                limit: next_offset - begin,
            }),
            Some(begin) if next_offset - begin < CHUNK_HEADER => {
                Err(Fault::Malformed("chunk that is shorter than its header"))
            }
            _ => Ok(()),
        }
    }

    /// Adds chunk number `chunk`; returns whether all chunks so far have one record.
    fn push(&mut self, num_records: u64, chunk: usize) -> Result<bool, Fault> {
        if chunk == 0 {
            self.group = num_records;
        } else if self.firsts.is_none()
            && (self.last != self.group || num_records > self.group || num_records == 0)
        {
            self.firsts = Some((0..chunk as u64).map(|before| before * self.group).collect());
        }
        if let Some(firsts) = &mut self.firsts {
            firsts.push(self.total);
        }
        self.total = self
            .total
            .checked_add(num_records)
            .ok_or(Fault::Malformed("more records than can be numbered"))?;
        self.last = num_records;
        Ok(self.group == 1 && num_records == 1 && self.firsts.is_none())
    }

    fn grouping(&mut self, mut lengths: Vec<u32>) -> Grouping {
        lengths.shrink_to_fit();
        match self.firsts.take() {
            Some(mut firsts) => {
                firsts.push(self.total);
                Grouping::Unequal { firsts }
            }
            None if self.group == 1 => Grouping::Single { lengths },
            None if self.group == 0 => Grouping::Unequal { firsts: Vec::new() },
            None => Grouping::Equal { records: self.group },
        }
    }
}

impl ChunkEntry {
    fn parse(record: &[u8]) -> Result<Self, Fault> {
        // All known writers write three numbers in order.
        let in_order = || {
            let (offset, rest) = varint::read(record.strip_prefix(&[0x08])?)?;
            let (decoded_size, rest) = varint::read(rest.strip_prefix(&[0x10])?)?;
            let (num_records, rest) = varint::read(rest.strip_prefix(&[0x18])?)?;
            rest.is_empty().then_some(Self { offset, decoded_size, num_records })
        };
        if let Some(entry) = in_order() {
            return Ok(entry);
        }
        let mut entry = Self::default();
        fields(record, |number, value| {
            match (number, value) {
                (1, Value::Number(offset)) => entry.offset = offset,
                (2, Value::Number(size)) => entry.decoded_size = size,
                (3, Value::Number(records)) => entry.num_records = records,
                _unknown => {}
            }
            Ok(())
        })?;
        Ok(entry)
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        put_number(1, self.offset, out);
        put_number(2, self.decoded_size, out);
        put_number(3, self.num_records, out);
    }
}

#[derive(Debug, Default)]
pub(super) struct Metadata {
    pub num_chunks: u64,
    pub num_records: u64,
    pub writer_options: Option<String>,
}

impl Metadata {
    fn parse(record: &[u8]) -> Result<Self, Fault> {
        let (mut metadata, mut version) = (Self::default(), None);
        fields(record, |number, value| match (number, value) {
            (1, Value::Bytes(inner)) => fields(inner, |number, value| {
                match (number, value) {
                    (1, Value::Number(number)) => version = Some(number),
                    (2, Value::Number(chunks)) => metadata.num_chunks = chunks,
                    (3, Value::Number(records)) => metadata.num_records = records,
                    (4, Value::Bytes(options)) => {
                        metadata.writer_options =
                            Some(String::from_utf8_lossy(options).into_owned());
                    }
                    _unknown => {}
                }
                Ok(())
            }),
            _unknown => Ok(()),
        })?;
        match version {
            Some(VERSION) => Ok(metadata),
            Some(version) => Err(Fault::Mismatch {
                what: "version of the format",
                value: version,
                expected: VERSION,
            }),
            None => Err(Fault::Malformed("metadata without a version")),
        }
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let mut inner = Vec::new();
        put_number(1, VERSION, &mut inner);
        put_number(2, self.num_chunks, &mut inner);
        put_number(3, self.num_records, &mut inner);
        if let Some(options) = &self.writer_options {
            put_bytes(4, options.as_bytes(), &mut inner);
        }
        put_bytes(1, &inner, out);
    }
}

/// Offset of the footer, from the first record of the last chunk of content.
pub(super) fn footer_offset(postscript: &[u8]) -> Result<u64, Fault> {
    let (mut offset, mut magic) = (None, None);
    fields(postscript, |number, value| {
        match (number, value) {
            (1, Value::Number(number)) => offset = Some(number),
            (2, Value::Number(number)) => magic = Some(number),
            _unknown => {}
        }
        Ok(())
    })?;
    if magic != Some(MAGIC) {
        return Err(Fault::Malformed("magic number is missing or wrong"));
    }
    offset.ok_or(Fault::Malformed("offset of the footer is missing"))
}

pub(super) fn write_postscript(footer_offset: u64, out: &mut Vec<u8>) {
    put_number(1, footer_offset, out);
    put_number(2, MAGIC, out);
}
