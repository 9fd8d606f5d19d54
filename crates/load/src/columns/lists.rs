//! Columns of numbers, directly or in lists: unwraps the lists, applies the null policy, and puts
//! the numbers into the planned form.
//!
//! In Arrow a null row may contain values; these are removed here.

use super::error::{Error, Result};
use super::form::{Lists, NumberPlan, zero};
use super::layout::{Layout, Level, RowLength, Side, row_of};
use super::{Column, Numbers, mask, valid};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, GenericListArray, OffsetSizeTrait};
use arrow_buffer::{BooleanBufferBuilder, Buffer, NullBuffer};
use arrow_cast::cast;
use arrow_schema::DataType;
use arrow_select::filter::filter;

impl NumberPlan {
    /// Adds the columns of [`super::form::Plan::outputs`]. `batches` are numbers of rows.
    pub(super) fn convert(
        &self,
        array: ArrayRef,
        batches: &[usize],
        columns: &mut Vec<Column>,
    ) -> Result<()> {
        let rows = array.len();
        if self.is_lent
            && let Some(values) = self.lent(&array)
        {
            columns.push(Column::Lent(values));
            columns.extend(self.has_row_mask.then(|| mask(None, rows)));
            columns.extend(
                self.has_item_mask
                    .then(|| mask(None, rows * self.widths.iter().product::<usize>())),
            );
            return Ok(());
        }
        let (levels, items) = self.unlisted(array)?;
        let count = items.len();
        let Unboxed { mut numbers, nulls, rows: lists } = self.unboxed(items)?;
        let width: usize = self.widths.iter().product();
        if let Some(nulls) = &nulls {
            match &self.replacement {
                Some(replacement) => numbers.overwrite(nulls, replacement),
                None => {
                    if let Some(first) = (!nulls.inner()).set_indices().next() {
                        return Err(self
                            .null(row_of(&levels, first.checked_div(width).unwrap_or_default())));
                    }
                }
            }
        }
        // As in Arrow: nulls among the items of a list do not make the list null.
        let row_mask = self.has_row_mask.then(|| {
            mask(levels.first().map_or(lists.as_ref(), |level| level.nulls.as_ref()), rows)
        });
        let item_mask = self.has_item_mask.then(|| valid(nulls.as_ref(), count * width));
        match &self.lists {
            _ if self.levels == 0 => {
                columns.push(Column::Values(numbers));
                columns.extend(row_mask);
                columns.extend(item_mask.map(|valid| Column::Values(Numbers::Bool(valid))));
            }
            Lists::Ragged => {
                columns.push(self.ragged(numbers, levels, item_mask));
                columns.extend(row_mask);
            }
            Lists::Matrix(length) => {
                self.check_lengths(&levels, *length)?;
                let value = self.replacement.clone().or_else(|| zero(&self.element));
                columns.push(Column::Values(self.matrix(numbers, &levels, *length, value)?));
                columns.extend(row_mask);
                let is_missing = Some(Numbers::Bool(vec![false]));
                let item_mask = item_mask
                    .map(|valid| self.matrix(Numbers::Bool(valid), &levels, *length, is_missing))
                    .transpose()?;
                columns.extend(item_mask.map(Column::Values));
            }
            Lists::Padded { length, value, side, has_lengths } => {
                self.check_longest(&levels, length.fixed)?;
                let padding = |levels: &[Level], widths: &[usize]| {
                    Layout::new(levels, batches, *length, widths, *side)
                        .ok_or_else(|| self.too_large())
                };
                let layout = padding(&levels, &self.widths)?;
                columns.push(self.padded(&numbers, &layout, value)?);
                for (depth, level) in levels.iter().enumerate() {
                    let most = if depth == 0 { length.most } else { usize::MAX };
                    let lengths = Numbers::Int32(self.lengths(level, most)?);
                    if depth == 0 && !has_lengths {
                        continue;
                    }
                    columns.push(match levels.get(..depth).unwrap_or_default() {
                        [] => Column::Values(lengths),
                        outer => {
                            self.padded(&lengths, &padding(outer, &[])?, &Numbers::Int32(vec![0]))?
                        }
                    });
                }
                columns.extend(row_mask);
                if let Some(valid) = item_mask {
                    columns.push(self.padded(
                        &Numbers::Bool(valid),
                        &layout,
                        &Numbers::Bool(vec![false]),
                    )?);
                }
            }
        }
        Ok(())
    }

    /// The numbers in fixed-size lists where they are; `None` if a null among them has to be
    /// replaced, and if there are none.
    fn lent(&self, array: &ArrayRef) -> Option<Buffer> {
        let mut values = array;
        for _ in &self.widths {
            values =
                values.as_fixed_size_list_opt().filter(|list| list.null_count() == 0)?.values();
        }
        let data = Some(values.to_data()).filter(|data| {
            data.data_type() == &self.element && data.null_count() == 0 && data.offset() == 0
        })?;
        data.buffers().first().filter(|values| !values.is_empty()).cloned()
    }

    /// The variable-length lists, the outermost first, and what the innermost hold. Null lists
    /// become empty.
    fn unlisted(&self, mut array: ArrayRef) -> Result<(Vec<Level>, ArrayRef)> {
        let mut levels = Vec::with_capacity(self.levels);
        for _ in 0..self.levels {
            let (items, offsets, nulls) = match array.data_type() {
                DataType::List(_) => parts::<i32>(array),
                DataType::LargeList(_) => parts::<i64>(array),
                other => return Err(self.changed(other)),
            };
            let missing = nulls.as_ref().and_then(|nulls| (!nulls.inner()).set_indices().next());
            if let Some(list) = missing.filter(|_| !self.accepts_missing_lists) {
                return Err(self.null(row_of(&levels, list)));
            }
            let (items, offsets) = self.without_null_lists(items, offsets, nulls.as_ref())?;
            levels.push(Level { offsets, nulls });
            array = items;
        }
        Ok((levels, array))
    }

    /// The numbers in fixed-size lists, or those of the array itself.
    fn unboxed(&self, mut array: ArrayRef) -> Result<Unboxed> {
        let rows = if self.has_row_mask { array.logical_nulls() } else { None };
        let mut nulls: Option<NullBuffer> = None;
        for width in &self.widths {
            let count = array.len();
            let same = matches!(
                array.data_type(),
                DataType::FixedSizeList(_, found) if usize::try_from(*found) == Ok(*width)
            );
            if !same {
                return Err(self.changed(array.data_type()));
            }
            let list = array.as_fixed_size_list().clone();
            // Both reference the items, which must have a single owner.
            drop(array);
            let (_, _, items, own) = list.into_parts();
            nulls = NullBuffer::union(nulls.as_ref(), own.as_ref())
                .filter(|nulls| nulls.null_count() > 0)
                .map(|nulls| nulls.expand(*width));
            array = cut(items, 0, count * width);
        }
        let (numbers, own) = self.numbers(array)?;
        Ok(Unboxed { numbers, nulls: NullBuffer::union(nulls.as_ref(), own.as_ref()), rows })
    }

    /// Numbers of the planned type, and their nulls, with dictionaries decoded.
    fn numbers(&self, array: ArrayRef) -> Result<(Numbers, Option<NullBuffer>)> {
        let array = match array.data_type() {
            DataType::Dictionary(..) => cast(&array, &self.element)
                .map_err(|source| Error::Dictionary { column: self.path.clone(), source })?,
            _ => array,
        };
        if *array.data_type() != self.element {
            return Err(self.changed(array.data_type()));
        }
        Numbers::take(array).map_err(|array| self.changed(array.data_type()))
    }

    fn ragged(&self, numbers: Numbers, levels: Vec<Level>, mut valid: Option<Vec<bool>>) -> Column {
        let mut values = Column::Values(numbers);
        for Level { offsets, nulls } in levels.into_iter().rev() {
            let lists = offsets.len().saturating_sub(1);
            values = Column::Ragged { values: Box::new(values), offsets, valid };
            valid = self.is_masked.then(|| super::valid(nulls.as_ref(), lists));
        }
        values
    }

    fn padded(&self, numbers: &Numbers, layout: &Layout, value: &Numbers) -> Result<Column> {
        let values = numbers
            .placed(&layout.runs, layout.len, value)
            .map_err(|_too_large| self.too_large())?;
        Ok(Column::Padded { values, shapes: layout.shapes.clone() })
    }

    /// Rows of the same length; null rows get `value`.
    fn matrix(
        &self,
        numbers: Numbers,
        levels: &[Level],
        length: usize,
        value: Option<Numbers>,
    ) -> Result<Numbers> {
        let Some(level) = levels.first().filter(|level| level.nulls.is_some()) else {
            return Ok(numbers);
        };
        let length = RowLength { fixed: Some(length), ..RowLength::LONGEST };
        let layout = Layout::new(levels, &[level.len()], length, &self.widths, Side::Right)
            .ok_or_else(|| self.too_large())?;
        let value = value.ok_or_else(|| self.changed(&self.element))?;
        numbers.placed(&layout.runs, layout.len, &value).map_err(|_too_large| self.too_large())
    }

    fn check_lengths(&self, levels: &[Level], expected: usize) -> Result<()> {
        let Some(level) = levels.first() else { return Ok(()) };
        let is_null = |row: usize| level.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        match (0..level.len()).find(|row| level.range(*row).len() != expected && !is_null(*row)) {
            Some(row) => Err(Error::ListLength {
                column: self.path.clone(),
                row,
                length: level.range(row).len(),
                expected,
            }),
            None => Ok(()),
        }
    }

    fn check_longest(&self, levels: &[Level], limit: Option<usize>) -> Result<()> {
        let (Some(level), Some(limit)) = (levels.first(), limit) else { return Ok(()) };
        match (0..level.len()).find(|row| level.range(*row).len() > limit) {
            Some(row) => Err(Error::LongList {
                column: self.path.clone(),
                row,
                length: level.range(row).len(),
                limit,
            }),
            None => Ok(()),
        }
    }

    /// Removes the items of null lists, which become empty.
    fn without_null_lists(
        &self,
        items: ArrayRef,
        offsets: Vec<i64>,
        nulls: Option<&NullBuffer>,
    ) -> Result<(ArrayRef, Vec<i64>)> {
        let Some(nulls) = nulls else { return Ok((items, offsets)) };
        let lengths = || {
            offsets.windows(2).map(|pair| {
                if let [start, end] = pair {
                    usize::try_from(end - start).unwrap_or_default()
                } else {
                    0
                }
            })
        };
        if lengths().zip(nulls.iter()).all(|(length, is_valid)| is_valid || length == 0) {
            return Ok((items, offsets));
        }
        let mut keeps = BooleanBufferBuilder::new(items.len());
        let mut kept = Vec::with_capacity(offsets.len());
        let mut end = 0_i64;
        kept.push(end);
        for (length, is_valid) in lengths().zip(nulls.iter()) {
            keeps.append_n(length, is_valid);
            if is_valid {
                end += i64::try_from(length).unwrap_or_default();
            }
            kept.push(end);
        }
        let items = filter(&items, &BooleanArray::new(keeps.finish(), None))
            .map_err(|source| Error::Dictionary { column: self.path.clone(), source })?;
        Ok((items, kept))
    }

    /// The lengths of the lists of a level.
    fn lengths(&self, level: &Level, most: usize) -> Result<Vec<i32>> {
        let length = |list: usize| {
            i32::try_from(level.range(list).len().min(most)).map_err(|_too_long| self.too_large())
        };
        (0..level.len()).map(length).collect()
    }

    fn too_large(&self) -> Error {
        Error::PadMemory { column: self.path.clone() }
    }

    fn null(&self, row: usize) -> Error {
        Error::Null { column: self.path.clone(), row, data_type: self.element.clone() }
    }

    fn changed(&self, found: &DataType) -> Error {
        Error::Changed {
            column: self.path.clone(),
            expected: self.element.clone(),
            found: found.clone(),
        }
    }
}

struct Unboxed {
    numbers: Numbers,
    /// Of the numbers.
    nulls: Option<NullBuffer>,
    /// Of the outermost lists.
    rows: Option<NullBuffer>,
}

/// Items, offsets from 0 on and nulls of a list array; all items lie within the offsets.
fn parts<O: OffsetSizeTrait>(array: ArrayRef) -> (ArrayRef, Vec<i64>, Option<NullBuffer>) {
    let list: GenericListArray<O> = array.as_list().clone();
    drop(array);
    let (_, offsets, items, nulls) = list.into_parts();
    let first = offsets.first().map_or(0, |first| first.as_usize());
    let last = offsets.last().map_or(0, |last| last.as_usize());
    let items = cut(items, first, last.saturating_sub(first));
    let from_zero =
        |offset: &O| i64::try_from(offset.as_usize().saturating_sub(first)).unwrap_or(i64::MAX);
    (items, offsets.iter().map(from_zero).collect(), nulls.filter(|nulls| nulls.null_count() > 0))
}

/// A slice, or the array itself if it covers everything.
fn cut(array: ArrayRef, start: usize, length: usize) -> ArrayRef {
    if start == 0 && length == array.len() { array } else { array.slice(start, length) }
}
