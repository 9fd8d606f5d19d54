//! What a footer tells of the values in each row group.
//!
//! Called by the table reader before rows are read. The invariant: a bound that some writer is known to get wrong is no bound, and a count that is missing
//! is unknown; so whatever is left here is true of the rows. What is damaged is missing.

use super::ParquetFile;
use crate::caught::caught;
use crate::table::Statistics;
use arrow_array::{ArrayRef, UInt64Array, new_null_array};
use arrow_schema::{DataType, Field};
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::basic::{ColumnOrder, SortOrder, Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::statistics::Statistics as Stored;
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor};

/// A top-level column that is no list, struct or map, and its one leaf.
pub(super) struct Leaf<'a> {
    pub index: usize,
    pub field: &'a Field,
    pub schema: &'a SchemaDescriptor,
    /// Whether bounds of the column can be believed.
    pub is_ordered: bool,
}

impl ParquetFile {
    /// One entry for each of `row_groups`, which may repeat. `column` counts the top-level columns of the Arrow schema. `None` for nested columns, and when
    /// the footer tells nothing.
    #[must_use]
    pub fn column_statistics(&self, row_groups: &[usize], column: usize) -> Option<Statistics> {
        let leaf = self.leaf(column)?;
        let metadata = &*self.footer;
        let row_groups = row_groups.iter().map(|index| metadata.row_groups().get(*index)).collect::<Option<Vec<_>>>()?;
        let row_counts = row_groups.iter().map(|row_group| u64::try_from(row_group.num_rows()).ok()).collect::<Option<Vec<u64>>>()?;
        let told = caught(|| leaf.row_group_statistics(&row_groups)).ok()?;
        let (min, max, null_counts) = told.ok()?;
        is_sound(&leaf, &min, &max, row_counts.len()).then_some(Statistics { min, max, null_counts, row_counts })
    }

    pub(super) fn leaf(&self, column: usize) -> Option<Leaf<'_>> {
        let metadata: &ParquetMetaData = &self.footer;
        let schema = metadata.file_metadata().schema_descr();
        let field = self.schema().fields().get(column)?;
        // A root with one leaf of its own depth: neither nested nor repeated.
        let mut leaves = (0..schema.num_columns()).filter(|leaf| schema.get_column_root_idx(*leaf) == column);
        let (index, None) = (leaves.next()?, leaves.next()) else { return None };
        let descriptor = schema.column(index);
        if descriptor.path().parts().len() != 1 || descriptor.max_rep_level() != 0 || field.data_type().is_nested() {
            return None;
        }
        let order = metadata.file_metadata().column_orders().and_then(|orders| orders.get(index)).copied().unwrap_or(ColumnOrder::UNDEFINED);
        let is_ordered = is_ordered(&descriptor, order, metadata.file_metadata().created_by().unwrap_or_default());
        Some(Leaf { index, field, schema, is_ordered })
    }
}

impl Leaf<'_> {
    fn converter(&self) -> Result<StatisticsConverter<'_>, ParquetError> {
        // The default reads a missing count of nulls as zero.
        Ok(StatisticsConverter::from_column_index(self.index, self.field, self.schema)?.with_missing_null_counts_as_zero(false))
    }

    fn row_group_statistics(&self, row_groups: &[&RowGroupMetaData]) -> Result<(ArrayRef, ArrayRef, Vec<Option<u64>>), ParquetError> {
        let converter = self.converter()?;
        let stored = || row_groups.iter().map(|row_group| row_group.columns().get(self.index).and_then(|chunk| chunk.statistics()));
        let null_counts = self.null_counts(&converter.row_group_null_counts(row_groups.iter().copied())?);
        if !self.is_ordered || stored().flatten().any(|stored| !self.is_trusted(stored)) {
            let unknown = new_null_array(self.field.data_type(), row_groups.len());
            return Ok((ArrayRef::clone(&unknown), unknown, null_counts));
        }
        Ok((converter.row_group_mins(row_groups.iter().copied())?, converter.row_group_maxes(row_groups.iter().copied())?, null_counts))
    }

    /// A column that cannot hold nulls needs no count of them.
    pub(super) fn null_counts(&self, told: &UInt64Array) -> Vec<Option<u64>> {
        let is_required = self.schema.columns().get(self.index).is_some_and(|leaf| leaf.max_def_level() == 0);
        told.iter().map(|count| if is_required { Some(0) } else { count }).collect()
    }

    /// The first form of statistics compares all bytes as signed, so that it is right for signed numbers alone (PARQUET-251, PARQUET-686).
    fn is_trusted(&self, stored: &Stored) -> bool {
        !stored.is_min_max_deprecated() || self.schema.columns().get(self.index).is_some_and(|leaf| is_signed_number(leaf))
    }
}

/// Whether the writer compared values as readers do.
fn is_ordered(leaf: &ColumnDescriptor, order: ColumnOrder, created_by: &str) -> bool {
    match order {
        _ if leaf.physical_type() == Type::INT96 => false,
        // Decimals in bytes were compared as unsigned by parquet-cpp before 1.6 and Arrow 3 (PARQUET-1655).
        ColumnOrder::TYPE_DEFINED_ORDER(SortOrder::SIGNED) if is_in_bytes(leaf) => {
            let old = ["parquet-cpp version 1.", "parquet-cpp-arrow version 0.", "parquet-cpp-arrow version 1.", "parquet-cpp-arrow version 2."];
            !old.iter().any(|version| created_by.starts_with(version))
        }
        ColumnOrder::TYPE_DEFINED_ORDER(order) => order != SortOrder::UNDEFINED,
        // Before there was an order to state, only signed numbers were in the one that is meant.
        ColumnOrder::UNDEFINED => is_signed_number(leaf),
        ColumnOrder::UNKNOWN => false,
    }
}

fn is_in_bytes(leaf: &ColumnDescriptor) -> bool {
    matches!(leaf.physical_type(), Type::BYTE_ARRAY | Type::FIXED_LEN_BYTE_ARRAY)
}

fn is_signed_number(leaf: &ColumnDescriptor) -> bool {
    let order = ColumnOrder::sort_order_for_type(leaf.logical_type_ref(), leaf.converted_type(), leaf.physical_type());
    order == SortOrder::SIGNED && matches!(leaf.physical_type(), Type::INT32 | Type::INT64 | Type::FLOAT | Type::DOUBLE)
}

/// Bounds of another type or number than asked for would be somebody else's.
pub(super) fn is_sound(leaf: &Leaf<'_>, min: &ArrayRef, max: &ArrayRef, entries: usize) -> bool {
    let is_of_field = |bounds: &DataType| match leaf.field.data_type() {
        DataType::Dictionary(_, value) => bounds == leaf.field.data_type() || bounds == value.as_ref(),
        own => bounds == own,
    };
    [min, max].iter().all(|bounds| bounds.len() == entries && is_of_field(bounds.data_type()))
}

#[cfg(test)]
mod tests;
