//! Collects rows from all over a window in delivery order.
//!
//! A window is much larger than a cache, one of its columns is not. So each column is copied block
//! by block, and the rows of a block in order: reads stream from memory, and only writes are
//! random, within the cache. Types without a fixed width use Arrow's own kernel.

use arrow_array::cast::AsArray;
use arrow_array::types::ArrowPrimitiveType;
use arrow_array::{Array, ArrayRef, PrimitiveArray, RecordBatch, downcast_primitive};
use arrow_schema::ArrowError;
use arrow_select::interleave::interleave;
use std::sync::Arc;

/// The origin of the rows of a superbatch.
#[derive(Debug)]
pub(super) struct RowSources {
    rows: usize,
    /// By block: (row in the block, row in the superbatch).
    by_block: Vec<Vec<(u32, u32)>>,
}

impl RowSources {
    pub(super) fn new(blocks: usize, rows: usize) -> Self {
        let each = rows / blocks.max(1) + rows / 16;
        Self { rows: 0, by_block: (0..blocks).map(|_| Vec::with_capacity(each)).collect() }
    }

    /// Adds the next row of the superbatch. Blocks and superbatches have far fewer than 2³² rows.
    pub(super) fn push(&mut self, block: usize, row: u64) {
        if let (Some(sources), Ok(row), Ok(place)) =
            (self.by_block.get_mut(block), u32::try_from(row), u32::try_from(self.rows))
        {
            sources.push((row, place));
        }
        self.rows += 1;
    }

    /// Must be called after the last row, with the number of rows of each block.
    pub(super) fn sort(&mut self, block_rows: impl Iterator<Item = usize>) {
        for (sources, rows) in self.by_block.iter_mut().zip(block_rows) {
            let mut place_of = vec![u32::MAX; rows];
            for (row, place) in sources.iter() {
                if let Some(slot) = place_of.get_mut(*row as usize) {
                    *slot = *place;
                }
            }
            let sorted: Vec<(u32, u32)> =
                (0..).zip(place_of).filter(|(_, place)| *place != u32::MAX).collect();
            // A row that pads the last batch occurs twice.
            if sorted.len() == sources.len() {
                *sources = sorted;
            } else {
                sources.sort_unstable();
            }
        }
    }

    /// One column of the superbatch.
    pub(super) fn column(
        &self,
        blocks: &[Arc<RecordBatch>],
        column: usize,
    ) -> Result<ArrayRef, ArrowError> {
        let arrays: Vec<&ArrayRef> = blocks.iter().map(|block| block.column(column)).collect();
        let has_nulls = arrays.iter().any(|array| array.null_count() > 0);
        if let (Some(first), false) = (arrays.first(), has_nulls) {
            macro_rules! gathered {
                ($native:ty) => {
                    return Ok(Arc::new(
                        self.primitive::<$native>(&arrays)
                            .with_data_type(first.data_type().clone()),
                    ))
                };
            }
            downcast_primitive! {
                first.data_type() => (gathered),
                _ => {}
            }
        }
        let arrays: Vec<&dyn Array> = arrays.into_iter().map(AsRef::as_ref).collect();
        interleave(&arrays, &self.in_order())
    }

    fn primitive<T: ArrowPrimitiveType>(&self, arrays: &[&ArrayRef]) -> PrimitiveArray<T> {
        let mut gathered = vec![T::default_value(); self.rows];
        for (sources, array) in self.by_block.iter().zip(arrays) {
            let values: &[T::Native] = array.as_primitive::<T>().values();
            for (row, place) in sources {
                if let (Some(value), Some(slot)) =
                    (values.get(*row as usize), gathered.get_mut(*place as usize))
                {
                    *slot = *value;
                }
            }
        }
        PrimitiveArray::new(gathered.into(), None)
    }

    fn in_order(&self) -> Vec<(usize, usize)> {
        let mut order = vec![(0, 0); self.rows];
        for (block, sources) in self.by_block.iter().enumerate() {
            for (row, place) in sources {
                if let Some(slot) = order.get_mut(*place as usize) {
                    *slot = (block, *row as usize);
                }
            }
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Decimal128Array, Int32Array, StringArray, TimestampMicrosecondArray};
    use arrow_schema::{Field, Schema};
    use proptest::prelude::*;

    fn block(start: i32, rows: i32, with_nulls: bool) -> Arc<RecordBatch> {
        let numbers = || start..start + rows;
        let nullable: Int32Array =
            numbers().map(|number| (!with_nulls || number % 3 > 0).then_some(number)).collect();
        let columns: Vec<ArrayRef> = vec![
            Arc::new(Int32Array::from_iter_values(numbers())),
            Arc::new(nullable),
            Arc::new(numbers().map(|number| Some(number.to_string())).collect::<StringArray>()),
            Arc::new(
                TimestampMicrosecondArray::from_iter_values(numbers().map(i64::from))
                    .with_timezone("Europe/Berlin"),
            ),
            Arc::new(
                Decimal128Array::from_iter_values(numbers().map(i128::from))
                    .with_precision_and_scale(20, 4)
                    .unwrap(),
            ),
        ];
        let fields: Vec<_> = columns
            .iter()
            .enumerate()
            .map(|(number, column)| {
                Field::new(number.to_string(), column.data_type().clone(), true)
            })
            .collect();
        Arc::new(RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap())
    }

    proptest! {
        #[test]
        fn gathered_rows_equal_those_of_arrows_kernel(
            wanted in prop::collection::vec((0usize..3, 0u64..20), 0..100),
            with_nulls: bool,
        ) {
            let blocks =
                [block(0, 20, with_nulls), block(100, 20, false), block(200, 20, with_nulls)];
            let mut sources = RowSources::new(3, wanted.len());
            wanted.iter().for_each(|(block, row)| sources.push(*block, *row));
            sources.sort([20; 3].into_iter());
            let order: Vec<(usize, usize)> = wanted
                .iter()
                .map(|(block, row)| (*block, usize::try_from(*row).unwrap()))
                .collect();
            for column in 0..5 {
                let arrays: Vec<&dyn Array> =
                    blocks.iter().map(|block| block.column(column).as_ref()).collect();
                prop_assert_eq!(
                    &sources.column(&blocks, column).unwrap(),
                    &interleave(&arrays, &order).unwrap()
                );
            }
        }
    }
}
