//! Compression of whole shards.

use super::Error;
use crate::limit::DecodeLimit;
use std::io::{self, Read, Write};

/// A family and its level, as in `zstd:7`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compression {
    family: Family,
    level: u32,
    /// The name as given, which is written to files.
    name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Brotli,
    Bzip2,
    Gzip,
    Snappy,
    Zstd,
}

/// Extension, family, its levels and the default level.
const FAMILIES: [(&str, Family, std::ops::RangeInclusive<u32>, u32); 5] = [
    ("br", Family::Brotli, 0..=11, 11),
    ("bz2", Family::Bzip2, 1..=9, 9),
    ("gz", Family::Gzip, 0..=9, 9),
    ("snappy", Family::Snappy, 0..=0, 0),
    ("zstd", Family::Zstd, 1..=22, 3),
];

/// Bound on the ratio of raw snappy: a copy of 64 bytes takes three bytes.
const SNAPPY_RATIO: u64 = 32;

impl Compression {
    /// # Errors
    /// [`Error::Option`] for a family or a level that does not exist.
    pub fn parse(name: &str) -> Result<Self, Error> {
        let refused =
            |reason| Error::Option { option: "compression", value: name.to_owned(), reason };
        let (family, level) =
            name.split_once(':').map_or((name, None), |(family, level)| (family, Some(level)));
        let (_, family, levels, default) = FAMILIES
            .iter()
            .find(|(own, ..)| *own == family)
            .ok_or_else(|| refused("the families are br, bz2, gz, snappy and zstd"))?;
        let level = match level {
            None => *default,
            Some(_) if *family == Family::Snappy => return Err(refused("snappy has no levels")),
            Some(level) => level
                .parse()
                .ok()
                .filter(|level| levels.contains(level))
                .ok_or_else(|| refused("the level does not exist"))?,
        };
        Ok(Self { family: *family, level, name: name.to_owned() })
    }

    /// From the name of a file.
    #[must_use]
    pub fn of_path(path: &str) -> Option<Self> {
        let (rest, extension) = path.rsplit_once('.')?;
        let is_shard = rest.to_ascii_lowercase().ends_with(".mds");
        is_shard.then(|| Self::parse(&extension.to_ascii_lowercase()).ok()).flatten()
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The extension of a compressed shard's name.
    #[must_use]
    pub fn extension(&self) -> &'static str {
        FAMILIES
            .iter()
            .find(|(_, family, ..)| *family == self.family)
            .map_or("", |(extension, ..)| extension)
    }

    /// # Errors
    /// When the library fails.
    pub fn compress(&self, bytes: &[u8]) -> io::Result<Vec<u8>> {
        match self.family {
            Family::Brotli => {
                let quality = u8::try_from(self.level)
                    .ok()
                    .and_then(|level| brotlic::Quality::new(level).ok())
                    .unwrap_or_default();
                let encoder = brotlic::BrotliEncoderOptions::new()
                    .quality(quality)
                    .build()
                    .map_err(io::Error::other)?;
                let mut writer = brotlic::CompressorWriter::with_encoder(encoder, Vec::new());
                writer.write_all(bytes)?;
                writer.into_inner().map_err(|error| io::Error::other(error.to_string()))
            }
            Family::Bzip2 => {
                let mut writer =
                    bzip2::write::BzEncoder::new(Vec::new(), bzip2::Compression::new(self.level));
                writer.write_all(bytes)?;
                writer.finish()
            }
            Family::Gzip => {
                // No time stamp, so that equal rows produce equal files.
                let mut writer =
                    flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::new(self.level));
                writer.write_all(bytes)?;
                writer.finish()
            }
            Family::Snappy => {
                snap::raw::Encoder::new().compress_vec(bytes).map_err(io::Error::other)
            }
            Family::Zstd => zstd::bulk::compress(bytes, i32::try_from(self.level).unwrap_or(3)),
        }
    }

    /// Decompresses `from` to its end, or until `wanted` is satisfied: it is called with the bytes
    /// so far and returns the total number of bytes, as far as it is known.
    pub(super) fn decompress(
        &self,
        from: &mut dyn Read,
        limit: DecodeLimit,
        wanted: &mut dyn FnMut(&[u8]) -> io::Result<u64>,
    ) -> io::Result<Vec<u8>> {
        match self.family {
            Family::Brotli => {
                read_wanted(&mut brotlic::DecompressorReader::new(io::BufReader::new(from)), wanted)
            }
            Family::Bzip2 => read_wanted(&mut bzip2::read::MultiBzDecoder::new(from), wanted),
            Family::Gzip => read_wanted(&mut flate2::read::MultiGzDecoder::new(from), wanted),
            Family::Zstd => read_wanted(&mut zstd::stream::read::Decoder::new(from)?, wanted),
            Family::Snappy => {
                let mut compressed = Vec::new();
                from.read_to_end(&mut compressed)?;
                let len = snap::raw::decompress_len(&compressed).map_err(io::Error::other)?;
                if len as u64 > limit.bytes() {
                    return Err(io::Error::other(format!(
                        "it states {len} bytes, max_decoded_bytes is {}",
                        limit.bytes()
                    )));
                }
                if len as u64 > (compressed.len() as u64).saturating_mul(SNAPPY_RATIO) {
                    return Err(io::Error::other("it states more bytes than it can hold"));
                }
                let bytes = snap::raw::Decoder::new()
                    .decompress_vec(&compressed)
                    .map_err(io::Error::other)?;
                wanted(&bytes)?;
                Ok(bytes)
            }
        }
    }
}

/// Requests one byte more than wanted, to detect a longer stream.
fn read_wanted(
    from: &mut dyn Read,
    wanted: &mut dyn FnMut(&[u8]) -> io::Result<u64>,
) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        let target = wanted(&bytes)?.saturating_add(1);
        let missing = target.saturating_sub(bytes.len() as u64);
        if missing == 0 {
            return Ok(bytes);
        }
        // The size stated by a damaged file is only trusted step by step.
        let step = missing.min((bytes.len() as u64).max(64 << 10));
        if from.take(step).read_to_end(&mut bytes)? == 0 {
            return Ok(bytes);
        }
    }
}
