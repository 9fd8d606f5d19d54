//! Pages of a TIFF: strips and tiles, planes, five compressions and JPEG.
//!
//! The directory is read by `shardmill-images`, the decompressors are crates; what samples mean is
//! decided here, by Pillow's table. Invariant: a chunk is decompressed to the length that its sides
//! give it, and no further.

mod chunk;
mod jpeg;
mod page;
mod samples;

use shardmill_images::{ImageFormat, page_tags};

use crate::decode::codec::Target;
use crate::decode::raster::{Raster, reserve};
use crate::error::{Error, Result};

use chunk::Unpacker;
use page::{Compression, Page};
use samples::{Place, finish, write};

const TIFF: ImageFormat = ImageFormat::Tiff;

/// The pixels of page `target.page`, as stored.
pub(crate) fn decode(payload: &[u8], target: &mut Target<'_>) -> Result<Raster> {
    let tags =
        page_tags(payload, target.page).map_err(|source| Error::from_header(TIFF, source))?;
    let page = Page::new(&tags, target.keeps_alpha)?;
    target.check(page.size)?;
    let raster = Raster { size: page.size, layout: page.meaning.layout };
    let (width, height) = (page.size.width as usize, page.size.height as usize);
    let row_len = width * raster.layout.samples();
    let pixels_len = raster.len();

    // A page whose chunks are missing is found before its pixels are allocated.
    let chunks = page.chunks_across * page.chunks_down * page.planes();
    if page.offsets.len() < chunks {
        return Err(Error::truncated(TIFF, "chunks are missing"));
    }
    page.check_bytes(payload.len())?;
    let line = page.line_len();
    // The sides of a tile are not sides of the image.
    if line.saturating_mul(page.chunk_height) > target.memory() {
        return Err(Error::limit(TIFF, "tile far larger than the image"));
    }
    let tables = tags.bytes(347).unwrap_or_default();
    let mut unpacker = Unpacker::default();
    let mut chunk = Vec::new();
    for k in 0..chunks {
        let (plane, k_in_plane) = (
            k / (page.chunks_across * page.chunks_down),
            k % (page.chunks_across * page.chunks_down),
        );
        let (left, top) = (
            (k_in_plane % page.chunks_across) * page.chunk_width,
            (k_in_plane / page.chunks_across) * page.chunk_height,
        );
        let rows =
            if page.is_tiled { page.chunk_height } else { page.chunk_height.min(height - top) };
        let stored = page.stored(payload, k)?;
        let len = line.saturating_mul(rows);
        if page.compression == Compression::Jpeg {
            jpeg::decode(&jpeg::Strip { stored, tables, page: &page, rows }, target, &mut chunk)?;
        } else {
            unpacker.unpack(&page, stored, rows, reserve(&mut chunk, len, TIFF)?)?;
        }
        let pixels = reserve(target.pixels, pixels_len, TIFF)?;
        let visible = page.chunk_width.min(width - left);
        let place = Place { left, count: visible, plane: page.is_planar.then_some(plane) };
        for (row, to) in
            chunk.chunks_exact(line).take(rows).zip(pixels.chunks_exact_mut(row_len).skip(top))
        {
            write(&page.meaning, row, place, to);
        }
    }
    finish(&page.meaning, target.pixels.get_mut(..pixels_len).unwrap_or_default());
    Ok(raster)
}
