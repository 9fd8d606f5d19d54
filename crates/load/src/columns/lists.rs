//! List columns: a matrix where all rows have one length, else values and offsets.
//!
//! Arrow allows anything under a null row, also values; none of it leaves here.

use super::error::{Error, Result};
use super::form::Plan;
use super::{Column, mask, valid};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BooleanArray, GenericListArray, OffsetSizeTrait};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder, NullBuffer};
use arrow_schema::DataType;
use arrow_select::filter::filter;

impl Plan {
    pub(super) fn fixed_lists(&self, array: ArrayRef, width: usize, columns: &mut Vec<Column>) -> Result<()> {
        let rows = array.len();
        let same = matches!(array.data_type(), DataType::FixedSizeList(_, found) if usize::try_from(*found) == Ok(width));
        if !same {
            return Err(self.changed(array.data_type()));
        }
        let list = array.as_fixed_size_list().clone();
        // Both hold the items, and those shall have one owner.
        drop(array);
        let (_, _, items, nulls) = list.into_parts();
        let nulls = nulls.filter(|nulls| nulls.null_count() > 0);
        let (mut numbers, item_nulls) = self.numbers(cut(items, 0, rows * width))?;
        let item_nulls = NullBuffer::union(nulls.as_ref().map(|nulls| nulls.expand(width)).as_ref(), item_nulls.as_ref());
        self.replace(&mut numbers, item_nulls.as_ref(), |item| item.checked_div(width).unwrap_or_default())?;
        columns.push(Column::Values(numbers));
        if self.has_row_mask {
            let whole = item_nulls.as_ref().map(|items| whole_rows(nulls.as_ref(), items, rows, |row| (row * width, width)));
            columns.push(mask(whole.as_ref().or(nulls.as_ref()), rows));
        }
        if self.has_item_mask {
            columns.push(mask(item_nulls.as_ref(), rows * width));
        }
        Ok(())
    }

    pub(super) fn lists(&self, array: ArrayRef, columns: &mut Vec<Column>) -> Result<()> {
        let rows = array.len();
        let (items, offsets, nulls) = match array.data_type() {
            DataType::List(_) => parts::<i32>(array),
            DataType::LargeList(_) => parts::<i64>(array),
            other => return Err(self.changed(other)),
        };
        let missing = nulls.as_ref().and_then(|nulls| (!nulls.inner()).set_indices().next());
        if let Some(row) = missing.filter(|_| !self.accepts_missing_lists) {
            return Err(self.null(row));
        }
        let (items, offsets) = without_null_rows(items, offsets, nulls.as_ref(), self)?;
        let (mut values, item_nulls) = self.numbers(items)?;
        // The row in which an item lies is the last that starts at it or before: empty rows in front of it start there as well.
        let row_of = |item: usize| offsets.partition_point(|start| usize::try_from(*start).is_ok_and(|start| start <= item)).saturating_sub(1);
        self.replace(&mut values, item_nulls.as_ref(), row_of)?;
        let row_mask = self.has_row_mask.then(|| {
            let whole = item_nulls.as_ref().filter(|_| self.has_item_mask).map(|items| {
                let range = |row: usize| {
                    let bound = |row: usize| offsets.get(row).and_then(|bound| usize::try_from(*bound).ok()).unwrap_or_default();
                    (bound(row), bound(row + 1).saturating_sub(bound(row)))
                };
                whole_rows(nulls.as_ref(), items, rows, range)
            });
            mask(whole.as_ref().or(nulls.as_ref()), rows)
        });
        let valid = self.has_item_mask.then(|| valid(item_nulls.as_ref(), values.len()));
        columns.push(Column::Ragged { values, offsets, valid });
        columns.extend(row_mask);
        Ok(())
    }
}

/// Items, offsets from 0 on and nulls of a list array; no item lies outside of the offsets.
fn parts<O: OffsetSizeTrait>(array: ArrayRef) -> (ArrayRef, Vec<i64>, Option<NullBuffer>) {
    let list: GenericListArray<O> = array.as_list().clone();
    drop(array);
    let (_, offsets, items, nulls) = list.into_parts();
    let first = offsets.first().map_or(0, |first| first.as_usize());
    let last = offsets.last().map_or(0, |last| last.as_usize());
    let items = cut(items, first, last.saturating_sub(first));
    let from_zero = |offset: &O| i64::try_from(offset.as_usize().saturating_sub(first)).unwrap_or(i64::MAX);
    (items, offsets.iter().map(from_zero).collect(), nulls.filter(|nulls| nulls.null_count() > 0))
}

/// The items of null rows are left out, and their rows become empty.
fn without_null_rows(items: ArrayRef, offsets: Vec<i64>, nulls: Option<&NullBuffer>, plan: &Plan) -> Result<(ArrayRef, Vec<i64>)> {
    let Some(nulls) = nulls else { return Ok((items, offsets)) };
    let lengths = || offsets.windows(2).map(|pair| if let [start, end] = pair { usize::try_from(end - start).unwrap_or_default() } else { 0 });
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
    let items = filter(&items, &BooleanArray::new(keeps.finish(), None)).map_err(|source| Error::Dictionary { column: plan.name.clone(), source })?;
    Ok((items, kept))
}

/// Valid where the row is, and each of its items.
fn whole_rows(rows: Option<&NullBuffer>, items: &NullBuffer, count: usize, range: impl Fn(usize) -> (usize, usize)) -> NullBuffer {
    let is_whole = |row: usize| {
        let (start, length) = range(row);
        let has_null = length > 0 && items.inner().slice(start, length).has_false();
        rows.is_none_or(|rows| rows.is_valid(row)) && !has_null
    };
    NullBuffer::new(BooleanBuffer::collect_bool(count, is_whole))
}

/// A slice, unless it is all.
fn cut(array: ArrayRef, start: usize, length: usize) -> ArrayRef {
    if start == 0 && length == array.len() { array } else { array.slice(start, length) }
}
