//! JPEG by libjpeg-turbo.
//!
//! The header is judged here, before a decoder allocates for it. Invariant: `turbo` leaves what
//! Pillow's libjpeg-turbo leaves, sample by sample.

mod header;
mod library;
mod turbo;

use shardmill_images::ImageFormat;

use crate::decode::codec::Target;
use crate::decode::options::Damaged;
use crate::decode::raster::Raster;
use crate::error::{Error, Result};

use header::Header;

/// The pixels of a JPEG, decoded at `1 / target.denominator`.
pub(crate) fn decode(payload: &[u8], target: &mut Target<'_>) -> Result<Raster> {
    let header = Header::parse(payload)?;
    target.check(header.size)?;
    header.check_scans(payload)?;
    // A Huffman code has at least a bit, so these pixels are not in the file.
    let bits = (payload.len() as u64).saturating_mul(8);
    if target.damaged == Damaged::Error && !header.is_arithmetic && bits < header.fewest_blocks {
        return Err(Error::truncated(ImageFormat::Jpeg, "fewer bits than blocks"));
    }
    target.notes.oddities += header.oddities();
    let cleaned = header.cleaned(payload);
    // A new one each time: the library keeps tables of the last image, which a file without tables
    // would get.
    turbo::decode(&cleaned, &header, target)
}
