//! From the bytes of a chunk, as they stand in the file, to its records.

use super::block::{CHUNK_HEADER, data_end, has_boundary, take_out_headers};
use super::chunk::{ChunkHeader, SIMPLE, TRANSPOSED};
use super::codec::{Decoder, room};
use super::hash::hash;
use super::simple::SimpleChunk;
use super::{Fault, transposed};

/// A chunk may decode to this much more than the size of its file.
pub const MAX_DECODED_BYTES: u64 = 1 << 30;

/// What is compared with its hash. Lengths are checked always.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Verify {
    #[default]
    Full,
    /// Headers of chunks and blocks.
    Header,
    None,
}

/// Records of one chunk.
#[derive(Debug, Clone, Copy)]
pub struct Records<'a> {
    values: &'a [u8],
    ends: &'a [usize],
}

impl<'a> Records<'a> {
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// One behind the other.
    #[must_use]
    pub fn values(&self) -> &'a [u8] {
        self.values
    }

    /// Where each ends in the values.
    #[must_use]
    pub fn ends(&self) -> &'a [usize] {
        self.ends
    }

    #[must_use]
    pub fn get(&self, position: usize) -> Option<&'a [u8]> {
        let start = match position.checked_sub(1) {
            Some(before) => *self.ends.get(before)?,
            None => 0,
        };
        self.values.get(start..*self.ends.get(position)?)
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let (values, ends) = (self.values, self.ends);
        let mut start = 0;
        ends.iter().map(move |end| {
            let record = values.get(start..*end).unwrap_or_default();
            start = *end;
            record
        })
    }
}

/// A chunk in the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Framed<'a> {
    pub begin: u64,
    /// Bytes from `begin` on: the whole chunk, or more.
    pub raw: &'a [u8],
    pub file_size: u64,
    pub verify: Verify,
}

impl<'a> Framed<'a> {
    /// The header of the chunk, and its data. The second is part of the raw bytes where no header of a block interrupts it.
    pub(super) fn open(self, stripped: &'a mut Vec<u8>) -> Result<(ChunkHeader, &'a [u8]), Fault> {
        let check = self.verify != Verify::None;
        let header_end = usize::try_from(data_end(self.begin, CHUNK_HEADER).unwrap_or(u64::MAX).saturating_sub(self.begin)).unwrap_or(usize::MAX);
        let short = |needed: u64| Fault::Truncated { what: "chunk", needed, found: self.raw.len() as u64 };
        let head = self.raw.get(..header_end).ok_or_else(|| short(header_end as u64))?;
        let mut unbroken = [0; 40];
        if head.len() == unbroken.len() {
            unbroken.copy_from_slice(head);
        } else {
            stripped.clear();
            take_out_headers(self.begin, head, check, stripped)?;
            unbroken = *stripped.first_chunk::<40>().ok_or_else(|| short(CHUNK_HEADER))?;
        }
        let header = ChunkHeader::parse(&unbroken, check)?;
        let end = header.end(self.begin)?;
        let data_end =
            header.data_size.checked_add(CHUNK_HEADER).and_then(|len| data_end(self.begin, len)).ok_or(Fault::Malformed("chunk without an end"))?;
        let len = data_end - self.begin;
        let framed = usize::try_from(len).ok().and_then(|len| self.raw.get(..len)).ok_or_else(|| short(len))?;
        let data = if has_boundary(self.begin, data_end) {
            stripped.clear();
            stripped.reserve(framed.len());
            let stated_end = take_out_headers(self.begin, framed, check, stripped)?;
            if stated_end.is_some_and(|stated| stated != end) {
                return Err(Fault::Malformed("header of a block disagrees with the chunk about its end"));
            }
            stripped.get(40..).unwrap_or_default()
        } else {
            framed.get(40..).unwrap_or_default()
        };
        if self.verify == Verify::Full && hash(data) != header.data_hash {
            return Err(Fault::Hash("chunk's data"));
        }
        Ok((header, data))
    }

    /// The records. `num_records` is what the index states, if it states any.
    pub(super) fn records(self, num_records: Option<u64>, decoder: &'a mut Decoder) -> Result<Records<'a>, Fault> {
        let Decoder { zstd, stripped, values, ends } = decoder;
        let (header, data) = self.open(stripped)?;
        if let Some(expected) = num_records.filter(|expected| *expected != header.num_records) {
            return Err(Fault::Mismatch { what: "number of records", value: header.num_records, expected });
        }
        let limit = self.file_size.saturating_add(MAX_DECODED_BYTES);
        if header.decoded_size > limit {
            return Err(Fault::TooLarge { what: "decoded size", value: header.decoded_size, limit });
        }
        // Each record has a position of its own in the file.
        if header.num_records > self.file_size {
            return Err(Fault::TooLarge { what: "number of records", value: header.num_records, limit: self.file_size });
        }
        let size = usize::try_from(header.decoded_size).map_err(|_above| Fault::Malformed("decoded size"))?;
        let count = usize::try_from(header.num_records).map_err(|_above| Fault::Malformed("number of records"))?;
        match header.kind {
            SIMPLE => {
                let chunk = SimpleChunk::parse(data, count, size)?;
                if count == 1 {
                    ends.clear();
                    ends.push(size);
                } else {
                    chunk.ends(zstd, ends)?;
                }
                if let Some(plain) = chunk.plain_values() {
                    return Ok(Records { values: plain, ends });
                }
                let values = room(values, size);
                chunk.values(values, zstd)?;
                Ok(Records { values, ends })
            }
            TRANSPOSED => {
                (*values, *ends) = transposed::decode(data, count, size, zstd)?;
                Ok(Records { values, ends })
            }
            _ => Err(Fault::Malformed("chunk of an unknown type")),
        }
    }
}
