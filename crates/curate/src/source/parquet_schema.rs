//! The schema of a job over interleaved Parquet files.
//!
//! Decided from the footers of all files before the first split is read. The invariant: it does not depend on how files are divided into splits.
//! Files that cannot be opened do not take part; the run quarantines them.

use super::parquet::{ParquetOptions, column_problem};
use crate::schema::{is_reserved, reconciled_but_nulls};
use crate::source::columns::is_exact_in_double;
use crate::source::promote::{ColumnFacts, union};
use crate::table::cast_checked;
use crate::{Error, Result};
use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, UInt64Type};
use arrow_array::{Array, ArrayRef, PrimitiveArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use shardmill_engine::{Cancel, run_in_order};
use shardmill_formats::limit::DecodeLimit;
use shardmill_formats::parquet::ParquetFile;
use shardmill_plan::InputFile;
use shardmill_storage::store_of;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Maximal number of columns in a message.
const SHOWN_COLUMNS: usize = 12;

/// What decides the schema, apart from the files.
pub(crate) struct SchemaOf<'a> {
    pub options: &'a ParquetOptions,
    /// Columns that filters name.
    pub filtered: &'a [String],
    /// The schema of the splits that were planned before.
    pub agreed: Option<&'a SchemaRef>,
    /// Memory for reading a column whose type depends on its values.
    pub batch_bytes: u64,
}

impl SchemaOf<'_> {
    /// The union of the columns of all files. Types without a common one become JSON text.
    ///
    /// # Errors
    /// [`Error::AbsentColumn`] for a name in the options that no file has, and cancellation.
    pub(crate) fn files(&self, files: &[InputFile], threads: usize, cancel: &Cancel) -> Result<SchemaRef> {
        let limit = self.options.limit();
        let paths: Arc<[String]> = files.iter().map(|file| file.path.clone()).collect();
        let (count, shared) = (paths.len(), Arc::clone(&paths));
        let schema = move |number: usize| {
            let file = shared.get(number).and_then(|path| opened(path, limit));
            let schema = file.map(|file| Arc::clone(file.schema())).filter(|schema| column_problem(schema).is_none());
            ControlFlow::Continue(schema)
        };
        let found = run_in_order(count, threads, cancel, schema)?.collect::<std::result::Result<Vec<Option<SchemaRef>>, _>>()?;
        let (paths, found): (Vec<&String>, Vec<SchemaRef>) = paths.iter().zip(found).filter_map(|(path, schema)| Some((path, schema?))).unzip();
        self.check_names(&found)?;
        let selected = found.iter().map(|schema| reconciled_but_nulls(&self.selected(schema)));
        let schemas: Vec<SchemaRef> = self.agreed.cloned().into_iter().chain(selected).collect();
        let facts = |number: usize, column: &str| match number.checked_sub(usize::from(self.agreed.is_some())) {
            // The values that were written are not known.
            None => ColumnFacts { is_all_null: false, is_exact_in_double: false },
            Some(number) => column_facts(paths.get(number).and_then(|path| opened(path, limit)).as_ref(), column, self.batch_bytes),
        };
        Ok(union(&schemas, facts, |_conflict| {}))
    }

    fn check_names(&self, found: &[SchemaRef]) -> Result<()> {
        let fields = self.options.fields.iter().flatten().filter(|name| !is_reserved(name)).map(|name| ("fields", name));
        let mut wanted = fields.chain(self.filtered.iter().map(|name| ("expression", name)));
        let has = |name: &str| found.iter().chain(self.agreed).any(|schema| schema.field_with_name(name).is_ok());
        match wanted.find(|(_, name)| !has(name)) {
            Some((option, column)) if !found.is_empty() => {
                let names = found.iter().flat_map(|schema| schema.fields()).map(|field| field.name()).filter(|name| !is_reserved(name));
                let there: BTreeSet<String> = names.map(|name| format!("`{}`", name.escape_debug())).collect();
                let shown: Vec<String> = there.into_iter().take(SHOWN_COLUMNS).collect();
                let there = if shown.is_empty() { "the reserved ones".to_owned() } else { shown.join(", ") };
                Err(Error::AbsentColumn { option, column: column.clone(), there })
            }
            _ => Ok(()),
        }
    }

    /// The reserved columns and the requested passthrough columns.
    fn selected(&self, schema: &Schema) -> Schema {
        let is_wanted =
            |field: &&Arc<Field>| is_reserved(field.name()) || self.options.fields.as_ref().is_none_or(|fields| fields.contains(field.name()));
        Schema::new(schema.fields().iter().filter(is_wanted).cloned().collect::<Vec<_>>())
    }
}

fn opened(path: &str, limit: DecodeLimit) -> Option<ParquetFile> {
    let object = store_of(path).and_then(|store| store.open(path)).ok()?;
    Some(ParquetFile::open(object).ok()?.with_limit(limit))
}

/// Reads one column to its end, or up to damage.
fn column_facts(file: Option<&ParquetFile>, column: &str, batch_bytes: u64) -> ColumnFacts {
    let mut facts = ColumnFacts { is_all_null: true, is_exact_in_double: true };
    let batches = file.and_then(|file| file.batches(&[column], None, batch_bytes).ok());
    for batch in batches.into_iter().flatten().map_while(std::result::Result::ok) {
        let Some(values) = batch.columns().first() else { break };
        facts.is_all_null &= values.logical_null_count() == values.len();
        facts.is_exact_in_double &= match plain_integers(values) {
            Some(integers) => integers.iter().flatten().all(|integer| is_exact_in_double(integer.unsigned_abs())),
            None => match values.as_primitive_opt::<UInt64Type>() {
                Some(integers) => integers.iter().flatten().all(is_exact_in_double),
                None => true,
            },
        };
    }
    facts
}

fn plain_integers(values: &ArrayRef) -> Option<PrimitiveArray<Int64Type>> {
    let is_signed_or_narrow = values.data_type().is_integer() && values.data_type() != &DataType::UInt64;
    let integers = is_signed_or_narrow.then(|| cast_checked("integers", values, &DataType::Int64).ok())??;
    Some(integers.as_primitive::<Int64Type>().clone())
}
