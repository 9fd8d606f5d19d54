//! Lists that a function outside of this library computes from all source columns of a batch.
//!
//! The invariant: what is delivered has the declared types, a list for each row, and lists of equal
//! length in each row.

use super::{CountsDirectory, TokenColumns, TokenCounts};
use crate::dataset::{Derive, Underivable};
use crate::{Result, UnderivableRow};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_cast::cast;
use arrow_schema::{DataType, FieldRef, Fields, Schema, SchemaRef};
use shardmill_engine::Cancel;
use shardmill_formats::table::type_name;
use std::fmt::Debug;
use std::sync::Arc;

/// Called from several threads.
pub trait ListFunction: Debug + Send + Sync {
    /// The lists of each output.
    ///
    /// # Errors
    /// Why there are none.
    fn call(&self, rows: RecordBatch) -> std::result::Result<Vec<ArrayRef>, String>;
}

/// Columns of tokens that a function computes.
#[derive(Debug)]
pub struct FunctionTokens {
    function: Arc<dyn ListFunction>,
    schema: SchemaRef,
    outputs: Vec<FieldRef>,
    counts: CountsDirectory,
}

impl FunctionTokens {
    /// The function gets columns of the types of `sources`.
    #[must_use]
    pub fn new(
        function: Arc<dyn ListFunction>,
        sources: Fields,
        columns: &TokenColumns,
        counts: CountsDirectory,
    ) -> Self {
        Self { function, schema: Arc::new(Schema::new(sources)), outputs: columns.fields(), counts }
    }
}

impl Derive for FunctionTokens {
    fn accepts(&self, _source: usize, _data_type: &DataType) -> bool {
        true
    }

    fn outputs(&self) -> &[FieldRef] {
        &self.outputs
    }

    fn compute(&self, sources: &[ArrayRef]) -> std::result::Result<Vec<ArrayRef>, Underivable> {
        let rows = sources.first().map_or(0, Array::len);
        let in_types = sources
            .iter()
            .zip(self.schema.fields())
            .map(|(source, field)| cast(source, field.data_type()));
        let batch = in_types
            .collect::<std::result::Result<_, _>>()
            .and_then(|columns| RecordBatch::try_new(Arc::clone(&self.schema), columns));
        let lists = self
            .function
            .call(batch.map_err(|error| Underivable::Batch(error.to_string()))?)
            .map_err(Underivable::Batch)?;
        check_lists(&lists, &self.outputs, rows)?;
        Ok(lists)
    }

    fn counts(&self, cancel: &Cancel) -> Result<Option<Arc<TokenCounts>>> {
        self.counts.open(cancel)
    }

    fn output_bytes(&self, source_bytes: u64) -> u64 {
        2 * source_bytes
    }
}

/// Refuses rows whose lists are null, have a null, or differ in length.
fn check_lists(
    lists: &[ArrayRef],
    outputs: &[FieldRef],
    rows: usize,
) -> std::result::Result<(), Underivable> {
    let failed =
        |row: usize, reason: String| UnderivableRow { row, reason, ..UnderivableRow::default() };
    let mut failures: Vec<UnderivableRow> = Vec::new();
    let mut lengths: Option<Vec<usize>> = None;
    for (list, output) in lists.iter().zip(outputs) {
        let Some(list) =
            list.as_list_opt::<i32>().filter(|_| list.data_type() == output.data_type())
        else {
            return Err(Underivable::Batch(format!(
                "the function returned {} as {}",
                output.name(),
                type_name(list.data_type())
            )));
        };
        if list.len() != rows {
            return Err(Underivable::Batch(format!(
                "the function returned {} rows of {} for {rows} rows",
                list.len(),
                output.name()
            )));
        }
        if list.null_count() > 0 || list.values().null_count() > 0 {
            let is_bad = |row: &usize| list.is_null(*row) || list.value(*row).null_count() > 0;
            failures.extend((0..rows).filter(is_bad).map(|row| {
                failed(row, format!("the function returned a null in {}", output.name()))
            }));
        }
        let found: Vec<usize> = list.offsets().lengths().collect();
        match &lengths {
            None => lengths = Some(found),
            Some(first) => {
                let differing = (0..rows).filter(|row| first.get(*row) != found.get(*row));
                failures.extend(differing.map(|row| {
                    failed(row, "the function returned lists of different lengths".to_owned())
                }));
            }
        }
    }
    failures.sort_by_key(|failure| failure.row);
    failures.dedup_by_key(|failure| failure.row);
    if failures.is_empty() { Ok(()) } else { Err(Underivable::Rows(failures)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::types::{Int32Type, Int64Type};
    use arrow_array::{Int64Array, ListArray};
    use arrow_schema::Field;

    type Lists<'a> = &'a [&'a [i64]];

    /// Returns the same lists for any rows.
    #[derive(Debug)]
    struct Constant(Vec<ArrayRef>);

    impl ListFunction for Constant {
        fn call(&self, _rows: RecordBatch) -> std::result::Result<Vec<ArrayRef>, String> {
            Ok(self.0.clone())
        }
    }

    fn list(lists: Lists<'_>) -> ArrayRef {
        let found = ListArray::from_iter_primitive::<Int64Type, _, _>(
            lists.iter().map(|list| Some(list.iter().copied().map(Some))),
        );
        let (_, offsets, values, nulls) = found.into_parts();
        Arc::new(ListArray::new(
            Arc::new(Field::new("item", DataType::Int64, false)),
            offsets,
            values,
            nulls,
        ))
    }

    /// For two rows.
    fn computed(lists: Vec<ArrayRef>) -> std::result::Result<Vec<ArrayRef>, Underivable> {
        let columns = TokenColumns {
            tokens: "tokens".to_owned(),
            is_wide: true,
            labels: Some("labels".to_owned()),
        };
        let sources = Fields::from(vec![Field::new("text", DataType::Int64, true)]);
        let function = FunctionTokens::new(
            Arc::new(Constant(lists)),
            sources,
            &columns,
            CountsDirectory::new(None),
        );
        function.compute(&[Arc::new(Int64Array::from(vec![0, 1]))])
    }

    #[test]
    fn lists_of_the_declared_types_are_delivered() {
        let lists = vec![list(&[&[1, 2], &[]]), list(&[&[3, 4], &[]])];
        assert_eq!(computed(lists.clone()), Ok(lists));
    }

    #[test]
    fn each_row_with_lists_of_different_lengths_is_refused_once() {
        let found = computed(vec![list(&[&[1], &[2]]), list(&[&[1], &[2, 3]])]);
        let reason = "the function returned lists of different lengths".to_owned();
        assert_eq!(
            found,
            Err(Underivable::Rows(vec![UnderivableRow {
                row: 1,
                reason,
                ..UnderivableRow::default()
            }]))
        );
    }

    #[test]
    fn lists_of_other_rows_or_types_are_refused_without_a_row() {
        let reason = |found| match found {
            Err(Underivable::Batch(reason)) => reason,
            other => format!("{other:?}"),
        };
        assert_eq!(
            reason(computed(vec![list(&[&[1]])])),
            "the function returned 1 rows of tokens for 2 rows"
        );
        let narrow: ArrayRef =
            Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>([Some([Some(1)]), None]));
        let told = format!("the function returned tokens as {}", type_name(narrow.data_type()));
        assert_eq!(reason(computed(vec![narrow])), told);
    }
}
