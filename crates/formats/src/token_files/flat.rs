//! Files of tokens without an index: those of llm.c and modded-nanogpt, which have a header, and
//! those of nanoGPT, which have none.
//!
//! Where documents begin or end follows from the tokens. [`FlatFile::row_lengths`] finds it once;
//! lengths that were kept elsewhere are compared with the tokens whenever these are read.

use super::Dtype;
use super::documents::{Documents, Spans};
use super::dtype::Ids;
use super::entries::Pages;
use crate::token_error::Error;
use shardmill_storage::RangeRead;
use std::ops::Range;
use std::sync::Arc;

const HEADER_BYTES: usize = 256 * 4;
/// How headers begin: a number, the version, and the type that they mean.
const HEADERS: [(u32, u32, Dtype); 2] = [(20_240_520, 1, Dtype::U16), (20_240_801, 7, Dtype::U32)];
const FORMAT: &str = "bin";
/// Tokens are searched in pieces of this size.
const PIECE_BYTES: u64 = 4 << 20;
const ODD_SIZE: &str = "the file was cut, or has another dtype; write or fetch it again";

const NUMPY: &[u8; 6] = b"\x93NUMPY";
const NUMPY_ARRAY: &str =
    "write the tokens alone: numpy.load(\"x.npy\").tofile(\"y.npy\"), with its CSV file";

/// What separates rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Separator {
    /// A row starts with this id.
    Bos(i64),
    /// A row ends with this id.
    Eos(i64),
    /// Rows have this many tokens.
    Every(u32),
}

impl Default for Separator {
    fn default() -> Self {
        Self::Every(1 << 16)
    }
}

/// The header of llm.c of a file with this number of tokens, which are uint16 or uint32.
#[must_use]
pub fn llm_c_header(dtype: Dtype, tokens: u32) -> Vec<u8> {
    let [first, second] = HEADERS;
    let (start, version, _) = if dtype == first.2 { first } else { second };
    let mut header: Vec<u8> =
        [start, version, tokens].into_iter().flat_map(u32::to_le_bytes).collect();
    header.resize(HEADER_BYTES, 0);
    header
}

/// A file of tokens, and its header if it has one.
#[derive(Debug, Clone)]
pub struct FlatFile {
    pub(super) object: Arc<dyn RangeRead>,
    pub(super) dtype: Dtype,
    first_byte: u64,
    pub(super) tokens: u64,
}

impl FlatFile {
    /// `dtype` is required for a file without a header.
    ///
    /// # Errors
    /// For a size or a type that is not that of the header.
    pub fn open(object: Arc<dyn RangeRead>, dtype: Option<Dtype>) -> Result<Self, Error> {
        let size = object.size();
        let wrong = |field, found: String, expected: String| {
            Err(Error::header((object.path(), FORMAT), field, found, expected, ODD_SIZE))
        };
        let mut head = [0; 12];
        let known = usize::try_from(size).unwrap_or(usize::MAX).min(head.len());
        object.read_at(0, head.get_mut(..known).unwrap_or_default())?;
        let number = |at: usize| {
            let bytes = head.get(at..).and_then(|head| head.first_chunk().copied());
            u32::from_le_bytes(bytes.unwrap_or_default())
        };
        let stored = match HEADERS.into_iter().find(|(start, _, _)| *start == number(0)) {
            Some(_) if size < HEADER_BYTES as u64 => {
                return wrong("the size", size.to_string(), format!("at least {HEADER_BYTES}"));
            }
            Some((_, version, dtype)) if version == number(4) => Some(dtype),
            Some((_, version, _)) => {
                let (found, expected) = (number(4).to_string(), version.to_string());
                return wrong("the version of the header", found, expected);
            }
            None => None,
        };
        if let Some((stored, given)) = stored.zip(dtype).filter(|(stored, given)| stored != given) {
            let expected = format!("{}, as given", given.name());
            return wrong("the dtype of the header", stored.name().to_owned(), expected);
        }
        let Some(dtype) = stored.or(dtype) else {
            return Err(Error::NoDtype { path: object.path().to_owned() });
        };
        let first_byte = if stored.is_some() { HEADER_BYTES as u64 } else { 0 };
        let (bytes, width) = (size - first_byte, dtype.width());
        let tokens = bytes / width;
        let expected = match stored {
            Some(_) => first_byte + u64::from(number(8)) * width,
            None => tokens * width,
        };
        if size != expected {
            let expected = match stored {
                Some(_) => format!("{expected} for the {} tokens of the header", number(8)),
                None => format!("a multiple of {width}"),
            };
            return wrong("the size", size.to_string(), expected);
        }
        Ok(Self { object, dtype, first_byte, tokens })
    }

    /// Whether the file begins as those of llm.c.
    #[must_use]
    pub fn has_header(object: &dyn RangeRead) -> bool {
        let mut head = [0; 4];
        object.read_at(0, &mut head).is_ok()
            && HEADERS.into_iter().any(|(start, _, _)| start == u32::from_le_bytes(head))
    }

    /// A file of tokens and nothing else, as NumPy writes it with `tofile`.
    ///
    /// # Errors
    /// For a file with the header of NumPy, one of an odd size, and without `dtype`.
    pub fn plain(object: Arc<dyn RangeRead>, dtype: Option<Dtype>) -> Result<Self, Error> {
        let size = object.size();
        let mut head = [0; NUMPY.len()];
        if size >= NUMPY.len() as u64 {
            object.read_at(0, &mut head)?;
        }
        let of = (object.path(), "npy");
        if &head == NUMPY {
            let (found, expected) =
                ("the header of NumPy", "tokens, as OLMo-core and dolma write them");
            return Err(Error::header(of, "the start", found, expected, NUMPY_ARRAY));
        }
        let Some(dtype) = dtype else {
            return Err(Error::NoDtype { path: object.path().to_owned() });
        };
        let width = dtype.width();
        if !size.is_multiple_of(width) {
            let expected = format!("a multiple of {width}");
            return Err(Error::header(of, "the size", size.to_string(), expected, ODD_SIZE));
        }
        Ok(Self { object, dtype, first_byte: 0, tokens: size / width })
    }

    #[must_use]
    pub fn object(&self) -> &Arc<dyn RangeRead> {
        &self.object
    }

    /// Checks that the stored type can hold the id of a separator.
    ///
    /// # Errors
    /// When it cannot: all rows would be one.
    pub(super) fn check_separator(&self, separator: Separator) -> Result<(), Error> {
        match separator {
            Separator::Bos(id) | Separator::Eos(id) if !self.dtype.range().contains(&id) => {
                let (path, dtype) = (self.object.path().to_owned(), self.dtype.name());
                Err(Error::Separator { path, dtype, id })
            }
            _ => Ok(()),
        }
    }

    /// Number of tokens of each row. Reads the whole file.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn row_lengths(&self, separator: Separator) -> Result<Vec<u32>, Error> {
        let (mark, is_first) = match separator {
            Separator::Bos(mark) => (mark, true),
            Separator::Eos(mark) => (mark, false),
            Separator::Every(each) => {
                let count = self.tokens.div_ceil(u64::from(each));
                let length = |row: u64| (self.tokens - row * u64::from(each)).min(each.into());
                return Ok((0..count).map(|row| small(length(row))).collect());
            }
        };
        let (mut lengths, mut start, mut at) = (Vec::new(), 0, self.first_byte);
        let mut first_token = 0;
        while at < self.object.size() {
            let piece = at..self.object.size().min(at + PIECE_BYTES);
            at = piece.end;
            for bytes in self.object.read_ranges(&[piece])? {
                let mut ids = Ids::with_capacity(self.dtype, bytes.len());
                ids.extend(self.dtype, &bytes);
                ids.each(mark, |place| {
                    let border = first_token + place as u64 + u64::from(!is_first);
                    if border > start {
                        lengths.push(small(border - start));
                        start = border;
                    }
                });
                first_token += bytes.len() as u64 / self.dtype.width();
            }
        }
        lengths.extend((start < self.tokens).then(|| small(self.tokens - start)));
        Ok(lengths)
    }
}

/// A row of more tokens cannot be read.
fn small(tokens: u64) -> u32 {
    u32::try_from(tokens).unwrap_or(u32::MAX)
}

/// Rows that follow one another from the first token to the last one.
#[derive(Debug)]
pub(super) struct FlatRows {
    first_byte: u64,
    width: u64,
    /// The token after the last one of each row.
    ends: Vec<u64>,
    separator: Option<Separator>,
}

impl FlatRows {
    /// `None` if the lengths are not those of all tokens of the file.
    pub(super) fn new(
        file: &FlatFile,
        lengths: &[u32],
        separator: Option<Separator>,
    ) -> Option<Self> {
        let mut end = 0;
        let next = |tokens: &u32| {
            end += u64::from(*tokens);
            end
        };
        let ends: Vec<u64> = lengths.iter().map(next).collect();
        let (first_byte, width) = (file.first_byte, file.dtype.width());
        (end == file.tokens).then_some(Self { first_byte, width, ends, separator })
    }

    fn first_token(&self, row: u64) -> u64 {
        let before = row.checked_sub(1).and_then(|row| usize::try_from(row).ok());
        before.and_then(|row| self.ends.get(row)).copied().unwrap_or_default()
    }
}

impl Documents for FlatRows {
    fn count(&self) -> u64 {
        self.ends.len() as u64
    }

    fn start(&self, document: u64, _pages: &mut Pages<'_>) -> Result<Option<u64>, Error> {
        Ok(Some(self.first_byte + self.first_token(document) * self.width))
    }

    fn spans(&self, documents: Range<u64>) -> Result<Spans, Error> {
        let mut spans = Spans::with_capacity(documents.clone().count());
        for row in documents {
            let (start, end) = (self.first_token(row), self.first_token(row + 1));
            spans.starts.push(self.first_byte + start * self.width);
            spans.tokens.push(small(end - start));
        }
        Ok(spans)
    }

    fn is_row(&self, row: u64, ids: &Ids, range: Range<usize>) -> bool {
        let inner = match self.separator {
            None | Some(Separator::Every(_)) => return true,
            Some(_) if range.is_empty() => return false,
            // The first row may begin without one, and the last row may end without one.
            Some(Separator::Bos(mark)) => {
                let first = range.start;
                (row == 0 || ids.at(first) == Some(mark)).then_some((mark, first + 1..range.end))
            }
            Some(Separator::Eos(mark)) => {
                let last = range.end - 1;
                let is_last = row + 1 == self.count();
                (is_last || ids.at(last) == Some(mark)).then_some((mark, range.start..last))
            }
        };
        inner.is_some_and(|(mark, inner)| !ids.has(mark, inner))
    }
}
