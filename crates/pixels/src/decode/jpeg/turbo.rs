//! libjpeg-turbo, and what its messages mean.
//!
//! The library reports its first warning as a message and decodes on; a message that is none of its
//! warnings is an error. Invariant: pixels are returned only when the library wrote all of them.

use shardmill_images::{ImageFormat, ImageSize};

use crate::decode::codec::Target;
use crate::decode::jpeg::header::{Header, MAX_SCANS, has_end};
use crate::decode::jpeg::library::{Opened, PixelFormat};
use crate::decode::options::Damaged;
use crate::decode::raster::{Layout, Raster, reserve};
use crate::error::{Error, Result};
use crate::raster::{Region, Sides};

const JPEG: ImageFormat = ImageFormat::Jpeg;
/// What the library may keep besides the coefficients of an image of several scans, which are two
/// bytes a sample.
const MAX_WORKING_BYTES: u64 = 64 << 20;

pub(crate) fn decode(payload: &[u8], header: &Header, target: &mut Target<'_>) -> Result<Raster> {
    let opened = Opened::read(payload, MAX_SCANS).map_err(|message| failure(&message))?;
    if opened.size() != (header.size.width as usize, header.size.height as usize) {
        return Err(Error::damaged(JPEG, "another size in the frame"));
    }
    let coefficients = header.padded_samples().saturating_mul(2);
    opened
        .limit_memory(coefficients.saturating_add(MAX_WORKING_BYTES))
        .map_err(|message| failure(&message))?;
    let denominator = target.denominator.max(1);
    let size = ImageSize {
        width: header.size.width.div_ceil(denominator),
        height: header.size.height.div_ceil(denominator),
    };
    let (layout, format) = match header.components {
        1 => (Layout::Gray, PixelFormat::Gray),
        4 => (Layout::Cmyk, PixelFormat::Cmyk),
        _ => (Layout::Rgb, PixelFormat::Rgb),
    };
    let whole = Sides { height: size.height as usize, width: size.width as usize };
    target.region = target
        .region
        .filter(|_| opened.can_crop())
        .and_then(|region| around(region, header, denominator as usize, whole));
    let region = target.region.unwrap_or(whole.whole());
    let raster = Raster { size: region.sides().into(), layout };
    let pixels = reserve(target.pixels, raster.len(), JPEG)?;
    if let Err(message) = opened.decode(denominator, region, format, pixels) {
        judge(message.trim_start_matches("TurboJPEG error: "), payload, target)?;
    }
    if layout == Layout::Cmyk {
        // Pillow takes the samples of every JPEG as Adobe's, which are inverted.
        target.pixels.iter_mut().take(raster.len()).for_each(|sample| *sample = !*sample);
    }
    Ok(raster)
}

/// The least that the library decodes for a region: whole units, and one more on each side, since
/// the chroma of a pixel depends on its neighbors'. Those above are not in it, since the library
/// decodes them where it needs them.
fn around(region: Region, header: &Header, denominator: usize, whole: Sides) -> Option<Region> {
    let unit = header.unit?;
    let unit = Sides { height: unit.height / denominator, width: unit.width / denominator };
    let start = (region.left / unit.width).saturating_sub(1) * unit.width;
    let end = ((region.left + region.width).div_ceil(unit.width) + 1) * unit.width;
    let left = start.min(whole.width.saturating_sub(1) / unit.width * unit.width);
    // Of several scans, the library keeps all coefficients, which are more than the pixels.
    let (top, bottom) = if header.has_one_scan {
        (region.top / unit.height * unit.height, (region.top + region.height).min(whole.height))
    } else {
        (0, whole.height)
    };
    Some(Region { top, left, height: bottom - top, width: end.min(whole.width) - left })
}

/// Whether the pixels may be used after libjpeg said `message`.
fn judge(message: &str, payload: &[u8], target: &mut Target<'_>) -> Result<()> {
    if message.contains("extraneous bytes before marker 0xd9") {
        // All pixels were decoded before.
        target.notes.oddities += 1;
        return Ok(());
    }
    if message.contains("Premature end of JPEG file") {
        return Err(Error::truncated(JPEG, message));
    }
    if !is_warning(message) {
        return Err(failure(message));
    }
    match target.damaged {
        Damaged::Error => Err(Error::damaged(JPEG, message)),
        // Only the first warning is told; Pillow refuses a file without end, whatever else it has.
        Damaged::Accept if !has_end(payload) => Err(Error::truncated(JPEG, message)),
        Damaged::Accept => {
            target.notes.accepted_damage = true;
            Ok(())
        }
    }
}

/// The warnings of `jerror.h`.
fn is_warning(message: &str) -> bool {
    [
        "Corrupt JPEG data",
        "Warning:",
        "Unknown Adobe color transform",
        "Inconsistent progression sequence",
        "Invalid SOS parameters for sequential",
    ]
    .iter()
    .any(|start| message.contains(start))
}

fn failure(message: &str) -> Error {
    let message = message.trim_start_matches("TurboJPEG error: ");
    if message.contains("more than") && message.contains("scans")
        || message.contains("nsufficient memory")
        || message.contains("acking store")
    {
        Error::limit(JPEG, message)
    } else if message.contains("Premature end") || message.contains("no image") {
        Error::truncated(JPEG, message)
    } else if message.contains("nsupported")
        || message.contains("not supported")
        || message.contains("not implemented")
    {
        Error::unsupported(JPEG, message)
    } else {
        Error::damaged(JPEG, message)
    }
}
