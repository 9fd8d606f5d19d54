//! Which columns of a file are read, and their types.
//!
//! The invariant: the first file of a split decides. Later ones are converted to its types without loss, or rejected.

use super::{IdPolicy, NullIds, TableOptions};
use crate::stage::{Stage, first_filters};
use crate::table::batch_of;
use crate::{Error, Result};
use arrow_array::{ArrayRef, RecordBatch, new_null_array};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use shardmill_formats::table::TableFile;
use shardmill_load::{Error as LoadError, FileOpener, column_of, exactly, widened};
use shardmill_plan::{InputFile, Predicate};
use shardmill_resume::keys::IdSchema;
use shardmill_storage::{store_of, whole_if_small};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

/// The columns of a split.
#[derive(Debug)]
pub(super) struct Layout {
    /// All columns that are read: first the delivered ones, then ids and columns of the filter that are not delivered.
    pub fields: Vec<FieldRef>,
    pub delivered: usize,
    /// Indices of the id columns among the fields.
    pub ids: Vec<usize>,
    pub filter: Option<Predicate>,
    schema: SchemaRef,
    id_schema: SchemaRef,
    all: SchemaRef,
    first: String,
    declared: SchemaRef,
    reads_all: bool,
}

/// Checks that the first file with rows has the columns that the options name, and those of the filters before the first function.
///
/// # Errors
/// When it lacks one, and when a file cannot be opened.
pub fn check_columns(files: &[InputFile], options: &TableOptions, stages: &[Stage], opener: impl FnOnce() -> Result<Arc<FileOpener>>) -> Result<()> {
    let filtered = options.filter.iter().chain(first_filters(stages)).flat_map(|filter| filter.columns());
    let names: BTreeSet<&str> = options.columns.iter().flatten().map(String::as_str).chain(filtered).collect();
    if names.is_empty() {
        return Ok(());
    }
    let opener = opener()?;
    // Text may have columns that its start does not show.
    if opener.for_uncertain_types().is_some() {
        return Ok(());
    }
    for file in files {
        let table = opener.open(whole_if_small(store_of(&file.path)?.open(&file.path)?)?)?;
        if table.blocks().iter().any(|block| block.rows > 0) {
            return names.into_iter().try_for_each(|name| column_of(table.as_ref(), name).map(drop).map_err(Error::from));
        }
    }
    Ok(())
}

/// For each field of the layout its column in one file, if it exists.
pub(super) type OwnColumns = Vec<Option<usize>>;

impl Layout {
    pub(super) fn new(table: &dyn TableFile, options: &TableOptions, ids: &IdPolicy) -> Result<Self> {
        let declared = table.declared_schema();
        let mut seen = HashSet::new();
        if let Some(twice) = declared.fields().iter().find(|field| !seen.insert(field.name())) {
            return Err(LoadError::DuplicateColumn { path: table.path().to_owned(), column: twice.name().clone() }.into());
        }
        let mut names: Vec<&str> = match &options.columns {
            Some(columns) => columns.iter().map(String::as_str).collect(),
            None => declared.fields().iter().map(|field| field.name().as_str()).collect(),
        };
        let delivered = names.len();
        let filtered = options.filter.iter().flat_map(|filter| filter.columns());
        for name in ids.columns.iter().map(String::as_str).chain(filtered) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let fields = names.iter().map(|name| field(table, name)).collect::<Result<Vec<_>>>()?;
        let places = ids.columns.iter().filter_map(|column| names.iter().position(|name| name == column)).collect::<Vec<_>>();
        let metadata = if options.columns.is_none() { declared.metadata().clone() } else { Default::default() };
        let of = |fields: Vec<FieldRef>| Arc::new(Schema::new(fields));
        let all = of(fields.clone());
        let id_schema = of(places.iter().filter_map(|place| fields.get(*place).cloned()).collect());
        // A column without values has no type of ids, and no row an id.
        let has_no_ids = ids.nulls == NullIds::AlwaysProcess && id_schema.fields().iter().any(|field| field.data_type().is_null());
        if !ids.columns.is_empty() && !has_no_ids {
            // Checked before any row is processed whose id could not be identified later.
            let checked = match &ids.types {
                Some(types) => types.check(&id_schema, &ids.columns),
                None => IdSchema::of(&id_schema, &ids.columns).map(drop).map_err(Error::from),
            };
            checked.map_err(|source| Error::File { path: table.path().to_owned(), source: Box::new(source) })?;
        }
        Ok(Self {
            schema: Arc::new(Schema::new_with_metadata(fields.iter().take(delivered).cloned().collect::<Vec<_>>(), metadata)),
            id_schema,
            filter: options.filter.as_ref().map(|filter| filter.bind(&all)).transpose()?,
            all,
            delivered,
            ids: places,
            first: table.path().to_owned(),
            declared: Arc::clone(declared),
            reads_all: options.columns.is_none(),
            fields,
        })
    }

    /// The positions of the columns in another file.
    pub(super) fn own_columns(&self, table: &dyn TableFile) -> Result<OwnColumns> {
        let declared = table.declared_schema();
        let found: Vec<Option<(usize, FieldRef)>> = self.fields.iter().map(|field| column_of(table, field.name()).ok()).collect();
        let own: OwnColumns = found.iter().map(|found| found.as_ref().map(|(number, _)| *number)).collect();
        if Arc::ptr_eq(declared, &self.declared) || declared.fields() == self.declared.fields() {
            return Ok(own);
        }
        let is_new = |field: &&FieldRef| self.declared.index_of(field.name()).is_err();
        if let (true, Some(field)) = (self.reads_all, declared.fields().iter().find(is_new)) {
            return Err(Error::MoreColumns { path: table.path().to_owned(), column: field.name().clone(), first: self.first.clone() });
        }
        for (field, found) in self.fields.iter().zip(&found) {
            let Some((_, other)) = found else { continue };
            if widened(other.data_type(), field.data_type()).is_none() {
                return Err(LoadError::SchemaConflict {
                    column: field.name().clone(),
                    first: self.first.clone(),
                    first_type: field.data_type().clone(),
                    second: table.path().to_owned(),
                    second_type: other.data_type().clone(),
                }
                .into());
            }
        }
        let is_needed = |place: usize, field: &Field| !field.is_nullable() || self.ids.contains(&place);
        let missing = self.fields.iter().zip(&own).enumerate().find(|(place, (field, own))| own.is_none() && is_needed(*place, field));
        match missing {
            Some((_, (field, _))) => Err(LoadError::MissingRequired { column: field.name().clone(), path: table.path().to_owned() }.into()),
            None => Ok(own),
        }
    }

    /// Converts `arrays`, one per field or `None` if the file lacks it, to the types of the split. `row_of` maps a row to its number in the file.
    pub(super) fn in_types(&self, path: &str, arrays: &[Option<ArrayRef>], rows: usize, row_of: impl Fn(usize) -> u64) -> Result<RecordBatch> {
        let typed = self.fields.iter().zip(arrays).map(|(field, array)| match array {
            Some(array) => exactly(array, field.data_type()).map_err(|misfit| LoadError::misfit(path, field, misfit, &row_of)),
            None => Ok(new_null_array(field.data_type(), rows)),
        });
        let in_file = |source: Error| Error::File { path: path.to_owned(), source: Box::new(source) };
        batch(&self.all, typed.collect::<std::result::Result<Vec<_>, _>>()?, rows).map_err(in_file)
    }

    /// The columns that stages receive.
    pub(super) fn delivered(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        batch(&self.schema, rows.columns().iter().take(self.delivered).cloned().collect(), rows.num_rows())
    }

    pub(super) fn ids(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        let columns = self.ids.iter().filter_map(|place| rows.columns().get(*place).cloned());
        batch(&self.id_schema, columns.collect(), rows.num_rows())
    }
}

fn batch(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    batch_of(Arc::clone(schema), columns, rows).map_err(Error::unfit("table", "its schema"))
}

fn field(table: &dyn TableFile, name: &str) -> Result<FieldRef> {
    let (_, field) = column_of(table, name)?;
    Ok(with_wide_keys(&field))
}

/// With the keys of a dictionary as 32 bits: a split may have more distinct values than the keys of one part of it can index.
pub(super) fn with_wide_keys(field: &FieldRef) -> FieldRef {
    match field.data_type() {
        DataType::Dictionary(_, value) => {
            Arc::new(Field::clone(field).with_data_type(DataType::Dictionary(Box::new(DataType::Int32), value.clone())))
        }
        _ => Arc::clone(field),
    }
}
