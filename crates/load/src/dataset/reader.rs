//! Opens files one by one with a schema that all of them have agreed on before.
//!
//! A job does so: each of its splits opens its own files. The invariant: a column has the number
//! and the type that it has in every other file of the job.

use super::nested::{column_of, origins};
use super::{FileOpener, OpenFile, Origin};
use crate::Result;
use arrow_schema::{Field, FieldRef, Schema, SchemaRef};
use shardmill_formats::records::Declared;
use shardmill_formats::table::NestedColumn;
use shardmill_plan::schema::with_wide_keys;
use shardmill_storage::RangeRead;
use std::sync::Arc;

/// Opens the files of a job.
#[derive(Debug)]
pub struct TableReader {
    opener: FileOpener,
    schema: SchemaRef,
    declared: Declared,
    nested: Vec<NestedColumn>,
    /// The top-level columns, and the fields inside of their structs.
    all: SchemaRef,
}

impl TableReader {
    /// The user has given the types of the columns in `declared`.
    #[must_use]
    pub fn new(opener: FileOpener, schema: SchemaRef, declared: Declared) -> Self {
        let nested = NestedColumn::all(&schema);
        // Whether a file lacks a field of a struct is only known once it is opened.
        let field = |column: &NestedColumn| {
            let data_type = with_wide_keys(column.field.data_type());
            Arc::new(Field::clone(&column.field).with_data_type(data_type).with_nullable(true))
        };
        let fields = schema.fields().iter().cloned().chain(nested.iter().map(field));
        let all = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        Self { opener, schema, declared, nested, all }
    }

    /// The top-level columns.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// All columns, by their numbers.
    #[must_use]
    pub fn columns(&self) -> &SchemaRef {
        &self.all
    }

    /// A column by its name, which may be a path into structs.
    ///
    /// # Errors
    /// [`shardmill_plan::Error::UnknownColumn`] and [`crate::Error::UnknownPath`].
    pub fn column(&self, name: &str) -> Result<(usize, FieldRef)> {
        let (number, field) = column_of(&self.schema, name)?;
        Ok((number, self.all.fields().get(number).map_or(field, Arc::clone)))
    }

    /// # Errors
    /// As [`FileOpener::open`].
    pub fn open(&self, object: Arc<dyn RangeRead>) -> Result<OpenFile> {
        let (path, size) = (object.path().to_owned(), object.size());
        let table = self.opener.open(object)?;
        let own = Arc::clone(table.declared_schema());
        let origin =
            |field: &FieldRef| own.index_of(field.name()).map_or(Origin::Absent, Origin::File);
        let columns = self.schema.fields().iter().map(origin).collect();
        let mut file = OpenFile {
            relative: path.clone(),
            path,
            size,
            table,
            columns,
            declared: self.declared.clone(),
            live: None,
        };
        let below = origins(&file, &self.nested);
        file.columns.extend(below);
        Ok(file)
    }
}
