//! Decompresses archives and documents: gzip and zstd, including concatenated streams.
//!
//! Called before a walk of a `.tar.gz` or `.tar.zst`. When an error is returned, all bytes that
//! could be decompressed before the damage have been written.

use std::io::{ErrorKind, Read, Write};

use flate2::{Decompress, FlushDecompress, Status};
use zstd::stream::raw::{Decoder, Operation};

use super::Compression;
use super::error::TarError;

const CHUNK: usize = 1 << 16;
const WINDOW_BITS: u8 = 15;

/// Decompresses all streams of `reader` into `writer` and returns the number of bytes written.
///
/// Zeros after a stream are ignored, as `gzip` does for tapes.
///
/// # Errors
///
/// [`TarError::Compression`] for any compression except gzip and zstd. Each other error contains
/// the number of bytes written to `writer`: bytes before the damage are usable.
pub fn inflate(
    compression: Compression,
    reader: impl Read,
    writer: impl Write,
) -> Result<u64, TarError> {
    let (input, output) = (vec![0; CHUNK], vec![0; CHUNK]);
    let mut streams =
        Streams { compression, reader, writer, input, start: 0, end: 0, output, inflated: 0 };
    loop {
        let mut stream = Stream::new(compression)?;
        while streams.advance(&mut stream)? {}
        if !streams.find_next()? {
            return Ok(streams.inflated);
        }
    }
}

/// The decoder of one stream.
enum Stream {
    Gzip(Decompress),
    Zstd(Decoder<'static>),
}

/// What one call of a decoder did.
struct Step {
    consumed: usize,
    produced: usize,
    /// Whether the stream ended, or what is wrong with it.
    is_end: Result<bool, String>,
}

impl Stream {
    fn new(compression: Compression) -> Result<Self, TarError> {
        match compression {
            Compression::Gzip => Ok(Self::Gzip(Decompress::new_gzip(WINDOW_BITS))),
            Compression::Zstd => match Decoder::new() {
                Ok(decoder) => Ok(Self::Zstd(decoder)),
                Err(source) => Err(TarError::ReadStream { compression, inflated: 0, source }),
            },
            _ => Err(TarError::Compression { compression }),
        }
    }

    fn step(&mut self, input: &[u8], output: &mut [u8]) -> Step {
        match self {
            Self::Gzip(stream) => {
                let (consumed, produced) = (stream.total_in(), stream.total_out());
                let is_end = stream.decompress(input, output, FlushDecompress::None);
                Step {
                    consumed: usize::try_from(stream.total_in() - consumed).unwrap_or(0),
                    produced: usize::try_from(stream.total_out() - produced).unwrap_or(0),
                    is_end: is_end
                        .map(|status| status == Status::StreamEnd)
                        .map_err(|error| error.to_string()),
                }
            }
            Self::Zstd(stream) => match stream.run_on_buffers(input, output) {
                Ok(status) => Step {
                    consumed: status.bytes_read,
                    produced: status.bytes_written,
                    is_end: Ok(status.remaining == 0),
                },
                Err(error) => Step { consumed: 0, produced: 0, is_end: Err(error.to_string()) },
            },
        }
    }
}

struct Streams<R, W> {
    compression: Compression,
    reader: R,
    writer: W,
    input: Vec<u8>,
    /// The unused part of the buffer is `input[start..end]`.
    start: usize,
    end: usize,
    output: Vec<u8>,
    inflated: u64,
}

impl<R: Read, W: Write> Streams<R, W> {
    /// Decompresses one chunk; false at the end of a stream.
    fn advance(&mut self, stream: &mut Stream) -> Result<bool, TarError> {
        self.fill()?;
        let input = self.input.get(self.start..self.end).unwrap_or_default();
        let Step { consumed, produced, is_end } = stream.step(input, &mut self.output);
        self.start += consumed;
        // Includes the output of the call that detected the damage: a sample may end there.
        let bytes = self.output.get(..produced).unwrap_or_default();
        let inflated = self.inflated;
        self.writer
            .write_all(bytes)
            .map_err(|source| TarError::WriteInflated { inflated, source })?;
        self.inflated += bytes.len() as u64;
        let (compression, inflated) = (self.compression, self.inflated);
        match is_end {
            Ok(true) => Ok(false),
            Ok(false) if consumed == 0 && produced == 0 => {
                Err(TarError::TruncatedStream { compression, inflated })
            }
            Ok(false) => Ok(true),
            Err(detail) => Err(TarError::BadStream { compression, inflated, detail }),
        }
    }

    /// Whether another stream follows, possibly after zeros.
    fn find_next(&mut self) -> Result<bool, TarError> {
        loop {
            self.fill()?;
            let unused = self.input.get(self.start..self.end).unwrap_or_default();
            if unused.is_empty() {
                return Ok(false);
            }
            match unused.iter().position(|&byte| byte != 0) {
                Some(zeros) => {
                    self.start += zeros;
                    return Ok(true);
                }
                None => self.start = self.end,
            }
        }
    }

    /// Refills the buffer if it is empty; it then stays empty only at the end of the input.
    fn fill(&mut self) -> Result<(), TarError> {
        while self.start == self.end {
            match self.reader.read(&mut self.input) {
                Ok(0) => break,
                Ok(count) => (self.start, self.end) = (0, count),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => {
                    let (compression, inflated) = (self.compression, self.inflated);
                    return Err(TarError::ReadStream { compression, inflated, source });
                }
            }
        }
        Ok(())
    }
}
