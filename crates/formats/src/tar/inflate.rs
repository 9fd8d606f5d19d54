//! Decompresses gzip archives, including concatenated gzip streams.
//!
//! Called before a walk of a `.tar.gz`. When an error is returned, all bytes that could be decompressed before the damage have been written.

use std::io::{ErrorKind, Read, Write};

use flate2::{Decompress, FlushDecompress, Status};

use super::error::TarError;

const CHUNK: usize = 1 << 16;
const WINDOW_BITS: u8 = 15;

/// Decompresses all gzip streams of `reader` into `writer` and returns the number of bytes written.
///
/// Zeros after a stream are ignored, as `gzip` does for tapes.
///
/// # Errors
///
/// Each error contains the number of bytes written to `writer`: bytes before the damage are usable.
pub fn inflate(reader: impl Read, writer: impl Write) -> Result<u64, TarError> {
    let mut streams = Streams { reader, writer, input: vec![0; CHUNK], start: 0, end: 0, output: vec![0; CHUNK], inflated: 0 };
    loop {
        let mut stream = Decompress::new_gzip(WINDOW_BITS);
        while streams.advance(&mut stream)? {}
        if !streams.find_next()? {
            return Ok(streams.inflated);
        }
    }
}

struct Streams<R, W> {
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
    fn advance(&mut self, stream: &mut Decompress) -> Result<bool, TarError> {
        self.fill()?;
        let (in_before, out_before) = (stream.total_in(), stream.total_out());
        let input = self.input.get(self.start..self.end).unwrap_or_default();
        let result = stream.decompress(input, &mut self.output, FlushDecompress::None);
        let consumed = usize::try_from(stream.total_in() - in_before).unwrap_or(0);
        let produced = usize::try_from(stream.total_out() - out_before).unwrap_or(0);
        self.start += consumed;
        // Includes the output of the call that detected the damage: a sample may end there.
        let bytes = self.output.get(..produced).unwrap_or_default();
        let inflated = self.inflated;
        self.writer.write_all(bytes).map_err(|source| TarError::WriteInflated { inflated, source })?;
        self.inflated += bytes.len() as u64;
        let inflated = self.inflated;
        match result {
            Ok(Status::StreamEnd) => Ok(false),
            Ok(_) if consumed == 0 && produced == 0 => Err(TarError::TruncatedGzip { inflated }),
            Ok(_) => Ok(true),
            Err(error) => Err(TarError::BadGzip { inflated, detail: error.to_string() }),
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
                    let inflated = self.inflated;
                    return Err(TarError::ReadGzip { inflated, source });
                }
            }
        }
        Ok(())
    }
}
