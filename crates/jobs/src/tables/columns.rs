//! Which columns of a job are read.
//!
//! The invariant: the schema of the job decides their types, in every split.

use super::{IdPolicy, NullIds, TableOptions};
use crate::stage::{Stage, first_filters};
use crate::{Error, Result};
use arrow_array::RecordBatch;
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use shardmill_documents::table::batch_of;
use shardmill_formats::table::TableFile;
use shardmill_load::TableReader;
use shardmill_plan::Predicate;
use shardmill_plan::schema::{Departure, FileColumns, departure};
use shardmill_resume::Error as ResumeError;
use shardmill_resume::keys::IdSchema;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The columns of a split.
#[derive(Debug)]
pub(super) struct Layout {
    /// The numbers of all columns that are read: first the delivered ones, then ids and columns of
    /// the filter that are not delivered.
    pub columns: Vec<usize>,
    /// One for each of them.
    pub fields: SchemaRef,
    /// Places of the id columns among them.
    pub ids: Vec<usize>,
    pub filter: Option<Predicate>,
    pub delivered: SchemaRef,
    id_schema: SchemaRef,
}

/// The top-level columns that a job reads; all if `None`.
pub(super) fn read_roots<'a>(
    options: &'a TableOptions,
    ids: &'a [String],
    stages: &'a [Stage],
) -> Option<BTreeSet<&'a str>> {
    let named = options.columns.as_ref()?.iter().map(String::as_str);
    let names = named.chain(ids.iter().map(String::as_str)).chain(filtered(options, stages));
    // A name with dots may be a path into structs, or the name of a column.
    Some(
        names
            .flat_map(|name| {
                std::iter::once(name)
                    .chain(name.match_indices('.').filter_map(|(dot, _)| name.get(..dot)))
            })
            .collect(),
    )
}

pub(super) fn filtered<'a>(
    options: &'a TableOptions,
    stages: &'a [Stage],
) -> impl Iterator<Item = &'a str> {
    options.filter.iter().chain(first_filters(stages)).flat_map(|filter| filter.columns())
}

/// The columns of a file that a job reads.
pub(super) fn selected(schema: &Schema, is_read: impl Fn(&str) -> bool) -> SchemaRef {
    let fields = schema.fields().iter().filter(|field| is_read(field.name())).cloned();
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
}

/// The columns of a file that are read if none are named.
pub(super) fn shown(table: &dyn TableFile) -> SchemaRef {
    let schema = table.declared_schema();
    let fields =
        schema.fields().iter().enumerate().filter(|(column, _)| !table.is_virtual(*column));
    let fields = fields.map(|(_, field)| Arc::clone(field)).collect::<Vec<_>>();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// Files that are added to a job later may lack a column, or have nulls in it.
pub(super) fn nullable(schema: &SchemaRef) -> SchemaRef {
    let fields = schema.fields().iter().map(|field| Field::clone(field).with_nullable(true));
    Arc::new(Schema::new_with_metadata(fields.collect::<Vec<_>>(), schema.metadata().clone()))
}

/// The columns of a CSV file that is added to a job: each of its values is a text too, and each
/// date a time without a zone.
pub(super) fn with_planned_types(schema: &Schema, agreed: &Schema) -> SchemaRef {
    let is_read_as = |known: &DataType, own: &DataType| {
        let is_date = matches!(own, DataType::Date32);
        known.is_string() || is_date && matches!(known, DataType::Timestamp(_, None))
    };
    let field = |field: &FieldRef| match agreed.field_with_name(field.name()) {
        Ok(known) if is_read_as(known.data_type(), field.data_type()) => Arc::new(known.clone()),
        _ => Arc::clone(field),
    };
    let fields = schema.fields().iter().map(field).collect::<Vec<_>>();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// Checks that a file fits the schema on which the job has agreed.
///
/// # Errors
/// [`ResumeError::OtherSchema`] for a new column and for a wider type.
pub(super) fn check_fits(agreed: &Schema, file: &FileColumns<'_>) -> Result<()> {
    let Some(Departure { column, agreed, own }) = departure(agreed, file) else { return Ok(()) };
    Err(ResumeError::OtherSchema { path: file.path.to_owned(), column, agreed, own }.into())
}

impl Layout {
    pub(super) fn new(
        reader: &TableReader,
        options: &TableOptions,
        ids: &IdPolicy,
    ) -> Result<Self> {
        let schema = reader.schema();
        let mut names: Vec<&str> = match &options.columns {
            Some(columns) => columns.iter().map(String::as_str).collect(),
            None => schema.fields().iter().map(|field| field.name().as_str()).collect(),
        };
        let delivered = names.len();
        let filtered = options.filter.iter().flat_map(|filter| filter.columns());
        for name in ids.columns.iter().map(String::as_str).chain(filtered) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let found =
            names.iter().map(|name| Ok(reader.column(name)?)).collect::<Result<Vec<_>>>()?;
        let (columns, fields): (Vec<usize>, Vec<_>) = found.into_iter().unzip();
        let places: Vec<usize> = ids
            .columns
            .iter()
            .filter_map(|column| names.iter().position(|name| name == column))
            .collect();
        let metadata =
            if options.columns.is_none() { schema.metadata().clone() } else { Default::default() };
        let id_schema = Arc::new(Schema::new(
            places.iter().filter_map(|place| fields.get(*place).cloned()).collect::<Vec<_>>(),
        ));
        check_ids(&id_schema, ids)?;
        let (first, _others) = fields.split_at(delivered.min(fields.len()));
        let delivered = Arc::new(Schema::new_with_metadata(first.to_vec(), metadata));
        let fields = Arc::new(Schema::new(fields));
        let filter = options.filter.as_ref().map(|filter| filter.bind(&fields)).transpose()?;
        Ok(Self { columns, fields, ids: places, filter, delivered, id_schema })
    }

    /// The columns at `places`, and their fields.
    pub(super) fn select(&self, places: &[usize]) -> (Vec<usize>, SchemaRef) {
        let columns = places.iter().filter_map(|place| self.columns.get(*place).copied()).collect();
        let fields = places.iter().filter_map(|place| self.fields.fields().get(*place).cloned());
        (columns, Arc::new(Schema::new(fields.collect::<Vec<_>>())))
    }

    /// The places of columns that are not ids.
    pub(super) fn others(&self) -> Vec<usize> {
        (0..self.columns.len()).filter(|place| !self.ids.contains(place)).collect()
    }

    /// All columns, of which `ids` and `others` are parts.
    pub(super) fn joined(
        &self,
        ids: &RecordBatch,
        others: Option<&RecordBatch>,
    ) -> Result<RecordBatch> {
        let mut rest = others.into_iter().flat_map(RecordBatch::columns);
        let column = |place: usize| match self.ids.iter().position(|id| *id == place) {
            Some(id) => ids.columns().get(id).cloned(),
            None => rest.next().cloned(),
        };
        batch(&self.fields, (0..self.columns.len()).map_while(column).collect(), ids.num_rows())
    }

    /// The columns that stages receive.
    pub(super) fn delivered(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        let columns = rows.columns().iter().take(self.delivered.fields().len());
        batch(&self.delivered, columns.cloned().collect(), rows.num_rows())
    }

    pub(super) fn ids(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        let columns = self.ids.iter().filter_map(|place| rows.columns().get(*place).cloned());
        batch(&self.id_schema, columns.collect(), rows.num_rows())
    }
}

/// Checked before any row is processed whose id could not be identified later.
fn check_ids(schema: &Schema, ids: &IdPolicy) -> Result<()> {
    // A column without values has no type of ids, and no row an id.
    let has_no_ids = ids.nulls == NullIds::AlwaysProcess
        && schema.fields().iter().any(|field: &Arc<Field>| field.data_type().is_null());
    if ids.columns.is_empty() || has_no_ids {
        return Ok(());
    }
    match &ids.types {
        Some(types) => types.check(schema, &ids.columns),
        None => Ok(IdSchema::of(schema, &ids.columns).map(drop)?),
    }
}

fn batch(
    schema: &SchemaRef,
    columns: Vec<arrow_array::ArrayRef>,
    rows: usize,
) -> Result<RecordBatch> {
    batch_of(Arc::clone(schema), columns, rows).map_err(Error::unfit("table", "its schema"))
}
