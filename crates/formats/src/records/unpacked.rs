//! Turns compressed files, and those in other encodings, into UTF-8 text
//! that can be read by offset.
//!
//! A stream is converted once, piece by piece, into an unnamed file on disk; its records are then
//! read as from a plain file. This happens before a file is opened. Memory holds one piece,
//! regardless of the decompressed size. The invariant: an incomplete stream is an error, and never
//! a shorter file.

use super::encoding::{Encoding, Undecodable, decoder};
use super::{Borders, Error, Start, check_start, read_start, start_of};
use crate::limit::DecodeLimit;
use crate::tar::{Compression, sniff_compression};
use flate2::bufread::MultiGzDecoder;
use shardmill_storage::{Error as StorageError, Identity, RangeRead, ScratchFile, SequentialRead};
use std::io::{self, BufReader, Read};
use std::sync::{Arc, Mutex, PoisonError};

const PIECE_BYTES: usize = 1 << 20;
const MAGIC_LEN: u64 = 16;

/// Files share scratch files of up to this size, because each scratch file keeps a descriptor open.
const SCRATCH_BYTES: u64 = 1 << 30;

/// Converts files into the directory for temporary files (`TMPDIR`); its space is freed on drop.
#[derive(Debug, Default)]
pub struct Unpacker {
    encoding: Encoding,
    limit: DecodeLimit,
    scratch: Mutex<Option<(Arc<ScratchFile>, u64)>>,
}

impl Unpacker {
    /// Of files in `encoding`; `limit` bounds the length of lines.
    #[must_use]
    pub fn new(encoding: Encoding, limit: DecodeLimit) -> Self {
        Self { encoding, limit, scratch: Mutex::default() }
    }

    /// One with a temporary file of its own.
    #[must_use]
    pub fn fresh(&self) -> Self {
        Self::new(self.encoding, self.limit)
    }

    /// Returns `object` itself if it is plain UTF-8, else its content as such.
    ///
    /// # Errors
    /// When the stream is damaged or ends early, when its text is not valid in its encoding, when a
    /// line is too long, and when the disk is full.
    pub fn unpack(&self, object: Arc<dyn RangeRead>) -> Result<Arc<dyn RangeRead>, Error> {
        let Some(mut stream) = self.stream(object.as_ref())? else { return Ok(object) };
        let scratch = self.scratch()?;
        let (mut pieces, mut size) = (Vec::new(), 0_u64);
        let mut piece = Vec::with_capacity(PIECE_BYTES);
        let mut lines = OpenLine::default();
        loop {
            piece.clear();
            let read = stream.by_ref().take(PIECE_BYTES as u64).read_to_end(&mut piece);
            read.map_err(|source| {
                let path = object.path().to_owned();
                match source.get_ref().and_then(|inner| inner.downcast_ref::<Undecodable>()) {
                    Some(Undecodable { encoding, offset }) => {
                        Error::Encoding { path, encoding: encoding.name(), offset: *offset }
                    }
                    None => Error::Unpack { path, unpacked: size + piece.len() as u64, source },
                }
            })?;
            if piece.is_empty() {
                break;
            }
            lines.push(&piece, object.path(), self.limit)?;
            pieces.push(scratch.append(&piece)?);
            size += piece.len() as u64;
        }
        drop(stream);
        if let Some((_, filled)) =
            self.scratch.lock().unwrap_or_else(PoisonError::into_inner).as_mut()
        {
            *filled += size;
        }
        Ok(Arc::new(Unpacked { object, scratch, pieces, size }))
    }

    /// The first `len` bytes of the content of a file. A stream that is damaged there yields the
    /// readable part; opening the file reports the error.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn start(&self, object: &dyn RangeRead, len: u64) -> Result<Start, Error> {
        let Some(stream) = self.stream(object)? else { return Ok(read_start(object, len)?) };
        let mut bytes = Vec::new();
        // One byte more tells whether the content ends there.
        let is_damaged = stream.take(len.saturating_add(1)).read_to_end(&mut bytes).is_err();
        let is_whole = is_damaged || bytes.len() as u64 <= len;
        bytes.truncate(usize::try_from(len).unwrap_or(usize::MAX));
        Ok(start_of(bytes, is_whole))
    }

    /// Rejects a file if one of its first records is too long, without loading it into memory.
    pub(crate) fn check_start(
        &self,
        object: &dyn RangeRead,
        borders: &mut dyn Borders,
        records: u64,
    ) -> Result<(), Error> {
        match self.stream(object)? {
            Some(mut stream) => check_start(object, &mut stream, borders, records, self.limit)?,
            None => {
                check_start(
                    object,
                    &mut SequentialRead::new(object),
                    borders,
                    records,
                    self.limit,
                )?;
            }
        }
        Ok(())
    }

    /// `None` for a file of plain UTF-8.
    fn stream<'a>(&self, object: &'a dyn RangeRead) -> Result<Option<Box<dyn Read + 'a>>, Error> {
        let path = || object.path().to_owned();
        let mut magic = vec![0; usize::try_from(MAGIC_LEN.min(object.size())).unwrap_or_default()];
        object.read_at(0, &mut magic)?;
        let reader = || BufReader::with_capacity(PIECE_BYTES, SequentialRead::new(object));
        let unpacked: Box<dyn Read + 'a> = match sniff_compression(&magic) {
            Compression::None if magic.len() < 4 && is_named_compressed(object.path()) => {
                return Err(Error::Unpack {
                    path: path(),
                    unpacked: 0,
                    source: io::ErrorKind::UnexpectedEof.into(),
                });
            }
            Compression::None if self.encoding == Encoding::Utf8 => return Ok(None),
            Compression::None => Box::new(reader()),
            Compression::Gzip => Box::new(MultiGzDecoder::new(reader())),
            Compression::Zstd => {
                let decoder = zstd::stream::read::Decoder::with_buffer(reader());
                Box::new(decoder.map_err(|source| Error::Unpack {
                    path: path(),
                    unpacked: 0,
                    source,
                })?)
            }
            compression => return Err(Error::Compression { path: path(), compression }),
        };
        Ok(Some(decoder(unpacked, self.encoding)))
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

/// The current line of a stream. A line that is too long is rejected before it fills the disk; the
/// reader bounds the elements of an array.
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
        Ok(limit
            .check(path, self.len, "a record of at least", || format!("line {}", self.line + 1))?)
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
        let short = || StorageError::ShortRead {
            path: self.path().to_owned(),
            offset,
            len,
            end: offset.saturating_add(len as u64),
        };
        if offset.checked_add(len as u64).is_none_or(|end| end > self.size) {
            return Err(short());
        }
        let (mut position, mut rest) =
            (usize::try_from(offset).map_err(|_beyond| short())?, buffer);
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
        for packed in [
            gzip(&plain),
            two_streams,
            zstd::encode_all(plain.as_slice(), 3).unwrap(),
            plain.clone(),
        ] {
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
                assert!(
                    unpacked.is_err_and(|error| matches!(error, Error::Unpack { .. })),
                    "{len}"
                );
            }
        }
    }

    #[test]
    fn start_is_that_of_the_content_and_says_whether_it_is_all() {
        let plain = [b"\xef\xbb\xbf".as_slice(), &b"{\"x\": 1}\n".repeat(40)].concat();
        let packed = gzip(&plain);
        for (len, is_whole) in
            [(30, false), (plain.len() as u64 - 1, false), (plain.len() as u64, true), (1000, true)]
        {
            let start = |name: &str, bytes: &[u8]| {
                Unpacker::default().start(memory(name, bytes).as_ref(), len).unwrap()
            };
            let (found, expected) = (start("a.jsonl.gz", &packed), start("a.jsonl", &plain));
            assert_eq!(
                (found.bytes, found.mark_len, found.is_whole),
                (expected.bytes, expected.mark_len, is_whole)
            );
        }
    }
}
