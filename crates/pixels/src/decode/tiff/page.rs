//! What the tags of a page say about its chunks and samples.
//!
//! Combinations are those of Pillow's table; others are refused by name. Invariant: sides and chunk
//! sides are positive, and products fit.

use shardmill_images::{ImageFormat, ImageSize, PageTags};

use crate::decode::palette::{Palette, spread};
use crate::decode::raster::Layout;
use crate::error::{Error, Result};

const TIFF: ImageFormat = ImageFormat::Tiff;

/// How chunks are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compression {
    None,
    Fax4,
    Lzw,
    Deflate,
    PackBits,
    Zstandard,
    Jpeg,
}

/// What samples are, and how they become pixels.
#[derive(Debug, Clone)]
pub(super) struct Meaning {
    pub(super) layout: Layout,
    /// Of one sample of up to eight bits.
    pub(super) palette: Option<Box<Palette>>,
    pub(super) bits: u8,
    /// Samples of a stored pixel.
    pub(super) samples: usize,
    /// Of a sample of sixteen bits.
    pub(super) high_byte: usize,
    /// Colors are multiplied by alpha.
    pub(super) is_premultiplied: bool,
    pub(super) is_inverted: bool,
}

/// A page to decode.
#[derive(Debug, Clone)]
pub(super) struct Page {
    pub(super) size: ImageSize,
    pub(super) meaning: Meaning,
    pub(super) compression: Compression,
    pub(super) photometric: u64,
    pub(super) is_planar: bool,
    pub(super) is_tiled: bool,
    pub(super) is_little_endian: bool,
    pub(super) has_predictor: bool,
    pub(super) reverses_bits: bool,
    pub(super) chunk_width: usize,
    pub(super) chunk_height: usize,
    pub(super) chunks_across: usize,
    pub(super) chunks_down: usize,
    pub(super) offsets: Vec<u64>,
    byte_counts: Vec<u64>,
}

impl Page {
    pub(super) fn new(tags: &PageTags<'_>, keeps_alpha: bool) -> Result<Self> {
        let side = |tag: u16| {
            tags.number(tag).and_then(|side| u32::try_from(side).ok()).filter(|side| *side > 0)
        };
        let missing = |what: &str| Error::damaged(TIFF, format!("no {what}"));
        let size = ImageSize {
            width: side(256).ok_or_else(|| missing("width"))?,
            height: side(257).ok_or_else(|| missing("height"))?,
        };
        let compression = match tags.number(259).unwrap_or(1) {
            1 => Compression::None,
            4 => Compression::Fax4,
            5 => Compression::Lzw,
            7 => Compression::Jpeg,
            8 | 32_946 => Compression::Deflate,
            32_773 => Compression::PackBits,
            50_000 => Compression::Zstandard,
            6 => return Err(Error::unsupported(TIFF, "old-style JPEG")),
            2 | 3 | 32_771 => return Err(Error::unsupported(TIFF, "CCITT group 3")),
            other => return Err(Error::unsupported(TIFF, format!("compression {other}"))),
        };
        let photometric = tags.number(262).unwrap_or(0);
        let is_planar = tags.number(284) == Some(2);
        let meaning = Meaning::new(tags, photometric, compression, is_planar, keeps_alpha)?;
        if compression == Compression::Fax4 && (meaning.bits, meaning.samples) != (1, 1) {
            return Err(Error::damaged(
                TIFF,
                format!("CCITT group 4 with {} samples of {} bits", meaning.samples, meaning.bits),
            ));
        }
        let is_tiled = tags.number(324).is_some() && tags.number(273).is_none();
        let (chunk_width, chunk_height) = if is_tiled {
            (
                side(322).ok_or_else(|| missing("tile width"))?,
                side(323).ok_or_else(|| missing("tile height"))?,
            )
        } else {
            (size.width, side(278).unwrap_or(size.height).min(size.height))
        };
        if chunk_width > 65_535 || chunk_height > 65_535 {
            return Err(Error::limit(TIFF, "tile side"));
        }
        let (offsets, counts) = if is_tiled { (324, 325) } else { (273, 279) };
        let predictor = tags.number(317).unwrap_or(1);
        let has_predictor = predictor != 1
            && matches!(
                compression,
                Compression::Lzw | Compression::Deflate | Compression::Zstandard
            );
        if has_predictor && (predictor != 2 || meaning.bits < 8) {
            return Err(Error::unsupported(
                TIFF,
                format!("predictor {predictor} of {} bits", meaning.bits),
            ));
        }
        Ok(Self {
            size,
            meaning,
            compression,
            photometric,
            is_planar,
            is_tiled,
            is_little_endian: tags.is_little_endian(),
            has_predictor,
            reverses_bits: tags.number(266) == Some(2),
            chunk_width: chunk_width as usize,
            chunk_height: chunk_height as usize,
            chunks_across: size.width.div_ceil(chunk_width) as usize,
            chunks_down: size.height.div_ceil(chunk_height) as usize,
            offsets: tags.numbers(offsets).ok_or_else(|| missing("offsets"))?,
            byte_counts: tags.numbers(counts).unwrap_or_default(),
        })
    }

    /// Planes that are decoded.
    pub(super) fn planes(&self) -> usize {
        if self.is_planar {
            self.meaning.samples.min(self.meaning.layout.samples().max(1))
        } else {
            1
        }
    }

    /// Samples of a pixel of a chunk.
    pub(super) fn chunk_samples(&self) -> usize {
        if self.is_planar { 1 } else { self.meaning.samples }
    }

    /// Bytes of a row of a chunk, decompressed.
    pub(super) fn line_len(&self) -> usize {
        (self.chunk_width * self.chunk_samples() * usize::from(self.meaning.bits)).div_ceil(8)
    }

    /// Refuses pixels that a payload of `payload_len` bytes cannot contain. Zstandard and fax have
    /// runs without bound.
    pub(super) fn check_bytes(&self, payload_len: usize) -> Result<()> {
        let expansion = match self.compression {
            Compression::None => 1,
            Compression::PackBits => 64,
            Compression::Deflate => 1032,
            Compression::Lzw => 4096,
            Compression::Fax4 | Compression::Zstandard | Compression::Jpeg => return Ok(()),
        };
        // Raw chunks may be shared, so each is held against the payload by itself.
        let bytes = self.line_len().saturating_mul(if self.compression == Compression::None {
            1
        } else {
            self.size.height as usize
        });
        if bytes / expansion > payload_len {
            Err(Error::truncated(TIFF, "fewer bytes than rows need"))
        } else {
            Ok(())
        }
    }

    /// The bytes of chunk `k`.
    pub(super) fn stored<'a>(&self, payload: &'a [u8], k: usize) -> Result<&'a [u8]> {
        let outside = || Error::truncated(TIFF, "chunk outside of the payload");
        let offset = self
            .offsets
            .get(k)
            .and_then(|offset| usize::try_from(*offset).ok())
            .ok_or_else(outside)?;
        let rest = payload.get(offset..).filter(|rest| !rest.is_empty()).ok_or_else(outside)?;
        // Raw chunks are as long as they must be, whatever is stated.
        let stated = self
            .byte_counts
            .get(k)
            .copied()
            .filter(|len| *len > 0 && self.compression != Compression::None);
        match stated.map(usize::try_from) {
            None => Ok(rest),
            Some(len) => rest.get(..len.map_err(|_| outside())?).ok_or_else(outside),
        }
    }
}

impl Meaning {
    fn new(
        tags: &PageTags<'_>,
        photometric: u64,
        compression: Compression,
        is_planar: bool,
        keeps_alpha: bool,
    ) -> Result<Self> {
        let samples = tags.number(277).unwrap_or(1);
        let mut bits = tags.numbers(258).unwrap_or_else(|| vec![1]);
        bits.truncate(usize::try_from(samples).unwrap_or(usize::MAX));
        let first = bits.first().copied().unwrap_or(1);
        let formats = tags.numbers(339).unwrap_or_default();
        let extra = tags.numbers(338).unwrap_or_default();
        let alpha = extra.first().copied();
        let refuse = |what: &str| {
            Error::unsupported(
                TIFF,
                format!(
                    "{what}: photometric {photometric}, {samples} samples \
                     of {bits:?} bits, extra {extra:?}"
                ),
            )
        };
        if samples == 0 || samples > 6 || bits.iter().any(|bits| *bits != first) {
            return Err(refuse("samples"));
        }
        // Signed bytes of one sample are taken as unsigned.
        let is_plain = formats.iter().all(|format| *format == 1)
            || formats.iter().all(|format| *format == 2) && (first, samples) == (8, 1);
        if !is_plain {
            return Err(refuse("sample format"));
        }
        let samples_len = usize::try_from(samples).unwrap_or(usize::MAX);
        let layout = match (photometric, samples, first, alpha) {
            (0, 1, 1 | 2 | 4 | 8 | 16, _)
            | (1, 1, 1 | 2 | 4 | 8 | 16, _)
            | (1, 2, 8 | 16, Some(0)) => Layout::Gray,
            (1, 2, 8 | 16, Some(1 | 2)) => Layout::GrayAlpha,
            (2, 3, 8 | 16, _) | (2, 4.., 8 | 16, Some(0)) => Layout::Rgb,
            (2, 4, 8 | 16, None) | (2, 4.., 8 | 16, Some(1 | 2 | 999)) => Layout::Rgba,
            (3, 1, 1 | 2 | 4 | 8, _) | (3, 2, 8, Some(0)) => Layout::Rgb,
            (3, 2, 8, Some(2)) => return Err(refuse("palette with alpha")),
            (5, 4.., 8 | 16, _) => Layout::Cmyk,
            (6, 1, 8, _) => Layout::Gray,
            (6, 3, 8, _) if compression == Compression::Jpeg && !is_planar => Layout::Rgb,
            _ => return Err(refuse("color model")),
        };
        let bits = u8::try_from(first).unwrap_or(8);
        let palette = match (photometric, samples, bits) {
            (3, ..) => Some(stated(tags, bits)?),
            (0 | 1, 1, ..=8) => Some(grays(bits, photometric == 0)),
            _ => None,
        };
        let layout = palette.as_ref().map_or(layout, |palette| palette.layout(keeps_alpha));
        Ok(Self {
            layout,
            palette: palette.map(Box::new),
            bits,
            samples: samples_len,
            high_byte: usize::from(tags.is_little_endian()),
            is_premultiplied: alpha == Some(1)
                && matches!(layout, Layout::Rgba | Layout::GrayAlpha),
            is_inverted: photometric == 0 && bits == 16,
        })
    }
}

/// The palette of the page: all reds, all greens, all blues, of which the high bytes count.
fn stated(tags: &PageTags<'_>, bits: u8) -> Result<Palette> {
    let values = tags.numbers(320).ok_or_else(|| Error::damaged(TIFF, "no palette"))?;
    let colors = values.len() / 3;
    let channel = |k: usize, c: usize| {
        values.get(c * colors + k).map_or(0, |value| u8::try_from(value >> 8).unwrap_or(u8::MAX))
    };
    let used = colors.min(1 << bits);
    Ok(Palette::stated((0..used).map(|k| [channel(k, 0), channel(k, 1), channel(k, 2)])))
}

fn grays(bits: u8, is_inverted: bool) -> Palette {
    Palette::stated((0..=255_u8).map(|sample| {
        let value = sample.wrapping_mul(spread(bits));
        [if is_inverted { !value } else { value }; 3]
    }))
}
