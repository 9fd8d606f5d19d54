//! JPEG strips and tiles.
//!
//! A strip without tables is put together with `JPEGTables`, and a marker of Adobe states the color
//! model that the page states, because libtiff tells libjpeg so. Invariant: the strip has the sides
//! of its chunk.

use shardmill_images::{ImageFormat, ImageSize};

use crate::decode::codec::{Buffers, Target};
use crate::decode::jpeg;
use crate::decode::raster::Layout;
use crate::decode::tiff::page::Page;
use crate::error::{Error, Result};

const TIFF: ImageFormat = ImageFormat::Tiff;

/// A strip, and what it is to be read with.
pub(super) struct Strip<'a> {
    pub(super) stored: &'a [u8],
    pub(super) tables: &'a [u8],
    pub(super) page: &'a Page,
    pub(super) rows: usize,
}

/// Decodes the strip to interleaved samples of eight bits in `out`.
pub(super) fn decode(strip: &Strip<'_>, target: &mut Target<'_>, out: &mut Vec<u8>) -> Result<()> {
    let page = strip.page;
    let (payload, size) =
        whole(strip).ok_or_else(|| Error::damaged(TIFF, "JPEG strip without frame"))?;
    if size.width as usize != page.chunk_width || (size.height as usize) < strip.rows {
        return Err(Error::damaged(TIFF, "JPEG strip of other sides"));
    }
    // A frame may have more rows than its strip.
    let pixels = u64::from(size.width) * u64::from(size.height);
    if usize::try_from(pixels).unwrap_or(usize::MAX).saturating_mul(page.chunk_samples())
        > target.memory()
    {
        return Err(Error::limit(TIFF, "JPEG strip far larger than the image"));
    }
    let raster = {
        let buffers = Buffers { pixels: out, scratch: target.scratch };
        let mut inner = Target::inside(buffers, size, target.damaged);
        let raster = jpeg::decode(&payload, &mut inner).map_err(Error::in_tiff)?;
        target.notes.oddities += inner.notes.oddities;
        target.notes.accepted_damage |= inner.notes.accepted_damage;
        raster
    };
    if raster.layout.samples() != page.chunk_samples() {
        return Err(Error::damaged(TIFF, "JPEG strip of other samples"));
    }
    if raster.layout == Layout::Cmyk {
        // The inversion of JPEG files is not that of TIFF.
        out.iter_mut().take(raster.len()).for_each(|sample| *sample = !*sample);
    }
    Ok(())
}

/// The strip as a JPEG of its own, and its sides.
fn whole(strip: &Strip<'_>) -> Option<(Vec<u8>, ImageSize)> {
    let transform = u8::from(strip.page.photometric == 6);
    let mut payload = vec![0xff, 0xd8, 0xff, 0xee, 0, 14];
    payload.extend_from_slice(b"Adobe\0\x64\0\0\0\0");
    payload.push(transform);
    let mut size = None;
    segments(strip.tables, &mut payload, &mut size);
    let scan = segments(strip.stored, &mut payload, &mut size)?;
    payload.extend_from_slice(scan);
    Some((payload, size?))
}

/// Copies segments up to the first scan, without those that state a color model,
/// and returns the rest.
fn segments<'a>(
    stored: &'a [u8],
    payload: &mut Vec<u8>,
    size: &mut Option<ImageSize>,
) -> Option<&'a [u8]> {
    let mut rest = stored.strip_prefix(b"\xff\xd8").unwrap_or(stored);
    loop {
        let at = rest
            .windows(2)
            .position(|pair| matches!(pair, [0xff, code] if !matches!(code, 0 | 0xff)))?;
        rest = rest.get(at..)?;
        let &[_, code, high, low] = rest.first_chunk()?;
        if code == 0xda {
            return Some(rest);
        }
        if matches!(code, 0xd9 | 0x01 | 0xd0..=0xd8) {
            rest = rest.get(2..)?;
            continue;
        }
        let (segment, after) =
            rest.split_at_checked(2 + usize::from(u16::from_be_bytes([high, low])).max(2))?;
        if matches!(code, 0xc0..=0xcf)
            && !matches!(code, 0xc4 | 0xc8 | 0xcc)
            && let Some(&[h1, h0, w1, w0]) = segment.get(5..).and_then(|sides| sides.first_chunk())
        {
            *size = Some(ImageSize {
                width: u16::from_be_bytes([w1, w0]).into(),
                height: u16::from_be_bytes([h1, h0]).into(),
            });
        }
        if !matches!(code, 0xe0 | 0xee) {
            payload.extend_from_slice(segment);
        }
        rest = after;
    }
}
