//! Pixels of encoded images, as columns of a data set.
//!
//! The invariant: the pixels of an image depend on its bytes, the options, and a draw that follows from the seed, the epoch and the row.

mod canvas;
mod rendering;
mod source;

pub(crate) use self::canvas::Canvas;
pub(crate) use self::rendering::{Rendering, RowPlace};
pub use self::source::ImageSource;

use arrow_schema::{DataType, Field, FieldRef};
use shardmill_pixels::decode::{DecodeOptions, Mode};
use shardmill_pixels::{Draw, Draws, Dtype, Fit, Layout, Rendering as Renders, Sides, Spec, Transform};
use std::sync::Arc;

/// Mean number of pixels of an image whose size is its own, for budgets.
const TYPICAL_PIXELS: usize = 512 * 512;

/// How the images of a column become pixels.
#[derive(Debug, Clone)]
pub struct ImageOptions {
    pub column: String,
    pub source: ImageSource,
    pub decode: DecodeOptions,
    pub mode: Mode,
    pub spec: Spec,
    /// A bad image is filled with the background and marked, in place of the policy for bad rows.
    pub fills_bad: bool,
}

/// A column of images.
#[derive(Debug)]
pub struct Images {
    options: ImageOptions,
    transform: Transform,
    /// The pixels, then their shapes if sizes vary, then the marks of bad images.
    outputs: Vec<FieldRef>,
}

/// Where a row is, for its draws.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ImagePlace<'a> {
    /// Path of its file, and that path below the root of its data set.
    pub(crate) file: &'a str,
    pub(crate) relative: &'a str,
    pub(crate) source: u64,
    /// Number in the files of its data set.
    pub(crate) row: u64,
    pub(crate) round: u64,
}

/// What the draws of an epoch depend on, beside the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Seeds {
    pub(crate) seed: i64,
    pub(crate) epoch: u64,
}

impl Images {
    #[must_use]
    pub fn new(options: ImageOptions) -> Self {
        let name = &options.column;
        let element = match options.spec.dtype {
            Dtype::U8 => DataType::UInt8,
            Dtype::F32 => DataType::Float32,
            // Arrow has no type for these bits.
            Dtype::Bf16 => DataType::UInt16,
        };
        let item = |data_type: DataType| Arc::new(Field::new("item", data_type, false));
        let nested = |element: DataType, sides: &[usize]| {
            let list = |inner: DataType, side: &usize| DataType::FixedSizeList(item(inner), i32::try_from(*side).unwrap_or(i32::MAX));
            sides.iter().rev().fold(element, list)
        };
        let shape = fixed_shape(&options.spec);
        let pixels = match shape {
            Some(shape) => nested(element, &shape),
            None => DataType::List(item(element)),
        };
        // A null cell stays null, and the policy for nulls decides.
        let mut outputs = vec![Arc::new(Field::new(name, pixels, !options.fills_bad))];
        if shape.is_none() {
            outputs.push(Arc::new(Field::new(format!("{name}__shape"), nested(DataType::Int32, &[2]), false)));
        }
        if options.fills_bad {
            outputs.push(Arc::new(Field::new(format!("{name}__valid"), DataType::Boolean, false)));
        }
        let transform = Transform::new(options.spec.clone());
        Self { options, transform, outputs }
    }

    #[must_use]
    pub fn column(&self) -> &str {
        &self.options.column
    }

    #[must_use]
    pub fn options(&self) -> &ImageOptions {
        &self.options
    }

    #[must_use]
    pub fn transform(&self) -> &Transform {
        &self.transform
    }

    /// Whether cells may name files.
    pub(crate) fn reads_files(&self) -> bool {
        !matches!(self.options.source, ImageSource::Bytes)
    }

    #[must_use]
    pub fn outputs(&self) -> &[FieldRef] {
        &self.outputs
    }

    /// The draw of a row; `round` counts how often all rows of its source were drawn before.
    #[must_use]
    pub fn draw_of(&self, seed: i64, source: u64, row: u64, epoch: u64, round: u64) -> Draw {
        // The counter has 32 bits for an epoch and 24 for a round, more than a run lives to see.
        let low = |number: u64| u32::try_from(number & u64::from(u32::MAX)).unwrap_or_default();
        Draws::new(seed.cast_unsigned(), source, &self.options.column).at(row, low(epoch), low(round))
    }

    pub(crate) fn row_bytes(&self) -> u64 {
        let values = self.fixed_len().unwrap_or(TYPICAL_PIXELS * self.options.spec.channels.count());
        (values * self.options.spec.dtype.bytes()) as u64
    }

    fn draw(&self, place: ImagePlace<'_>, seeds: Seeds) -> Draw {
        self.draw_of(seeds.seed, place.source, place.row, seeds.epoch, place.round)
    }

    fn rendering(&self) -> Renders<'_> {
        Renders { decode: &self.options.decode, mode: self.options.mode, transform: &self.transform }
    }

    /// Number of values of each image, if all are equally large.
    fn fixed_len(&self) -> Option<usize> {
        fixed_shape(&self.options.spec).map(|shape| shape.iter().product())
    }

    fn values_of(&self, sides: Sides) -> usize {
        sides.height * sides.width * self.options.spec.channels.count()
    }

    /// Of an image that is not there.
    fn blank_sides(&self) -> Sides {
        match fixed_shape(&self.options.spec) {
            Some(_) => self.options.spec.size.unwrap_or(Sides { height: 0, width: 0 }),
            None => Sides { height: 0, width: 0 },
        }
    }

    fn fill(&self, sides: Sides, out: &mut [u8]) {
        self.transform.fill(sides, out);
    }
}

/// Shape of each image, if all have the same.
fn fixed_shape(spec: &Spec) -> Option<[usize; 3]> {
    let Sides { height, width } = match spec.fit {
        Fit::Keep | Fit::Longest => return None,
        Fit::Crop | Fit::Stretch | Fit::Pad | Fit::RandomCrop { .. } => spec.size?,
    };
    let channels = spec.channels.count();
    Some(match spec.layout {
        Layout::Chw => [channels, height, width],
        Layout::Hwc => [height, width, channels],
    })
}
