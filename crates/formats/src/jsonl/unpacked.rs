//! Decompresses files of lines, so that their lines can be read by offset.
//!
//! A stream is decompressed once, piece by piece, into an unnamed file on disk; its lines are then read as from a plain file. This happens before a
//! file is opened. Memory holds one piece, regardless of the decompressed size. The invariant: an incomplete stream is an error, and never a shorter
//! file.

use super::Error;
use super::borders::LineBorders;
use crate::limit::DecodeLimit;
use crate::records::{Start, check_start, start_of};
use crate::tar::{Compression, sniff_compression};
use flate2::bufread::MultiGzDecoder;
use shardmill_storage::{Error as StorageError, Identity, RangeRead, ScratchFile, SequentialRead};
use std::io::{self, BufReader, Read};
use std::sync::{Arc, Mutex, PoisonError};

const PIECE_BYTES: usize = 1 << 20;
const MAGIC_LEN: u64 = 16;

/// Files share scratch files of up to this size, because each scratch file keeps a descriptor open.
const SCRATCH_BYTES: u64 = 1 << 30;

/// Decompresses files into the directory for temporary files (`TMPDIR`); its space is freed on drop.
#[derive(Debug, Default)]
pub struct Unpacker {
    limit: DecodeLimit,
    scratch: Mutex<Option<(Arc<ScratchFile>, u64)>>,
}

impl Unpacker {
    /// `limit` bounds the length of lines.
    #[must_use]
    pub fn new(limit: DecodeLimit) -> Self {
        Self { limit, scratch: Mutex::default() }
    }

    /// Returns `object` itself if it is not compressed, else its decompressed content.
    ///
    /// # Errors
    /// When the stream is damaged or ends early, when a line is too long, and when the disk is full.
    pub fn unpack(&self, object: Arc<dyn RangeRead>) -> Result<Arc<dyn RangeRead>, Error> {
        let Some(mut stream) = stream(object.as_ref())? else { return Ok(object) };
        let scratch = self.scratch()?;
        let (mut pieces, mut size) = (Vec::new(), 0_u64);
        let mut piece = Vec::with_capacity(PIECE_BYTES);
        let mut lines = OpenLine::default();
        loop {
            piece.clear();
            let read = stream.by_ref().take(PIECE_BYTES as u64).read_to_end(&mut piece);
            read.map_err(|source| Error::Unpack { path: object.path().to_owned(), unpacked: size + piece.len() as u64, source })?;
            if piece.is_empty() {
                break;
            }
            lines.push(&piece, object.path(), self.limit)?;
            pieces.push(scratch.append(&piece)?);
            size += piece.len() as u64;
        }
        drop(stream);
        if let Some((_, filled)) = self.scratch.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            *filled += size;
        }
        Ok(Arc::new(Unpacked { object, scratch, pieces, size }))
    }

    fn scratch(&self) -> Result<Arc<ScratchFile>, Error> {
        let mut current = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((scratch, _)) = current.as_ref().filter(|(_, filled)| *filled < SCRATCH_BYTES) {
            return Ok(Arc::clone(scratch));
        }
        let made = Arc::new(ScratchFile::create_in(&std::env::temp_dir())?);
        *current = Some((Arc::clone(&made), 0));
        Ok(made)
    }
}

/// The current line of a stream. A line that is too long is rejected before it fills the disk; the reader bounds the elements of an array.
#[derive(Default)]
struct OpenLine {
    line: u64,
    len: u64,
    is_array: Option<bool>,
}

impl OpenLine {
    fn push(&mut self, piece: &[u8], path: &str, limit: DecodeLimit) -> Result<(), Error> {
        let first = piece.iter().find(|byte| !byte.is_ascii_whitespace());
        self.is_array = self.is_array.or(first.map(|byte| *byte == b'['));
        match memchr::memrchr(b'\n', piece) {
            Some(last) => {
                self.line += memchr::memchr_iter(b'\n', piece).count() as u64;
                self.len = (piece.len() - last - 1) as u64;
            }
            None => self.len += piece.len() as u64,
        }
        if self.is_array == Some(true) {
            return Ok(());
        }
        Ok(limit.check(path, self.len, "a record of at least", || format!("line {}", self.line + 1))?)
    }
}

/// Rejects a file whose first line is too long, without loading it into memory.
pub(super) fn check_first_line(object: &dyn RangeRead, limit: DecodeLimit) -> Result<(), Error> {
    let mut borders = LineBorders::new(0);
    match stream(object)? {
        Some(mut stream) => check_start(object, &mut stream, &mut borders, 1, limit)?,
        None => check_start(object, &mut SequentialRead::new(object), &mut borders, 1, limit)?,
    }
    Ok(())
}

/// The first `len` bytes of a file, decompressed if necessary. A truncated stream yields the readable part; opening the file reports the error.
pub(super) fn start(object: &dyn RangeRead, len: u64) -> Result<Start, Error> {
    let Some(stream) = stream(object)? else { return Ok(crate::records::read_start(object, len)?) };
    let mut bytes = Vec::new();
    // One byte more tells whether the content ends there.
    let is_damaged = stream.take(len.saturating_add(1)).read_to_end(&mut bytes).is_err();
    let is_whole = is_damaged || bytes.len() as u64 <= len;
    bytes.truncate(usize::try_from(len).unwrap_or(usize::MAX));
    Ok(start_of(bytes, is_whole))
}

/// `None` for a file that is not compressed.
fn stream(object: &dyn RangeRead) -> Result<Option<Box<dyn Read + '_>>, Error> {
    let path = || object.path().to_owned();
    let mut magic = vec![0; usize::try_from(MAGIC_LEN.min(object.size())).unwrap_or_default()];
    object.read_at(0, &mut magic)?;
    let reader = BufReader::with_capacity(PIECE_BYTES, SequentialRead::new(object));
    match sniff_compression(&magic) {
        Compression::None if magic.len() < 4 && is_named_compressed(object.path()) => {
            Err(Error::Unpack { path: path(), unpacked: 0, source: io::ErrorKind::UnexpectedEof.into() })
        }
        Compression::None => Ok(None),
        Compression::Gzip => Ok(Some(Box::new(MultiGzDecoder::new(reader)))),
        Compression::Zstd => {
            let decoder = zstd::stream::read::Decoder::with_buffer(reader);
            Ok(Some(Box::new(decoder.map_err(|source| Error::Unpack { path: path(), unpacked: 0, source })?)))
        }
        compression => Err(Error::Compression { path: path(), compression }),
    }
}

fn is_named_compressed(path: &str) -> bool {
    let name = path.to_ascii_lowercase();
    name.ends_with(".gz") || name.ends_with(".zst")
}

/// The decompressed content of a stream.
#[derive(Debug)]
struct Unpacked {
    object: Arc<dyn RangeRead>,
    scratch: Arc<ScratchFile>,
    /// Offset of each piece in the scratch file; all but the last have `PIECE_BYTES`.
    pieces: Vec<u64>,
    size: u64,
}

impl RangeRead for Unpacked {
    fn path(&self) -> &str {
        self.object.path()
    }

    fn identity(&self) -> Identity {
        Identity { size: self.size, modified_ns: self.object.identity().modified_ns }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> shardmill_storage::Result<()> {
        let len = buffer.len();
        let short = || StorageError::ShortRead { path: self.path().to_owned(), offset, len, end: offset.saturating_add(len as u64) };
        if offset.checked_add(len as u64).is_none_or(|end| end > self.size) {
            return Err(short());
        }
        let (mut position, mut rest) = (usize::try_from(offset).map_err(|_beyond| short())?, buffer);
        while !rest.is_empty() {
            let (piece, within) = (position / PIECE_BYTES, position % PIECE_BYTES);
            let place = self.pieces.get(piece).ok_or_else(short)?;
            let (now, later) = rest.split_at_mut((PIECE_BYTES - within).min(rest.len()));
            self.scratch.read_at(place + within as u64, now)?;
            position += now.len();
            rest = later;
        }
        Ok(())
    }

    fn is_unchanged(&self) -> bool {
        self.object.is_unchanged()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::memory::memory;
    use std::io::Write;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn content(object: &dyn RangeRead) -> Vec<u8> {
        let mut bytes = vec![0; usize::try_from(object.size()).unwrap()];
        object.read_at(0, &mut bytes).unwrap();
        bytes
    }

    fn lines() -> Vec<u8> {
        (0..300_000).flat_map(|number| format!("{{\"x\": {number}}}\n").into_bytes()).collect()
    }

    #[test]
    fn streams_become_what_was_compressed_and_can_be_read_at_any_offset() {
        let plain = lines();
        let two_streams = [gzip(&plain[..1000]), gzip(&plain[1000..])].concat();
        let unpacker = Unpacker::default();
        for packed in [gzip(&plain), two_streams, zstd::encode_all(plain.as_slice(), 3).unwrap(), plain.clone()] {
            let unpacked = unpacker.unpack(memory("a.jsonl.gz", &packed)).unwrap();
            assert!(content(unpacked.as_ref()) == plain);
            let mut across = vec![0; 5000];
            unpacked.read_at(PIECE_BYTES as u64 - 2500, &mut across).unwrap();
            assert!(across == plain[PIECE_BYTES - 2500..PIECE_BYTES + 2500]);
            assert!(unpacked.read_at(plain.len() as u64 - 1, &mut [0; 2]).is_err());
        }
    }

    #[test]
    fn stream_cut_anywhere_is_an_error() {
        let plain = b"{\"x\": 1}\n".repeat(40);
        for packed in [gzip(&plain), zstd::encode_all(plain.as_slice(), 3).unwrap()] {
            for len in 0..packed.len() {
                let unpacked = Unpacker::default().unpack(memory("a.jsonl.gz", &packed[..len]));
                assert!(unpacked.is_err_and(|error| matches!(error, Error::Unpack { .. })), "{len}");
            }
        }
    }

    #[test]
    fn start_is_that_of_the_content_and_says_whether_it_is_all() {
        let plain = [b"\xef\xbb\xbf".as_slice(), &b"{\"x\": 1}\n".repeat(40)].concat();
        let packed = gzip(&plain);
        for (len, is_whole) in [(30, false), (plain.len() as u64 - 1, false), (plain.len() as u64, true), (1000, true)] {
            let found = start(memory("a.jsonl.gz", &packed).as_ref(), len).unwrap();
            let expected = start(memory("a.jsonl", &plain).as_ref(), len).unwrap();
            assert_eq!((found.bytes, found.mark_len, found.is_whole), (expected.bytes, expected.mark_len, is_whole));
        }
    }
}
