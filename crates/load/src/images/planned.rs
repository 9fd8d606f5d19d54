//! Images of documents, whose sizes and tokens a rule decides from their headers, or from the sizes
//! that columns state.
//!
//! The invariant: tokens and pixels of an image are planned by the same function of its bytes, or
//! of its stated size; an image of another size has no pixels.

use super::canvas::cause_of;
use super::source::Encoded;
use super::{ImageOptions, Images, Shape};
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, FixedSizeListArray, Int64Array, ListArray, StructArray};
use arrow_schema::{ArrowError, DataType, Field, FieldRef};
use shardmill_images::ImageSize;
use shardmill_pixels::decode::{check_limits, checked_facts};
use shardmill_pixels::{Cause, Dtype, Layout, Sides, Sizes};
use shardmill_plan::images::{PlannedImage, Rule};
use std::ops::Range;
use std::sync::Arc;

/// Whether each image was decoded.
pub(crate) const IMAGE_VALID: &str = "image_valid";

/// How the images of a document become pixels.
#[derive(Debug, Clone)]
pub struct Planned {
    pub rule: Rule,
    /// Name of the column of pixels.
    pub output: String,
    /// Whether packs have positions of three axes.
    pub has_rope: bool,
    /// Of the channels of pixels that are not normalized, in place of those that cannot be decoded.
    pub mean: [u8; 3],
    /// Column of labels, and the value they get in a document with an image that is not decoded.
    pub masked: Option<(String, i64)>,
    /// Lists of the widths and heights of the parts of documents, in place of headers.
    pub sizes: Option<[String; 2]>,
    /// Images with more are left out.
    pub limits: Option<ImageLimits>,
}

/// The most tokens and patches of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageLimits {
    pub tokens: u32,
    pub patches: u32,
}

impl ImageLimits {
    fn have_room(self, tokens: u64, patches: u64) -> bool {
        tokens <= u64::from(self.tokens) && patches <= u64::from(self.patches)
    }
}

impl Images {
    /// The plan of an image, or why there is none.
    pub(crate) fn plan(&self, image: Encoded<'_>) -> Result<PlannedImage, String> {
        self.plan_with_stages(image).map(|(image, _)| image)
    }

    /// The lists of stated widths and heights, if they take the place of headers.
    pub(crate) fn size_lists(&self) -> &[String] {
        let planned = self.options().planned.as_ref();
        let sizes = planned.and_then(|planned| planned.sizes.as_ref());
        sizes.map(<[String; 2]>::as_slice).unwrap_or_default()
    }

    /// Width and height of an image as displayed.
    fn size(&self, image: Encoded<'_>) -> Result<(i32, i32), String> {
        if self.size_lists().is_empty() {
            return self.header_size(image.bytes.ok_or("its bytes are null")?);
        }
        let (width, height) = image.size.ok_or("its stated size is null")?;
        if let (Ok(width), Ok(height)) = (u32::try_from(width), u32::try_from(height)) {
            let most = self.options().decode.max_pixels;
            let checked = check_limits(ImageSize { width, height }, most);
            checked.map_err(|error| cause_of(&error))?;
        }
        Ok((width, height))
    }

    fn header_size(&self, payload: &[u8]) -> Result<(i32, i32), String> {
        let facts = checked_facts(payload, &self.options().decode);
        let size = facts.map_err(|error| cause_of(&error))?.oriented;
        let side = |side: u32| i32::try_from(side).unwrap_or(i32::MAX);
        Ok((side(size.width), side(size.height)))
    }

    /// The bytes of an image, if it has the size that it is planned with.
    pub(super) fn planned_payload<'a>(&self, image: Encoded<'a>) -> Result<&'a [u8], String> {
        if self.size_lists().is_empty() {
            return image.bytes.ok_or_else(|| "its bytes are null".to_owned());
        }
        let differs = |reason: String| format!("{} ({reason})", Cause::Size);
        let payload = image.bytes;
        let payload = payload
            .ok_or_else(|| differs("a size is stated, but no image belongs to it".to_owned()))?;
        let (own, stated) = (self.header_size(payload)?, image.size.unwrap_or_default());
        if own == stated {
            return Ok(payload);
        }
        let [own, stated] = [own, stated].map(|(width, height)| format!("{width} x {height}"));
        Err(differs(format!("it is {own}, but {stated} is stated")))
    }

    /// The plan of an image, and the intermediate sizes that it is resized to first.
    fn plan_with_stages(&self, image: Encoded<'_>) -> Result<(PlannedImage, Vec<Sides>), String> {
        let Some(planned) = &self.options().planned else {
            return Err("its column has no rule".to_owned());
        };
        let (width, height) = self.size(image)?;
        let image = planned.rule.plan(height, width);
        let planned = image.and_then(|image| Ok((image, planned.rule.stages(height, width)?)));
        let (image, stages) = planned.map_err(|refusal| format!("unplannable ({refusal})"))?;
        Ok((image, stages.into_iter().map(|size| sides(size.height, size.width)).collect()))
    }

    /// The sizes of an image, and the number of its values.
    pub(super) fn planned_sizes(&self, image: Encoded<'_>) -> Result<PlannedSizes, String> {
        let (image, stages) = self.plan_with_stages(image)?;
        // If there are several tiles, the whole image follows them.
        let has_overview = image.patches > image.rows * image.cols;
        let overview = match self.options().spec.layout {
            Layout::Patches(tiles) if has_overview => {
                Some(Sides { height: tiles.size, width: tiles.size })
            }
            _ => None,
        };
        let values = usize::try_from(image.patches).unwrap_or(usize::MAX);
        Ok(PlannedSizes {
            stages,
            target: sides(image.height, image.width),
            overview,
            values: values.saturating_mul(self.patch_values()),
        })
    }

    /// Number of values of the images of these items, except images that documents leave out.
    pub(super) fn planned_values(&self, items: &ArrayRef, range: Range<usize>) -> usize {
        let Some(cells) = items.as_struct_opt() else { return 0 };
        let values = |item: usize| {
            let sizes = self.planned_sizes(Encoded::at(cells, item)).ok()?;
            (!self.leaves_out(cells, item)).then_some(sizes.values)
        };
        range.filter_map(values).fold(0, usize::saturating_add)
    }

    /// The same with limits.
    pub(crate) fn limited(&self, limits: ImageLimits) -> Self {
        let planned = self.options.planned.clone();
        let planned = planned.map(|planned| Planned { limits: Some(limits), ..planned });
        Self {
            options: ImageOptions { planned, ..self.options.clone() },
            transform: self.transform.clone(),
            is_list: self.is_list,
            outputs: self.outputs.clone(),
        }
    }

    fn limits(&self) -> Option<ImageLimits> {
        self.options().planned.as_ref()?.limits
    }

    /// Whether an image is within the limits.
    pub(crate) fn has_room(&self, image: &PlannedImage) -> bool {
        let patches = self.shape().map_or(1, |_| image.patches);
        self.limits().is_none_or(|most| most.have_room(image.tokens, patches))
    }

    /// Whether any image may exceed these limits.
    pub(crate) fn may_exceed(&self, limits: ImageLimits) -> bool {
        let most = self.options().planned.as_ref().and_then(|planned| planned.rule.most());
        most.is_none_or(|(tokens, patches)| !limits.have_room(tokens, patches))
    }

    /// Whether an item of the parts of a document has no place among its images: it is a text, an
    /// image without a plan, or one that exceeds the limits.
    pub(crate) fn leaves_out(&self, cells: &StructArray, item: usize) -> bool {
        let image = Encoded::at(cells, item);
        let is_text =
            if self.size_lists().is_empty() { image.bytes.is_none() } else { image.size.is_none() };
        if is_text || (!self.options().fills_bad && self.limits().is_none()) {
            return is_text;
        }
        match self.plan(image) {
            Ok(image) => !self.has_room(&image),
            Err(_) => self.options().fills_bad,
        }
    }

    /// Fills the pixels of an image that cannot be decoded with the mean, which is 0 in normalized
    /// pixels.
    pub(super) fn fill_mean(&self, out: &mut [u8]) {
        let spec = &self.options().spec;
        let Some(planned) = &self.options().planned else { return };
        if spec.dtype != Dtype::U8 {
            return out.fill(0);
        }
        let of_channel = match spec.layout {
            Layout::Patches(patches) if patches.is_interleaved => 1,
            Layout::Patches(_) => self.patch_values() / spec.channels.count(),
            _ => out.len() / spec.channels.count(),
        };
        for (values, mean) in out.chunks_mut(of_channel.max(1)).zip(planned.mean.iter().cycle()) {
            values.fill(*mean);
        }
    }

    /// Whether packs have positions of three axes.
    pub(crate) fn has_rope(&self) -> bool {
        self.options().planned.as_ref().is_some_and(|planned| planned.has_rope)
    }

    /// Patches on a side of the square that is one token.
    pub(crate) fn merge(&self) -> i64 {
        match self.options().spec.layout {
            Layout::Patches(patches) => i64::try_from(patches.merge).unwrap_or(i64::MAX),
            _ => 1,
        }
    }

    /// Size of the pixels of a patch.
    pub(crate) fn patch_bytes(&self) -> u64 {
        (self.patch_values() * self.options().spec.dtype.bytes()) as u64
    }

    /// Number of values of a patch.
    fn patch_values(&self) -> usize {
        let spec = &self.options().spec;
        let area = match (spec.layout, self.shape(), spec.size) {
            (Layout::Patches(patches), ..) => patches.frames * patches.size * patches.size,
            (_, Some(Shape::Size(patch)), _) => usize::try_from(patch * patch).unwrap_or_default(),
            (.., Some(Sides { height, width })) => height * width,
            (.., None) => 0,
        };
        area * spec.channels.count()
    }

    /// Size of the pixels of images that have this many tokens.
    pub(crate) fn bytes_of_tokens(&self, tokens: u64) -> u64 {
        let Some(planned) = &self.options().planned else { return 0 };
        planned.rule.most_patches(tokens).saturating_mul(self.patch_bytes())
    }

    /// Shape of each of the equal parts that the pixels of an image consist of: its patches, its
    /// tiles, the image itself, or its values if images differ in size.
    pub(super) fn part(&self) -> Option<Vec<usize>> {
        let (spec, _) = (&self.options().spec, self.options().planned.as_ref()?);
        let channels = spec.channels.count();
        Some(match (spec.layout, self.shape(), spec.size) {
            (Layout::Patches(tiles), Some(Shape::Tiles), _) => {
                vec![channels, tiles.size, tiles.size]
            }
            (Layout::Patches(_), ..) => vec![self.patch_values()],
            (.., Some(Sides { height, width })) => vec![channels, height, width],
            (.., None) => Vec::new(),
        })
    }
}

/// What an image with a plan is resized to.
#[derive(Debug)]
pub(super) struct PlannedSizes {
    stages: Vec<Sides>,
    pub(super) target: Sides,
    overview: Option<Sides>,
    /// Number of values of all its patches.
    pub(super) values: usize,
}

impl PlannedSizes {
    pub(super) fn sizes(&self) -> Sizes<'_> {
        Sizes { stages: &self.stages, target: self.target, overview: self.overview }
    }
}

/// The column of the parts of all images of a row.
pub(super) fn field(name: &str, part: DataType) -> FieldRef {
    let item = Arc::new(Field::new("item", part, false));
    Arc::new(Field::new(name, DataType::List(item), false))
}

/// Lists of labels, whose `items` are replaced by `mask`.
pub(crate) fn masked(
    lists: &ArrayRef,
    items: impl Iterator<Item = Range<usize>>,
    mask: i64,
) -> Result<ArrayRef, ArrowError> {
    let masked = |labels: &ArrayRef| -> ArrayRef {
        let Some(labels) = labels.as_primitive_opt::<Int64Type>() else {
            return Arc::clone(labels);
        };
        let mut values = labels.values().to_vec();
        items.for_each(|items| values.get_mut(items).unwrap_or_default().fill(mask));
        Arc::new(Int64Array::new(values.into(), labels.nulls().cloned()))
    };
    let nulls = lists.nulls().cloned();
    Ok(match lists.data_type() {
        DataType::FixedSizeList(item, size) => {
            let values = masked(lists.as_fixed_size_list().values());
            Arc::new(FixedSizeListArray::try_new(Arc::clone(item), *size, values, nulls)?)
        }
        DataType::List(item) => {
            let (ends, values) = (lists.as_list().offsets(), lists.as_list::<i32>().values());
            Arc::new(ListArray::try_new(Arc::clone(item), ends.clone(), masked(values), nulls)?)
        }
        _ => Arc::clone(lists),
    })
}

/// The column that says which images of a row were decoded.
pub(super) fn valid_field() -> FieldRef {
    field(IMAGE_VALID, DataType::Boolean)
}

fn sides(height: u64, width: u64) -> Sides {
    let side = |side: u64| usize::try_from(side).unwrap_or(usize::MAX);
    Sides { height: side(height), width: side(width) }
}
