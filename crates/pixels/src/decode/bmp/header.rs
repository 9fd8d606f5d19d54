//! The headers of a BMP.
//!
//! Invariant: what is returned was found in the payload, and is a combination that Pillow decodes.

use shardmill_images::{ImageFormat, ImageSize};

use crate::decode::palette::Palette;
use crate::error::{Error, Result};

const BMP: ImageFormat = ImageFormat::Bmp;

/// Where the pixels are, and what they are.
pub(super) struct Header {
    pub(super) size: ImageSize,
    is_top_down: bool,
    pub(super) data_at: usize,
    pub(super) pixels: Pixels,
}

/// The meaning of pixels.
pub(super) enum Pixels {
    /// `runs` is the number of bits of an index in runs.
    Indexed {
        palette: Box<Palette>,
        bits: u8,
        runs: Option<u8>,
    },
    Direct {
        order: Order,
        bits: u8,
    },
}

impl Pixels {
    pub(super) fn bits(&self) -> u8 {
        match self {
            Self::Indexed { bits, .. } | Self::Direct { bits, .. } => *bits,
        }
    }
}

/// The order of channels in a pixel.
#[derive(Debug, Clone, Copy)]
pub(super) enum Order {
    /// Five bits each.
    Fives,
    /// Six bits of green.
    Sixes,
    /// A byte each; the places of red, green, blue and alpha, where a place outside of the pixel
    /// means none.
    Bytes { len: usize, places: [u8; 4] },
}

const NONE: u8 = u8::MAX;

impl Order {
    pub(super) fn has_alpha(self) -> bool {
        matches!(self, Self::Bytes { places: [_, _, _, alpha], .. } if alpha != NONE)
    }

    fn bytes(len: usize, places: [u8; 4]) -> Self {
        Self::Bytes { len, places }
    }

    /// The layouts of bit fields that Pillow knows, by masks of red, green, blue and alpha.
    fn of_masks(bits: u16, masks: [u32; 4]) -> Option<Self> {
        let [red, green, blue, _] = masks;
        match (bits, masks) {
            (32, [0xff_0000, 0xff00, 0xff, 0]) => Some(Self::bytes(4, [2, 1, 0, NONE])),
            (32, [0xff00_0000, 0xff_0000, 0xff00, 0]) => Some(Self::bytes(4, [3, 2, 1, NONE])),
            (32, [0xff00_0000, 0xff00, 0xff, 0]) => Some(Self::bytes(4, [3, 1, 0, NONE])),
            (32, [0xff00_0000, 0xff_0000, 0xff00, 0xff]) => Some(Self::bytes(4, [3, 2, 1, 0])),
            (32, [0xff, 0xff00, 0xff_0000, 0xff00_0000]) => Some(Self::bytes(4, [0, 1, 2, 3])),
            (32, [0xff_0000, 0xff00, 0xff, 0xff00_0000] | [0, 0, 0, 0]) => {
                Some(Self::bytes(4, [2, 1, 0, 3]))
            }
            (32, [0xff00_0000, 0xff00, 0xff, 0xff_0000]) => Some(Self::bytes(4, [3, 1, 0, 2])),
            (24, _) if [red, green, blue] == [0xff_0000, 0xff00, 0xff] => {
                Some(Self::bytes(3, [2, 1, 0, NONE]))
            }
            (16, _) if [red, green, blue] == [0xf800, 0x7e0, 0x1f] => Some(Self::Sixes),
            (16, _) if [red, green, blue] == [0x7c00, 0x3e0, 0x1f] => Some(Self::Fives),
            _ => None,
        }
    }
}

/// Numbers of the payload by offset.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn u16(&self, at: usize) -> Result<u16> {
        let bytes = self.0.get(at..).and_then(|rest| rest.first_chunk());
        bytes.map(|bytes| u16::from_le_bytes(*bytes)).ok_or_else(|| Error::truncated(BMP, "header"))
    }

    fn u32(&self, at: usize) -> Result<u32> {
        let bytes = self.0.get(at..).and_then(|rest| rest.first_chunk());
        bytes.map(|bytes| u32::from_le_bytes(*bytes)).ok_or_else(|| Error::truncated(BMP, "header"))
    }
}

impl Header {
    pub(super) fn parse(payload: &[u8]) -> Result<Self> {
        let fields = Fields(payload);
        let (offset, header_len) = (fields.u32(10)? as usize, fields.u32(14)? as usize);
        let is_core = header_len == 12;
        if !matches!(header_len, 12 | 40 | 52 | 56 | 64 | 108 | 124) {
            return Err(Error::unsupported(BMP, format!("header of {header_len} bytes")));
        }
        let (size, is_top_down) = if is_core {
            (ImageSize { width: fields.u16(18)?.into(), height: fields.u16(20)?.into() }, false)
        } else {
            let height = fields.u32(22)?.cast_signed();
            (ImageSize { width: fields.u32(18)?, height: height.unsigned_abs() }, height < 0)
        };
        if size.width == 0 || size.height == 0 {
            return Err(Error::damaged(BMP, "zero side"));
        }
        let (bits, compression) =
            if is_core { (fields.u16(24)?, 0) } else { (fields.u16(28)?, fields.u32(30)?) };
        let mut after = 14 + header_len;
        if payload.len() < after {
            return Err(Error::truncated(BMP, "header"));
        }
        let unsupported =
            |what: &str| Error::unsupported(BMP, format!("{what} {bits} {compression}"));
        let pixels = match (compression, bits) {
            (0, 1 | 4 | 8) | (1, 8) | (2, 4) => {
                let entry = if is_core { 3 } else { 4 };
                let stated = if is_core { 0 } else { fields.u32(46)? };
                let colors = if stated == 0 { 1 << bits } else { stated as usize };
                if colors > 65_536 {
                    return Err(unsupported("palette"));
                }
                let table = payload.get(after..).unwrap_or_default();
                let table = table.get(..entry * colors).unwrap_or(table);
                after += entry * colors;
                let palette = Palette::stated(table.chunks_exact(entry).map(|color| match color {
                    [blue, green, red, ..] => [*red, *green, *blue],
                    _ => [0; 3],
                }));
                let bits = if bits == 8 {
                    8
                } else if bits == 4 {
                    4
                } else {
                    1
                };
                Pixels::Indexed {
                    palette: Box::new(palette),
                    bits,
                    runs: (compression != 0).then_some(bits),
                }
            }
            (0, 16) => Pixels::Direct { order: Order::Fives, bits: 16 },
            (0, 24) => Pixels::Direct { order: Order::bytes(3, [2, 1, 0, NONE]), bits: 24 },
            (0, 32) => Pixels::Direct { order: Order::bytes(4, [2, 1, 0, NONE]), bits: 32 },
            (3, 16 | 24 | 32) => {
                let mask = |k: usize| fields.u32(54 + 4 * k);
                // A short header is followed by three masks; a long one contains them.
                let alpha = if header_len >= 56 { mask(3)? } else { 0 };
                if header_len == 40 {
                    after += 12;
                }
                let order = Order::of_masks(bits, [mask(0)?, mask(1)?, mask(2)?, alpha])
                    .ok_or_else(|| unsupported("bit fields"))?;
                Pixels::Direct { order, bits: u8::try_from(bits).unwrap_or(32) }
            }
            _ => return Err(unsupported("depth and compression")),
        };
        // Some writers state where the palette is.
        let is_indexed = matches!(pixels, Pixels::Indexed { .. });
        let data_at =
            if offset == 0 || is_indexed && offset == 14 + header_len { after } else { offset };
        Ok(Self { size, is_top_down, data_at, pixels })
    }

    /// The rows of the output in the order of the file.
    pub(super) fn rows<'a>(
        &self,
        pixels: &'a mut [u8],
        row_len: usize,
    ) -> Box<dyn Iterator<Item = &'a mut [u8]> + 'a> {
        let rows = pixels.chunks_exact_mut(row_len);
        if self.is_top_down { Box::new(rows) } else { Box::new(rows.rev()) }
    }
}
