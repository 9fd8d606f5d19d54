//! How row groups are divided into blocks.

use super::super::gauge::{unsigned, value_width};
use crate::table::{Block, MAX_BLOCK_BYTES};
use parquet::basic::Type;
use parquet::file::metadata::{ColumnChunkMetaData, RowGroupMetaData};
use std::ops::Range;

/// A row group with more rows is split, regardless of its size: decoders reserve memory by rows.
const MAX_BLOCK_ROWS: u64 = 1 << 20;

/// Limit per file: 64 TiB in memory.
const MAX_BLOCKS: u64 = 1 << 20;

/// Position of a block.
#[derive(Debug, Clone)]
pub(super) struct Place {
    pub(super) row_group: usize,
    /// Of the row group.
    pub(super) rows: Range<u64>,
}

/// `None` if there are too many.
pub(super) fn blocks_of(groups: &[RowGroupMetaData]) -> Option<(Vec<Block>, Vec<Place>)> {
    let mut blocks = Vec::with_capacity(groups.len());
    let mut places = Vec::with_capacity(groups.len());
    for (row_group, group) in groups.iter().enumerate() {
        let rows = unsigned(group.num_rows());
        let decoded = group
            .columns()
            .iter()
            .map(|chunk| decoded_bytes(chunk, rows))
            .fold(0, u64::saturating_add);
        let stored = unsigned(group.compressed_size());
        let parts = decoded
            .div_ceil(MAX_BLOCK_BYTES)
            .max(rows.div_ceil(MAX_BLOCK_ROWS))
            .clamp(1, rows.max(1));
        if parts > MAX_BLOCKS.saturating_sub(blocks.len() as u64).max(1) {
            return None;
        }
        for part in 0..parts {
            let (start, end) = (share(rows, part, parts), share(rows, part + 1, parts));
            let len = end - start;
            blocks.push(Block {
                rows: len,
                decoded_bytes: share(decoded, len, rows),
                stored_bytes: share(stored, len, rows),
            });
            places.push(Place { row_group, rows: start..end });
        }
    }
    Some((blocks, places))
}

/// The width of a value is known for most types, regardless of its encoding; strings take their
/// plain size.
pub(super) fn decoded_bytes(chunk: &ColumnChunkMetaData, rows: u64) -> u64 {
    let values = unsigned(chunk.num_values()).max(rows);
    let widths = values.saturating_mul(value_width(chunk));
    match chunk.column_type() {
        Type::BOOLEAN => values.div_ceil(8),
        Type::BYTE_ARRAY => {
            let known = chunk.unencoded_byte_array_data_bytes().map(unsigned);
            known.unwrap_or_else(|| unsigned(chunk.uncompressed_size())).saturating_add(widths)
        }
        _ => widths,
    }
}

pub(super) fn share(all: u64, part: u64, parts: u64) -> u64 {
    u64::try_from(u128::from(all) * u128::from(part) / u128::from(parts.max(1))).unwrap_or(u64::MAX)
}
