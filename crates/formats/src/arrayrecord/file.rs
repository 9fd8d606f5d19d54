//! An open file: its index, and reads of chunks.

use super::block::{BLOCK, is_legal};
use super::codec::{Decoder, Scratch, room};
use super::decode::{Framed, Gathered, Records, Verify};
use super::error::DECODED_SIZE;
use super::footer::{Failure, Mapped, read_index};
use super::index::{FIRST_CHUNK, Index, footer_offset};
use super::{Error, Fault};
use crate::limit::DecodeLimit;
use bytes::BytesMut;
use shardmill_storage::RangeRead;
use std::ops::Range;
use std::sync::Arc;
use xxhash_rust::xxh3::Xxh3;

/// A file consists of blocks; the first holds the signature, the last the postscript.
const LEAST_BLOCKS: u64 = 2;

/// A request to a remote store may be this many times as large as its gap size.
const MOST_GAPS: u64 = 16;

/// Opening reads the postscript and the footer. Records are then located without a search.
#[derive(Debug)]
pub struct ArrayRecordFile {
    object: Arc<dyn RangeRead>,
    size: u64,
    index: Index,
    verify: Verify,
    limit: DecodeLimit,
    digest: u128,
}

impl ArrayRecordFile {
    /// # Errors
    /// When the file cannot be read, or its postscript or footer is damaged.
    pub fn open(object: Arc<dyn RangeRead>, verify: Verify) -> Result<Self, Error> {
        Self::open_limited(object, verify, DecodeLimit::default())
    }

    /// As [`ArrayRecordFile::open`], with a limit other than the default.
    ///
    /// # Errors
    /// As [`ArrayRecordFile::open`].
    pub fn open_limited(
        object: Arc<dyn RangeRead>,
        verify: Verify,
        limit: DecodeLimit,
    ) -> Result<Self, Error> {
        let path = || object.path().to_owned();
        let size = object.size();
        let not_whole = |reason| Error::NotWhole { path: path(), reason };
        if size == 0 {
            return Err(not_whole("it is empty"));
        }
        if !size.is_multiple_of(BLOCK) || size / BLOCK < LEAST_BLOCKS {
            return Err(not_whole("its size is not that of two or more whole blocks of 64 KiB"));
        }
        let mut scratch = Scratch::default();
        let postscript_offset = size - BLOCK;
        let raw = room(&mut scratch.raw, usize::try_from(BLOCK).unwrap_or(usize::MAX));
        object.read_at(postscript_offset, raw)?;
        // The hashes of the index are always verified: with a damaged index every record
        // would be a guess.
        let verify_index = Verify::Full;
        // The index grows with the number of records, and is bounded by the size of the file.
        let of_index = DecodeLimit::new(u64::MAX);
        let footer_begin = Framed {
            begin: postscript_offset,
            raw,
            file_size: size,
            verify: verify_index,
            limit: of_index,
        }
        .records(None, &mut scratch.decoder)
        .and_then(|records| footer_offset(records.get(0).ok_or(Fault::Malformed("no record"))?))
        .and_then(|offset| {
            match FIRST_CHUNK <= offset && offset < postscript_offset && is_legal(offset) {
                true => Ok(offset),
                false => Err(Fault::TooLarge {
                    what: "offset of the footer",
                    value: offset,
                    limit: postscript_offset - 1,
                }),
            }
        })
        .map_err(|fault| Error::Postscript {
            path: path(),
            offset: postscript_offset,
            fault,
        })?;
        let footer_len = usize::try_from(postscript_offset - footer_begin)
            .map_err(|_above| not_whole("its footer is too large for memory"))?;
        let memory = |source| Error::Memory { path: path(), source };
        let mut raw = Mapped::new(footer_len).map_err(memory)?;
        object.read_at(footer_begin, raw.whole())?;
        let mut digest = Xxh3::new();
        digest.update(raw.whole());
        digest.update(&size.to_le_bytes());
        let footer = Framed {
            begin: footer_begin,
            raw: raw.whole(),
            file_size: size,
            verify: verify_index,
            limit: of_index,
        };
        let mut stripped = Mapped::new(footer_len).map_err(memory)?;
        let index =
            read_index(footer, &mut stripped, &mut scratch.decoder).map_err(
                |failure| match failure {
                    Failure::Fault(fault) => {
                        Error::Footer { path: path(), offset: footer_begin, fault }
                    }
                    Failure::Memory(source) => memory(source),
                },
            )?;
        Ok(Self { size, index, verify, limit, digest: digest.digest128(), object })
    }

    #[must_use]
    pub fn path(&self) -> &str {
        self.object.path()
    }

    /// Size of the file.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    #[must_use]
    pub fn num_records(&self) -> u64 {
        self.index.num_records
    }

    #[must_use]
    pub fn num_chunks(&self) -> usize {
        self.index.num_chunks()
    }

    /// Decoded size of all records.
    #[must_use]
    pub fn decoded_size(&self) -> u64 {
        self.index.decoded_size
    }

    /// The options of the writer; missing in files older than October 2022.
    #[must_use]
    pub fn writer_options(&self) -> Option<&str> {
        self.index.writer_options.as_deref()
    }

    /// The chunk of a record, and its position in the chunk.
    #[must_use]
    pub fn locate(&self, record: u64) -> Option<(usize, usize)> {
        self.index.locate(record)
    }

    /// Whether each chunk has one record.
    #[must_use]
    pub fn is_single(&self) -> bool {
        self.index.is_single()
    }

    /// Size of the only record of a chunk, if the footer states it; the value is not verified.
    #[must_use]
    pub fn length_of_single(&self, chunk: usize) -> Option<usize> {
        self.index.length_of_single(chunk)
    }

    /// The record numbers of a chunk.
    #[must_use]
    pub fn records_of(&self, chunk: usize) -> Range<u64> {
        self.index.records(chunk)
    }

    /// Byte range of a chunk in the file, including padding that may follow it.
    ///
    /// # Errors
    /// [`Error::NoSuchPart`].
    pub fn range_of(&self, chunk: usize) -> Result<Range<u64>, Error> {
        self.index
            .range(chunk)
            .ok_or_else(|| Error::NoSuchPart { path: self.path().to_owned(), index: chunk })
    }

    /// Offset of the footer, after the last chunk of records.
    #[must_use]
    pub fn footer_offset(&self) -> u64 {
        self.index.footer_offset()
    }

    #[must_use]
    pub fn object(&self) -> &Arc<dyn RangeRead> {
        &self.object
    }

    #[must_use]
    pub fn digest(&self) -> u128 {
        self.digest
    }

    /// Reads and decodes one chunk.
    ///
    /// # Errors
    /// When its bytes cannot be read, or are damaged.
    pub fn read_chunk<'a>(
        &self,
        chunk: usize,
        scratch: &'a mut Scratch,
    ) -> Result<Records<'a>, Error> {
        let range = self.range_of(chunk)?;
        self.read_chunk_at(chunk, range, scratch)
    }

    /// As [`ArrayRecordFile::read_chunk`], for a caller that already has its range.
    ///
    /// # Errors
    /// As [`ArrayRecordFile::read_chunk`].
    pub fn read_chunk_at<'a>(
        &self,
        chunk: usize,
        range: Range<u64>,
        scratch: &'a mut Scratch,
    ) -> Result<Records<'a>, Error> {
        let len = self.stored_len(chunk, &range)?;
        let raw = room(&mut scratch.raw, len);
        self.object.read_at(range.start, raw)?;
        let framed = Framed {
            begin: range.start,
            raw,
            file_size: self.size,
            verify: self.verify,
            limit: self.limit,
        };
        framed
            .records(self.count_of(chunk), &mut scratch.decoder)
            .map_err(|fault| self.damaged(chunk, range.start, fault))
    }

    /// Reads the bytes of a run of chunks with one request and calls `each` with the records of
    /// those in `wanted`, which is ascending.
    ///
    /// # Errors
    /// As [`ArrayRecordFile::read_chunk`].
    pub fn read_chunks(
        &self,
        wanted: &[usize],
        scratch: &mut Scratch,
        mut each: impl FnMut(usize, Records<'_>),
    ) -> Result<(), Error> {
        self.each_framed(wanted, scratch, |chunk, framed, decoder| {
            framed.records(self.count_of(chunk), decoder).map(|records| each(chunk, records))
        })
    }

    /// As [`ArrayRecordFile::read_chunks`], but appends all records of the chunks to `out`. When a
    /// chunk is damaged, `out` has those before it.
    ///
    /// # Errors
    /// As [`ArrayRecordFile::read_chunk`].
    pub fn append_chunks(
        &self,
        wanted: &[usize],
        scratch: &mut Scratch,
        out: &mut Gathered,
    ) -> Result<(), Error> {
        self.each_framed(wanted, scratch, |chunk, framed, decoder| {
            let before = out.values.len();
            framed.append(self.count_of(chunk), decoder, &mut out.values)?;
            out.ends.extend(decoder.ends.iter().map(|end| before + end));
            Ok(())
        })
    }

    /// As [`ArrayRecordFile::read_chunks`], but writes the concatenated records of each chunk into
    /// the buffer that `room_of` returns for it.
    ///
    /// # Errors
    /// As [`ArrayRecordFile::read_chunk`].
    pub fn place_chunks<'r>(
        &self,
        wanted: &[usize],
        scratch: &mut Scratch,
        mut room_of: impl FnMut(usize) -> Option<&'r mut BytesMut>,
    ) -> Result<(), Error> {
        self.each_framed(wanted, scratch, |chunk, framed, decoder| {
            let room = room_of(chunk).ok_or(Fault::Malformed("no room for a record"))?;
            framed.append(self.count_of(chunk), decoder, room)
        })
    }

    fn each_framed(
        &self,
        wanted: &[usize],
        scratch: &mut Scratch,
        mut each: impl FnMut(usize, Framed<'_>, &mut Decoder) -> Result<(), Fault>,
    ) -> Result<(), Error> {
        let (Some(first), Some(last)) = (wanted.first(), wanted.last()) else { return Ok(()) };
        let (begin, end) = (self.range_of(*first)?.start, self.range_of(*last)?.end);
        for chunk in wanted {
            self.stored_len(*chunk, &self.range_of(*chunk)?)?;
        }
        let Scratch { raw, decoder } = scratch;
        // A run of small chunks may be longer than a single one may be.
        let len = usize::try_from(end.saturating_sub(begin)).unwrap_or(usize::MAX);
        let raw = room(raw, len);
        self.object.read_at(begin, raw)?;
        for chunk in wanted {
            let range = self.range_of(*chunk)?;
            let within = |position: u64| {
                usize::try_from(position.saturating_sub(begin)).unwrap_or(usize::MAX)
            };
            let bytes = raw.get(within(range.start)..within(range.end)).unwrap_or_default();
            let framed = Framed {
                begin: range.start,
                raw: bytes,
                file_size: self.size,
                verify: self.verify,
                limit: self.limit,
            };
            each(*chunk, framed, decoder)
                .map_err(|fault| self.damaged(*chunk, range.start, fault))?;
        }
        Ok(())
    }

    /// Incompressible data is slightly longer than its decoded size;
    /// a much longer chunk cannot be valid.
    fn stored_len(&self, chunk: usize, range: &Range<u64>) -> Result<usize, Error> {
        let (len, limit) = (range.end.saturating_sub(range.start), self.limit.bytes());
        let too_large = || {
            self.damaged(
                chunk,
                range.start,
                Fault::TooLarge { what: DECODED_SIZE, value: len, limit },
            )
        };
        usize::try_from(len).ok().filter(|_| len <= limit.saturating_mul(2)).ok_or_else(too_large)
    }

    fn count_of(&self, chunk: usize) -> Option<u64> {
        let records = self.index.records(chunk);
        Some(records.end - records.start)
    }

    fn damaged(&self, chunk: usize, offset: u64, fault: Fault) -> Error {
        Error::Chunk { path: self.path().to_owned(), chunk, offset, fault }
    }

    /// Splits `wanted`, which is an ascending list of chunk numbers, into runs that are worth
    /// reading with one request: with small gaps, and at most `limit` bytes in total, unless a
    /// single chunk is larger.
    ///
    /// # Errors
    /// [`Error::NoSuchPart`].
    pub fn runs(&self, wanted: &[usize], limit: u64) -> Result<Vec<Range<usize>>, Error> {
        let mut runs: Vec<Range<usize>> = Vec::new();
        let (mut begin, mut end, mut last) = (0, 0, 0);
        let gap = self.object.gap_bytes();
        let limit = limit.max(gap.saturating_mul(MOST_GAPS));
        for (place, chunk) in wanted.iter().enumerate() {
            let range = self.range_of(*chunk)?;
            match runs.last_mut() {
                Some(run)
                    if *chunk > last && range.start - end <= gap && range.end - begin <= limit =>
                {
                    run.end = place + 1;
                }
                _ => {
                    runs.push(place..place + 1);
                    begin = range.start;
                }
            }
            (end, last) = (range.end, *chunk);
        }
        Ok(runs)
    }

    /// Range of an uncompressed record that is contiguous in the file.
    /// Its chunk is read and checked.
    ///
    /// # Errors
    /// As [`ArrayRecordFile::read_chunk`].
    pub fn plain_range(
        &self,
        record: u64,
        scratch: &mut Scratch,
    ) -> Result<Option<Range<u64>>, Error> {
        let no_record = || Error::NoSuchRecord {
            path: self.path().to_owned(),
            index: record,
            num_records: self.num_records(),
        };
        let (chunk, place) = self.locate(record).ok_or_else(no_record)?;
        let begin = self.range_of(chunk)?.start;
        let records = self.read_chunk(chunk, scratch)?;
        let Some(bytes) = records.get(place) else { return Ok(None) };
        // The record is stored contiguously only if it is borrowed from the bytes that were read.
        let (values, bytes) = (bytes.as_ptr_range(), bytes.len() as u64);
        let raw = scratch.raw.as_ptr_range();
        if raw.start <= values.start && values.end <= raw.end {
            let start = begin + (values.start.addr() - raw.start.addr()) as u64;
            return Ok(Some(start..start + bytes));
        }
        Ok(None)
    }
}
