//! From decoded pixels to one output of a batch: crop, convert to gray, resize, write.
//!
//! A [`Spec`] makes a [`Transform`], which all threads share; a [`Scratch`] belongs to one thread.
//! The loader asks for the geometry first, so that a decoder can scale and a batch can be laid out,
//! and then for the pixels. Invariant: the output is a function of pixels, spec and draw.

use std::ops::Range;

use crate::augment::Draw;
use crate::decode::Channels;
use crate::geometry::{Fit, Geometry};
use crate::luma;
use crate::output::{Dtype, Layout, Normalize, Output};
use crate::raster::{Portion, Raster, ShapeError, Sides};
use crate::resize::{Filter, Resizer, span_for};

/// What outputs are like; the options of `Images` in Python. An integer `size` is a square there.
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    pub size: Option<Sides>,
    pub fit: Fit,
    pub filter: Filter,
    pub dtype: Dtype,
    pub normalize: Option<Normalize>,
    pub layout: Layout,
    pub channels: Channels,
    pub background: [u8; 3],
    /// The probability of a horizontal flip.
    pub flip: f64,
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            size: None,
            fit: Fit::Crop,
            filter: Filter::Bilinear,
            dtype: Dtype::U8,
            normalize: None,
            layout: Layout::Chw,
            channels: Channels::Rgb,
            background: [255; 3],
            flip: 0.0,
        }
    }
}

/// Buffers of one thread, kept from image to image.
#[derive(Debug, Default)]
pub struct Scratch {
    resizer: Resizer,
    gray: Vec<u8>,
}

/// Makes outputs of one [`Spec`].
#[derive(Debug, Clone)]
pub struct Transform {
    spec: Spec,
    output: Output,
}

impl Transform {
    pub fn new(spec: Spec) -> Self {
        let output =
            Output::new(spec.dtype, spec.normalize, spec.layout, spec.channels, spec.background);
        Self { spec, output }
    }

    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Decides about an image of the given oriented size.
    ///
    /// # Errors
    /// As [`Geometry::new`].
    pub fn geometry(&self, oriented: Sides, draw: Draw) -> Result<Geometry, ShapeError> {
        self.geometry_of(oriented, self.spec.size, draw)
    }

    /// The same for an image that has a size of its own in place of that of the spec.
    pub(crate) fn geometry_of(
        &self,
        oriented: Sides,
        size: Option<Sides>,
        draw: Draw,
    ) -> Result<Geometry, ShapeError> {
        Geometry::new(oriented, size, self.spec.fit, self.spec.flip, draw)
    }

    /// The columns that [`Transform::write`] reads of an image with this geometry.
    pub fn columns(&self, geometry: &Geometry) -> Range<usize> {
        let Geometry { region, target, window, .. } = geometry;
        let columns = span_for(
            window.left..window.left + window.width,
            region.width,
            target.width,
            self.spec.filter,
        );
        region.left + columns.start..region.left + columns.end
    }

    /// The rows that [`Transform::write`] reads of an image with this geometry.
    pub(crate) fn rows(&self, geometry: &Geometry) -> Range<usize> {
        let Geometry { region, target, window, .. } = geometry;
        let rows = span_for(
            window.top..window.top + window.height,
            region.height,
            target.height,
            self.spec.filter,
        );
        region.top + rows.start..region.top + rows.end
    }

    /// The bytes of an output.
    pub fn output_len(&self, geometry: &Geometry) -> usize {
        geometry.canvas.height
            * geometry.canvas.width
            * self.spec.channels.count()
            * self.spec.layout.copies()
            * self.spec.dtype.bytes()
    }

    /// Fills an output of these sides with the background.
    pub fn fill(&self, sides: Sides, out: &mut [u8]) {
        self.output.fill(sides, out);
    }

    /// Writes the output of a decoded image, which is as the geometry has it: oriented, and at the
    /// scale of its region ([`Geometry::scaled`]).
    ///
    /// # Errors
    /// If the region is not inside of the image, or `out` has another
    /// length than [`Transform::output_len`].
    pub fn write(
        &self,
        image: Raster<'_>,
        geometry: &Geometry,
        scratch: &mut Scratch,
        out: &mut [u8],
    ) -> Result<(), ShapeError> {
        self.write_around(geometry, out);
        self.write_window(image.into(), geometry, scratch, out)
    }

    /// Writes what the window leaves of the canvas.
    pub(crate) fn write_around(&self, geometry: &Geometry, out: &mut [u8]) {
        if geometry.window.sides() != geometry.canvas {
            self.output.fill(geometry.canvas, out);
        }
    }

    /// Writes the window alone, of an image that has at least its rows and columns
    /// ([`Transform::rows`], [`Transform::columns`]).
    ///
    /// # Errors
    /// As [`Transform::write`].
    pub(crate) fn write_window(
        &self,
        image: Portion<'_>,
        geometry: &Geometry,
        scratch: &mut Scratch,
        out: &mut [u8],
    ) -> Result<(), ShapeError> {
        let mut region = image.of_region(geometry.region)?;
        if self.spec.channels == Channels::Gray {
            region = region.with_pixels(luma::gray(region.pixels(), &mut scratch.gray)?);
        }
        let window = scratch.resizer.resize_portion(
            region,
            geometry.target,
            geometry.window,
            self.spec.filter,
        )?;
        self.output.write(window, geometry, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::augment::Draws;
    use proptest::prelude::*;

    fn made(spec: Spec, image: Raster<'_>, scratch: &mut Scratch) -> Vec<u8> {
        let transform = Transform::new(spec);
        let geometry =
            transform.geometry(image.sides(), Draws::new(0, 0, "image").at(3, 0, 0)).unwrap();
        let mut out = vec![0; transform.output_len(&geometry)];
        transform.write(image, &geometry, scratch, &mut out).unwrap();
        out
    }

    #[test]
    fn outputs_do_not_depend_on_what_a_scratch_did_before() {
        let pixels = crate::test_pixels(90 * 70 * 3);
        let image = Raster::new(&pixels, Sides { height: 90, width: 70 }, 3).unwrap();
        let fits = [
            Fit::Crop,
            Fit::Pad,
            Fit::Longest,
            Fit::Keep,
            Fit::RandomCrop { scale: (0.08, 1.0), ratio: (0.75, 1.25) },
        ];
        let mut used = Scratch::default();
        for (fit, channels) in
            fits.into_iter().flat_map(|fit| [(fit, Channels::Rgb), (fit, Channels::Gray)])
        {
            let spec = Spec {
                size: Some(Sides { height: 40, width: 33 }),
                fit,
                channels,
                dtype: Dtype::F32,
                ..Spec::default()
            };
            assert_eq!(
                made(spec.clone(), image, &mut used),
                made(spec, image, &mut Scratch::default())
            );
        }
    }

    #[test]
    fn gray_is_the_same_before_and_after_the_resize() {
        let gray = crate::test_pixels(50 * 40);
        let color: Vec<u8> = gray.iter().flat_map(|value| [*value; 3]).collect();
        let sides = Sides { height: 50, width: 40 };
        let mut scratch = Scratch::default();
        for channels in [Channels::Rgb, Channels::Gray] {
            let spec =
                Spec { size: Some(Sides { height: 20, width: 20 }), channels, ..Spec::default() };
            let of_gray = made(spec.clone(), Raster::new(&gray, sides, 1).unwrap(), &mut scratch);
            assert_eq!(of_gray, made(spec, Raster::new(&color, sides, 3).unwrap(), &mut scratch));
        }
    }

    proptest! {
        #[test]
        fn columns_that_are_not_read_change_nothing(
            (height, width, to_height, to_width) in
                (1_usize..60, 1_usize..200, 1_usize..50, 1_usize..50),
            (fit, filter, row, gray) in (0_usize..6, 0_usize..6, any::<u64>(), any::<bool>()),
        ) {
            let fit = [
                Fit::Crop,
                Fit::Stretch,
                Fit::Pad,
                Fit::Longest,
                Fit::Keep,
                Fit::RandomCrop { scale: (0.08, 1.0), ratio: (0.75, 1.25) },
            ][fit];
            let filter = [
                Filter::Nearest,
                Filter::Box,
                Filter::Bilinear,
                Filter::Hamming,
                Filter::Bicubic,
                Filter::Lanczos,
            ][filter];
            let channels = if gray { Channels::Gray } else { Channels::Rgb };
            let transform = Transform::new(Spec {
                size: Some(Sides { height: to_height, width: to_width }),
                fit,
                filter,
                channels,
                ..Spec::default()
            });
            let sides = Sides { height, width };
            let geometry =
                transform.geometry(sides, Draws::new(0, 0, "image").at(row, 0, 0)).unwrap();
            let columns = transform.columns(&geometry);
            prop_assert!(columns.start < columns.end && columns.end <= width);
            let mut pixels = crate::test_pixels(height * width * 3);
            let mut outputs = [0, 255].map(|other| {
                for row in pixels.chunks_mut(width * 3) {
                    row[..columns.start * 3].fill(other);
                    row[columns.end * 3..].fill(other);
                }
                let mut out = vec![0; transform.output_len(&geometry)];
                transform
                    .write(
                        Raster::new(&pixels, sides, 3).unwrap(),
                        &geometry,
                        &mut Scratch::default(),
                        &mut out,
                    )
                    .unwrap();
                out
            });
            let [first, second] = &mut outputs;
            prop_assert_eq!(first, second);
        }
    }
}
