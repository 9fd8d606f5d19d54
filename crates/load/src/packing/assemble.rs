//! Decoded blocks → the packs of a superbatch.
//!
//! Rows are looked up once; then each packed column is copied piece by piece, from the block where it was decoded to its place in the batch.

use super::columns::{PackedColumn, item};
use super::lists::{TokenLists, Wrong};
use super::packs::row_at;
use super::{Error, Packs};
use crate::{Dataset, Result, RowSet};
use arrow_array::cast::AsArray;
use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{ArrayRef, BooleanArray, FixedSizeListArray, Int32Array, ListArray, PrimitiveArray, RecordBatch, downcast_primitive};
use arrow_buffer::{BooleanBufferBuilder, OffsetBuffer};
use arrow_schema::{ArrowError, DataType, Schema};
use shardmill_plan::order::RowOrder;
use std::ops::Range;
use std::sync::Arc;

/// What a superbatch is made of.
pub(crate) struct SuperbatchParts<'a> {
    pub(crate) dataset: &'a Dataset,
    pub(crate) rows: &'a RowSet,
    pub(crate) order: &'a RowOrder,
    /// Numbers of packs, in the order of delivery.
    pub(crate) packs: &'a [Range<u64>],
    /// Ascending; each stands for one of `blocks`.
    pub(crate) scheduled_blocks: &'a [usize],
    pub(crate) blocks: &'a [Arc<RecordBatch>],
}

/// A row that was decoded, with the tokens that were planned for it.
struct Source {
    position: u64,
    block: usize,
    row: usize,
    tokens: u32,
}

/// A piece with its place in the superbatch.
struct Placement {
    source: usize,
    first: usize,
    count: usize,
    at: usize,
    segment: i32,
}

impl Packs {
    /// The packs of a superbatch, in the fields of [`super::PackColumns::fields`].
    pub(crate) fn assemble(&self, superbatch: &SuperbatchParts<'_>) -> Result<RecordBatch> {
        let sources = self.sources(superbatch);
        let (placements, packs) = self.placements(superbatch, &sources);
        let tokens = packs * small(self.columns.length);
        let mut arrays: Vec<ArrayRef> = Vec::new();
        for (number, column) in self.columns.packed.iter().enumerate() {
            let lists = superbatch.blocks.iter().map(|block| TokenLists::of(block.column(number))).collect::<Option<Vec<_>>>();
            let lists = lists.ok_or_else(|| Error::NotTokens { column: column.name.clone(), data_type: column.element.clone() })?;
            self.check(superbatch, &sources, column, &lists)?;
            let values = filled(column, &lists, &sources, &placements, tokens).map_err(crate::Error::assemble)?;
            arrays.push(self.fixed(&column.element, values).map_err(crate::Error::assemble)?);
        }
        let mut segments = vec![0i32; tokens];
        let mut positions = vec![0i32; tokens];
        for placement in &placements {
            let range = placement.at..placement.at + placement.count;
            segments.get_mut(range.clone()).unwrap_or_default().fill(placement.segment);
            positions.get_mut(range).unwrap_or_default().iter_mut().zip(0..).for_each(|(slot, position)| *slot = position);
        }
        for values in [segments, positions] {
            arrays.push(self.fixed(&DataType::Int32, Arc::new(Int32Array::from(values))).map_err(crate::Error::assemble)?);
        }
        arrays.push(Arc::new(document_lengths(&placements, packs).map_err(crate::Error::assemble)?));
        RecordBatch::try_new(Arc::new(Schema::new(self.columns.fields().clone())), arrays).map_err(crate::Error::assemble)
    }

    /// The rows of the superbatch by ascending position.
    fn sources(&self, superbatch: &SuperbatchParts<'_>) -> Vec<Source> {
        let mut sources = Vec::new();
        let (mut known, mut block, mut first_id) = (usize::MAX, usize::MAX, u64::MAX);
        for run in self.plan.positions(superbatch.packs) {
            let mut position = run.start;
            superbatch.order.for_each(run, |scheduled, row| {
                if scheduled != known {
                    known = scheduled;
                    block = superbatch.scheduled_blocks.binary_search(&scheduled).unwrap_or(usize::MAX);
                    first_id = superbatch.order.block(scheduled).and_then(|block| superbatch.rows.first_id(block)).unwrap_or(u64::MAX);
                }
                let tokens = self.lengths.of(first_id.saturating_add(row));
                sources.push(Source { position, block, row: usize::try_from(row).unwrap_or(usize::MAX), tokens });
                position += 1;
            });
        }
        sources
    }

    /// Pieces in the order of their places, and how many packs they make.
    fn placements(&self, superbatch: &SuperbatchParts<'_>, sources: &[Source]) -> (Vec<Placement>, usize) {
        let found = |position: u64| sources.binary_search_by_key(&position, |source| source.position).ok();
        let tokens_of = |position: u64| found(position).and_then(|source| sources.get(source)).map_or(0, |source| source.tokens);
        let mut placements = Vec::with_capacity(sources.len());
        let mut packs = 0;
        for pack in superbatch.packs.iter().cloned().flatten() {
            let (mut at, mut segment) = (packs * small(self.columns.length), 0);
            self.plan.for_each_piece(pack, tokens_of, |piece| {
                let Some(source) = found(piece.position) else { return };
                segment += 1;
                placements.push(Placement { source, first: small(piece.first), count: small(piece.count), at, segment });
                at += small(piece.count);
            });
            packs += 1;
        }
        (placements, packs)
    }

    /// Rows have as many tokens as was planned, and no null where none has a place.
    fn check(&self, superbatch: &SuperbatchParts<'_>, sources: &[Source], column: &PackedColumn, lists: &[TokenLists]) -> Result<()> {
        for source in sources {
            let Some(list) = lists.get(source.block) else { continue };
            let found = list.range(source.row).len();
            let checked = list.check(source.row, self.columns.nulls_are_empty);
            if checked.is_ok() && found == small(source.tokens) {
                continue;
            }
            let (column, (path, row)) = (column.name.clone(), row_at(superbatch.dataset, superbatch.rows, superbatch.order, source.position));
            return Err(match checked {
                Err(Wrong::NullRow) => Error::NullRow { column, path, row },
                Err(Wrong::NullToken) => Error::NullToken { column, path, row },
                Ok(()) => Error::OtherLength { column, path, row, expected: u64::from(source.tokens), found: found as u64 },
            }
            .into());
        }
        Ok(())
    }

    fn fixed(&self, element: &DataType, values: ArrayRef) -> std::result::Result<ArrayRef, ArrowError> {
        let width = i32::try_from(self.columns.length).unwrap_or(i32::MAX);
        Ok(Arc::new(FixedSizeListArray::try_new(item(element), width, values, None)?))
    }
}

/// The tokens of a column in their places, the pad value elsewhere.
fn filled(
    column: &PackedColumn,
    lists: &[TokenLists],
    sources: &[Source],
    placements: &[Placement],
    tokens: usize,
) -> std::result::Result<ArrayRef, ArrowError> {
    macro_rules! primitive {
        ($native:ty) => {
            return Ok(Arc::new(numbers::<$native>(column, lists, sources, placements, tokens)))
        };
    }
    downcast_primitive! {
        &column.element => (primitive),
        DataType::Boolean => Ok(Arc::new(booleans(column, lists, sources, placements, tokens))),
        other => Err(ArrowError::NotYetImplemented(format!("packs of {other}")))
    }
}

/// Where the tokens of a piece are: in which list, and which of its items.
fn taken<'a>(lists: &'a [TokenLists], sources: &[Source], placement: &Placement) -> Option<(&'a TokenLists, Range<usize>)> {
    let source = sources.get(placement.source)?;
    let list = lists.get(source.block)?;
    let start = list.range(source.row).start + placement.first;
    Some((list, start..start + placement.count))
}

fn numbers<T: ArrowPrimitiveType>(
    column: &PackedColumn,
    lists: &[TokenLists],
    sources: &[Source],
    placements: &[Placement],
    tokens: usize,
) -> PrimitiveArray<T> {
    let pad = column.pad.as_primitive::<T>().values().first().copied().unwrap_or_default();
    let mut values = vec![pad; tokens];
    for placement in placements {
        let Some((list, range)) = taken(lists, sources, placement) else { continue };
        let from = list.tokens.as_primitive::<T>().values().get(range);
        if let (Some(to), Some(from)) = (values.get_mut(placement.at..placement.at + placement.count), from) {
            to.copy_from_slice(from);
        }
    }
    PrimitiveArray::new(values.into(), None)
}

fn booleans(column: &PackedColumn, lists: &[TokenLists], sources: &[Source], placements: &[Placement], tokens: usize) -> BooleanArray {
    let pad = column.pad.as_boolean().values().iter().next().unwrap_or_default();
    let mut values = BooleanBufferBuilder::new(tokens);
    for placement in placements {
        let Some((list, range)) = taken(lists, sources, placement) else { continue };
        values.append_n(placement.at - values.len(), pad);
        values.append_buffer(&list.tokens.as_boolean().values().slice(range.start, range.len()));
    }
    values.append_n(tokens - values.len(), pad);
    BooleanArray::new(values.finish(), None)
}

fn document_lengths(placements: &[Placement], packs: usize) -> std::result::Result<ListArray, ArrowError> {
    let lengths = placements.iter().map(|placement| i32::try_from(placement.count).unwrap_or(i32::MAX)).collect::<Vec<_>>();
    let mut counts: Vec<usize> = Vec::with_capacity(packs);
    for placement in placements {
        match counts.last_mut().filter(|_| placement.segment > 1) {
            Some(count) => *count += 1,
            None => counts.push(1),
        }
    }
    ListArray::try_new(item(&DataType::Int32), OffsetBuffer::from_lengths(counts), Arc::new(Int32Array::from(lengths)), None)
}

fn small(count: u32) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}
