//! The images of packs: each is in the pack that holds its tokens.
//!
//! The invariant: the images of a pack are in the order of their tokens, and each is there once.

use super::Error as PackingError;
use super::amounts::{Shapes, images_of};
use super::assemble::{Places, SuperbatchParts, TokenPacks};
use super::columns::{PackedImages, item};
use super::lists::{numbers, offset, small};
use super::packs::row_at;
use crate::{Error, Result};
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{Array, ArrayRef, FixedSizeListArray, Int32Array, ListArray, new_empty_array};
use arrow_buffer::OffsetBuffer;
use arrow_schema::DataType;
use arrow_select::interleave::interleave;
use std::ops::Range;
use std::sync::Arc;

/// The images of a superbatch of packs.
#[derive(Debug)]
pub(crate) struct ImagesOfPacks {
    /// In the fields of [`PackedImages`], with encoded images in place of pixels.
    pub(crate) columns: Vec<ArrayRef>,
    pub(crate) origins: Vec<ImageOrigin>,
}

/// Where an image of a pack is from.
#[derive(Debug, Clone, Default)]
pub(crate) struct ImageOrigin {
    /// Plan position of its row.
    pub(crate) position: u64,
    /// Its part of the document.
    pub(crate) part: usize,
    /// The tokens of its document, in all packs of the superbatch.
    pub(crate) document: Range<usize>,
}

impl TokenPacks<'_> {
    /// The images of packs that were assembled of these parts.
    pub(super) fn images(
        &self,
        images: &PackedImages,
        superbatch: &SuperbatchParts<'_>,
        places: &Places,
    ) -> Result<ImagesOfPacks> {
        let Places { sources, placements, packs } = places;
        let length = usize::try_from(self.columns.length).unwrap_or(usize::MAX).max(1);
        let lists = |number: usize, block: usize| lists(images, superbatch, number, block);
        let last = images.columns.len() - 1;
        let (mut counts, mut index, mut shapes) = (vec![0; *packs], Vec::new(), Vec::new());
        let (mut encoded, mut origins) = (Vec::new(), Vec::new());
        for placement in placements {
            let Some(source) = sources.get(placement.source) else { continue };
            let Some(index_of) = lists(0, source.block) else { continue };
            let of_index = numbers::<Int32Type>(index_of, source.row);
            let pixels = lists(last, source.block);
            let start = pixels.map_or(0, |lists| offset(lists, source.row));
            let bytes = pixels.map_or_else(Vec::new, |lists| {
                let cells = lists.values().as_struct_opt();
                let has_place = |item: &usize| {
                    cells.is_some_and(|cells| !images.images.leaves_out(cells, *item))
                };
                (start..offset(lists, source.row + 1)).filter(has_place).collect()
            });
            let of_shapes = images.images.shape().zip(lists(1, source.block));
            let of_shapes = of_shapes.map(|(shape, lists)| Shapes { lists, shape });
            let planned = source.planned;
            let (images, patches) = images_of(index_of, of_shapes, source.row);
            if self.source.knows_images() && (images, patches) != (planned.images, planned.patches)
            {
                let (dataset, rows) = (superbatch.dataset, superbatch.rows);
                let (path, row) = row_at(dataset, rows, superbatch.order, source.position);
                return Err(
                    PackingError::OtherImages { path, row, images, patches, planned }.into()
                );
            }
            for (number, place) in of_index.chunks_exact(2).enumerate() {
                let [first, tokens] = place else { continue };
                let (first, tokens) = (small(*first), small(*tokens));
                let piece = placement.first..placement.first + placement.count;
                if first < piece.start || first + tokens > piece.end {
                    continue;
                }
                let Some(item) = bytes.get(number) else { continue };
                let at = placement.at % length + first - piece.start;
                index.extend([at, tokens].map(|number| i32::try_from(number).unwrap_or(i32::MAX)));
                shapes.extend(of_shapes.map(|Shapes { lists, .. }| {
                    (source.block, offset(lists, source.row) + number)
                }));
                encoded.push((source.block, *item));
                origins.push(ImageOrigin {
                    position: source.position,
                    part: item - start,
                    document: placement.at..placement.at + placement.count,
                });
                if let Some(count) = counts.get_mut(placement.at / length) {
                    *count += 1;
                }
            }
        }
        let listed = |items: ArrayRef| -> Result<ArrayRef> {
            let offsets = OffsetBuffer::from_lengths(counts.iter().copied());
            let list = ListArray::try_new(item(items.data_type()), offsets, items, None);
            Ok(Arc::new(list.map_err(Error::assemble)?))
        };
        // Takes the items at these blocks and places from a column.
        let taken = |number: usize, items: &[(usize, usize)]| -> Result<ArrayRef> {
            let blocks = (0..superbatch.blocks.len()).filter_map(|block| lists(number, block));
            let values: Vec<&dyn Array> = blocks.map(|lists| lists.values().as_ref()).collect();
            if !items.is_empty() {
                return interleave(&values, items).map_err(Error::assemble);
            }
            let of_field = || match images.fields.get(number).map(|field| field.data_type()) {
                Some(DataType::List(item)) => new_empty_array(item.data_type()),
                _ => new_empty_array(&DataType::Null),
            };
            Ok(values.first().map_or_else(of_field, |first| new_empty_array(first.data_type())))
        };
        let index = Arc::new(Int32Array::from(index));
        let index = FixedSizeListArray::try_new(item(&DataType::Int32), 2, index, None);
        let mut columns = vec![listed(Arc::new(index.map_err(Error::assemble)?))?];
        if last > 1 {
            columns.push(listed(taken(1, &shapes)?)?);
        }
        columns.push(listed(taken(last, &encoded)?)?);
        Ok(ImagesOfPacks { columns, origins })
    }
}

/// The lists of one of the columns of images in a block.
pub(super) fn lists<'a>(
    images: &PackedImages,
    superbatch: &SuperbatchParts<'a>,
    number: usize,
    block: usize,
) -> Option<&'a ListArray> {
    superbatch.blocks.get(block)?.columns().get(images.first + number)?.as_list_opt::<i32>()
}
