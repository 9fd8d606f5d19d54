//! Statistics of the values in each row group, from the footer.
//!
//! Read by the table reader before rows. The invariant: bounds that some writer is known to get
//! wrong are dropped, and a missing count is unknown; so everything that remains is true for the
//! rows. Damaged statistics count as missing.

use super::ParquetFile;
use super::exact::is_exact;
use crate::caught::caught;
use crate::table::{Statistics, column_field};
use arrow_array::{ArrayRef, UInt64Array, new_null_array};
use arrow_schema::{DataType, Field};
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::basic::{ColumnOrder, SortOrder, Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::file::statistics::Statistics as Stored;
use parquet::schema::types::{ColumnDescriptor, SchemaDescriptor};

/// A column that is not a list, struct or map, and not in a list: its single leaf.
pub(super) struct Leaf<'a> {
    pub index: usize,
    pub field: &'a Field,
    pub schema: &'a SchemaDescriptor,
    /// Whether bounds of the column can be trusted.
    pub is_ordered: bool,
}

impl ParquetFile {
    /// One entry for each of `row_groups`, which may repeat. `column` is the number
    /// of a column, which may be nested. `None` for lists, structs and maps, and when
    /// the footer has no statistics.
    #[must_use]
    pub fn column_statistics(&self, row_groups: &[usize], column: usize) -> Option<Statistics> {
        let leaf = self.leaf(column)?;
        let metadata = &*self.footer;
        let row_groups = row_groups
            .iter()
            .map(|index| metadata.row_groups().get(*index))
            .collect::<Option<Vec<_>>>()?;
        let row_counts = row_groups
            .iter()
            .map(|row_group| u64::try_from(row_group.num_rows()).ok())
            .collect::<Option<Vec<u64>>>()?;
        let told = caught(|| leaf.row_group_statistics(&row_groups)).ok()?;
        let (min, max, null_counts) = told.ok()?;
        is_sound(&leaf, &min, &max, row_counts.len()).then_some(Statistics {
            min,
            max,
            null_counts,
            row_counts,
        })
    }

    /// The number of values of each row of a list column, if the values of every row group are that
    /// many times its rows, and none is null.
    #[must_use]
    pub fn list_length(&self, column: usize) -> Option<u64> {
        let schema = self.footer.file_metadata().schema_descr();
        let mut leaves =
            (0..schema.num_columns()).filter(|leaf| schema.get_column_root_idx(*leaf) == column);
        let (index, None) = (leaves.next()?, leaves.next()) else { return None };
        if schema.column(index).max_rep_level() != 1 {
            return None;
        }
        let mut length = None;
        for group in self.footer.row_groups().iter().filter(|group| group.num_rows() > 0) {
            let chunk = group.columns().get(index)?;
            let (values, rows) =
                (u64::try_from(chunk.num_values()).ok()?, u64::try_from(group.num_rows()).ok()?);
            let no_nulls = chunk.statistics()?.null_count_opt() == Some(0);
            let mean = Some(values / rows).filter(|_| no_nulls && values % rows == 0)?;
            if *length.get_or_insert(mean) != mean {
                return None;
            }
        }
        length
    }

    pub(super) fn leaf(&self, column: usize) -> Option<Leaf<'_>> {
        let metadata: &ParquetMetaData = &self.footer;
        let schema = metadata.file_metadata().schema_descr();
        // Only nested columns need the others to be listed.
        let is_nested = column >= self.schema().fields().len();
        let field =
            column_field(self.schema(), if is_nested { self.nested() } else { &[] }, column)?;
        let leaves = self.leaves_of(column);
        let index = leaves.start;
        if leaves.len() != 1
            || field.data_type().is_nested()
            || schema.column(index).max_rep_level() != 0
        {
            return None;
        }
        let descriptor = schema.column(index);
        let order = metadata
            .file_metadata()
            .column_orders()
            .and_then(|orders| orders.get(index))
            .copied()
            .unwrap_or(ColumnOrder::UNDEFINED);
        let is_ordered = !is_exact(&descriptor, field)
            && is_ordered(
                &descriptor,
                order,
                metadata.file_metadata().created_by().unwrap_or_default(),
            );
        Some(Leaf { index, field, schema, is_ordered })
    }
}

impl Leaf<'_> {
    fn converter(&self) -> Result<StatisticsConverter<'_>, ParquetError> {
        // By default a missing null count would be read as zero.
        Ok(StatisticsConverter::from_column_index(self.index, self.field, self.schema)?
            .with_missing_null_counts_as_zero(false))
    }

    fn row_group_statistics(
        &self,
        row_groups: &[&RowGroupMetaData],
    ) -> Result<(ArrayRef, ArrayRef, Vec<Option<u64>>), ParquetError> {
        let converter = self.converter()?;
        let stored = || {
            row_groups.iter().map(|row_group| {
                row_group.columns().get(self.index).and_then(|chunk| chunk.statistics())
            })
        };
        let null_counts =
            self.null_counts(&converter.row_group_null_counts(row_groups.iter().copied())?);
        if !self.is_ordered || stored().flatten().any(|stored| !self.is_trusted(stored)) {
            let unknown = new_null_array(self.field.data_type(), row_groups.len());
            return Ok((ArrayRef::clone(&unknown), unknown, null_counts));
        }
        Ok((
            converter.row_group_mins(row_groups.iter().copied())?,
            converter.row_group_maxes(row_groups.iter().copied())?,
            null_counts,
        ))
    }

    /// A column that cannot hold nulls needs no null count.
    pub(super) fn null_counts(&self, told: &UInt64Array) -> Vec<Option<u64>> {
        let is_required =
            self.schema.columns().get(self.index).is_some_and(|leaf| leaf.max_def_level() == 0);
        told.iter().map(|count| if is_required { Some(0) } else { count }).collect()
    }

    /// The first version of statistics compares all bytes as signed, so it is only right for signed
    /// numbers (PARQUET-251, PARQUET-686).
    fn is_trusted(&self, stored: &Stored) -> bool {
        !stored.is_min_max_deprecated()
            || self.schema.columns().get(self.index).is_some_and(|leaf| is_signed_number(leaf))
    }
}

/// Whether the writer compared values in the same order as readers.
fn is_ordered(leaf: &ColumnDescriptor, order: ColumnOrder, created_by: &str) -> bool {
    match order {
        _ if leaf.physical_type() == Type::INT96 => false,
        // parquet-cpp before 1.6 and Arrow 3 compared decimals in bytes as unsigned (PARQUET-1655).
        ColumnOrder::TYPE_DEFINED_ORDER(SortOrder::SIGNED) if is_in_bytes(leaf) => {
            let old = [
                "parquet-cpp version 1.",
                "parquet-cpp-arrow version 0.",
                "parquet-cpp-arrow version 1.",
                "parquet-cpp-arrow version 2.",
            ];
            !old.iter().any(|version| created_by.starts_with(version))
        }
        ColumnOrder::TYPE_DEFINED_ORDER(order) => order != SortOrder::UNDEFINED,
        // Before files stated an order, only signed numbers had the intended one.
        ColumnOrder::UNDEFINED => is_signed_number(leaf),
        ColumnOrder::UNKNOWN => false,
    }
}

fn is_in_bytes(leaf: &ColumnDescriptor) -> bool {
    matches!(leaf.physical_type(), Type::BYTE_ARRAY | Type::FIXED_LEN_BYTE_ARRAY)
}

fn is_signed_number(leaf: &ColumnDescriptor) -> bool {
    let order = ColumnOrder::sort_order_for_type(
        leaf.logical_type_ref(),
        leaf.converted_type(),
        leaf.physical_type(),
    );
    order == SortOrder::SIGNED
        && matches!(leaf.physical_type(), Type::INT32 | Type::INT64 | Type::FLOAT | Type::DOUBLE)
}

/// Rejects bounds of an unexpected type or number.
pub(super) fn is_sound(leaf: &Leaf<'_>, min: &ArrayRef, max: &ArrayRef, entries: usize) -> bool {
    let is_of_field = |bounds: &DataType| match leaf.field.data_type() {
        DataType::Dictionary(_, value) => {
            bounds == leaf.field.data_type() || bounds == value.as_ref()
        }
        own => bounds == own,
    };
    [min, max].iter().all(|bounds| bounds.len() == entries && is_of_field(bounds.data_type()))
}

#[cfg(test)]
mod tests;
