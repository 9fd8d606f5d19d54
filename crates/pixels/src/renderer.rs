//! From the bytes of an image to its place in a batch.
//!
//! A [`Renderer`] belongs to one thread, and keeps its buffers from image to image. The invariant: what it writes is a function of the payload, the
//! options and the draw.

use crate::augment::Draw;
use crate::decode::{DecodeOptions, Decoder, Mode, Part};
use crate::error::Result;
use crate::geometry::Geometry;
use crate::raster::{Raster, Sides};
use crate::transform::{Scratch, Transform};

/// Decodes and transforms one image after another.
#[derive(Debug, Default)]
pub struct Renderer {
    decoder: Decoder,
    scratch: Scratch,
}

/// How a payload becomes an output.
#[derive(Debug, Clone, Copy)]
pub struct Rendering<'a> {
    pub decode: &'a DecodeOptions,
    pub mode: Mode,
    pub transform: &'a Transform,
}

impl Renderer {
    /// Writes the output of an image to the place that `place` returns for its sides.
    ///
    /// # Errors
    /// As [`Decoder::decode`].
    pub fn render<'p>(&mut self, payload: &[u8], how: Rendering<'_>, draw: Draw, place: impl FnOnce(Sides) -> &'p mut [u8]) -> Result<()> {
        let headroom = match how.mode {
            Mode::Exact => None,
            Mode::Fast => Some(2),
            Mode::Draft => Some(1),
        };
        let mut planned = None;
        let decoded = self.decoder.decode(payload, how.decode, |width, height| {
            let oriented = sides(width, height);
            let Ok(geometry) = how.transform.geometry(oriented, draw) else { return Part::WHOLE };
            planned = Some((geometry, oriented));
            let denominator = headroom.map_or(1, |headroom| u32::try_from(geometry.reduction(headroom)).unwrap_or(1));
            let scaled = geometry.scaled(oriented, sides(width.div_ceil(denominator), height.div_ceil(denominator)));
            Part { denominator, columns: Some(how.transform.columns(&scaled)) }
        })?;
        let found = sides(decoded.width, decoded.height);
        let geometry: Geometry = match planned {
            Some((geometry, oriented)) if oriented != found => geometry.scaled(oriented, found),
            Some((geometry, _)) => geometry,
            None => how.transform.geometry(found, draw)?,
        };
        let image = Raster::new(decoded.pixels, found, decoded.channels)?;
        how.transform.write(image, &geometry, &mut self.scratch, place(geometry.canvas))?;
        Ok(())
    }
}

fn sides(width: u32, height: u32) -> Sides {
    Sides { height: height as usize, width: width as usize }
}
