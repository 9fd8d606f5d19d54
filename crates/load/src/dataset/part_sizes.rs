//! Sizes that columns of a row state for its images: one number, or a list of them.
//!
//! The invariant: the images of a row follow from its columns of sizes, so that a plan need not read
//! the images; what contradicts them is never delivered as an image.

use super::documents::check_side;
use crate::error::counted;
use crate::images::list_items;
use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, Int64Array, ListArray, UInt64Array};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType};
use arrow_select::take::take;
use shardmill_plan::schema::value_type;
use std::ops::Range;

/// The list that a column of sizes becomes, with an item for each part.
pub(super) fn list_name(column: &str) -> String {
    format!("{column}_of_parts")
}

/// # Errors
/// When a column has neither integers nor lists of them; `None` if it is missing.
pub(super) fn check_sides(
    path: &str,
    column: &str,
    data_type: Option<&DataType>,
) -> crate::Result<()> {
    let one = data_type.map(|data_type| match value_type(data_type) {
        DataType::List(item) => value_type(item.data_type()),
        other => other,
    });
    check_side(path, column, one)
}

/// The columns of sizes: widths, then heights.
pub(super) struct RowSizes {
    sides: [Sides; 2],
    /// Images that each row has in columns of one image.
    single: usize,
}

/// The images of a row, as its sizes tell them.
#[derive(Debug, Default)]
pub(super) struct RowImages {
    /// In the column of lists of images.
    pub(super) listed: usize,
    /// Where their widths and heights are; without, their sizes are unknown.
    first: Option<[usize; 2]>,
    /// Why they are unknown.
    pub(super) reason: Option<String>,
}

impl RowSizes {
    /// `single` is the number of columns that have one image in each row.
    pub(super) fn new(columns: [&ArrayRef; 2], single: usize) -> Result<Self, ArrowError> {
        let [widths, heights] = columns.map(Sides::new);
        Ok(Self { sides: [widths?, heights?], single })
    }

    /// `has_lists` says whether a column has lists of images.
    pub(super) fn images(&self, row: usize, has_lists: bool) -> RowImages {
        let [widths, heights] = self.sides.each_ref().map(|sides| sides.of_row(row, self.single));
        let (stated, single) = (widths.len(), self.single);
        let listed = if has_lists { stated.saturating_sub(single) } else { 0 };
        let reason = if stated != heights.len() {
            let [widths, heights] = [(stated, "width"), (heights.len(), "height")]
                .map(|(number, noun)| counted(number, noun));
            format!("the row states {widths} and {heights}")
        } else if stated != single + listed {
            mismatch(single, stated)
        } else {
            let first = Some([widths.start, heights.start]);
            return RowImages { listed, first, reason: None };
        };
        RowImages { listed, first: None, reason: Some(reason) }
    }

    /// The widths and heights at these places.
    pub(super) fn at(&self, places: &[Option<[usize; 2]>]) -> Result<[ArrayRef; 2], ArrowError> {
        let place = |side: usize| -> UInt64Array {
            let place = |places: [usize; 2]| places.get(side).map(|place| *place as u64);
            places.iter().map(|places| places.and_then(place)).collect()
        };
        let [widths, heights] = &self.sides;
        Ok([take(&widths.values, &place(0), None)?, take(&heights.values, &place(1), None)?])
    }
}

impl RowImages {
    /// Without sizes. `reason` says why an image has no bytes either.
    pub(super) fn unknown(reason: Option<String>) -> Self {
        Self { reason, ..Self::default() }
    }

    /// The same for a column that has this many images in place of the stated number.
    pub(super) fn of_column(&self, images: usize, stated: usize) -> Self {
        let differs = || (images != stated).then(|| mismatch(images, stated));
        Self { reason: self.reason.clone().or_else(differs), ..*self }
    }

    /// Where the width and the height of an image are.
    pub(super) fn place(&self, image: usize) -> Option<[usize; 2]> {
        self.first.map(|first| first.map(|place| place + image))
    }
}

/// Why a row with these numbers of images and sizes is wrong.
fn mismatch(images: usize, sizes: usize) -> String {
    format!("the row states {} for {}", counted(sizes, "size"), counted(images, "image"))
}

/// A column of sizes.
struct Sides {
    values: Int64Array,
    lists: Option<ListArray>,
}

impl Sides {
    fn new(column: &ArrayRef) -> Result<Self, ArrowError> {
        let lists = column.as_list_opt::<i32>().cloned();
        let values = cast(lists.as_ref().map_or(column, |lists| lists.values()), &DataType::Int64)?;
        Ok(Self { values: values.as_primitive::<Int64Type>().clone(), lists })
    }

    /// A number that is null is there for a column that has one image.
    fn of_row(&self, row: usize, single: usize) -> Range<usize> {
        match &self.lists {
            Some(lists) => list_items(lists, row).unwrap_or_default(),
            None if self.values.is_null(row) && single == 0 => 0..0,
            None => row..row + 1,
        }
    }
}
