//! Decompresses the chunks of footers and streams, within limits.

use bytes::Bytes;
use flate2::{Decompress, FlushDecompress, Status};
use zstd::bulk::Decompressor;

/// The compression of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Codec {
    Plain,
    Zlib,
    Snappy,
    Lz4,
    Zstd,
}

/// The length of a chunk has 23 bits.
const MAX_CHUNK_BYTES: u64 = 1 << 23;

/// The default of the specification.
const DEFAULT_CHUNK_BYTES: u64 = 256 << 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Compression {
    pub(super) codec: Codec,
    /// Maximal size of a decompressed chunk.
    chunk_bytes: usize,
}

impl Compression {
    /// From the postscript; the error describes what is wrong.
    pub(super) fn new(kind: u64, chunk_bytes: Option<u64>) -> Result<Self, String> {
        let codec = match kind {
            0 => Codec::Plain,
            1 => Codec::Zlib,
            2 => Codec::Snappy,
            4 => Codec::Lz4,
            5 => Codec::Zstd,
            3 => return Err("LZO compression".to_owned()),
            other => return Err(format!("compression {other}")),
        };
        let chunk_bytes = chunk_bytes.unwrap_or(DEFAULT_CHUNK_BYTES);
        if codec != Codec::Plain && chunk_bytes > MAX_CHUNK_BYTES {
            return Err(format!("chunks of {chunk_bytes} bytes"));
        }
        Ok(Self {
            codec,
            chunk_bytes: usize::try_from(chunk_bytes.min(MAX_CHUNK_BYTES)).unwrap_or_default(),
        })
    }

    /// The concatenated chunks of a stream. More than `max_bytes` is an error, as is damage.
    pub(super) fn unpack(self, packed: Bytes, max_bytes: usize) -> Result<Bytes, Fault> {
        if self.codec == Codec::Plain {
            return Ok(packed);
        }
        let mut unpacker = Unpacker::new(self)?;
        let mut unpacked = Vec::with_capacity(packed.len().saturating_mul(2).min(max_bytes));
        let mut rest = packed.as_ref();
        while !rest.is_empty() {
            let cut = || "a compressed chunk is truncated".to_owned();
            let (header, behind) = rest.split_at_checked(3).ok_or_else(cut)?;
            let header =
                header.iter().rev().fold(0usize, |header, byte| header << 8 | usize::from(*byte));
            let (chunk, behind) = behind.split_at_checked(header >> 1).ok_or_else(cut)?;
            if header & 1 == 1 {
                unpacked.extend_from_slice(chunk);
            } else {
                unpacker.unpack(chunk, &mut unpacked)?;
            }
            if unpacked.len() > max_bytes {
                return Err(Fault::TooLong { bytes: unpacked.len() });
            }
            rest = behind;
        }
        Ok(Bytes::from(unpacked))
    }
}

/// Why a stream cannot be decompressed.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fault {
    #[error("{0}")]
    Damage(String),
    /// It is longer than allowed: it has at least this many bytes.
    #[error("a stream of {bytes} bytes or more")]
    TooLong { bytes: usize },
}

impl From<String> for Fault {
    fn from(reason: String) -> Self {
        Self::Damage(reason)
    }
}

/// State that is expensive to set up for each chunk.
struct Unpacker {
    compression: Compression,
    zlib: Decompress,
    zstd: Option<Decompressor<'static>>,
}

impl Unpacker {
    fn new(compression: Compression) -> Result<Self, String> {
        let zstd = match compression.codec {
            Codec::Zstd => Some(Decompressor::new().map_err(|error| error.to_string())?),
            _ => None,
        };
        Ok(Self { compression, zlib: Decompress::new(false), zstd })
    }

    fn unpack(&mut self, chunk: &[u8], unpacked: &mut Vec<u8>) -> Result<(), String> {
        let (start, limit) = (unpacked.len(), self.compression.chunk_bytes);
        if self.compression.codec == Codec::Zlib {
            self.zlib.reset(false);
            unpacked.reserve(limit);
            // The reserved capacity may exceed a chunk; the limit is checked below.
            let status = self
                .zlib
                .decompress_vec(chunk, unpacked, FlushDecompress::Finish)
                .map_err(|error| error.to_string())?;
            let is_whole = status == Status::StreamEnd && unpacked.len() - start <= limit;
            return if is_whole {
                Ok(())
            } else {
                Err("a compressed chunk is too large or truncated".to_owned())
            };
        }
        unpacked.resize(start + limit, 0);
        let room = unpacked.get_mut(start..).unwrap_or_default();
        let len = match self.compression.codec {
            Codec::Snappy => {
                let len = snap::raw::decompress_len(chunk).map_err(|error| error.to_string())?;
                let room = room.get_mut(..len).ok_or("a compressed chunk is too large")?;
                snap::raw::Decoder::new()
                    .decompress(chunk, room)
                    .map_err(|error| error.to_string())?
            }
            Codec::Lz4 => {
                lz4_flex::block::decompress_into(chunk, room).map_err(|error| error.to_string())?
            }
            _ => {
                let zstd = self.zstd.as_mut().ok_or("no decoder")?;
                zstd.decompress_to_buffer(chunk, room).map_err(|error| error.to_string())?
            }
        };
        unpacked.truncate(start + len);
        Ok(())
    }
}
