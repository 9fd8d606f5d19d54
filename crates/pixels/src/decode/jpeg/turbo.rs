//! libjpeg-turbo, and what its messages mean.
//!
//! The library reports its first warning as a message and decodes on; a message that is none of its warnings is an error. Invariant: pixels are returned
//! only when the library wrote all of them.

use shardmill_images::{ImageFormat, ImageSize};
use turbojpeg::{Decompressor, Image, PixelFormat, ScalingFactor};

use crate::decode::codec::Target;
use crate::decode::jpeg::header::{Header, has_end};
use crate::decode::options::Damaged;
use crate::decode::raster::{Layout, Raster, reserve};
use crate::error::{Error, Result};

const JPEG: ImageFormat = ImageFormat::Jpeg;
/// Encoders write ten or so; each scan of a hostile file costs a pass over all coefficients.
const MAX_SCANS: u32 = 500;

/// A decompressor for one image.
#[derive(Debug)]
pub(crate) struct Turbo(Decompressor);

impl Turbo {
    pub(crate) fn new() -> Result<Self> {
        let mut decompressor = Decompressor::new().map_err(|error| Error::decoder(JPEG, error))?;
        decompressor.set_scan_limit(MAX_SCANS).map_err(|error| Error::decoder(JPEG, error))?;
        Ok(Self(decompressor))
    }

    pub(crate) fn decode(&mut self, payload: &[u8], header: &Header, target: &mut Target<'_>) -> Result<Raster> {
        let factor = match target.denominator {
            8 => ScalingFactor::ONE_EIGHTH,
            4 => ScalingFactor::ONE_QUARTER,
            2 => ScalingFactor::ONE_HALF,
            _ => ScalingFactor::ONE,
        };
        self.0.set_scaling_factor(factor).map_err(|error| Error::decoder(JPEG, error))?;
        let found = self.0.read_header(payload).map_err(|error| failure(&error.to_string()))?;
        let stored = (header.size.width as usize, header.size.height as usize);
        if stored != (found.width, found.height) {
            return Err(Error::damaged(JPEG, "another size in the frame"));
        }
        let scaled = |side: u32| side.div_ceil(target.denominator.max(1));
        let size = ImageSize { width: scaled(header.size.width), height: scaled(header.size.height) };
        let (layout, format) = match header.components {
            1 => (Layout::Gray, PixelFormat::GRAY),
            4 => (Layout::Cmyk, PixelFormat::CMYK),
            _ => (Layout::Rgb, PixelFormat::RGB),
        };
        let raster = Raster { size, layout };
        let pixels = reserve(target.pixels, raster.len(), JPEG)?;
        let (width, height) = (size.width as usize, size.height as usize);
        let image = Image { pixels: &mut *pixels, width, pitch: width * format.size(), height, format };
        match self.0.decompress(payload, image) {
            Ok(()) => {}
            Err(turbojpeg::Error::TurboJpegError(message)) => judge(message.trim_start_matches("TurboJPEG error: "), payload, target)?,
            Err(error) => return Err(Error::decoder(JPEG, error)),
        }
        if layout == Layout::Cmyk {
            // Pillow takes the samples of every JPEG as Adobe's, which are inverted.
            target.pixels.iter_mut().take(raster.len()).for_each(|sample| *sample = !*sample);
        }
        Ok(raster)
    }
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
    ["Corrupt JPEG data", "Warning:", "Unknown Adobe color transform", "Inconsistent progression sequence", "Invalid SOS parameters for sequential"]
        .iter()
        .any(|start| message.contains(start))
}

fn failure(message: &str) -> Error {
    let message = message.trim_start_matches("TurboJPEG error: ");
    if message.contains("more than") && message.contains("scans") || message.contains("nsufficient memory") || message.contains("acking store") {
        Error::limit(JPEG, message)
    } else if message.contains("Premature end") || message.contains("no image") {
        Error::truncated(JPEG, message)
    } else if message.contains("nsupported") || message.contains("not supported") || message.contains("not implemented") {
        Error::unsupported(JPEG, message)
    } else {
        Error::damaged(JPEG, message)
    }
}
