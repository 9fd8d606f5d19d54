//! Decodes the stored bytes of a chunk to records.

use super::block::{CHUNK_HEADER, data_end, has_boundary, take_out_headers};
use super::chunk::{ChunkHeader, SIMPLE, TRANSPOSED};
use super::codec::{Decoder, room};
use super::error::DECODED_SIZE;
use super::hash::hash;
use super::simple::SimpleChunk;
use super::{Fault, transposed};
use crate::limit::DecodeLimit;
use bytes::{Bytes, BytesMut};

/// Maximal decoded size of a chunk, beyond the size of its file.
pub const MAX_DECODED_BYTES: u64 = (2 << 30) - (1 << 20);
/// The header field that the reader's limit applies to.
/// Larger buffers are allocated zeroed by the system and not written first.
const LAZY_BYTES: usize = 4 << 20;

/// Which hashes are verified. Lengths are always checked.
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

    /// The concatenated records.
    #[must_use]
    pub fn values(&self) -> &'a [u8] {
        self.values
    }

    /// The end of each record in the values.
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

/// A buffer for reassembled bytes.
pub(super) trait Room {
    fn clear(&mut self);
    fn put(&mut self, bytes: &[u8]);
    fn bytes(&self) -> &[u8];
}

impl Room for Vec<u8> {
    fn clear(&mut self) {
        self.clear();
    }

    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn bytes(&self) -> &[u8] {
        self
    }
}

/// A chunk in the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Framed<'a> {
    pub begin: u64,
    /// Bytes from `begin` on: the whole chunk, possibly followed by more.
    pub raw: &'a [u8],
    pub file_size: u64,
    pub verify: Verify,
    pub limit: DecodeLimit,
}

impl<'a> Framed<'a> {
    /// The header of the chunk, and its data, which is borrowed from the raw bytes if no block
    /// header interrupts it.
    pub(super) fn open<R: Room>(
        self,
        stripped: &'a mut R,
    ) -> Result<(ChunkHeader, &'a [u8]), Fault> {
        let check = self.verify != Verify::None;
        let header_end = usize::try_from(
            data_end(self.begin, CHUNK_HEADER).unwrap_or(u64::MAX).saturating_sub(self.begin),
        )
        .unwrap_or(usize::MAX);
        let short =
            |needed: u64| Fault::Truncated { what: "chunk", needed, found: self.raw.len() as u64 };
        let head = self.raw.get(..header_end).ok_or_else(|| short(header_end as u64))?;
        let mut unbroken = [0; 40];
        if head.len() == unbroken.len() {
            unbroken.copy_from_slice(head);
        } else {
            stripped.clear();
            take_out_headers(self.begin, head, check, |part| stripped.put(part))?;
            unbroken = *stripped.bytes().first_chunk::<40>().ok_or_else(|| short(CHUNK_HEADER))?;
        }
        let header = ChunkHeader::parse(&unbroken, check)?;
        let end = header.end(self.begin)?;
        let data_end = header
            .data_size
            .checked_add(CHUNK_HEADER)
            .and_then(|len| data_end(self.begin, len))
            .ok_or(Fault::Malformed("chunk without an end"))?;
        let len = data_end - self.begin;
        let framed = usize::try_from(len)
            .ok()
            .and_then(|len| self.raw.get(..len))
            .ok_or_else(|| short(len))?;
        let data = if has_boundary(self.begin, data_end) {
            stripped.clear();
            let stated_end =
                take_out_headers(self.begin, framed, check, |part| stripped.put(part))?;
            if stated_end.is_some_and(|stated| stated != end) {
                return Err(Fault::Malformed(
                    "header of a block disagrees with the chunk about its end",
                ));
            }
            stripped.bytes().get(40..).unwrap_or_default()
        } else {
            framed.get(40..).unwrap_or_default()
        };
        if self.verify == Verify::Full && hash(data) != header.data_hash {
            return Err(Fault::Hash("chunk's data"));
        }
        Ok((header, data))
    }

    /// The records. `num_records` is the number stated by the index, if any.
    pub(super) fn records(
        self,
        num_records: Option<u64>,
        decoder: &'a mut Decoder,
    ) -> Result<Records<'a>, Fault> {
        let Decoder { zstd, stripped, values, ends } = decoder;
        match self.content(num_records, stripped)? {
            Content::Simple(chunk) => {
                chunk.ends(zstd, ends)?;
                if let Some(plain) = chunk.plain_values() {
                    return Ok(Records { values: plain, ends });
                }
                let values = room(values, chunk.decoded_size());
                chunk.values(values, zstd)?;
                Ok(Records { values, ends })
            }
            Content::Transposed { data, count, size } => {
                (*values, *ends) = transposed::decode(data, count, size, zstd)?;
                Ok(Records { values, ends })
            }
        }
    }

    /// Appends the records to `out`; their ends, relative to the first of them,
    /// are left in the decoder.
    pub(super) fn append(
        self,
        num_records: Option<u64>,
        decoder: &mut Decoder,
        out: &mut BytesMut,
    ) -> Result<(), Fault>
    where
        Self: 'a,
    {
        let Decoder { zstd, stripped, ends, .. } = decoder;
        let before = out.len();
        match self.content(num_records, stripped)? {
            Content::Simple(chunk) => {
                chunk.ends(zstd, ends)?;
                match chunk.plain_values() {
                    Some(plain) => out.extend_from_slice(plain),
                    // Zeroed pages cost nothing until they are written, so a false length
                    // takes no memory.
                    None if chunk.decoded_size() > LAZY_BYTES => {
                        let mut values = vec![0; chunk.decoded_size()];
                        chunk.values(&mut values, zstd)?;
                        match out.is_empty() {
                            true => *out = BytesMut::from(Bytes::from(values)),
                            false => out.extend_from_slice(&values),
                        }
                    }
                    None => {
                        out.resize(before + chunk.decoded_size(), 0);
                        let room = out.get_mut(before..).unwrap_or_default();
                        chunk.values(room, zstd).inspect_err(|_damaged| out.truncate(before))?;
                    }
                }
            }
            Content::Transposed { data, count, size } => {
                let (values, of_values) = transposed::decode(data, count, size, zstd)?;
                out.extend_from_slice(&values);
                *ends = of_values;
            }
        }
        Ok(())
    }

    /// The content of the chunk, after its lengths are checked against the available
    /// bytes and the limits.
    pub(super) fn content<R: Room>(
        self,
        num_records: Option<u64>,
        stripped: &'a mut R,
    ) -> Result<Content<'a>, Fault> {
        let (header, data) = self.open(stripped)?;
        if let Some(expected) = num_records.filter(|expected| *expected != header.num_records) {
            return Err(Fault::Mismatch {
                what: "number of records",
                value: header.num_records,
                expected,
            });
        }
        let limit = self.file_size.saturating_add(MAX_DECODED_BYTES).min(self.limit.bytes());
        if header.decoded_size > limit {
            return Err(Fault::TooLarge { what: DECODED_SIZE, value: header.decoded_size, limit });
        }
        // Each record has its own position in the file.
        if header.num_records > self.file_size {
            return Err(Fault::TooLarge {
                what: "number of records",
                value: header.num_records,
                limit: self.file_size,
            });
        }
        let size = usize::try_from(header.decoded_size)
            .map_err(|_above| Fault::Malformed("decoded size"))?;
        let count = usize::try_from(header.num_records)
            .map_err(|_above| Fault::Malformed("number of records"))?;
        match header.kind {
            SIMPLE => Ok(Content::Simple(SimpleChunk::parse(data, count, size)?)),
            TRANSPOSED => Ok(Content::Transposed { data, count, size }),
            _ => Err(Fault::Malformed("chunk of an unknown type")),
        }
    }
}

/// The data of a chunk, checked but not yet decoded.
pub(super) enum Content<'a> {
    Simple(SimpleChunk<'a>),
    Transposed { data: &'a [u8], count: usize, size: usize },
}

/// Concatenated records of many chunks.
#[derive(Debug, Default)]
pub struct Gathered {
    pub values: BytesMut,
    /// The end of each record in the values.
    pub ends: Vec<usize>,
}

impl Gathered {
    #[must_use]
    pub fn records(&self) -> Records<'_> {
        Records { values: &self.values, ends: &self.ends }
    }

    pub fn push(&mut self, record: &[u8]) {
        self.values.extend_from_slice(record);
        self.ends.push(self.values.len());
    }

    /// Size in memory.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.values.capacity() + self.ends.capacity() * size_of::<usize>()
    }
}
