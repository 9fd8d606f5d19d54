//! The pixels of the rows of a superbatch, row after row, in the buffer that is delivered.
//!
//! The invariant: a row that fails leaves the canvas unchanged.

use super::large;
use super::memory::{HostMemory, Pixels};
use super::planned::PlannedSizes;
use super::source::{Cell, Encoded, Fault, of_document};
use super::{ImagePlace, Images, Seeds};
use crate::{Error, Result};
use arrow_array::{ArrayRef, BooleanArray, FixedSizeListArray, Int32Array, ListArray, StructArray};
use arrow_buffer::{BooleanBuffer, NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field};
use shardmill_pixels::{Draw, Renderer, Sides};
use std::cell::RefCell;
use std::sync::Arc;

thread_local! {
    /// Keeps its buffers from image to image, and from superbatch to superbatch.
    static RENDERER: RefCell<Renderer> = RefCell::new(Renderer::default());
}

/// Pixels of one column.
#[derive(Debug)]
pub(crate) struct Canvas {
    images: Arc<Images>,
    pixels: Pixels,
    /// Number of values up to the end of each image.
    ends: Vec<usize>,
    /// [`Images::numbers`] of each image: its height and width, or its geometry.
    numbers: Vec<i32>,
    /// Images that are not null.
    present: Vec<bool>,
    /// Images that were decoded.
    valid: Vec<bool>,
    /// Where each row is a list of images.
    lists: Option<Lists>,
    /// Number of images whose decoding was started.
    decoded: u64,
}

/// Lists of images.
#[derive(Debug, Default)]
struct Lists {
    /// Number of images up to the end of each row.
    ends: Vec<usize>,
    /// Rows whose list is not null.
    present: Vec<bool>,
}

impl Canvas {
    /// A canvas with memory for those images of `cells` whose sizes are known.
    ///
    /// # Errors
    /// When `memory` has no room for the pixels.
    pub(crate) fn new(
        images: &Arc<Images>,
        cells: &ArrayRef,
        memory: Option<&dyn HostMemory>,
    ) -> Result<Self> {
        let values = images.values_of_cells(cells);
        let dtype = images.options().spec.dtype;
        let pixels = match memory.filter(|_| images.is_fixed()) {
            Some(memory) => Pixels::lent(memory, dtype, values)?,
            None => Pixels::new(dtype, values),
        };
        Ok(Self::of(images, pixels))
    }

    fn of(images: &Arc<Images>, pixels: Pixels) -> Self {
        Self {
            images: Arc::clone(images),
            pixels,
            ends: Vec::new(),
            numbers: Vec::new(),
            present: Vec::new(),
            valid: Vec::new(),
            lists: images.is_list().then(Lists::default),
            decoded: 0,
        }
    }

    /// A canvas for `cells`, the next ones, in the same memory. [`Self::append`] adds it.
    pub(crate) fn split(&mut self, cells: &ArrayRef) -> Self {
        Self::of(&self.images, self.pixels.split(self.images.values_of_cells(cells)))
    }

    pub(crate) fn rows(&self) -> usize {
        self.lists.as_ref().map_or(self.ends.len(), |lists| lists.ends.len())
    }

    /// Adds the image or the images of a row, or a null cell. Returns why an image is filled.
    ///
    /// # Errors
    /// Why an image is bad; nothing is added.
    pub(crate) fn add(
        &mut self,
        images: &Images,
        cell: Cell<'_>,
        place: ImagePlace<'_>,
        seeds: Seeds,
    ) -> std::result::Result<Option<String>, Fault> {
        let list = match cell {
            Cell::Image(encoded) => return self.add_image(images, encoded, place, seeds),
            Cell::List(list) => list,
        };
        let (before, mut filled) = (self.ends.len(), None);
        if let Some((cells, range)) = &list {
            for (item, number) in (0..).zip(range.clone()) {
                if images.options().planned.is_some() && images.leaves_out(cells, number) {
                    continue;
                }
                let place = ImagePlace { item, ..place };
                match self.add_image(images, Encoded::at(cells, number), place, seeds) {
                    Ok(cause) => {
                        filled = filled.or(cause.map(|cause| of_document(item, &cause)));
                    }
                    Err(fault) => {
                        self.truncate_images(before);
                        return Err(fault.of_item(item, images.options().planned.is_some()));
                    }
                }
            }
        }
        self.end_list(list.is_some());
        Ok(filled)
    }

    /// Adds the image of an item, which is not augmented. Returns why it is filled.
    ///
    /// # Errors
    /// Why it is bad.
    pub(crate) fn add_item(
        &mut self,
        images: &Images,
        cells: &StructArray,
        item: usize,
    ) -> std::result::Result<Option<String>, Fault> {
        let cell = Encoded::at(cells, item);
        self.add_image(images, cell, ImagePlace::default(), Seeds::default())
    }

    /// Makes rows of all images: `ends` are the numbers of images up to the end of each row.
    pub(crate) fn end_lists(&mut self, ends: impl Iterator<Item = usize>) {
        if let Some(lists) = &mut self.lists {
            lists.ends = ends.collect();
            lists.present = vec![true; lists.ends.len()];
        }
    }

    fn end_list(&mut self, is_present: bool) {
        let images = self.ends.len();
        if let Some(lists) = &mut self.lists {
            lists.ends.push(images);
            lists.present.push(is_present);
        }
    }

    fn add_image(
        &mut self,
        images: &Images,
        cell: Encoded<'_>,
        place: ImagePlace<'_>,
        seeds: Seeds,
    ) -> std::result::Result<Option<String>, Fault> {
        let fills = images.options().fills_bad;
        if images.options().planned.is_some() {
            return self.add_planned(images, cell, images.draw(place, seeds));
        }
        let payload = match images.options().source.payload(cell, place.root) {
            Ok(Some(payload)) => payload,
            Err(fault) if !fills || matches!(fault, Fault::Store(_)) => return Err(fault),
            Ok(None) | Err(_) => {
                self.add_blank(images, fills, false);
                return Ok(None);
            }
        };
        if images.options().is_encoded {
            return self.add_encoded(images, &payload, place, seeds).map(|()| None);
        }
        match self.render(images, &payload, None, images.draw(place, seeds)) {
            Ok(sides) => self.end_row(sides, true, true),
            Err(cause) if !fills => return Err(cause.into()),
            Err(_) => self.add_blank(images, true, false),
        }
        Ok(None)
    }

    /// Adds an image of a document, in its planned size whatever becomes of it. Returns why it is
    /// filled.
    fn add_planned(
        &mut self,
        images: &Images,
        cell: Encoded<'_>,
        draw: Draw,
    ) -> std::result::Result<Option<String>, Fault> {
        let planned = images.planned_sizes(cell)?;
        let payload = images.planned_payload(cell);
        match payload.and_then(|payload| self.render(images, payload, Some(&planned), draw)) {
            Ok(sides) => {
                self.end_row(sides, true, true);
                Ok(None)
            }
            Err(cause) if !images.options().fills_bad => Err(cause.into()),
            Err(cause) => {
                images.fill_mean(self.pixels.grow(planned.values));
                self.end_row(planned.target, true, false);
                Ok(Some(cause))
            }
        }
    }

    /// Adds the pixels of an image, and returns its sides, or why there are none.
    fn render(
        &mut self,
        images: &Images,
        payload: &[u8],
        planned: Option<&PlannedSizes>,
        draw: Draw,
    ) -> std::result::Result<Sides, String> {
        let rendering = images.rendering(planned.map(PlannedSizes::sizes));
        let planned = planned.map(|planned| planned.values);
        let before = self.pixels.len();
        let mut shape = None;
        let mut render = |renderer: &mut Renderer| {
            renderer.render(payload, rendering, draw, |sides| {
                shape = Some(sides);
                self.pixels.grow(planned.unwrap_or_else(|| images.values_of(sides)))
            })
        };
        self.decoded += 1;
        let rendered = if large::is_large(payload) {
            render(&mut large::renderer())
        } else {
            RENDERER.with_borrow_mut(render)
        };
        match (rendered, shape) {
            (Ok(()), Some(sides)) => Ok(sides),
            (outcome, _) => {
                self.pixels.truncate(before);
                let cause = outcome.err().map(|error| cause_of(&error));
                Err(cause.unwrap_or_else(|| "no pixels".to_owned()))
            }
        }
    }

    /// Adds the bytes of an image.
    fn add_encoded(
        &mut self,
        images: &Images,
        payload: &[u8],
        place: ImagePlace<'_>,
        seeds: Seeds,
    ) -> std::result::Result<(), Fault> {
        match images.geometry(payload, place, seeds) {
            Ok(geometry) => {
                self.pixels.grow(payload.len()).copy_from_slice(payload);
                self.numbers.extend(geometry);
                self.mark_row(true, true);
            }
            Err(error) if !images.options().fills_bad => return Err(cause_of(&error).into()),
            Err(_) => self.add_blank(images, true, false),
        }
        Ok(())
    }

    /// Adds a row of a file that lacks the column.
    pub(crate) fn add_missing(&mut self) {
        if self.lists.is_some() {
            return self.end_list(false);
        }
        let images = Arc::clone(&self.images);
        self.add_blank(&images, images.options().fills_bad, false);
    }

    /// An image of the background, or of zeros under a null.
    fn add_blank(&mut self, images: &Images, is_present: bool, is_valid: bool) {
        let sides = images.blank_sides();
        let out = self.pixels.grow(images.values_of(sides));
        if is_present {
            images.fill(sides, out);
        }
        self.end_row(sides, is_present, is_valid);
    }

    fn end_row(&mut self, sides: Sides, is_present: bool, is_valid: bool) {
        let sides = [sides.height, sides.width].map(|side| i32::try_from(side).unwrap_or(i32::MAX));
        // A geometry that is not there is all zeros.
        self.numbers
            .extend(sides.into_iter().chain(std::iter::repeat(0)).take(self.images.numbers()));
        self.mark_row(is_present, is_valid);
    }

    fn mark_row(&mut self, is_present: bool, is_valid: bool) {
        self.ends.push(self.pixels.len());
        self.present.push(is_present);
        self.valid.push(is_valid);
    }

    /// Adds the rows of `other`.
    pub(crate) fn append(&mut self, other: Self) {
        let before = self.ends.len();
        if let (Some(lists), Some(more)) = (&mut self.lists, other.lists) {
            lists.ends.extend(more.ends.into_iter().map(|end| before + end));
            lists.present.extend(more.present);
        }
        let before = self.pixels.len();
        self.ends.extend(other.ends.into_iter().map(|end| before + end));
        self.numbers.extend(other.numbers);
        self.present.extend(other.present);
        self.valid.extend(other.valid);
        self.decoded += other.decoded;
        self.pixels.append(other.pixels);
    }

    pub(crate) fn truncate(&mut self, rows: usize) {
        let images = match &mut self.lists {
            None => rows,
            Some(lists) => {
                lists.ends.truncate(rows);
                lists.present.truncate(rows);
                lists.ends.last().copied().unwrap_or_default()
            }
        };
        self.truncate_images(images);
    }

    fn truncate_images(&mut self, images: usize) {
        self.ends.truncate(images);
        self.present.truncate(images);
        self.valid.truncate(images);
        self.numbers.truncate(images * self.images.numbers());
        self.pixels.truncate(self.ends.last().copied().unwrap_or_default());
    }

    /// Number of images whose decoding was started, including rows that were removed again.
    pub(crate) fn decoded(&self) -> u64 {
        self.decoded
    }

    /// The column of labels that are masked in these rows, and their value.
    pub(super) fn masked(&self) -> Option<(&str, i64)> {
        let (labels, mask) = self.images.options().planned.as_ref()?.masked.as_ref()?;
        Some((labels, *mask))
    }

    /// Rows with an image that is filled.
    pub(super) fn filled_rows(&self) -> Vec<usize> {
        let Some(lists) = &self.lists else { return Vec::new() };
        let mut start = 0;
        let mut is_filled = |end: usize| {
            let images = self.valid.get(start..end).unwrap_or_default();
            start = end;
            images.contains(&false)
        };
        let rows = lists.ends.iter().enumerate();
        rows.filter_map(|(row, end)| is_filled(*end).then_some(row)).collect()
    }

    /// The outputs of [`Images::outputs`], with their fields.
    pub(crate) fn finish(self) -> Result<Vec<(Field, ArrayRef)>> {
        let Self { images, pixels, ends, numbers, present, valid, lists, .. } = self;
        let rows = ends.len();
        let too_many = || Error::TooManyPixels { column: images.column().to_owned() };
        let nulls =
            present.contains(&false).then(|| NullBuffer::from(BooleanBuffer::from(present)));
        let values = pixels.into_array();
        if let ([field, of_valid], Some(part), Some(lists)) =
            (images.outputs(), images.part(), &lists)
        {
            let part: usize = part.iter().product();
            let parts = |row: &usize| {
                row.checked_sub(1)
                    .map_or(0, |image| ends.get(image).copied().unwrap_or_default() / part.max(1))
            };
            let ends: Vec<usize> = lists.ends.iter().map(parts).collect();
            let count = ends.last().copied().unwrap_or_default();
            let valid: ArrayRef = Arc::new(BooleanArray::from(valid));
            let listed = |field: &Field, ends: &[usize], values: ArrayRef, count: usize| {
                let DataType::List(item) = field.data_type() else { return Err(too_many()) };
                let items = nested(item.data_type(), values, count, None)?;
                let offsets = offsets(ends).ok_or_else(too_many)?;
                let list = ListArray::try_new(Arc::clone(item), offsets, items, None);
                let list: ArrayRef = Arc::new(list.map_err(Error::assemble)?);
                Ok((field.clone(), list))
            };
            return Ok(vec![
                listed(field, &ends, values, count)?,
                listed(of_valid, &lists.ends, valid, rows)?,
            ]);
        }
        let mut arrays = Vec::with_capacity(images.outputs().len());
        for field in images.outputs() {
            let of_one = match field.data_type() {
                DataType::List(item) if lists.is_some() => item.data_type(),
                data_type => data_type,
            };
            let array: ArrayRef = match of_one {
                DataType::Boolean => {
                    Arc::new(BooleanArray::new(BooleanBuffer::from(valid.clone()), None))
                }
                DataType::List(item) => {
                    let offsets = offsets(&ends).ok_or_else(too_many)?;
                    Arc::new(
                        ListArray::try_new(
                            Arc::clone(item),
                            offsets,
                            Arc::clone(&values),
                            nulls.clone(),
                        )
                        .map_err(Error::assemble)?,
                    )
                }
                DataType::FixedSizeList(item, _) if *item.data_type() == DataType::Int32 => {
                    nested(of_one, Arc::new(Int32Array::from(numbers.clone())), rows, None)?
                }
                other => nested(other, Arc::clone(&values), rows, nulls.clone())?,
            };
            let array = match (&lists, field.data_type()) {
                (Some(Lists { ends, present }), DataType::List(item)) => {
                    let is_null = field.is_nullable() && present.contains(&false);
                    let nulls =
                        is_null.then(|| NullBuffer::from(BooleanBuffer::from(present.clone())));
                    let offsets = offsets(ends).ok_or_else(too_many)?;
                    Arc::new(
                        ListArray::try_new(Arc::clone(item), offsets, array, nulls)
                            .map_err(Error::assemble)?,
                    )
                }
                _ => array,
            };
            arrays.push((Field::clone(field), array));
        }
        Ok(arrays)
    }
}

/// The word that ledgers count by, and the message.
pub(super) fn cause_of(error: &shardmill_pixels::Error) -> String {
    format!("{} ({error})", error.cause())
}

/// `None` if there are more items than Arrow counts.
fn offsets(ends: &[usize]) -> Option<OffsetBuffer<i32>> {
    let offsets = std::iter::once(Some(0)).chain(ends.iter().map(|end| i32::try_from(*end).ok()));
    Some(OffsetBuffer::new(offsets.collect::<Option<Vec<i32>>>()?.into()))
}

/// Fixed-size lists around values.
fn nested(
    data_type: &DataType,
    values: ArrayRef,
    rows: usize,
    nulls: Option<NullBuffer>,
) -> Result<ArrayRef> {
    let DataType::FixedSizeList(item, size) = data_type else { return Ok(values) };
    let inner =
        nested(item.data_type(), values, rows * usize::try_from(*size).unwrap_or_default(), None)?;
    let list = FixedSizeListArray::try_new_with_length(Arc::clone(item), *size, inner, nulls, rows)
        .map_err(Error::assemble)?;
    Ok(Arc::new(list))
}
