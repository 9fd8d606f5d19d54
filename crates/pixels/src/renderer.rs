//! From the bytes of an image to its place in a batch.
//!
//! A [`Renderer`] belongs to one thread, and keeps its buffers from image to image. The invariant:
//! what it writes is a function of the payload, the options and the draw.

use std::ops::Range;

use crate::augment::Draw;
use crate::decode::{DecodeOptions, Decoder, Mode, Part, Stored};
use crate::error::Result;
use crate::geometry::Geometry;
use crate::raster::{ShapeError, Sides};
use crate::strips::{Limits, strips};
use crate::transform::{Scratch, Transform};

/// Decodes and transforms one image after another.
#[derive(Debug, Default)]
pub struct Renderer {
    decoder: Decoder,
    scratch: Scratch,
    limits: Limits,
}

/// How a payload becomes an output.
#[derive(Debug, Clone, Copy)]
pub struct Rendering<'a> {
    pub decode: &'a DecodeOptions,
    pub mode: Mode,
    pub transform: &'a Transform,
    /// The size of this image, in place of that of the transform.
    pub size: Option<Sides>,
}

impl Rendering<'_> {
    fn geometry(&self, oriented: Sides, draw: Draw) -> std::result::Result<Geometry, ShapeError> {
        let size = self.size.or(self.transform.spec().size);
        self.transform.geometry_of(oriented, size, draw)
    }
}

/// What is decoded of a JPEG, decided from its header.
#[derive(Debug)]
struct Plan {
    geometry: Geometry,
    /// The same for the scale of decoding.
    scaled: Geometry,
    oriented: Sides,
    denominator: u32,
    /// Rows of the window that are made one after the other.
    strips: Vec<Range<usize>>,
}

impl Plan {
    fn part(&self, how: &Rendering<'_>, strip: &Range<usize>) -> Part {
        // All rows of a small image are decoded, since damage may be in any.
        let rows = (self.strips.len() > 1)
            .then(|| how.transform.rows(&self.scaled.of_rows(strip.clone())));
        Part {
            denominator: self.denominator,
            columns: Some(how.transform.columns(&self.scaled)),
            rows,
        }
    }
}

impl Renderer {
    /// Writes the output of an image to the place that `place` returns for its sides.
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
        let mut planned = None;
        let outcome = self.render_strips(payload, how, draw, place, &mut planned);
        let Some(Plan { strips, denominator, .. }) = planned else { return outcome.map(drop) };
        if strips.len() > 1 && !matches!(outcome, Ok(true)) {
            // What is said of an image is what the decoder says when it has seen all of it; the
            // last pixel as stored is enough for that.
            let options = DecodeOptions { orientation: false, ..*how.decode };
            self.decoder.stored(payload, &options, |width, height| {
                let last = |side: u32| {
                    Some((side.div_ceil(denominator) as usize).saturating_sub(1)..usize::MAX)
                };
                Part { denominator, columns: last(width), rows: last(height) }
            })?;
        }
        outcome.map(drop)
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
        let Self { decoder, scratch, limits } = self;
        let mut stored = decoder.stored(payload, how.decode, |width, height| {
            let Ok(plan) = plan(&how, sides(width, height), draw, *limits) else {
                return Part::WHOLE;
            };
            let plan = planned.insert(plan);
            plan.strips.first().map_or(Part::WHOLE, |first| plan.part(&how, first))
        })?;
        let found = stored.sides();
        let geometry = match &planned {
            Some(plan) if plan.oriented != found => plan.geometry.scaled(plan.oriented, found),
            Some(plan) => plan.geometry,
            None => how.geometry(found, draw)?,
        };
        let out = place(geometry.canvas);
        how.transform.write_around(&geometry, out);
        let mut write = |stored: &mut Stored<'_>, rows: &Range<usize>| -> Result<()> {
            let most = if stored.is_turned() { limits.turned } else { usize::MAX };
            for rows in strips(how.transform, &geometry, rows, most) {
                let part = geometry.of_rows(rows);
                let image = stored.rows(how.transform.rows(&part))?;
                how.transform.write_window(image, &part, scratch, out)?;
            }
            Ok(())
        };
        let (region, needed) = (stored.region(), how.transform.rows(&geometry));
        let has_all = region.top <= needed.start && region.top + region.height >= needed.end;
        let Some(plan) = planned.as_ref().filter(|_| !has_all) else {
            write(&mut stored, &(0..geometry.window.height))?;
            return Ok(stored.is_complete());
        };
        let mut is_complete = false;
        for (number, strip) in plan.strips.iter().enumerate() {
            if number > 0 {
                stored = decoder.stored(payload, how.decode, |_, _| plan.part(&how, strip))?;
            }
            is_complete |= stored.is_complete();
            write(&mut stored, strip)?;
        }
        Ok(is_complete)
    }
}

fn plan(how: &Rendering<'_>, oriented: Sides, draw: Draw, limits: Limits) -> Result<Plan> {
    let geometry = how.geometry(oriented, draw)?;
    let headroom = match how.mode {
        Mode::Exact => None,
        Mode::Fast => Some(2),
        Mode::Draft => Some(1),
    };
    let denominator = headroom.map_or(1, |headroom| geometry.reduction(headroom));
    let side = |side: usize| side.div_ceil(denominator);
    let scaled = geometry
        .scaled(oriented, Sides { height: side(oriented.height), width: side(oriented.width) });
    let strips = strips(how.transform, &scaled, &(0..scaled.window.height), limits.decoded);
    Ok(Plan {
        geometry,
        scaled,
        oriented,
        denominator: u32::try_from(denominator).unwrap_or(1),
        strips,
    })
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
    use crate::geometry::Fit;
    use crate::resize::Filter;
    use crate::test_jpegs::{KINDS, jpeg_of_kind, with_orientation};
    use crate::transform::Spec;

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
        renderer.render(payload, how, Draws::new(0, 0, "image").at(row, 0, 0), |sides| {
            out.resize(sides.height * sides.width * how.transform.spec().channels.count(), 7);
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
            size: None,
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
                size: None,
            };
            prop_assert_eq!(
                rendered(SMALL, &payload, how, row),
                rendered(Limits::default(), &payload, how, row)
            );
        }
    }
}
