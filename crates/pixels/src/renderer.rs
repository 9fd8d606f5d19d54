//! From the bytes of an image to its place in a batch.
//!
//! A [`Renderer`] belongs to one thread, and keeps its buffers from image to image. The invariant:
//! what it writes is a function of the payload, the options and the draw.

use std::mem::{swap, take};
use std::ops::Range;

use crate::augment::Draw;
use crate::decode::{DecodeOptions, Decoder, Mode, Part, Stored};
use crate::error::Result;
use crate::geometry::{Fit, Geometry};
use crate::output::{Dtype, Layout};
use crate::raster::{Raster, ShapeError, Sides};
use crate::strips::{Limits, strips};
use crate::transform::{Scratch, Spec, Transform};

/// Decodes and transforms one image after another.
#[derive(Debug, Default)]
pub struct Renderer {
    decoder: Decoder,
    scratch: Scratch,
    limits: Limits,
    /// The pixels of a stage, and of the one after it.
    stages: [Vec<u8>; 2],
}

/// How a payload becomes an output.
#[derive(Debug, Clone, Copy)]
pub struct Rendering<'a> {
    pub decode: &'a DecodeOptions,
    pub mode: Mode,
    pub transform: &'a Transform,
    /// The sizes of this image, in place of that of the transform.
    pub sizes: Option<Sizes<'a>>,
}

/// The sizes for one image, which is not cropped.
#[derive(Debug, Clone, Copy)]
pub struct Sizes<'a> {
    /// The intermediate sizes that it is resized to first, in order.
    pub stages: &'a [Sides],
    /// The size of the output, which is made from the last stage.
    pub target: Sides,
    /// The size of a second output, which is made from the same pixels and follows the first.
    pub overview: Option<Sides>,
}

impl Sizes<'_> {
    fn of(target: Sides) -> Self {
        Self { stages: &[], target, overview: None }
    }
}

impl Rendering<'_> {
    /// The geometries of the outputs.
    fn geometries(
        &self,
        oriented: Sides,
        draw: Draw,
    ) -> std::result::Result<Outputs<Geometry>, ShapeError> {
        let geometry = |size| self.transform.geometry_of(oriented, size, draw);
        let target = self.sizes.map(|sizes| sizes.target).or(self.transform.spec().size);
        let overview = self.sizes.and_then(|sizes| sizes.overview);
        Ok(Outputs {
            first: geometry(target)?,
            overview: overview.map(|size| geometry(Some(size))).transpose()?,
        })
    }
}

/// A value for each output of an image.
#[derive(Debug, Clone, Copy)]
struct Outputs<T> {
    first: T,
    overview: Option<T>,
}

impl<T> Outputs<T> {
    fn map<U>(self, each: impl Fn(T) -> U) -> Outputs<U> {
        Outputs { first: each(self.first), overview: self.overview.map(each) }
    }

    fn iter(&self) -> impl Iterator<Item = &T> {
        std::iter::once(&self.first).chain(&self.overview)
    }
}

/// What is decoded of a JPEG, decided from its header.
#[derive(Debug)]
struct Plan {
    outputs: Outputs<PlannedOutput>,
    oriented: Sides,
    denominator: u32,
}

#[derive(Debug)]
struct PlannedOutput {
    geometry: Geometry,
    /// The same for the scale of decoding.
    scaled: Geometry,
    /// Rows of the window that are made one after the other.
    strips: Vec<Range<usize>>,
}

impl Plan {
    fn is_cut(&self) -> bool {
        self.outputs.iter().any(|output| output.strips.len() > 1)
    }

    fn part(&self, how: &Rendering<'_>, output: &PlannedOutput, strip: &Range<usize>) -> Part {
        // All rows of a small image are decoded, since damage may be in any.
        let rows = self.is_cut().then(|| how.transform.rows(&output.scaled.of_rows(strip.clone())));
        let columns =
            self.outputs.overview.is_none().then(|| how.transform.columns(&output.scaled));
        Part { denominator: self.denominator, columns, rows }
    }
}

impl Renderer {
    /// Writes the output of an image to the place that `place` returns for its sides, with room for
    /// the overview if there is one.
    ///
    /// A JPEG whose pixels would take much memory is decoded in strips, each by a call of its own,
    /// because the decoder cannot stop and go on. The pixels, and which damage is found, do not
    /// depend on it.
    ///
    /// # Errors
    /// As [`Decoder::decode`].
    pub fn render<'p>(
        &mut self,
        payload: &[u8],
        how: Rendering<'_>,
        draw: Draw,
        place: impl FnOnce(Sides) -> &'p mut [u8],
    ) -> Result<()> {
        if let Some(sizes) = how.sizes
            && let Some((first, later)) = sizes.stages.split_first()
        {
            return self.render_stages(payload, how, (*first, later), draw, place);
        }
        self.render_once(payload, how, draw, place)
    }

    /// Writes the outputs of an image that is resized once.
    fn render_once<'p>(
        &mut self,
        payload: &[u8],
        how: Rendering<'_>,
        draw: Draw,
        place: impl FnOnce(Sides) -> &'p mut [u8],
    ) -> Result<()> {
        let mut planned = None;
        let outcome = self.render_strips(payload, how, draw, place, &mut planned);
        let Some(plan) = planned else { return outcome.map(drop) };
        if plan.is_cut() && !matches!(outcome, Ok(true)) {
            // What is said of an image is what the decoder says when it has seen all of it; the
            // last pixel as stored is enough for that.
            let (options, denominator) =
                (DecodeOptions { orientation: false, ..*how.decode }, plan.denominator);
            self.decoder.stored(payload, &options, |width, height| {
                let last = |side: u32| {
                    Some((side.div_ceil(denominator) as usize).saturating_sub(1)..usize::MAX)
                };
                Part { denominator, columns: last(width), rows: last(height) }
            })?;
        }
        outcome.map(drop)
    }

    /// Writes the outputs of an image that is resized more than once.
    fn render_stages<'p>(
        &mut self,
        payload: &[u8],
        how: Rendering<'_>,
        (first, later): (Sides, &[Sides]),
        draw: Draw,
        place: impl FnOnce(Sides) -> &'p mut [u8],
    ) -> Result<()> {
        let stage = Transform::new(Spec {
            dtype: Dtype::U8,
            normalize: None,
            layout: Layout::Hwc,
            flip: 0.0,
            fit: Fit::Stretch,
            ..how.transform.spec().clone()
        });
        let channels = stage.spec().channels.count();
        let [mut image, mut next] = take(&mut self.stages);
        let of_first = Rendering { transform: &stage, sizes: Some(Sizes::of(first)), ..how };
        self.render_once(payload, of_first, draw, |sides| {
            image.resize(sides.height * sides.width * channels, 0);
            &mut image
        })?;
        let mut sides = first;
        for size in later {
            let geometry = stage.geometry_of(sides, Some(*size), draw)?;
            next.resize(stage.output_len(&geometry), 0);
            let raster = Raster::new(&image, sides, channels)?;
            stage.write(raster, &geometry, &mut self.scratch, &mut next)?;
            swap(&mut image, &mut next);
            sides = *size;
        }
        let geometries = how.geometries(sides, draw)?;
        let mut rest = place(geometries.first.canvas);
        for geometry in geometries.iter() {
            let (out, after) = split_off(rest, how.transform.output_len(geometry));
            rest = after;
            let raster = Raster::new(&image, sides, channels)?;
            how.transform.write(raster, geometry, &mut self.scratch, out)?;
        }
        self.stages = [image, next];
        Ok(())
    }

    /// Returns whether a strip was decoded up to the end of the payload.
    fn render_strips<'p>(
        &mut self,
        payload: &[u8],
        how: Rendering<'_>,
        draw: Draw,
        place: impl FnOnce(Sides) -> &'p mut [u8],
        planned: &mut Option<Plan>,
    ) -> Result<bool> {
        let Self { decoder, scratch, limits, .. } = self;
        let mut stored = decoder.stored(payload, how.decode, |width, height| {
            let Ok(plan) = plan(&how, sides(width, height), draw, *limits) else {
                return Part::WHOLE;
            };
            let plan = planned.insert(plan);
            let output = &plan.outputs.first;
            output.strips.first().map_or(Part::WHOLE, |strip| plan.part(&how, output, strip))
        })?;
        let found = stored.sides();
        let geometries = match &planned {
            Some(plan) => plan.geometries(found),
            None => how.geometries(found, draw)?,
        };
        let mut rest = place(geometries.first.canvas);
        let mut is_complete = false;
        for (number, geometry) in geometries.iter().enumerate() {
            let (out, after) = split_off(rest, how.transform.output_len(geometry));
            rest = after;
            how.transform.write_around(geometry, out);
            let mut write = |stored: &mut Stored<'_>, rows: &Range<usize>| -> Result<()> {
                let most = if stored.is_turned() { limits.turned } else { usize::MAX };
                for rows in strips(how.transform, geometry, rows, most) {
                    let part = geometry.of_rows(rows);
                    let image = stored.rows(how.transform.rows(&part))?;
                    how.transform.write_window(image, &part, scratch, out)?;
                }
                Ok(())
            };
            let (region, needed) = (stored.region(), how.transform.rows(geometry));
            let has_all = region.top <= needed.start && region.top + region.height >= needed.end;
            let cut = planned.as_ref().filter(|_| !has_all);
            let Some((plan, output)) =
                cut.and_then(|plan| Some((plan, plan.outputs.iter().nth(number)?)))
            else {
                write(&mut stored, &(0..geometry.window.height))?;
                is_complete |= stored.is_complete();
                continue;
            };
            for (strip_number, strip) in output.strips.iter().enumerate() {
                if (number, strip_number) != (0, 0) {
                    stored = decoder
                        .stored(payload, how.decode, |_, _| plan.part(&how, output, strip))?;
                }
                is_complete |= stored.is_complete();
                write(&mut stored, strip)?;
            }
        }
        Ok(is_complete)
    }
}

impl Plan {
    /// The geometries for an image that turned out to have these sides.
    fn geometries(&self, found: Sides) -> Outputs<Geometry> {
        let Outputs { first, overview } = &self.outputs;
        let of_output = |output: &PlannedOutput| {
            if self.oriented == found {
                output.geometry
            } else {
                output.geometry.scaled(self.oriented, found)
            }
        };
        Outputs { first: of_output(first), overview: overview.as_ref().map(of_output) }
    }
}

/// Splits off the first `len` bytes. If there are fewer, returns all of them; writing to them is
/// then an error.
fn split_off(bytes: &mut [u8], len: usize) -> (&mut [u8], &mut [u8]) {
    let len = len.min(bytes.len());
    bytes.split_at_mut(len)
}

fn plan(how: &Rendering<'_>, oriented: Sides, draw: Draw, limits: Limits) -> Result<Plan> {
    let geometries = how.geometries(oriented, draw)?;
    let headroom = match how.mode {
        Mode::Exact => None,
        Mode::Fast => Some(2),
        Mode::Draft => Some(1),
    };
    let denominator = headroom.map_or(1, |headroom| geometries.first.reduction(headroom));
    let side = |side: usize| side.div_ceil(denominator);
    let decoded = Sides { height: side(oriented.height), width: side(oriented.width) };
    let outputs = geometries.map(|geometry| {
        let scaled = geometry.scaled(oriented, decoded);
        let strips = strips(how.transform, &scaled, &(0..scaled.window.height), limits.decoded);
        PlannedOutput { geometry, scaled, strips }
    });
    Ok(Plan { outputs, oriented, denominator: u32::try_from(denominator).unwrap_or(1) })
}

fn sides(width: u32, height: u32) -> Sides {
    Sides { height: height as usize, width: width as usize }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::augment::Draws;
    use crate::decode::{Channels, Damaged};
    use crate::error::Error;
    use crate::resize::Filter;
    use crate::test_jpegs::{KINDS, jpeg_of_kind, with_orientation};

    const FITS: [Fit; 6] = [
        Fit::Crop,
        Fit::Stretch,
        Fit::Pad,
        Fit::Longest,
        Fit::Keep,
        Fit::RandomCrop { scale: (0.08, 1.0), ratio: (0.75, 1.25) },
    ];
    const FILTERS: [Filter; 6] = [
        Filter::Nearest,
        Filter::Box,
        Filter::Bilinear,
        Filter::Hamming,
        Filter::Bicubic,
        Filter::Lanczos,
    ];
    /// Strips of a few rows.
    const SMALL: Limits = Limits { decoded: 8 << 10, turned: 2 << 10 };

    fn rendered(limits: Limits, payload: &[u8], how: Rendering<'_>, row: u64) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        let mut renderer = Renderer { limits, ..Renderer::default() };
        let overview = how.sizes.and_then(|sizes| sizes.overview);
        renderer.render(payload, how, Draws::new(0, 0, "image").at(row, 0, 0), |sides| {
            let area = |sides: Sides| sides.height * sides.width;
            let pixels = area(sides) + overview.map_or(0, area);
            out.resize(pixels * how.transform.spec().channels.count(), 7);
            &mut out
        })?;
        Ok(out)
    }

    #[test]
    fn damage_below_a_crop_is_found_in_strips_too() {
        let transform =
            Transform::new(Spec { size: Some(Sides { height: 8, width: 40 }), ..Spec::default() });
        let how = Rendering {
            decode: &DecodeOptions::default(),
            mode: Mode::Exact,
            transform: &transform,
            sizes: None,
        };
        let whole = jpeg_of_kind(4, 200, 400, 0);
        assert!(rendered(SMALL, &whole, how, 0).is_ok());
        for orientation in 1..=8 {
            let cut = with_orientation(&whole[..whole.len() - 40], orientation);
            let outcomes = [Limits::default(), SMALL].map(|limits| rendered(limits, &cut, how, 0));
            assert!(
                matches!(
                    &outcomes,
                    [Err(Error::Truncated { .. } | Error::Damaged { .. }), strips]
                        if *strips == outcomes[0]
                ),
                "{outcomes:?}"
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 100,
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn overview_is_an_output_of_its_own_in_strips_too(
            (kind, width, height, seed, orientation) in
                (0..KINDS, 1_usize..200, 1_usize..300, any::<usize>(), 1_u8..=8),
            (target, overview) in ((1_usize..60, 1_usize..60), (1_usize..30, 1_usize..30)),
            mode in 0_usize..3,
        ) {
            let payload = with_orientation(&jpeg_of_kind(kind, width, height, seed), orientation);
            let transform = Transform::new(Spec { fit: Fit::Stretch, ..Spec::default() });
            let sides = |(height, width)| Sides { height, width };
            let (target, overview) = (sides(target), sides(overview));
            let made = |limits, target, overview| {
                let how = Rendering {
                    decode: &DecodeOptions::default(),
                    mode: [Mode::Exact, Mode::Fast, Mode::Draft][mode],
                    transform: &transform,
                    sizes: Some(Sizes { stages: &[], target, overview }),
                };
                rendered(limits, &payload, how, 0).unwrap()
            };
            let both = made(Limits::default(), target, Some(overview));
            prop_assert_eq!(&made(SMALL, target, Some(overview)), &both);
            let first = made(SMALL, target, None);
            prop_assert!(both.starts_with(&first));
            if mode == 0 {
                prop_assert_eq!(&both[first.len()..], made(SMALL, overview, None));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 300,
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn strips_give_what_the_whole_gives(
            (kind, width, height, seed, orientation) in
                (0..KINDS, 1_usize..200, 1_usize..300, any::<usize>(), 1_u8..=8),
            (to_width, to_height, fit, filter, row) in
                (1_usize..60, 1_usize..60, 0_usize..6, 0_usize..6, any::<u64>()),
            (mode, gray, accepts) in (0_usize..3, any::<bool>(), any::<bool>()),
            (cut, flips) in (
                prop::option::weighted(0.2, any::<prop::sample::Index>()),
                prop::collection::vec(any::<(prop::sample::Index, u8)>(), 0..4),
            ),
        ) {
            let mut payload =
                with_orientation(&jpeg_of_kind(kind, width, height, seed), orientation);
            let scan = payload.windows(2).position(|pair| pair == [0xff, 0xda]).unwrap();
            for (at, value) in flips {
                let at = at.index(payload.len() - scan) + scan;
                payload[at] = value;
            }
            if let Some(cut) = cut {
                payload.truncate(scan + cut.index(payload.len() - scan));
            }
            let channels = if gray { Channels::Gray } else { Channels::Rgb };
            let size = Some(Sides { height: to_height, width: to_width });
            let transform = Transform::new(Spec {
                size,
                fit: FITS[fit],
                filter: FILTERS[filter],
                channels,
                flip: 0.5,
                ..Spec::default()
            });
            let damaged = if accepts { Damaged::Accept } else { Damaged::Error };
            let decode = DecodeOptions { channels, damaged, ..DecodeOptions::default() };
            let how = Rendering {
                decode: &decode,
                mode: [Mode::Exact, Mode::Fast, Mode::Draft][mode],
                transform: &transform,
                sizes: None,
            };
            prop_assert_eq!(
                rendered(SMALL, &payload, how, row),
                rendered(Limits::default(), &payload, how, row)
            );
        }
    }
}
