//! The index of Megatron-LM, `P.idx`, as `indexed_dataset.py` of Megatron-LM writes it.
//!
//! A header of 34 bytes, then for each sequence its length and its first byte, for each document
//! its first sequence, and for multimodal data the mode of each sequence. A sequence starts where
//! the previous one ends, or after a gap.

use super::Dtype;
use super::documents::{Documents, Spans};
use super::entries::{Entries, Pages, of_bytes};
use crate::limit::DecodeLimit;
use crate::token_error::Error;
use shardmill_storage::RangeRead;
use std::ops::Range;
use std::sync::Arc;

const MAGIC: &[u8; 9] = b"MMIDIDX\0\0";
const HEADER_BYTES: usize = 34;
/// Sequences that are read together in search of gaps.
const MOST_SEQUENCES: u64 = 1 << 18;
const FORMAT: &str = "Megatron index";
const OTHER_FILE: &str = "the index was cut, or is of another version; write or fetch it again";
const OTHER_TOKENS: &str =
    "the index is of another file, or the file was cut; write or fetch both again";

/// Those of `DType` of Megatron-LM that hold ids.
const CODES: [(u8, Dtype); 6] = [
    (1, Dtype::U8),
    (2, Dtype::I8),
    (3, Dtype::I16),
    (4, Dtype::I32),
    (5, Dtype::I64),
    (8, Dtype::U16),
];

/// What a row is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum MegatronRows {
    #[default]
    Documents,
    /// What `IndexedDataset` of Megatron delivers.
    Sequences,
}

/// The index of one file of tokens.
#[derive(Debug)]
pub struct MegatronIndex {
    object: Arc<dyn RangeRead>,
    pub(super) dtype: Dtype,
    rows: MegatronRows,
    sequences: u64,
    /// Number of documents.
    documents: u64,
    lengths: Entries<4>,
    starts: Entries<8>,
    firsts: Entries<8>,
    modes: Option<Entries<1>>,
    /// Size of the file of tokens.
    bin_bytes: u64,
    limit: DecodeLimit,
}

impl MegatronIndex {
    /// Opens the index `object` of a file of `bin_bytes`.
    ///
    /// # Errors
    /// For a header, a size or an end that is not that of such an index.
    pub fn open(
        object: Arc<dyn RangeRead>,
        bin_bytes: u64,
        rows: MegatronRows,
        limit: DecodeLimit,
    ) -> Result<Self, Error> {
        let size = object.size();
        let mut header = [0; HEADER_BYTES];
        let known = usize::try_from(size).unwrap_or(usize::MAX).min(HEADER_BYTES);
        object.read_at(0, header.get_mut(..known).unwrap_or_default())?;
        let wrong = |field, found: String, expected: String| {
            Err(Error::header((object.path(), FORMAT), field, found, expected, OTHER_FILE))
        };
        let (magic, rest) = header.split_at(MAGIC.len());
        if magic != MAGIC {
            return wrong("the start", text(magic), text(MAGIC));
        }
        if known < HEADER_BYTES {
            return wrong("the size", size.to_string(), format!("at least {HEADER_BYTES}"));
        }
        let number = |at: usize| {
            let bytes = rest.get(at..).and_then(|rest| rest.first_chunk().copied());
            u64::from_le_bytes(bytes.unwrap_or_default())
        };
        let (version, code) = (number(0), rest.get(8).copied().unwrap_or_default());
        let (sequences, entries) = (number(9), number(17));
        if version != 1 {
            return wrong("the version", version.to_string(), "1".to_owned());
        }
        let Some(dtype) = dtype_of(code) else {
            let kind = if matches!(code, 6 | 7) { " (floats)" } else { "" };
            return wrong("the dtype", format!("{code}{kind}"), "1 to 5 or 8".to_owned());
        };
        let sizes = || {
            let lists = sequences.checked_mul(12)?;
            let plain =
                entries.checked_mul(8)?.checked_add(lists)?.checked_add(HEADER_BYTES as u64)?;
            Some((plain, plain.checked_add(sequences)?))
        };
        let has_modes = match sizes() {
            Some((plain, _)) if plain == size => false,
            Some((_, with_modes)) if with_modes == size => true,
            other => {
                let expected = other.map_or_else(
                    || "less than 2^64".to_owned(),
                    |(plain, with_modes)| format!("{plain}, or {with_modes} with modes"),
                );
                let counts = format!("{expected} for {sequences} sequences and {entries} entries");
                return wrong("the size", size.to_string(), counts);
            }
        };
        let Some(documents) = entries.checked_sub(1) else {
            return wrong("the number of entries of documents", "0".into(), "at least 1".into());
        };
        let lengths = Entries { at: HEADER_BYTES as u64 };
        let starts = Entries { at: lengths.offset(sequences) };
        let firsts = Entries { at: starts.offset(sequences) };
        let modes = has_modes.then(|| Entries { at: firsts.offset(entries) });
        let index = Self {
            object,
            dtype,
            rows,
            sequences,
            documents,
            lengths,
            starts,
            firsts,
            modes,
            bin_bytes,
            limit,
        };
        index.check_ends()?;
        Ok(index)
    }

    #[must_use]
    pub(super) fn has_modes(&self) -> bool {
        self.modes.is_some()
    }

    pub(super) fn object(&self) -> &Arc<dyn RangeRead> {
        &self.object
    }

    /// Both ends of the list of documents, and the end of the last sequence.
    fn check_ends(&self) -> Result<(), Error> {
        let pages = &mut Pages::new(&*self.object);
        for (document, expected) in [(0, 0), (self.documents, self.sequences)] {
            let found = i64::from_le_bytes(self.firsts.get(document, pages)?);
            if i128::from(found) != i128::from(expected) {
                let field = "the first sequence of a document";
                let expected = format!("{expected}, as for the number of sequences");
                return Err(self.entry(self.firsts.offset(document), field, found, expected));
            }
        }
        if let Some(last) = self.sequences.checked_sub(1) {
            let start = i64::from_le_bytes(self.starts.get(last, pages)?);
            let tokens = i32::from_le_bytes(self.lengths.get(last, pages)?);
            let end = i128::from(start) + i128::from(tokens) * i128::from(self.dtype.width());
            if start < 0 || tokens < 0 || end > i128::from(self.bin_bytes) {
                let expected = format!("at most {}, the size of the tokens", self.bin_bytes);
                let (of, field) = ((self.object.path(), FORMAT), "the end of the last sequence");
                return Err(Error::header(of, field, end.to_string(), expected, OTHER_TOKENS));
            }
        }
        Ok(())
    }

    fn entry(
        &self,
        offset: u64,
        field: &'static str,
        found: impl Into<i64>,
        expected: String,
    ) -> Error {
        let (path, found) = (self.object.path().to_owned(), found.into().to_string().into());
        Error::Entry { path, offset, field, found, expected: expected.into() }
    }

    fn checked_first(&self, document: u64, found: i64, at_least: u64) -> Result<u64, Error> {
        let range = at_least..=self.sequences;
        u64::try_from(found).ok().filter(|first| range.contains(first)).ok_or_else(|| {
            let expected = format!("{at_least} to {}", self.sequences);
            let field = "the first sequence of a document";
            self.entry(self.firsts.offset(document), field, found, expected)
        })
    }

    /// The sequences of `range`, which start at byte `from` or later.
    fn sequences(&self, range: Range<u64>, ends: Option<Vec<usize>>) -> Result<Spans, Error> {
        let count = range.end - range.start;
        let bytes = count.saturating_mul(12);
        let place = || format!("sequence {}", range.start);
        self.limit.check(self.object.path(), bytes, "the index of its block has", place)?;
        let mut ranges = vec![self.lengths.range(range.clone()), self.starts.range(range.clone())];
        ranges.extend(self.modes.map(|modes| modes.range(range.clone())));
        // Where the next block starts.
        let has_next = range.end < self.sequences;
        ranges.extend(has_next.then(|| self.starts.range(range.end..range.end + 1)));
        let read = self.object.read_ranges(&ranges)?;
        let mut read = read.iter();
        let lengths = read.next().map(AsRef::as_ref).unwrap_or_default();
        let starts = read.next().map(AsRef::as_ref).unwrap_or_default();
        let modes = self
            .modes
            .and_then(|_| read.next())
            .map(|modes| modes.iter().map(|mode| mode.cast_signed()).collect::<Vec<_>>());
        let next = read.next().and_then(|next| next.first_chunk().copied());
        let limit = next.map_or(self.bin_bytes, |next| {
            u64::try_from(i64::from_le_bytes(next)).unwrap_or_default().min(self.bin_bytes)
        });
        let width = self.dtype.width();
        let len = usize::try_from(count).unwrap_or_default();
        let mut spans = Spans { ends, modes, ..Spans::with_capacity(len) };
        let mut end = 0;
        for ((tokens, start), sequence) in
            of_bytes(lengths).map(i32::from_le_bytes).zip(of_bytes(starts)).zip(range)
        {
            let start = i64::from_le_bytes(start);
            let Ok(tokens) = u32::try_from(tokens) else {
                let offset = self.lengths.offset(sequence);
                let field = "the length of a sequence";
                return Err(self.entry(offset, field, tokens, "at least 0".to_owned()));
            };
            let bytes = u64::from(tokens) * width;
            let found = u64::try_from(start).ok().filter(|start| {
                *start >= end
                    && start.checked_add(bytes).is_some_and(|end| end <= limit)
                    && start.is_multiple_of(width)
            });
            let Some(found) = found else {
                let expected = if i128::from(start) < i128::from(end) {
                    format!("at least {end}, where the previous one ends")
                } else if i128::from(start) + i128::from(bytes) <= i128::from(limit) {
                    format!("a multiple of {width}, the bytes of a token")
                } else {
                    let last = limit.saturating_sub(bytes);
                    format!("at most {last}, so that its {tokens} tokens end at {limit}")
                };
                let offset = self.starts.offset(sequence);
                return Err(self.entry(offset, "the start of a sequence", start, expected));
            };
            end = found + bytes;
            spans.starts.push(found);
            spans.tokens.push(tokens);
        }
        Ok(spans)
    }
}

impl Documents for MegatronIndex {
    fn gaps(&self) -> Result<Vec<Range<u64>>, Error> {
        let (mut gaps, mut first, mut end) = (Vec::new(), 0, 0);
        while first < self.sequences {
            let next = self.sequences.min(first + MOST_SEQUENCES);
            let spans = self.sequences(first..next, None)?;
            for (start, tokens) in spans.starts.iter().zip(&spans.tokens) {
                gaps.extend((end < *start).then_some(end..*start));
                end = start + u64::from(*tokens) * self.dtype.width();
            }
            first = next;
        }
        gaps.extend((end < self.bin_bytes).then_some(end..self.bin_bytes));
        Ok(gaps)
    }

    fn count(&self) -> u64 {
        match self.rows {
            MegatronRows::Documents => self.documents,
            MegatronRows::Sequences => self.sequences,
        }
    }

    fn start(&self, document: u64, pages: &mut Pages<'_>) -> Result<Option<u64>, Error> {
        let first = match self.rows {
            MegatronRows::Sequences => document,
            MegatronRows::Documents => u64::from_le_bytes(self.firsts.get(document, pages)?),
        };
        let (sequence, tokens) = match self.sequences.checked_sub(1) {
            None => return Ok((first == 0).then_some(0)),
            Some(last) if first == self.sequences => {
                (last, u32::from_le_bytes(self.lengths.get(last, pages)?))
            }
            Some(last) if first <= last => (first, 0),
            Some(_) => return Ok(None),
        };
        let start = u64::from_le_bytes(self.starts.get(sequence, pages)?);
        let end = start.checked_add(u64::from(tokens) * self.dtype.width());
        Ok(end.filter(|end| *end <= self.bin_bytes))
    }

    fn spans(&self, documents: Range<u64>) -> Result<Spans, Error> {
        if self.rows == MegatronRows::Sequences {
            return self.sequences(documents, None);
        }
        let entries = documents.start..documents.end + 1;
        let read = self.object.read_ranges(&[self.firsts.range(entries)])?;
        let firsts = of_bytes(read.first().map(AsRef::as_ref).unwrap_or_default());
        let mut first = None;
        let (mut last, mut ends) = (0, Vec::new());
        for (found, document) in firsts.map(i64::from_le_bytes).zip(documents.start..) {
            last = self.checked_first(document, found, last)?;
            match first {
                None => first = Some(last),
                Some(first) => ends.push(usize::try_from(last - first).unwrap_or(usize::MAX)),
            }
        }
        let is_plain = ends.iter().zip(1..).all(|(end, number)| *end == number);
        self.sequences(first.unwrap_or_default()..last, (!is_plain).then_some(ends))
    }
}

/// The header of an index; Megatron-LM has no uint32.
#[must_use]
pub fn megatron_header(dtype: Dtype, sequences: u64, documents: u64) -> Vec<u8> {
    let code = CODES.into_iter().find_map(|(code, known)| (known == dtype).then_some(code));
    let mut header = MAGIC.to_vec();
    header.extend(1_u64.to_le_bytes());
    header.push(code.unwrap_or_default());
    header.extend([sequences, documents + 1].iter().flat_map(|count| count.to_le_bytes()));
    header
}

fn dtype_of(code: u8) -> Option<Dtype> {
    CODES.into_iter().find_map(|(known, dtype)| (known == code).then_some(dtype))
}

fn text(bytes: &[u8]) -> String {
    format!("\"{}\"", bytes.escape_ascii())
}
