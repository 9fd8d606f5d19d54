//! Renders the image columns of a superbatch, row by row.
//!
//! The invariant: all image columns hold the same rows. A row with a bad image is in none of them.

use super::source::{Cell, Fault};
use super::{Canvas, HostMemory, Seeds, masked};
use crate::{Dataset, Error, Result};
use arrow_array::cast::AsArray;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, new_empty_array};
use arrow_schema::{DataType, Field, FieldRef, Schema};
use std::sync::Arc;

/// Image columns while they are filled.
#[derive(Debug)]
pub(crate) struct Rendering {
    seeds: Seeds,
    groups: Vec<Group>,
}

/// The outputs of one image column.
#[derive(Debug)]
struct Group {
    name: String,
    /// Column of the data set with the bytes.
    column: usize,
    /// Places among the requested columns, each with the number of the output.
    places: Vec<(usize, usize)>,
    canvas: Canvas,
}

/// Where a row is: its file, and its number there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowPlace {
    pub(crate) file: usize,
    pub(crate) row: u64,
    pub(crate) round: u64,
}

/// A row with an image that cannot be rendered.
#[derive(Debug)]
pub(crate) struct BadImage {
    pub(crate) column: String,
    pub(crate) fault: Fault,
}

impl Rendering {
    /// `None` if none of the columns has images. Pixels are put into `memory` if there is one, and
    /// all of a column are equally large.
    ///
    /// # Errors
    /// When `memory` has no room for the pixels.
    pub(crate) fn new(
        dataset: &Dataset,
        columns: &[usize],
        rows: &RecordBatch,
        seeds: Seeds,
        memory: Option<&dyn HostMemory>,
    ) -> Result<Option<Self>> {
        let mut groups: Vec<Group> = Vec::new();
        for (place, column) in
            columns.iter().enumerate().filter(|(_, column)| dataset.has_images(**column))
        {
            let (Some(images), Some(field), Some(cells)) = (
                dataset.images_of(*column),
                dataset.schema().fields().get(*column),
                rows.columns().get(place),
            ) else {
                continue;
            };
            let output = images
                .outputs()
                .iter()
                .position(|output| output.name() == field.name())
                .unwrap_or_default();
            match groups.iter_mut().find(|group| group.name == images.column()) {
                Some(group) => group.places.push((place, output)),
                None => groups.push(Group {
                    name: images.column().to_owned(),
                    column: *column,
                    places: vec![(place, output)],
                    canvas: Canvas::new(images, cells, memory)?,
                }),
            }
        }
        Ok((!groups.is_empty()).then_some(Self { seeds, groups }))
    }

    /// A rendering of `rows`, the next ones, in the same memory. [`Self::append`] adds it.
    pub(crate) fn split(&mut self, rows: &RecordBatch) -> Self {
        let groups = self.groups.iter_mut().map(|group| {
            let cells = group.places.first().and_then(|(place, _)| rows.columns().get(*place));
            let none: ArrayRef = new_empty_array(&DataType::Null);
            Group {
                name: group.name.clone(),
                column: group.column,
                places: group.places.clone(),
                canvas: group.canvas.split(cells.unwrap_or(&none)),
            }
        });
        Self { seeds: self.seeds, groups: groups.collect() }
    }

    /// Adds row `row` of `rows`, which is at `place`. Returns why an image of it is filled.
    ///
    /// # Errors
    /// When one of its images is bad; the row is then left out.
    pub(crate) fn add(
        &mut self,
        dataset: &Dataset,
        rows: &RecordBatch,
        row: usize,
        place: RowPlace,
    ) -> std::result::Result<Option<String>, BadImage> {
        let (mut failure, mut filled) = (None, None);
        let before = self.groups.first().map_or(0, |group| group.canvas.rows());
        for group in &mut self.groups {
            let encoded = group.places.first().and_then(|(place, _)| rows.columns().get(*place));
            let added = match dataset.image_place(group.column, place.file, place.row, place.round)
            {
                Some((images, place)) => {
                    group.canvas.add(images, Cell::at(encoded, row), place, self.seeds)
                }
                None => {
                    group.canvas.add_missing();
                    Ok(None)
                }
            };
            match added {
                Ok(cause) => filled = filled.or(cause),
                Err(fault) => {
                    let column = dataset.encoded_name(group.column, place.file);
                    failure = Some(BadImage { column, fault });
                    break;
                }
            }
        }
        match failure {
            None => Ok(filled),
            Some(failure) => {
                self.groups.iter_mut().for_each(|group| group.canvas.truncate(before));
                Err(failure)
            }
        }
    }

    /// Adds the rows of `other`, which has the same columns.
    pub(crate) fn append(&mut self, other: Self) {
        for (group, other) in self.groups.iter_mut().zip(other.groups) {
            group.canvas.append(other.canvas);
        }
    }

    /// Number of images that were decoded.
    pub(crate) fn decoded(&self) -> u64 {
        self.groups.iter().map(|group| group.canvas.decoded()).sum()
    }

    /// `rows` with pixels in place of encoded images. They are the rows
    /// that were added, in this order.
    pub(crate) fn finish(self, rows: RecordBatch) -> Result<RecordBatch> {
        let (schema, mut arrays, count) = rows.into_parts();
        let mut fields: Vec<FieldRef> = schema.fields().iter().cloned().collect();
        for group in self.groups {
            if let Some((labels, mask)) = group.canvas.masked()
                && let Some(lists) = schema.index_of(labels).ok().and_then(|at| arrays.get_mut(at))
            {
                *lists = masked_rows(lists, &group.canvas.filled_rows(), mask)?;
            }
            let outputs: Vec<(Field, ArrayRef)> = group.canvas.finish()?;
            for (place, output) in group.places {
                if let (Some(array), Some(field), Some((made, pixels))) =
                    (arrays.get_mut(place), fields.get_mut(place), outputs.get(output))
                {
                    *array = Arc::clone(pixels);
                    *field = Arc::new(made.clone());
                }
            }
        }
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
            .map_err(Error::assemble)
    }
}

/// Lists of labels, which are masked in these rows.
fn masked_rows(lists: &ArrayRef, rows: &[usize], mask: i64) -> Result<ArrayRef> {
    let offsets = lists.as_list_opt::<i32>().map(|lists| lists.offsets().clone());
    let offset = |row: usize| {
        let offset = offsets.as_ref().and_then(|offsets| offsets.get(row));
        offset.and_then(|offset| usize::try_from(*offset).ok()).unwrap_or_default()
    };
    let items = rows.iter().map(|row| offset(*row)..offset(row + 1));
    masked(lists, items, mask).map_err(Error::assemble)
}

impl BadImage {
    pub(crate) fn into_error(self, path: String, row: u64) -> Error {
        match self.fault {
            Fault::Bad(reason) => Error::BadImage { path, row, column: self.column, reason },
            Fault::Store(error) => Error::Storage(error),
        }
    }
}
