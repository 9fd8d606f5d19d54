//! Pixels of encoded images, as columns of a data set.
//!
//! The invariant: the pixels of an image depend only on its bytes, the options and its [`Draw`].

mod canvas;
mod large;
mod memory;
mod planned;
mod rendering;
mod shape;
mod source;

pub(crate) use self::canvas::Canvas;
pub use self::memory::{HostMemory, LentMemory};
pub(crate) use self::planned::masked;
pub use self::planned::{ImageLimits, Planned};
pub(crate) use self::rendering::{Rendering, RowPlace};
pub(crate) use self::shape::Shape;
pub use self::source::ImageSource;
pub(crate) use self::source::{Encoded, Fault, list_items, of_document};

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::{DataType, Field, FieldRef};
use shardmill_pixels::decode::{DecodeOptions, Mode, checked_facts};
use shardmill_pixels::{
    Draw, Draws, Dtype, Fit, Layout, Rendering as Renders, Sides, Sizes, Spec, Transform,
};
use std::sync::Arc;

/// Mean number of pixels of an image whose size is its own, for budgets.
const TYPICAL_PIXELS: usize = 512 * 512;

/// Mean number of images of a list, for budgets.
const TYPICAL_IMAGES: usize = 4;

/// Height and width of the image, top, left, height and width of the part that is taken, whether it
/// is flipped, and the orientation.
const GEOMETRY_NUMBERS: usize = 8;

/// How the images of a column become pixels.
#[derive(Debug, Clone)]
pub struct ImageOptions {
    pub column: String,
    pub source: ImageSource,
    pub decode: DecodeOptions,
    pub mode: Mode,
    pub spec: Spec,
    /// Deliver the encoded bytes and their geometry, for a decoder elsewhere.
    pub is_encoded: bool,
    /// A bad image is filled with the background and marked, in place of the policy for bad rows.
    pub fills_bad: bool,
    /// The images of a row are those of a document.
    pub planned: Option<Planned>,
}

/// A column of images.
#[derive(Debug)]
pub struct Images {
    options: ImageOptions,
    transform: Transform,
    /// Whether a cell is a list of images.
    is_list: bool,
    /// The pixels or bytes, then the shapes or geometries where rows differ,
    /// then the marks of bad images.
    outputs: Vec<FieldRef>,
}

/// Where a row is, for its draws.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ImagePlace<'a> {
    /// The root of its data set.
    pub(crate) root: &'a str,
    pub(crate) source: u64,
    /// Number in the files of its data set.
    pub(crate) row: u64,
    pub(crate) round: u64,
    /// Number in the list of the row.
    pub(crate) item: u64,
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
            let list = |inner: DataType, side: &usize| {
                DataType::FixedSizeList(item(inner), i32::try_from(*side).unwrap_or(i32::MAX))
            };
            sides.iter().rev().fold(element, list)
        };
        let transform = Transform::new(options.spec.clone());
        if let Some(planned) = &options.planned {
            let name = planned.output.clone();
            let mut images = Self { options, transform, is_list: true, outputs: Vec::new() };
            let part = images.part().unwrap_or_default();
            let pixels = planned::field(&name, nested(element, &part));
            images.outputs = vec![pixels, planned::valid_field()];
            return images;
        }
        let shape = fixed_shape(&options);
        let pixels = match shape {
            Some(shape) => nested(element, &shape),
            None => DataType::List(item(element)),
        };
        // A null cell stays null, and the policy for nulls decides.
        let mut outputs = vec![Arc::new(Field::new(name, pixels, !options.fills_bad))];
        if shape.is_none() {
            let (suffix, numbers) =
                if options.is_encoded { ("geometry", GEOMETRY_NUMBERS) } else { ("shape", 2) };
            outputs.push(Arc::new(Field::new(
                format!("{name}__{suffix}"),
                nested(DataType::Int32, &[numbers]),
                false,
            )));
        }
        if options.fills_bad {
            outputs.push(Arc::new(Field::new(format!("{name}__valid"), DataType::Boolean, false)));
        }
        Self { options, transform, is_list: false, outputs }
    }

    /// The same for a column of lists of images.
    #[must_use]
    pub fn of_lists(&self) -> Self {
        let listed = |(number, field): (usize, &FieldRef)| {
            let item = Field::new("item", field.data_type().clone(), field.is_nullable());
            // A null list stays null, as a null cell does, unless bad images are filled: then it
            // has no images. Shapes and marks of no image are an empty list.
            Arc::new(Field::new(
                field.name(),
                DataType::List(Arc::new(item)),
                number == 0 && !self.options.fills_bad,
            ))
        };
        let outputs = self.outputs.iter().enumerate().map(listed).collect();
        Self {
            options: self.options.clone(),
            transform: self.transform.clone(),
            is_list: true,
            outputs,
        }
    }

    /// Whether a cell is a list of images.
    #[must_use]
    pub fn is_list(&self) -> bool {
        self.is_list
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
        Draws::new(seed.cast_unsigned(), source, &self.options.column).at(
            row,
            low(epoch),
            low(round),
        )
    }

    pub(crate) fn row_bytes(&self) -> u64 {
        let values =
            self.fixed_len().unwrap_or(TYPICAL_PIXELS * self.options.spec.channels.count());
        let images = if self.is_list { TYPICAL_IMAGES } else { 1 };
        (values * self.options.spec.dtype.bytes() * images) as u64
    }

    fn draw(&self, place: ImagePlace<'_>, seeds: Seeds) -> Draw {
        self.draw_of(seeds.seed, place.source, place.row, seeds.epoch, place.round)
            .of_item(place.item)
    }

    /// What a decoder elsewhere does with an image, or why it is bad.
    fn geometry(
        &self,
        payload: &[u8],
        place: ImagePlace<'_>,
        seeds: Seeds,
    ) -> shardmill_pixels::Result<[i32; GEOMETRY_NUMBERS]> {
        let options = &self.options.decode;
        let facts = checked_facts(payload, options)?;
        let (size, orientation) = if options.orientation {
            (facts.oriented, facts.orientation)
        } else {
            (facts.stored, 1)
        };
        let sides = Sides { height: size.height as usize, width: size.width as usize };
        let geometry = self.transform.geometry(sides, self.draw(place, seeds))?;
        let region = geometry.region;
        let numbers = [
            sides.height,
            sides.width,
            region.top,
            region.left,
            region.height,
            region.width,
            usize::from(geometry.flip),
            orientation.into(),
        ];
        Ok(numbers.map(|number| i32::try_from(number).unwrap_or(i32::MAX)))
    }

    /// Numbers of a row beside its values.
    fn numbers(&self) -> usize {
        match (self.options.is_encoded, self.fixed_len()) {
            (true, _) => GEOMETRY_NUMBERS,
            (false, None) if self.options.planned.is_some() => 0,
            (false, None) => 2,
            (false, Some(_)) => 0,
        }
    }

    /// `sizes` are those of the image, if images differ in size.
    fn rendering<'a>(&'a self, sizes: Option<Sizes<'a>>) -> Renders<'a> {
        Renders {
            decode: &self.options.decode,
            mode: self.options.mode,
            transform: &self.transform,
            sizes,
        }
    }

    /// Whether the pixels of all rows are one array, in a place that is known before
    /// the first of them.
    pub(crate) fn is_fixed(&self) -> bool {
        self.fixed_len().is_some() && !self.is_list
    }

    /// Number of values of each image, if all are equally large.
    fn fixed_len(&self) -> Option<usize> {
        fixed_shape(&self.options).map(|shape| shape.iter().product())
    }

    /// Number of values of the images of cells; 0 if their sizes are not known.
    fn values_of_cells(&self, cells: &ArrayRef) -> usize {
        match (self.fixed_len(), cells.as_list_opt::<i32>()) {
            (Some(values), None) => values.saturating_mul(cells.len()),
            _ if self.options.planned.is_none() => 0,
            (_, Some(lists)) => {
                let bound =
                    |row: Option<&i32>| row.map_or(0, |row| usize::try_from(*row).unwrap_or(0));
                let offsets = lists.value_offsets();
                let range = bound(offsets.first())..bound(offsets.last());
                self.planned_values(lists.values(), range)
            }
            (None, None) => self.planned_values(cells, 0..cells.len()),
        }
    }

    fn values_of(&self, sides: Sides) -> usize {
        let spec = &self.options.spec;
        sides.height * sides.width * spec.channels.count() * spec.layout.copies()
    }

    /// Of an image that is not there.
    fn blank_sides(&self) -> Sides {
        match fixed_shape(&self.options) {
            Some(_) => self.options.spec.size.unwrap_or(Sides { height: 0, width: 0 }),
            None => Sides { height: 0, width: 0 },
        }
    }

    fn fill(&self, sides: Sides, out: &mut [u8]) {
        self.transform.fill(sides, out);
    }
}

/// Shape of each image, if all have the same.
fn fixed_shape(options: &ImageOptions) -> Option<[usize; 3]> {
    let spec = &options.spec;
    let Sides { height, width } = match spec.fit {
        _ if options.is_encoded => return None,
        Fit::Keep | Fit::Longest => return None,
        Fit::Crop | Fit::CropEnd | Fit::Stretch | Fit::Pad | Fit::RandomCrop { .. } => spec.size?,
    };
    let channels = spec.channels.count();
    Some(match spec.layout {
        Layout::Chw => [channels, height, width],
        Layout::Hwc => [height, width, channels],
        Layout::Patches(_) => return None,
    })
}
