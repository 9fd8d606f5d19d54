//! What rows take of packs, as it is kept: the tokens of each row; for documents with images, also
//! their images and the patches of these, and the places of the images if documents may be cut.

use super::LengthsSource;
use super::lists::{TokenLists, Wrong, numbers, offset};
use crate::Dataset;
use crate::dataset::{Affixes, BlockOf, OpenFile};
use crate::images::{Images, Shape};
use crate::sequences::{COUNTS_WITH_IMAGES, IMAGE_INDEX, blocks_of};
use crate::tokenize::TokenCounts;
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, ListArray};
use arrow_buffer::BooleanBuffer;
use shardmill_plan::packing::{Amount, Block, Blocks};
use std::iter::once;
use std::sync::Arc;

/// Numbers that are kept of an image: the tokens before it since the last image, its own tokens,
/// and its patches.
const NUMBERS_OF_IMAGE: usize = 3;

/// What consecutive rows take.
#[derive(Debug, Clone)]
pub(super) struct Amounts {
    numbers: Arc<[u32]>,
    /// Numbers of a row.
    width: usize,
    /// Where the tokens of images are, if that was asked for.
    blocks: Arc<Blocks>,
}

impl Amounts {
    pub(super) fn new(numbers: impl Into<Arc<[u32]>>, width: usize) -> Self {
        Self { numbers: numbers.into(), width: width.max(1), blocks: Arc::default() }
    }

    pub(super) fn with_blocks(self, blocks: Blocks) -> Self {
        Self { blocks: Arc::new(blocks), ..self }
    }

    /// The amounts of the rows of a data set. `lists` has the lists of their tokens, followed by
    /// those of their images, if any. With `affixes`, the places of images are found. The first row
    /// that cannot be packed, and the reason, are an error.
    pub(super) fn of(
        dataset: &Dataset,
        lists: &[&ArrayRef],
        nulls_are_empty: bool,
        affixes: Option<Affixes>,
    ) -> Result<Self, Option<(usize, Wrong)>> {
        let [array, images @ ..] = lists else { return Err(None) };
        let lists = TokenLists::of(array).ok_or(None)?;
        let tokens = of_lists(&lists, array.len(), nulls_are_empty)?;
        let Some(index) = images.first().and_then(|index| index.as_list_opt::<i32>()) else {
            return Ok(Self::new(tokens, 1));
        };
        let shape = dataset.planned_images().and_then(|(_, images)| images.shape());
        let shapes = Shapes::of(shape, images.get(1).copied());
        let mut blocks = Blocks::default();
        let ids = lists.tokens.as_primitive_opt::<Int32Type>();
        if let Some((affixes, ids)) = affixes.zip(ids) {
            for row in 0..array.len() {
                let ids = ids.values().get(lists.range(row)).unwrap_or_default();
                let places = numbers::<Int32Type>(index, row);
                blocks.add(row, blocks_of(ids, places, patches(index, shapes, row), &affixes));
            }
        }
        let of_row = |(row, tokens): (usize, u32)| {
            let (images, patches) = images_of(index, shapes, row);
            [tokens, images, patches]
        };
        let numbers: Vec<u32> = tokens.into_iter().enumerate().flat_map(of_row).collect();
        Ok(Self::new(numbers, COUNTS_WITH_IMAGES).with_blocks(blocks))
    }

    /// Of the rows of all parts.
    pub(super) fn joined(parts: &[Self], width: usize) -> Self {
        let mut blocks = Blocks::default();
        let mut rows = 0;
        for part in parts {
            (0..part.len())
                .for_each(|row| blocks.add(rows + row, part.blocks(row).iter().copied()));
            rows += part.len();
        }
        let numbers = parts.iter().flat_map(|part| part.numbers.iter().copied());
        Self::new(numbers.collect::<Vec<_>>(), width).with_blocks(blocks)
    }

    /// What is kept about a block of a file; `None` if not all is that is needed.
    pub(super) fn kept(
        kept: &TokenCounts,
        file: &OpenFile,
        source: LengthsSource,
        place: BlockOf,
    ) -> Option<Self> {
        let key = file.block_key(source.column(), place.block);
        let own = Self::new(kept.of(&key)?, file.counts_of_row(source.column()));
        let images: usize = own.iter().map(|row| index(row.images)).sum();
        if !source.has_blocks() || images == 0 {
            return Some(own);
        }
        let numbers = kept.of(&key.of_images((images * NUMBERS_OF_IMAGE) as u64))?;
        let mut numbers = numbers.chunks_exact(NUMBERS_OF_IMAGE);
        let mut blocks = Blocks::default();
        for (row, amount) in own.iter().enumerate() {
            let mut at = 0u32;
            let of_image = |numbers: &[u32]| {
                let [before, tokens, patches] = *numbers else { return None };
                let start = at.checked_add(before)?;
                at = start.checked_add(tokens)?;
                Some(Block { start, end: at, patches })
            };
            blocks.add(row, numbers.by_ref().take(index(amount.images)).filter_map(of_image));
        }
        Some(own.with_blocks(blocks))
    }

    /// Keeps the amounts of the rows of a block of a file.
    pub(super) fn keep(
        &self,
        kept: &TokenCounts,
        file: &OpenFile,
        source: LengthsSource,
        place: BlockOf,
    ) {
        let key = file.block_key(source.column(), place.block);
        let mut numbers = Vec::new();
        for blocks in (0..self.len()).map(|row| self.blocks(row)) {
            let ends = once(0).chain(blocks.iter().map(|block| block.end));
            let each = blocks.iter().zip(ends);
            numbers.extend(each.flat_map(|(block, before)| {
                [block.start - before, block.end - block.start, block.patches]
            }));
        }
        if !numbers.is_empty() {
            let key = key.of_images(numbers.len() as u64);
            kept.add(key, &file.relative, numbers.into());
        }
        kept.add(key, &file.relative, Arc::clone(&self.numbers));
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

    pub(super) fn blocks(&self, row: usize) -> &[Block] {
        self.blocks.of(row)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Amount> {
        self.numbers.chunks_exact(self.width).map(amount)
    }

    /// Of these rows.
    pub(super) fn part(&self, rows: impl Iterator<Item = usize>) -> Self {
        let (mut numbers, mut blocks) = (Vec::new(), Blocks::default());
        for (number, row) in rows.enumerate() {
            let own = self.numbers.get(row * self.width..(row + 1) * self.width);
            numbers.extend_from_slice(own.unwrap_or_default());
            blocks.add(number, self.blocks(row).iter().copied());
        }
        Self::new(numbers, self.width).with_blocks(blocks)
    }

    /// Of the selected rows.
    pub(super) fn selected(self, selection: Option<&BooleanBuffer>) -> Self {
        match selection {
            Some(selection) => self.part(selection.set_indices()),
            None => self,
        }
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
fn of_lists(
    lists: &TokenLists,
    rows: usize,
    nulls_are_empty: bool,
) -> Result<Vec<u32>, Option<(usize, Wrong)>> {
    let length = |row: usize| match lists.check(row, nulls_are_empty) {
        // No block has that many tokens.
        Ok(()) => Ok(u32::try_from(lists.range(row).len()).unwrap_or(u32::MAX)),
        Err(wrong) => Err(Some((row, wrong))),
    };
    (0..rows).map(length).collect()
}

/// The columns of the places of images, and of their shapes if the rule has any.
pub(super) fn image_columns(dataset: &Dataset, images: &Images) -> impl Iterator<Item = usize> {
    let names = once(IMAGE_INDEX).chain(images.shape().map(Shape::name));
    names.filter_map(|name| dataset.schema().index_of(name).ok())
}

/// The column that has the shapes of images.
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

fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}
