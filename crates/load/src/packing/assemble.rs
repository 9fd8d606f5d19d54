//! Assembles the packs of a superbatch from decoded blocks.
//!
//! Rows are looked up once; then each packed column is copied piece by piece from the decoded block
//! to its position in the batch.

use super::columns::{PackedColumn, Shown, item};
use super::images::ImagesOfPacks;
use super::lists::TokenLists;
use super::packs::row_at;
use super::{DrawnPacks, Error, PackColumns, PackSource};
use crate::{Dataset, Result, RowSet};
use arrow_array::cast::AsArray;
use arrow_array::types::ArrowPrimitiveType;
use arrow_array::types::Int64Type;
use arrow_array::{
    ArrayRef, BooleanArray, FixedSizeListArray, Int32Array, ListArray, PrimitiveArray, RecordBatch,
    downcast_primitive,
};
use arrow_buffer::{ArrowNativeType, BooleanBufferBuilder, OffsetBuffer};
use arrow_schema::{ArrowError, DataType, FieldRef, Schema};
use shardmill_plan::order::RowOrder;
use shardmill_plan::packing::{Amount, Piece, Row};
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

/// A decoded row, with what it takes by the plan.
pub(super) struct Source {
    pub(super) position: u64,
    /// In the row set.
    id: u64,
    pub(super) block: usize,
    pub(super) row: usize,
    pub(super) planned: Amount,
}

/// A piece with its position in the superbatch.
pub(super) struct Placement {
    pub(super) source: usize,
    pub(super) first: usize,
    pub(super) count: usize,
    pub(super) padded: usize,
    pub(super) at: usize,
    segment: i32,
}

/// Where the pieces of the packs of a superbatch are.
pub(super) struct Places {
    pub(super) sources: Vec<Source>,
    /// Pack after pack.
    pub(super) placements: Vec<Placement>,
    pub(super) packs: usize,
}

/// What packs of tokens consist of.
#[derive(Clone, Copy)]
pub(crate) struct TokenPacks<'a> {
    pub(crate) source: &'a PackSource,
    pub(crate) columns: &'a PackColumns,
}

impl TokenPacks<'_> {
    /// The packs of a superbatch, in the fields of [`PackColumns::fields`] without those of images,
    /// and their images.
    pub(crate) fn assemble(
        &self,
        superbatch: &SuperbatchParts<'_>,
    ) -> Result<(RecordBatch, Option<ImagesOfPacks>)> {
        let places = self.places(superbatch);
        let Places { sources, placements, packs } = &places;
        let (packs, images) = (*packs, self.columns.images.as_ref());
        let tokens = packs * small(self.columns.length);
        let mut arrays: Vec<ArrayRef> = Vec::new();
        for (number, column) in self.columns.packed.iter().enumerate() {
            let lists = superbatch
                .blocks
                .iter()
                .map(|block| TokenLists::of(block.column(column.source)))
                .collect::<Option<Vec<_>>>();
            let lists = lists.ok_or_else(|| Error::NotTokens {
                column: column.name.clone(),
                data_type: column.element.clone(),
            })?;
            if number == column.source {
                self.check(superbatch, sources, column, &lists)?;
            }
            let values = filled(column, &lists, sources, placements, tokens)
                .map_err(crate::Error::assemble)?;
            arrays.push(self.fixed(&column.element, values).map_err(crate::Error::assemble)?);
        }
        arrays.push(self.numbered(placements, tokens, |slots, placement| {
            slots.fill(placement.segment);
        })?);
        arrays.push(match images.filter(|images| images.images.has_rope()) {
            Some(images) => self.rope(images, superbatch, &places)?,
            None => self.numbered(placements, tokens, |slots, _| {
                slots.iter_mut().zip(0..).for_each(|(slot, position)| *slot = position);
            })?,
        });
        let counts: [fn(&Placement) -> usize; 2] = [|piece| piece.count, |piece| piece.padded];
        for count in counts.into_iter().take(1 + usize::from(self.columns.has_padding)) {
            let lengths = document_lengths(placements, packs, count);
            arrays.push(Arc::new(lengths.map_err(crate::Error::assemble)?));
        }
        let fields: Vec<FieldRef> =
            self.columns.fields().iter().take(arrays.len()).cloned().collect();
        let packed = RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
            .map_err(crate::Error::assemble)?;
        let images = images.map(|images| self.images(images, superbatch, &places));
        Ok((packed, images.transpose()?))
    }

    /// A column of numbers of tokens, given what fills the slots of a piece.
    fn numbered(
        &self,
        placements: &[Placement],
        tokens: usize,
        fill: impl Fn(&mut [i32], &Placement),
    ) -> Result<ArrayRef> {
        let mut values = vec![0i32; tokens];
        for placement in placements {
            let range = placement.at..placement.at + placement.padded;
            fill(values.get_mut(range).unwrap_or_default(), placement);
        }
        self.fixed(&DataType::Int32, Arc::new(Int32Array::from(values)))
            .map_err(crate::Error::assemble)
    }

    fn places(&self, superbatch: &SuperbatchParts<'_>) -> Places {
        let sources = self.sources(superbatch);
        let (placements, packs) = self.placements(superbatch, &sources);
        Places { sources, placements, packs }
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
                let id = first_id.saturating_add(row);
                let planned = match &self.source {
                    PackSource::Epoch { lengths, .. } => lengths.amount(id),
                    // The rows of the runs, in the same order.
                    PackSource::Ahead(_) => drawn.next().map(|(_, row)| row).unwrap_or_default(),
                };
                sources.push(Source {
                    position,
                    id,
                    block,
                    row: usize::try_from(row).unwrap_or(usize::MAX),
                    planned,
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
        let mut placements = Vec::with_capacity(sources.len());
        let (mut packs, mut at, mut segment) = (0, 0, 0);
        let mut place = |piece: Piece, at: &mut usize, segment: &mut i32| {
            let Some(source) = found(piece.position) else { return };
            *segment += 1;
            placements.push(Placement {
                source,
                first: small(piece.first),
                count: small(piece.count),
                padded: small(piece.padded),
                at: *at,
                segment: *segment,
            });
            *at += small(piece.padded);
        };
        let mut start_pack = |at: &mut usize, segment: &mut i32| {
            (*at, *segment) = (packs * small(self.columns.length), 0);
            packs += 1;
        };
        match &self.source {
            PackSource::Epoch { plan, lengths, .. } => {
                let row_of = |position: u64| {
                    let source = found(position).and_then(|source| sources.get(source));
                    source.map_or(Row::default(), |source| lengths.row(source.id))
                };
                for pack in superbatch.packs.iter().cloned().flatten() {
                    start_pack(&mut at, &mut segment);
                    plan.for_each_piece(pack, row_of, |piece| {
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
            if checked.is_ok() && found == small(source.planned.tokens) {
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
                        (u64::from(source.planned.tokens), found as u64),
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
                known.as_ref().and_then(|known| known.get(row)).map(|row| row.tokens)
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
        // The counts are those of the first column; a further one differs from its tokens.
        let is_first = self.columns.packed.first().is_some_and(|first| first.name == column.name);
        let counted = self.columns.columns().first().filter(|_| is_first).copied();
        let column = self.columns.columns().get(column.source).copied().unwrap_or_default();
        self.source.miscounted(dataset, (column, counted), (file, row), (expected, found))
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

impl PackSource {
    /// A row of a column has other tokens than planned. `counted` is the column if its tokens were
    /// counted, and `place` is the file and the row.
    pub(super) fn miscounted(
        &self,
        dataset: &Dataset,
        (column, counted): (usize, Option<usize>),
        (file, row): (usize, u64),
        (expected, found): (u64, u64),
    ) -> crate::Error {
        let is_stated = match self {
            Self::Epoch { lengths, .. } => lengths.is_stated(),
            Self::Ahead(epoch) => epoch.packs.counts().is_stated(),
        };
        let counted = counted.filter(|_| !is_stated);
        let path = dataset.files().get(file).map(|file| file.path.clone()).unwrap_or_default();
        let field = dataset.schema().fields().get(column);
        let column = field.map_or_else(String::new, |field| field.name().clone());
        match counted.and_then(|counted| dataset.counts_directory(file, counted)) {
            Some(directory) => {
                Error::OtherCount { column, path, row, expected, found, directory }.into()
            }
            None => Error::OtherLength { column, path, row, expected, found }.into(),
        }
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
    let runs = runs(column.shown, lists, sources, placements);
    let read = lists.first().map_or(&column.element, |list| list.tokens.data_type());
    macro_rules! primitive {
        ($native:ty) => {
            return Ok(if *read == column.element {
                Arc::new(numbers::<$native>(column, runs, tokens))
            } else {
                Arc::new(labels::<$native>(column, runs, tokens))
            })
        };
    }
    downcast_primitive! {
        read => (primitive),
        DataType::Boolean => Ok(Arc::new(booleans(column, runs, tokens))),
        other => Err(ArrowError::NotYetImplemented(format!("packs of {other}")))
    }
}

/// Tokens for consecutive positions: the first position, the list, and the items of the list.
/// Positions ascend.
fn runs<'a>(
    shown: Shown,
    lists: &'a [TokenLists],
    sources: &'a [Source],
    placements: &'a [Placement],
) -> impl Iterator<Item = (usize, &'a TokenLists, Range<usize>)> {
    let row_of = move |placement: &Placement| {
        let source = sources.get(placement.source)?;
        let list = lists.get(source.block)?;
        Some((list, list.range(source.row)))
    };
    placements.iter().enumerate().flat_map(move |(number, placement)| {
        let Placement { first, count, at, segment, .. } = *placement;
        let shift = usize::from(shown != Shown::Itself);
        let own = row_of(placement).map(|(list, row)| {
            let start = row.start + first + shift;
            (at, list, start..(start + count).min(row.end))
        });
        let is_short = own.as_ref().is_some_and(|(.., items)| items.len() < count);
        let next = placements
            .get(number + 1)
            .filter(|next| shown == Shown::Next && is_short && next.segment > segment)
            .and_then(|next| {
                let (list, row) = row_of(next)?;
                let start = row.start + next.first;
                Some((at + count - 1, list, start..start + 1))
            });
        own.into_iter().chain(next)
    })
}

fn numbers<'a, T: ArrowPrimitiveType>(
    column: &PackedColumn,
    runs: impl Iterator<Item = (usize, &'a TokenLists, Range<usize>)>,
    tokens: usize,
) -> PrimitiveArray<T> {
    let pad = column.pad.as_primitive::<T>().values().first().copied().unwrap_or_default();
    let mut values = vec![pad; tokens];
    for (at, list, items) in runs {
        let to = values.get_mut(at..at + items.len());
        let from = list.tokens.as_primitive::<T>().values().get(items);
        if let (Some(to), Some(from)) = (to, from) {
            to.copy_from_slice(from);
        }
    }
    PrimitiveArray::new(values.into(), None)
}

/// Labels that are made of tokens.
fn labels<'a, T: ArrowPrimitiveType>(
    column: &PackedColumn,
    runs: impl Iterator<Item = (usize, &'a TokenLists, Range<usize>)>,
    tokens: usize,
) -> PrimitiveArray<Int64Type> {
    let pad = column.pad.as_primitive::<Int64Type>().values().first().copied().unwrap_or_default();
    let mut values = vec![pad; tokens];
    for (at, list, items) in runs {
        let to = values.get_mut(at..).into_iter().flatten();
        let from = list.tokens.as_primitive::<T>().values().get(items).unwrap_or_default();
        // A loss cannot use a larger token as a label.
        to.zip(from).for_each(|(to, from)| *to = from.to_i64().unwrap_or(pad));
    }
    PrimitiveArray::new(values.into(), None)
}

fn booleans<'a>(
    column: &PackedColumn,
    runs: impl Iterator<Item = (usize, &'a TokenLists, Range<usize>)>,
    tokens: usize,
) -> BooleanArray {
    let pad = column.pad.as_boolean().values().iter().next().unwrap_or_default();
    let mut values = BooleanBufferBuilder::new(tokens);
    for (at, list, items) in runs.filter(|(.., items)| !items.is_empty()) {
        values.append_n(at - values.len(), pad);
        values.append_buffer(&list.tokens.as_boolean().values().slice(items.start, items.len()));
    }
    values.append_n(tokens - values.len(), pad);
    BooleanArray::new(values.finish(), None)
}

/// A count of each piece, as one list per pack.
fn document_lengths(
    placements: &[Placement],
    packs: usize,
    count: fn(&Placement) -> usize,
) -> std::result::Result<ListArray, ArrowError> {
    let mut lengths = Vec::with_capacity(placements.len());
    let mut counts: Vec<usize> = Vec::with_capacity(packs);
    for placement in placements.iter().filter(|placement| placement.count > 0) {
        lengths.push(i32::try_from(count(placement)).unwrap_or(i32::MAX));
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
