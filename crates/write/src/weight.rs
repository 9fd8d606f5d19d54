//! The size of rows in memory.
//!
//! The invariant: the weight of rows is the sum of the weights of each,
//! however they are cut to batches.

use arrow_array::cast::AsArray;
use arrow_array::{Array, OffsetSizeTrait, RecordBatch};
use arrow_schema::DataType;

/// The size of the values, without marks of nulls.
pub(crate) fn weight(rows: &RecordBatch) -> u64 {
    rows.columns().iter().map(|column| column_weight(column)).sum()
}

/// The number of rows from `start` on that weigh at least `room` together; all if they do not.
pub(crate) fn rows_within(rows: &RecordBatch, start: usize, room: u64) -> usize {
    let rest = rows.num_rows().saturating_sub(start);
    if weight(&rows.slice(start, rest)) < room {
        return rest;
    }
    let (mut few, mut enough) = (0, rest);
    while enough - few > 1 {
        let middle = few + (enough - few) / 2;
        *(if weight(&rows.slice(start, middle)) < room { &mut few } else { &mut enough }) = middle;
    }
    enough
}

fn column_weight(column: &dyn Array) -> u64 {
    let bytes = match column.data_type() {
        DataType::Boolean => column.len(),
        DataType::Utf8 => bytes_within(column.as_string::<i32>().value_offsets()),
        DataType::LargeUtf8 => bytes_within(column.as_string::<i64>().value_offsets()),
        DataType::Binary => bytes_within(column.as_binary::<i32>().value_offsets()),
        DataType::LargeBinary => bytes_within(column.as_binary::<i64>().value_offsets()),
        // Views share buffers with rows of other batches.
        DataType::BinaryView => {
            column.as_binary_view().lengths().map(|len| len as usize + 16).sum()
        }
        DataType::Utf8View => column.as_string_view().lengths().map(|len| len as usize + 16).sum(),
        // A slice holds the whole dictionary, and so do its neighbours.
        DataType::Dictionary(_, _) => return column_weight(column.as_any_dictionary().keys()),
        // A slice holds the items of all rows.
        DataType::List(_) => {
            return items_weight(
                column.as_list::<i32>().value_offsets(),
                column.as_list::<i32>().values(),
            );
        }
        DataType::LargeList(_) => {
            return items_weight(
                column.as_list::<i64>().value_offsets(),
                column.as_list::<i64>().values(),
            );
        }
        DataType::Map(_, _) => {
            return items_weight(column.as_map().value_offsets(), column.as_map().entries());
        }
        DataType::FixedSizeList(_, _) => {
            return column_weight(column.as_fixed_size_list().values());
        }
        DataType::Struct(_) => {
            return column.as_struct().columns().iter().map(|field| column_weight(field)).sum();
        }
        DataType::FixedSizeBinary(width) => {
            column.len() * usize::try_from(*width).unwrap_or_default()
        }
        other => match other.primitive_width() {
            Some(width) => column.len() * width,
            None => column
                .to_data()
                .get_slice_memory_size()
                .unwrap_or_else(|_unknown| column.get_array_memory_size()),
        },
    };
    bytes as u64
}

fn place<O: OffsetSizeTrait>(offset: Option<&O>) -> usize {
    offset.map_or(0, |offset| offset.as_usize())
}

/// Of variable length, with an offset each.
fn bytes_within<O: OffsetSizeTrait>(offsets: &[O]) -> usize {
    place(offsets.last()).saturating_sub(place(offsets.first()))
        + size_of::<O>() * offsets.len().saturating_sub(1)
}

/// Size of the items between the first and the last offset, and of the offsets.
fn items_weight<O: OffsetSizeTrait>(offsets: &[O], items: &dyn Array) -> u64 {
    let (start, end) = (place(offsets.first()), place(offsets.last()));
    (size_of::<O>() * offsets.len().saturating_sub(1)) as u64
        + column_weight(&items.slice(start, end.saturating_sub(start)))
}
