//! The shape of each image of a document in batches, besides its pixels: the grid of its patches,
//! the number of its tiles, or its size.
//!
//! The invariant: the number of patches that the rule plans follows from the shape.

use super::Images;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{ArrayRef, FixedSizeListArray, Int32Array, Int64Array, ListArray};
use arrow_schema::{ArrowError, DataType, Field, FieldRef};
use shardmill_plan::images::{PlannedImage, Rule};
use std::sync::Arc;

/// The shape of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// Frames, rows and columns of patches.
    Grid,
    /// Number of tiles.
    Tiles,
    /// Height and width in pixels; the value is the side of a patch.
    Size(u64),
    /// Rows and columns of patches.
    RowsAndColumns,
}

impl Images {
    /// `None` if each image of a document is one patch.
    pub(crate) fn shape(&self) -> Option<Shape> {
        match &self.options().planned.as_ref()?.rule {
            Rule::Qwen2Vl(_) => Some(Shape::Grid),
            Rule::Tiles(_) | Rule::Idefics3(_) => Some(Shape::Tiles),
            Rule::Pixtral(rule) => Some(Shape::Size(rule.patch_side())),
            Rule::Siglip2(_) => Some(Shape::RowsAndColumns),
            Rule::Fixed(_) => None,
        }
    }
}

impl Shape {
    /// Name of the column.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Grid => "image_grid_thw",
            Self::Tiles => "image_tiles",
            Self::Size(_) => "image_sizes",
            Self::RowsAndColumns => "spatial_shapes",
        }
    }

    /// Whether the numbers of an image have 64 bits, and how many there are.
    fn numbers_of_one(self) -> (bool, i32) {
        match self {
            Self::Grid => (true, 3),
            Self::Tiles => (false, 1),
            Self::Size(_) => (false, 2),
            Self::RowsAndColumns => (true, 2),
        }
    }

    /// The numbers of an image.
    pub(crate) fn of(self, image: &PlannedImage) -> impl Iterator<Item = i64> {
        let PlannedImage { height, width, patches, rows, cols, .. } = *image;
        let numbers = match self {
            Self::Grid => [Some(1), Some(rows), Some(cols)],
            Self::Tiles => [Some(patches), None, None],
            Self::Size(_) => [Some(height), Some(width), None],
            Self::RowsAndColumns => [Some(rows), Some(cols), None],
        };
        numbers.into_iter().flatten().map(|number| i64::try_from(number).unwrap_or(i64::MAX))
    }

    /// The column of lists, for each row.
    pub(crate) fn field(self) -> FieldRef {
        let item = |data_type| Arc::new(Field::new("item", data_type, false));
        let (is_wide, width) = self.numbers_of_one();
        let number = if is_wide { DataType::Int64 } else { DataType::Int32 };
        let image = match self {
            Self::Tiles => number,
            _ => DataType::FixedSizeList(item(number), width),
        };
        Arc::new(Field::new(self.name(), DataType::List(item(image)), false))
    }

    /// Items of the column.
    pub(crate) fn items(self, numbers: Vec<i64>) -> Result<ArrayRef, ArrowError> {
        let (is_wide, width) = self.numbers_of_one();
        let small = |number| i32::try_from(number).unwrap_or(i32::MAX);
        let numbers: ArrayRef = if is_wide {
            Arc::new(Int64Array::from(numbers))
        } else {
            Arc::new(numbers.into_iter().map(small).collect::<Int32Array>())
        };
        if self == Self::Tiles {
            return Ok(numbers);
        }
        let item = Arc::new(Field::new("item", numbers.data_type().clone(), false));
        Ok(Arc::new(FixedSizeListArray::try_new(item, width, numbers, None)?))
    }

    /// Patches of an item of the column.
    pub(crate) fn patches(self, lists: &ListArray, item: usize) -> u64 {
        let items = lists.values();
        let numbers = items.as_fixed_size_list_opt().map_or(items, |lists| lists.values());
        let (_, width) = self.numbers_of_one();
        let width = usize::try_from(width).unwrap_or_default();
        let number = |at: usize| {
            let wide = numbers.as_primitive_opt::<Int64Type>();
            let wide = wide.and_then(|numbers| numbers.values().get(at).copied());
            let small = numbers.as_primitive_opt::<Int32Type>();
            let small = small.and_then(|numbers| numbers.values().get(at).copied());
            u64::try_from(wide.or(small.map(i64::from)).unwrap_or_default()).unwrap_or_default()
        };
        let product = (item * width..(item + 1) * width).map(number).product::<u64>();
        match self {
            Self::Size(patch) => product / (patch * patch).max(1),
            _ => product,
        }
    }
}
