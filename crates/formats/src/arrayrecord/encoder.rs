//! Compresses chunks, on any thread.

use super::{Codec, Compression, Fault, varint};
use brotlic::encode::BrotliEncoderOptions;
use brotlic::{BrotliEncoder, LargeWindowSize, Quality, WindowSize};
use std::fmt;

/// A compressor with its settings; each encoding thread keeps one.
pub(super) struct Compressor {
    compression: Compression,
    zstd: Option<zstd::bulk::Compressor<'static>>,
    snappy: snap::raw::Encoder,
}

impl fmt::Debug for Compressor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Compressor")
            .field("compression", &self.compression)
            .finish_non_exhaustive()
    }
}

impl Compression {
    pub(super) fn codec(self) -> Codec {
        match self {
            Self::None => Codec::None,
            Self::Brotli { .. } => Codec::Brotli,
            Self::Zstd { .. } => Codec::Zstd,
            Self::Snappy => Codec::Snappy,
        }
    }
}

impl Compressor {
    pub(super) fn new(compression: Compression) -> Result<Self, Fault> {
        let mut zstd = None;
        if let Compression::Zstd { level, window_log } = compression {
            let failed = |error: std::io::Error| Fault::Compress {
                codec: Codec::Zstd,
                detail: error.to_string(),
            };
            let mut compressor = zstd::bulk::Compressor::new(level).map_err(failed)?;
            compressor.window_log(u32::from(window_log)).map_err(failed)?;
            zstd = Some(compressor);
        }
        Ok(Self { compression, zstd, snappy: snap::raw::Encoder::new() })
    }

    pub(super) fn codec(&self) -> Codec {
        self.compression.codec()
    }

    /// Appends a block: its decompressed length, if the codec needs one, and the compressed bytes.
    pub(super) fn append(&mut self, payload: &[u8], out: &mut Vec<u8>) -> Result<(), Fault> {
        let codec = self.compression.codec();
        let failed = |detail: String| Fault::Compress { codec, detail };
        if codec != Codec::None {
            varint::write(payload.len() as u64, out);
        }
        let start = out.len();
        match self.compression {
            Compression::None => out.extend_from_slice(payload),
            Compression::Zstd { .. } => {
                let compressor =
                    self.zstd.as_mut().ok_or_else(|| failed("no context".to_owned()))?;
                out.resize(start + zstd::zstd_safe::compress_bound(payload.len()), 0);
                let room = out.get_mut(start..).unwrap_or_default();
                let len = compressor
                    .compress_to_buffer(payload, room)
                    .map_err(|error| failed(error.to_string()))?;
                out.truncate(start + len);
            }
            Compression::Snappy => {
                out.resize(start + snap::raw::max_compress_len(payload.len()), 0);
                let room = out.get_mut(start..).unwrap_or_default();
                // Above 4 GiB there is no bound, and the call fails.
                let len = self
                    .snappy
                    .compress(payload, room)
                    .map_err(|error| failed(error.to_string()))?;
                out.truncate(start + len);
            }
            Compression::Brotli { level, window_log } => {
                append_brotli(payload, level, window_log, out).map_err(failed)?;
            }
        }
        Ok(())
    }
}

/// A window larger than the data costs memory and only changes the first byte.
fn append_brotli(
    payload: &[u8],
    level: u8,
    window_log: Option<u8>,
    out: &mut Vec<u8>,
) -> Result<(), String> {
    let quality = Quality::new(level).map_err(|error| error.to_string())?;
    let window_log = window_log.unwrap_or(22);
    let encoder: BrotliEncoder = if window_log > 24 {
        let window = LargeWindowSize::new(window_log).map_err(|error| error.to_string())?;
        BrotliEncoderOptions::new().quality(quality).large_window_size(window).build()
    } else {
        let window = WindowSize::new(window_log).map_err(|error| error.to_string())?;
        BrotliEncoderOptions::new()
            .quality(quality)
            .window_size(window)
            .size_hint(u32::try_from(payload.len()).unwrap_or(u32::MAX))
            .build()
    }
    .map_err(|error| error.to_string())?;
    let mut sink = brotlic::CompressorWriter::with_encoder(encoder, out);
    std::io::Write::write_all(&mut sink, payload).map_err(|error| error.to_string())?;
    sink.into_inner().map_err(|error| error.to_string())?;
    Ok(())
}
