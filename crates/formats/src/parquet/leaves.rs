//! Which leaves of a Parquet schema belong to a column.
//!
//! The invariant: the leaves of a file and the primitive types of its Arrow schema have the same
//! order, so the leaves of a field follow from the number of leaves before it. Where the two
//! numbers differ, a nested column counts as the whole top-level column.

use super::ParquetFile;
use arrow_schema::{DataType, Field};
use parquet::arrow::ProjectionMask;
use std::ops::Range;

impl ParquetFile {
    /// The leaves of a column, which may be nested.
    pub(super) fn leaves_of(&self, column: usize) -> Range<usize> {
        let top = self.schema().fields();
        let Some(place) = column.checked_sub(top.len()) else { return self.leaves_of_root(column) };
        let Some(nested) = self.nested().get(place) else { return 0..0 };
        let all = self.leaves_of_root(nested.root);
        let Some(root) =
            top.get(nested.root).filter(|root| num_leaves(root.data_type()) == all.len())
        else {
            return all;
        };
        let (mut start, mut field) = (all.start, root.as_ref());
        for step in &nested.steps {
            let fields = crate::table::fields_of(field.data_type());
            let Some(child) = fields.and_then(|fields| fields.get(step.index)) else { return all };
            start += fields
                .into_iter()
                .flatten()
                .take(step.index)
                .map(|before| num_leaves(before.data_type()))
                .sum::<usize>();
            field = child;
        }
        start..start + num_leaves(field.data_type())
    }

    fn leaves_of_root(&self, root: usize) -> Range<usize> {
        let schema = self.footer.file_metadata().schema_descr();
        let start = (0..schema.num_columns())
            .take_while(|leaf| schema.get_column_root_idx(*leaf) < root)
            .count();
        start
            ..start
                + (start..schema.num_columns())
                    .take_while(|leaf| schema.get_column_root_idx(*leaf) == root)
                    .count()
    }

    pub(super) fn mask_of(&self, columns: &[usize]) -> ProjectionMask {
        let schema = self.footer.file_metadata().schema_descr();
        if columns.iter().all(|column| *column < self.schema().fields().len()) {
            return ProjectionMask::roots(schema, columns.iter().copied());
        }
        ProjectionMask::leaves(schema, columns.iter().flat_map(|column| self.leaves_of(*column)))
    }
}

fn num_leaves(data_type: &DataType) -> usize {
    let of = |field: &Field| num_leaves(field.data_type());
    match data_type {
        DataType::Struct(fields) => fields.iter().map(|field| of(field)).sum(),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            of(item)
        }
        DataType::ListView(item) | DataType::LargeListView(item) | DataType::Map(item, _) => {
            of(item)
        }
        _ => 1,
    }
}
