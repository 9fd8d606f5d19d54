//! Sizes at a fixed position: PNG, GIF, BMP and WebP.
//!
//! Called by the probe once the format is known. Invariant: nothing beyond byte 30 is read.

use crate::endian::Endian;
use crate::error::{Error, Result};
use crate::format::ImageFormat;
use crate::image_size::ImageSize;

/// The size in the header `prefix` of a payload of `format`.
pub(crate) fn size(format: ImageFormat, prefix: &[u8]) -> Result<ImageSize> {
    let header = Header { format, prefix };
    let (width, height) = match format {
        ImageFormat::Png => png(&header)?,
        ImageFormat::Gif => (u32::from(header.u16(6)?), u32::from(header.u16(8)?)),
        ImageFormat::Bmp => bmp(&header)?,
        ImageFormat::Webp => webp(&header)?,
        _ => return Err(Error::UnknownSize { format }),
    };
    ImageSize::new(width, height)
}

struct Header<'a> {
    format: ImageFormat,
    prefix: &'a [u8],
}

impl<'a> Header<'a> {
    fn bytes(&self, offset: usize, len: usize) -> Result<&'a [u8]> {
        let needed = offset.saturating_add(len);
        self.prefix.get(offset..needed).ok_or(Error::TruncatedHeader {
            format: self.format,
            needed: needed as u64,
            found: self.prefix.len() as u64,
        })
    }

    fn unknown(&self) -> Error {
        Error::UnknownSize { format: self.format }
    }

    fn u16(&self, offset: usize) -> Result<u16> {
        let bytes = self.bytes(offset, 2)?;
        Endian::Little.u16(bytes).ok_or_else(|| self.unknown())
    }

    fn u32(&self, offset: usize, endian: Endian) -> Result<u32> {
        let bytes = self.bytes(offset, 4)?;
        endian.u32(bytes).ok_or_else(|| self.unknown())
    }

    fn u24(&self, offset: usize) -> Result<u32> {
        let high = self.bytes(offset.saturating_add(2), 1)?;
        let high = u32::from(high.first().copied().unwrap_or_default());
        Ok(u32::from(self.u16(offset)?) | high << 16)
    }
}

fn png(header: &Header<'_>) -> Result<(u32, u32)> {
    if header.bytes(12, 4)? != b"IHDR" {
        return Err(header.unknown());
    }
    Ok((header.u32(16, Endian::Big)?, header.u32(20, Endian::Big)?))
}

fn bmp(header: &Header<'_>) -> Result<(u32, u32)> {
    // The OS/2 1.x header has unsigned 16-bit sides.
    if header.u32(14, Endian::Little)? == 12 {
        return Ok((u32::from(header.u16(18)?), u32::from(header.u16(20)?)));
    }
    let width = header.u32(18, Endian::Little)?.cast_signed();
    let height = header.u32(22, Endian::Little)?.cast_signed();
    // A negative height means that the rows are stored top-down.
    let width = u32::try_from(width).map_err(|_| header.unknown())?;
    Ok((width, height.unsigned_abs()))
}

fn webp(header: &Header<'_>) -> Result<(u32, u32)> {
    match header.bytes(12, 4)? {
        b"VP8 " => {
            if header.bytes(23, 3)? != b"\x9d\x01\x2a" {
                return Err(header.unknown());
            }
            // The two upper bits are a scaling hint.
            let (width, height) = (header.u16(26)?, header.u16(28)?);
            Ok((u32::from(width & 0x3fff), u32::from(height & 0x3fff)))
        }
        b"VP8L" => {
            if header.bytes(20, 1)? != b"\x2f" {
                return Err(header.unknown());
            }
            let bits = header.u32(21, Endian::Little)?;
            Ok(((bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1))
        }
        b"VP8X" => Ok((header.u24(24)? + 1, header.u24(27)? + 1)),
        _ => Err(header.unknown()),
    }
}
