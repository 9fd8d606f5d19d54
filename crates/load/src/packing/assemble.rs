//! Assembles the packs of a superbatch from decoded blocks.
//!
//! Rows are looked up once; then each packed column is copied piece by piece from the decoded block
//! to its position in the batch.

use super::columns::{PackedColumn, item};
use super::lists::TokenLists;
use super::packs::row_at;
use super::{DrawnPacks, Error, PackSource, Packs};
use crate::{Dataset, Result, RowSet};
use arrow_array::cast::AsArray;
use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{
    ArrayRef, BooleanArray, FixedSizeListArray, Int32Array, ListArray, PrimitiveArray, RecordBatch,
    downcast_primitive,
};
use arrow_buffer::{BooleanBufferBuilder, OffsetBuffer};
use arrow_schema::{ArrowError, DataType, Schema};
use shardmill_plan::order::RowOrder;
use shardmill_plan::packing::Piece;
use std::ops::Range;
use std::sync::Arc;

/// What a superbatch is made of.
pub(crate) struct SuperbatchParts<'a> {
    pub(crate) dataset: &'a Dataset,
    pub(crate) rows: &'a RowSet,
    pub(crate) order: &'a RowOrder,
    /// Numbers of packs, in delivery order.
    pub(crate) packs: &'a [Range<u64>],
    /// The same packs, if they come from endless lanes.
    pub(crate) drawn: &'a DrawnPacks,
    /// Ascending; each corresponds to one of `blocks`.
    pub(crate) scheduled_blocks: &'a [usize],
    pub(crate) blocks: &'a [Arc<RecordBatch>],
}

/// A decoded row, with its planned number of tokens.
struct Source {
    position: u64,
    block: usize,
    row: usize,
    tokens: u32,
}

/// A piece with its position in the superbatch.
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
            let lists = superbatch
                .blocks
                .iter()
                .map(|block| TokenLists::of(block.column(number)))
                .collect::<Option<Vec<_>>>();
            let lists = lists.ok_or_else(|| Error::NotTokens {
                column: column.name.clone(),
                data_type: column.element.clone(),
            })?;
            self.check(superbatch, &sources, column, &lists)?;
            let values = filled(column, &lists, &sources, &placements, tokens)
                .map_err(crate::Error::assemble)?;
            arrays.push(self.fixed(&column.element, values).map_err(crate::Error::assemble)?);
        }
        let mut segments = vec![0i32; tokens];
        let mut positions = vec![0i32; tokens];
        for placement in &placements {
            let range = placement.at..placement.at + placement.count;
            segments.get_mut(range.clone()).unwrap_or_default().fill(placement.segment);
            positions
                .get_mut(range)
                .unwrap_or_default()
                .iter_mut()
                .zip(0..)
                .for_each(|(slot, position)| *slot = position);
        }
        for values in [segments, positions] {
            arrays.push(
                self.fixed(&DataType::Int32, Arc::new(Int32Array::from(values)))
                    .map_err(crate::Error::assemble)?,
            );
        }
        arrays
            .push(Arc::new(document_lengths(&placements, packs).map_err(crate::Error::assemble)?));
        RecordBatch::try_new(Arc::new(Schema::new(self.columns.fields().clone())), arrays)
            .map_err(crate::Error::assemble)
    }

    /// The rows of the superbatch by ascending position.
    fn sources(&self, superbatch: &SuperbatchParts<'_>) -> Vec<Source> {
        let (runs, mut drawn) = match &self.source {
            PackSource::Epoch { plan, .. } => {
                (plan.positions(superbatch.packs), Vec::new().into_iter())
            }
            PackSource::Ahead(_) => {
                (superbatch.drawn.positions(), superbatch.drawn.rows().into_iter())
            }
        };
        let mut sources = Vec::new();
        let (mut known, mut block, mut first_id) = (usize::MAX, usize::MAX, u64::MAX);
        for run in runs {
            let mut position = run.start;
            superbatch.order.for_each(run, |scheduled, row| {
                if scheduled != known {
                    known = scheduled;
                    block =
                        superbatch.scheduled_blocks.binary_search(&scheduled).unwrap_or(usize::MAX);
                    first_id = superbatch
                        .order
                        .block(scheduled)
                        .and_then(|block| superbatch.rows.first_id(block))
                        .unwrap_or(u64::MAX);
                }
                let tokens = match &self.source {
                    PackSource::Epoch { lengths, .. } => lengths.of(first_id.saturating_add(row)),
                    // The rows of the runs, in the same order.
                    PackSource::Ahead(_) => drawn.next().map_or(0, |(_, tokens)| tokens),
                };
                sources.push(Source {
                    position,
                    block,
                    row: usize::try_from(row).unwrap_or(usize::MAX),
                    tokens,
                });
                position += 1;
            });
        }
        sources
    }

    /// Pieces in the order of their positions, and the number of packs.
    fn placements(
        &self,
        superbatch: &SuperbatchParts<'_>,
        sources: &[Source],
    ) -> (Vec<Placement>, usize) {
        let found =
            |position: u64| sources.binary_search_by_key(&position, |source| source.position).ok();
        let tokens_of = |position: u64| {
            found(position).and_then(|source| sources.get(source)).map_or(0, |source| source.tokens)
        };
        let mut placements = Vec::with_capacity(sources.len());
        let (mut packs, mut at, mut segment) = (0, 0, 0);
        let mut place = |piece: Piece, at: &mut usize, segment: &mut i32| {
            let Some(source) = found(piece.position) else { return };
            *segment += 1;
            placements.push(Placement {
                source,
                first: small(piece.first),
                count: small(piece.count),
                at: *at,
                segment: *segment,
            });
            *at += small(piece.count);
        };
        let mut start_pack = |at: &mut usize, segment: &mut i32| {
            (*at, *segment) = (packs * small(self.columns.length), 0);
            packs += 1;
        };
        match &self.source {
            PackSource::Epoch { plan, .. } => {
                for pack in superbatch.packs.iter().cloned().flatten() {
                    start_pack(&mut at, &mut segment);
                    plan.for_each_piece(pack, tokens_of, |piece| {
                        place(piece, &mut at, &mut segment);
                    });
                }
            }
            PackSource::Ahead(_) => {
                for pieces in superbatch.drawn.packs() {
                    start_pack(&mut at, &mut segment);
                    pieces.iter().for_each(|(piece, _)| place(*piece, &mut at, &mut segment));
                }
            }
        }
        (placements, packs)
    }

    /// Checks that rows have the planned number of tokens, and no unexpected nulls.
    fn check(
        &self,
        superbatch: &SuperbatchParts<'_>,
        sources: &[Source],
        column: &PackedColumn,
        lists: &[TokenLists],
    ) -> Result<()> {
        for source in sources {
            let Some(list) = lists.get(source.block) else { continue };
            let found = list.range(source.row).len();
            let checked = list.check(source.row, self.columns.nulls_are_empty);
            if checked.is_ok() && found == small(source.tokens) {
                continue;
            }
            let SuperbatchParts { dataset, rows, order, .. } = *superbatch;
            return Err(match checked {
                Err(wrong) => wrong
                    .in_place(column.name.clone(), row_at(dataset, rows, order, source.position))
                    .into(),
                Ok(()) => {
                    let place = order
                        .at(source.position)
                        .and_then(|(block, row)| rows.row_of_file(dataset, block, row));
                    self.miscounted(
                        dataset,
                        column,
                        place.unwrap_or_default(),
                        (u64::from(source.tokens), found as u64),
                    )
                }
            });
        }
        Ok(())
    }

    /// Checks that the rows of a decoded block that are planned as empty are:
    /// no piece of them is assembled.
    pub(crate) fn check_empty(
        &self,
        dataset: &Dataset,
        rows: &RowSet,
        block: usize,
        decoded: &RecordBatch,
    ) -> Result<()> {
        let (Some(column), Some(array)) = (self.columns.packed.first(), decoded.columns().first())
        else {
            return Ok(());
        };
        let known = match &self.source {
            PackSource::Epoch { .. } => None,
            PackSource::Ahead(epoch) => epoch.packs.counts().known(block),
        };
        let first_id = rows.first_id(block).unwrap_or(u64::MAX);
        let planned = |row: usize| match (&self.source, &known) {
            (PackSource::Epoch { lengths, .. }, _) => {
                Some(lengths.of(first_id.saturating_add(row as u64)))
            }
            (PackSource::Ahead(_), known) => {
                known.as_ref().and_then(|known| known.get(row)).copied()
            }
        };
        let Some(lists) = TokenLists::of(array) else { return Ok(()) };
        for row in (0..decoded.num_rows()).filter(|row| planned(*row) == Some(0)) {
            let found = lists.range(row).len();
            if found > 0 {
                let place = rows.row_of_file(dataset, block, row as u64).unwrap_or_default();
                return Err(self.miscounted(dataset, column, place, (0, found as u64)));
            }
        }
        Ok(())
    }

    /// `place` is the file and the row.
    fn miscounted(
        &self,
        dataset: &Dataset,
        column: &PackedColumn,
        (file, row): (usize, u64),
        (expected, found): (u64, u64),
    ) -> crate::Error {
        let is_stated = match &self.source {
            PackSource::Epoch { lengths, .. } => lengths.is_stated(),
            PackSource::Ahead(epoch) => epoch.packs.counts().is_stated(),
        };
        // The counts are those of the first column; a further one differs from its tokens.
        let is_counted = !is_stated
            && self.columns.packed.first().is_some_and(|first| first.name == column.name);
        let counted = self.columns.columns().first().filter(|_| is_counted);
        let path = dataset.files().get(file).map(|file| file.path.clone()).unwrap_or_default();
        let column = column.name.clone();
        match counted.and_then(|counted| dataset.counts_directory(file, *counted)) {
            Some(directory) => {
                Error::OtherCount { column, path, row, expected, found, directory }.into()
            }
            None => Error::OtherLength { column, path, row, expected, found }.into(),
        }
    }

    fn fixed(
        &self,
        element: &DataType,
        values: ArrayRef,
    ) -> std::result::Result<ArrayRef, ArrowError> {
        let width = i32::try_from(self.columns.length).unwrap_or(i32::MAX);
        Ok(Arc::new(FixedSizeListArray::try_new(item(element), width, values, None)?))
    }
}

/// The tokens of a column in their positions, padded elsewhere.
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

/// The tokens of a piece: the index of the list, and its items.
fn taken<'a>(
    lists: &'a [TokenLists],
    sources: &[Source],
    placement: &Placement,
) -> Option<(&'a TokenLists, Range<usize>)> {
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
        if let (Some(to), Some(from)) =
            (values.get_mut(placement.at..placement.at + placement.count), from)
        {
            to.copy_from_slice(from);
        }
    }
    PrimitiveArray::new(values.into(), None)
}

fn booleans(
    column: &PackedColumn,
    lists: &[TokenLists],
    sources: &[Source],
    placements: &[Placement],
    tokens: usize,
) -> BooleanArray {
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

fn document_lengths(
    placements: &[Placement],
    packs: usize,
) -> std::result::Result<ListArray, ArrowError> {
    let lengths = placements
        .iter()
        .map(|placement| i32::try_from(placement.count).unwrap_or(i32::MAX))
        .collect::<Vec<_>>();
    let mut counts: Vec<usize> = Vec::with_capacity(packs);
    for placement in placements {
        match counts.last_mut().filter(|_| placement.segment > 1) {
            Some(count) => *count += 1,
            None => counts.push(1),
        }
    }
    ListArray::try_new(
        item(&DataType::Int32),
        OffsetBuffer::from_lengths(counts),
        Arc::new(Int32Array::from(lengths)),
        None,
    )
}

fn small(count: u32) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}
