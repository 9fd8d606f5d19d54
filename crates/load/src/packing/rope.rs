//! Positions of three axes for multimodal rotary embeddings: `get_rope_index` of transformers 5.23,
//! `qwen2_vl/modeling_qwen2_vl.py`.
//!
//! A text goes on by one on all axes. The tokens of an image have the row and the column of their
//! square of patches; what follows it goes on after its longer side. Each document begins at 0.

use super::assemble::{Placement, Places, SuperbatchParts, TokenPacks};
use super::columns::{AXES, PackedImages, item};
use super::images::lists;
use super::lists::numbers;
use crate::{Error, Result};
use arrow_array::types::{Int32Type, Int64Type};
use arrow_array::{ArrayRef, FixedSizeListArray, Int32Array};
use arrow_schema::DataType;
use std::sync::Arc;

/// Time, height and width.
const PLANES: usize = 3;

/// The positions of a superbatch of packs, `[packs, axes, length]`.
struct Positions {
    values: Vec<i32>,
    length: usize,
}

impl Positions {
    /// Sets the positions of the token at a place of all packs.
    fn set(&mut self, at: usize, positions: [i32; PLANES]) {
        let first = at / self.length * PLANES * self.length + at % self.length;
        for (axis, position) in positions.into_iter().enumerate() {
            if let Some(slot) = self.values.get_mut(first + axis * self.length) {
                *slot = position;
            }
        }
    }
}

impl TokenPacks<'_> {
    /// The positions of packs, `[packs, axes, length]`.
    pub(super) fn rope(
        &self,
        images: &PackedImages,
        superbatch: &SuperbatchParts<'_>,
        places: &Places,
    ) -> Result<ArrayRef> {
        let width = i32::try_from(self.columns.length).unwrap_or(i32::MAX);
        let length = usize::try_from(self.columns.length).unwrap_or(usize::MAX).max(1);
        let mut positions = Positions { values: vec![0; places.packs * PLANES * length], length };
        for placement in &places.placements {
            let Some(source) = places.sources.get(placement.source) else { continue };
            let of_row = |number: usize| lists(images, superbatch, number, source.block);
            let index = of_row(0).map_or(&[][..], |index| numbers::<Int32Type>(index, source.row));
            let grids = of_row(1).map_or(&[][..], |grids| numbers::<Int64Type>(grids, source.row));
            let merge = images.images.merge().max(1);
            let images = index.chunks_exact(2).zip(grids.chunks_exact(3));
            let blocks = images.filter_map(|(place, grid)| match (place, grid) {
                ([first, count], [_, rows, columns]) => Some(Block {
                    first: usize::try_from(*first).ok()?,
                    count: usize::try_from(*count).ok()?,
                    rows: i32::try_from(rows / merge).ok()?,
                    columns: i32::try_from(columns / merge).ok()?.max(1),
                }),
                _ => None,
            });
            place(placement, blocks, &mut positions);
        }
        let values = Arc::new(Int32Array::from(positions.values));
        let axes = FixedSizeListArray::try_new(item(&DataType::Int32), width, values, None);
        let axes = Arc::new(axes.map_err(Error::assemble)?);
        let of_pack = item(&DataType::FixedSizeList(item(&DataType::Int32), width));
        let packs = FixedSizeListArray::try_new(of_pack, AXES, axes, None);
        Ok(Arc::new(packs.map_err(Error::assemble)?))
    }
}

/// The placeholders of an image in a document, and the sides of the image in tokens.
struct Block {
    first: usize,
    count: usize,
    rows: i32,
    columns: i32,
}

/// Sets the positions of a piece of a document, with its padding.
fn place(placement: &Placement, blocks: impl Iterator<Item = Block>, positions: &mut Positions) {
    let start = placement.first;
    let (end, padded) = (start + placement.count, start + placement.padded);
    let (mut token, mut next) = (start, 0);
    let text = |token: &mut usize, until: usize, next: &mut i32, positions: &mut Positions| {
        while *token < until {
            positions.set(placement.at + *token - start, [*next; PLANES]);
            (*token, *next) = (*token + 1, *next + 1);
        }
    };
    for block in blocks.filter(|block| block.first >= start && block.first + block.count <= end) {
        text(&mut token, block.first, &mut next, positions);
        for (number, place) in (0..).zip(token..token + block.count) {
            let (row, column) = (number / block.columns, number % block.columns);
            positions.set(placement.at + place - start, [next, next + row, next + column]);
        }
        (token, next) = (token + block.count, next + block.rows.max(block.columns));
    }
    text(&mut token, padded, &mut next, positions);
}
