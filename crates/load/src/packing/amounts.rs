//! What rows take of packs, as it is kept: the tokens of each row; for documents with images, also
//! their images and the patches of these.

use super::lists::{TokenLists, Wrong, offset};
use crate::Dataset;
use crate::dataset::OpenFile;
use crate::images::{Images, Shape};
use crate::sequences::{COUNTS_WITH_IMAGES, IMAGE_INDEX};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ListArray};
use arrow_buffer::BooleanBuffer;
use shardmill_plan::packing::Amount;
use std::iter::once;
use std::sync::Arc;

/// What consecutive rows take.
#[derive(Debug, Clone)]
pub(super) struct Amounts {
    numbers: Arc<[u32]>,
    /// Numbers of a row.
    width: usize,
}

impl Amounts {
    pub(super) fn new(numbers: impl Into<Arc<[u32]>>, width: usize) -> Self {
        Self { numbers: numbers.into(), width: width.max(1) }
    }

    /// Of the rows of a data set with these lists of tokens, followed by those of their images if
    /// `lists` has more. The first row that cannot be packed, and the reason, are an error.
    pub(super) fn of(
        dataset: &Dataset,
        lists: &[&ArrayRef],
        nulls_are_empty: bool,
    ) -> Result<Self, Option<(usize, Wrong)>> {
        let [tokens, images @ ..] = lists else { return Err(None) };
        let tokens = of_lists(tokens, nulls_are_empty)?;
        let Some(index) = images.first().and_then(|index| index.as_list_opt::<i32>()) else {
            return Ok(Self::new(tokens, 1));
        };
        let shape = dataset.planned_images().and_then(|(_, images)| images.shape());
        let shapes = Shapes::of(shape, images.get(1).copied());
        let of_row = |(row, tokens): (usize, u32)| {
            let (images, patches) = images_of(index, shapes, row);
            [tokens, images, patches]
        };
        let numbers: Vec<u32> = tokens.into_iter().enumerate().flat_map(of_row).collect();
        Ok(Self::new(numbers, COUNTS_WITH_IMAGES))
    }

    /// As they are kept.
    pub(super) fn numbers(&self) -> &Arc<[u32]> {
        &self.numbers
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    pub(super) fn has_images(&self) -> bool {
        self.width > 1
    }

    pub(super) fn len(&self) -> usize {
        self.numbers.len() / self.width
    }

    pub(super) fn get(&self, row: usize) -> Option<Amount> {
        let start = row.checked_mul(self.width)?;
        self.numbers.get(start..start + self.width).map(amount)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Amount> {
        self.numbers.chunks_exact(self.width).map(amount)
    }

    /// Of the selected rows.
    pub(super) fn selected(&self, selection: Option<&BooleanBuffer>) -> Self {
        let Some(selection) = selection else { return self.clone() };
        let of_row = |row: usize| self.numbers.get(row * self.width..(row + 1) * self.width);
        let numbers = selection.set_indices().filter_map(of_row).flatten().copied();
        Self::new(numbers.collect::<Vec<_>>(), self.width)
    }
}

fn amount(numbers: &[u32]) -> Amount {
    match numbers {
        [tokens, images, patches] => Amount { tokens: *tokens, images: *images, patches: *patches },
        _ => numbers.first().copied().unwrap_or_default().into(),
    }
}

/// The columns that tell what rows of a file take, which has the tokens in `column`.
pub(super) fn counted_columns(
    dataset: &Dataset,
    file: Option<&OpenFile>,
    column: usize,
) -> Vec<usize> {
    let has_images = file.is_some_and(|file| file.counts_of_row(column) > 1);
    let images = dataset.planned_images().filter(|_| has_images);
    let of_images = images.into_iter().flat_map(|(_, images)| image_columns(dataset, images));
    once(column).chain(of_images).collect()
}

/// Returns the first row that cannot be packed, and the reason, as an error.
fn of_lists(array: &ArrayRef, nulls_are_empty: bool) -> Result<Vec<u32>, Option<(usize, Wrong)>> {
    let lists = TokenLists::of(array).ok_or(None)?;
    let length = |row: usize| match lists.check(row, nulls_are_empty) {
        // No block has that many tokens.
        Ok(()) => Ok(u32::try_from(lists.range(row).len()).unwrap_or(u32::MAX)),
        Err(wrong) => Err(Some((row, wrong))),
    };
    (0..array.len()).map(length).collect()
}

/// The columns of the places of images, and of their shapes if the rule has any.
pub(super) fn image_columns(dataset: &Dataset, images: &Images) -> impl Iterator<Item = usize> {
    let names = once(IMAGE_INDEX).chain(images.shape().map(Shape::name));
    names.filter_map(|name| dataset.schema().index_of(name).ok())
}

/// The column that tells the patches of images.
#[derive(Clone, Copy)]
pub(super) struct Shapes<'a> {
    pub(super) lists: &'a ListArray,
    pub(super) shape: Shape,
}

impl<'a> Shapes<'a> {
    pub(super) fn of(shape: Option<Shape>, lists: Option<&'a ArrayRef>) -> Option<Self> {
        Some(Self { shape: shape?, lists: lists?.as_list_opt()? })
    }
}

/// The images of a row, and their patches.
pub(super) fn images_of(index: &ListArray, shapes: Option<Shapes<'_>>, row: usize) -> (u32, u32) {
    let count = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    let all = patches(index, shapes, row).fold((0, 0), |(images, all), of| (images + 1, all + of));
    (count(all.0), count(all.1))
}

/// The patches of each image of a row; an image without a shape is one patch.
pub(super) fn patches(
    index: &ListArray,
    shapes: Option<Shapes<'_>>,
    row: usize,
) -> impl Iterator<Item = u64> {
    let first = offset(index, row);
    (first..offset(index, row + 1)).map(move |image| match shapes {
        Some(Shapes { lists, shape }) => shape.patches(lists, offset(lists, row) + image - first),
        None => 1,
    })
}
