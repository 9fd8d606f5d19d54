//! Which columns of a file are read, and the types that they get.
//!
//! The invariant: the first file of a split decides. A later one is brought to its types without loss, or refused by name.

use super::{IdPolicy, TableOptions};
use crate::table::cast_checked;
use crate::{Error, Result};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use shardmill_formats::table::TableFile;
use shardmill_load::Error as LoadError;
use shardmill_plan::Predicate;
use shardmill_resume::keys::IdSchema;
use std::collections::HashSet;
use std::sync::Arc;

/// The columns of a split.
#[derive(Debug)]
pub(super) struct Layout {
    /// All columns that are read: first those that are delivered, then ids and columns of the filter that nobody asked for.
    pub fields: Vec<FieldRef>,
    pub delivered: usize,
    /// Places of the id columns among the fields.
    pub ids: Vec<usize>,
    pub filter: Option<Predicate>,
    schema: SchemaRef,
    id_schema: SchemaRef,
    all: SchemaRef,
    first: String,
    declared: SchemaRef,
    reads_all: bool,
}

/// For each field of the layout its column of one file, if there is one.
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
        if !ids.columns.is_empty() {
            // Before a row is processed whose id could not be known again.
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

    /// Where the columns are in another file.
    pub(super) fn own_columns(&self, table: &dyn TableFile) -> Result<OwnColumns> {
        let declared = table.declared_schema();
        let own: OwnColumns = self.fields.iter().map(|field| declared.index_of(field.name()).ok()).collect();
        if Arc::ptr_eq(declared, &self.declared) || declared.fields() == self.declared.fields() {
            return Ok(own);
        }
        let is_new = |field: &&FieldRef| self.declared.index_of(field.name()).is_err();
        if let (true, Some(field)) = (self.reads_all, declared.fields().iter().find(is_new)) {
            return Err(Error::MoreColumns { path: table.path().to_owned(), column: field.name().clone(), first: self.first.clone() });
        }
        for (field, own) in self.fields.iter().zip(&own) {
            let Some(other) = own.and_then(|own| declared.fields().get(own)) else { continue };
            if !becomes(other.data_type(), field.data_type()) {
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

    /// `arrays`, one for each field or `None` where the file has none, in the types of the split.
    pub(super) fn in_types(&self, path: &str, arrays: &[Option<ArrayRef>], rows: usize) -> Result<RecordBatch> {
        let typed = self.fields.iter().zip(arrays).map(|(field, array)| match array {
            Some(array) => cast_checked(field.name(), array, field.data_type()),
            None => Ok(new_null_array(field.data_type(), rows)),
        });
        let in_file = |source: Error| Error::File { path: path.to_owned(), source: Box::new(source) };
        batch(&self.all, typed.collect::<Result<Vec<_>>>().map_err(in_file)?, rows).map_err(in_file)
    }

    /// What stages see.
    pub(super) fn delivered(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        batch(&self.schema, rows.columns().iter().take(self.delivered).cloned().collect(), rows.num_rows())
    }

    pub(super) fn ids(&self, rows: &RecordBatch) -> Result<RecordBatch> {
        let columns = self.ids.iter().filter_map(|place| rows.columns().get(*place).cloned());
        batch(&self.id_schema, columns.collect(), rows.num_rows())
    }
}

fn batch(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    let made = RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options);
    made.map_err(|source| Error::Cast { column: "table".to_owned(), data_type: "its schema".to_owned(), source })
}

fn field(table: &dyn TableFile, name: &str) -> Result<FieldRef> {
    let declared = table.declared_schema();
    let unknown = |_missing| LoadError::UnknownColumn {
        column: name.to_owned(),
        available: declared.fields().iter().map(|field| format!("`{}`", field.name())).collect::<Vec<_>>().join(", "),
    };
    let index = declared.index_of(name).map_err(unknown)?;
    let field = declared.field(index);
    // A split may hold more values than the keys that a writer found enough for one of its files.
    let data_type = match field.data_type() {
        DataType::Dictionary(_, value) => DataType::Dictionary(Box::new(DataType::Int32), value.clone()),
        other => other.clone(),
    };
    Ok(Arc::new(Field::clone(field).with_data_type(data_type)))
}

/// Whether values of one type can be brought to another without a change of meaning; whether each of them fits is seen when they are.
fn becomes(from: &DataType, to: &DataType) -> bool {
    use DataType::{Binary, BinaryView, Dictionary, LargeBinary, LargeUtf8, Null, Timestamp, Utf8, Utf8View};
    match (from, to) {
        _ if from == to => true,
        (Null, _) => true,
        (Dictionary(_, from), Dictionary(_, to)) => becomes(from, to),
        (Dictionary(_, from), to) => becomes(from, to),
        (Utf8 | LargeUtf8 | Utf8View, Utf8 | LargeUtf8 | Utf8View) => true,
        (Binary | LargeBinary | BinaryView, Binary | LargeBinary | BinaryView) => true,
        (Timestamp(_, from), Timestamp(_, to)) => from == to,
        _ if from.is_floating() && to.is_floating() => from.primitive_width() <= to.primitive_width(),
        _ if from.is_numeric() && to.is_numeric() => true,
        _ => from.is_temporal() && std::mem::discriminant(from) == std::mem::discriminant(to),
    }
}
