//! The four compression codecs of chunks.

use super::{Fault, varint};
use brotlic::decode::{BrotliDecoderOptions, DecoderInfo};
use std::fmt;

/// First byte of a chunk's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Codec {
    None,
    Brotli,
    Zstd,
    Snappy,
}

/// Buffers kept between chunks, so that reading a chunk allocates nothing.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Bytes of chunks as stored in the file.
    pub(super) raw: Vec<u8>,
    pub(super) decoder: Decoder,
}

/// The part of a [`Scratch`] that decoding needs.
#[derive(Default)]
pub(super) struct Decoder {
    pub(super) zstd: Zstd,
    /// Bytes of a chunk without block headers.
    pub(super) stripped: Vec<u8>,
    /// Concatenated records.
    pub(super) values: Vec<u8>,
    /// End of each record.
    pub(super) ends: Vec<usize>,
}

/// Larger buffers are freed after use.
const KEPT_BYTES: usize = 16 << 20;

impl Scratch {
    /// Frees buffers that an unusually large chunk needed.
    pub fn shrink(&mut self) {
        for buffer in [&mut self.raw, &mut self.decoder.stripped, &mut self.decoder.values] {
            if buffer.capacity() > KEPT_BYTES {
                *buffer = Vec::new();
            }
        }
        if self.decoder.ends.capacity() > KEPT_BYTES / size_of::<usize>() {
            self.decoder.ends = Vec::new();
        }
    }
}

impl fmt::Debug for Decoder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Decoder").finish_non_exhaustive()
    }
}

/// `len` bytes of `buffer` with unspecified content. Large buffers are allocated again, because
/// zeroed pages cost nothing until they are written.
pub(super) fn room(buffer: &mut Vec<u8>, len: usize) -> &mut [u8] {
    if buffer.len() < len {
        *buffer = vec![0; len];
    }
    buffer.get_mut(..len).unwrap_or_default()
}

impl Codec {
    pub(super) fn of(byte: u8) -> Result<Self, Fault> {
        match byte {
            0 => Ok(Self::None),
            b'b' => Ok(Self::Brotli),
            b'z' => Ok(Self::Zstd),
            b's' => Ok(Self::Snappy),
            _ => Err(Fault::Malformed("unknown compression")),
        }
    }

    pub(super) fn byte(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Brotli => b'b',
            Self::Zstd => b'z',
            Self::Snappy => b's',
        }
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::None => "uncompressed",
            Self::Brotli => "brotli",
            Self::Zstd => "zstd",
            Self::Snappy => "snappy",
        })
    }
}

/// The stated decompressed length of a compressed block, if any, and the rest of the block.
pub(super) fn stated_len(codec: Codec, block: &[u8]) -> Result<(u64, &[u8]), Fault> {
    if codec == Codec::None {
        return Ok((block.len() as u64, block));
    }
    varint::read(block).ok_or(Fault::Malformed("decompressed length is not a valid number"))
}

/// Decompresses all of `input` into exactly `output`.
pub(super) fn decompress(
    codec: Codec,
    input: &[u8],
    output: &mut [u8],
    zstd: &mut Zstd,
) -> Result<(), Fault> {
    let expected = output.len();
    match decompress_up_to(codec, input, output, zstd)? {
        found if found == expected => Ok(()),
        found => Err(Fault::Mismatch {
            what: "length of decompressed data",
            value: found as u64,
            expected: expected as u64,
        }),
    }
}

/// As [`decompress`], but `output` may be larger than needed; returns the decompressed bytes.
pub(super) fn decompress_up_to(
    codec: Codec,
    input: &[u8],
    output: &mut [u8],
    zstd: &mut Zstd,
) -> Result<usize, Fault> {
    let failed = |detail: String| Fault::Decompress { codec, detail };
    let expected = output.len();
    Ok(match codec {
        Codec::None if input.len() == expected => {
            output.copy_from_slice(input);
            expected
        }
        Codec::None => input.len(),
        Codec::Zstd => zstd
            .get(&failed)?
            .decompress_to_buffer(input, output)
            .map_err(|error| failed(error.to_string()))?,
        Codec::Snappy => {
            // The stream states its length again, and the decoder would trust it.
            let stated =
                snap::raw::decompress_len(input).map_err(|error| failed(error.to_string()))?;
            if stated <= expected {
                snap::raw::Decoder::new()
                    .decompress(input, output)
                    .map_err(|error| failed(error.to_string()))?
            } else {
                stated
            }
        }
        Codec::Brotli => {
            decompress_brotli(input, output).map_err(|detail| failed(detail.to_owned()))?
        }
    })
}

/// Windows above 16 MiB are announced by the first bits and need an explicitly configured decoder.
/// The one-shot call ignores bytes after the stream.
fn decompress_brotli(input: &[u8], output: &mut [u8]) -> Result<usize, &'static str> {
    const LARGE_WINDOW: u8 = 0x11;
    let is_large = input.first().is_some_and(|byte| byte & 0x7f == LARGE_WINDOW);
    let mut decoder = BrotliDecoderOptions::new()
        .large_window_size(is_large)
        .build()
        .map_err(|_refused| "no decoder")?;
    let result = decoder.decompress(input, output).map_err(|_damage| "damaged stream")?;
    match result.info {
        DecoderInfo::Finished if result.bytes_read == input.len() => Ok(result.bytes_written),
        DecoderInfo::Finished => Err("bytes after the stream"),
        _unfinished => Err("stream ends early, or is longer than stated"),
    }
}

/// A context that is created on first use.
#[derive(Default)]
pub(super) struct Zstd(Option<zstd::bulk::Decompressor<'static>>);

impl Zstd {
    fn get(
        &mut self,
        failed: &impl Fn(String) -> Fault,
    ) -> Result<&mut zstd::bulk::Decompressor<'static>, Fault> {
        if self.0.is_none() {
            self.0 =
                Some(zstd::bulk::Decompressor::new().map_err(|error| failed(error.to_string()))?);
        }
        self.0.as_mut().ok_or_else(|| failed("no context".to_owned()))
    }
}
