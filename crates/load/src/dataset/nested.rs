//! Columns of a data set that are fields inside of structs, such as `meta.lang`.
//!
//! They follow the top-level columns in the schema of the data set, so everything that goes by the
//! number of a column needs to know nothing about them. The invariant: fields are matched by name
//! in each file, and one that a file lacks is null there.

use super::{Dataset, OpenFile, Origin};
use crate::error::PathFault;
use crate::{Error, Result};
use arrow_schema::{FieldRef, Fields, Schema, SchemaRef};
use shardmill_formats::table::{NestedColumn, Step, column_field, column_number, fields_of};
use shardmill_plan::Expression;
use shardmill_plan::names::{available, unknown_column};
use shardmill_plan::schema::with_wide_keys;
use std::collections::HashMap;
use std::sync::Arc;

impl Dataset {
    /// Without fields inside of structs.
    #[must_use]
    pub fn top_level_schema(&self) -> SchemaRef {
        let fields = self.schema.fields().iter().take(self.top_level).cloned().collect::<Vec<_>>();
        Arc::new(Schema::new_with_metadata(fields, self.schema.metadata().clone()))
    }

    pub(super) fn unknown_column(&self, name: &str) -> Error {
        let is_own = |column: &usize| self.files.iter().all(|file| file.made_of(*column).is_none());
        let own: Vec<usize> = (0..self.top_level).filter(is_own).collect();
        let schema = self.schema.project(&own).map_or_else(|_| self.top_level_schema(), Arc::new);
        self.with_partition_hint(unknown_path(&schema, &NestedColumn::all(&schema), name))
    }

    /// A column that is only in the names of directories needs an option.
    fn with_partition_hint(&self, error: Error) -> Error {
        let Error::Plan(plan) = &error else { return error };
        let shardmill_plan::Error::UnknownColumn { column, available, .. } = plan.as_ref() else {
            return error;
        };
        let directory = format!("{column}=");
        if !self
            .files
            .iter()
            .any(|file| file.path.split('/').any(|part| part.starts_with(&directory)))
        {
            return error;
        }
        let hint = format!(
            "the directories are named `{directory}…`; to read them as a column, \
             use partitioning=\"hive\" or --hive"
        );
        shardmill_plan::Error::UnknownColumn {
            column: column.clone(),
            available: available.clone(),
            hint: Some(hint),
        }
        .into()
    }

    /// Whether a filter can be evaluated.
    ///
    /// # Errors
    /// As [`Dataset::columns`], and for literals that do not fit the types of their columns.
    pub fn check_filter(&self, filter: &Expression) -> Result<()> {
        // For these the error names the part that does not exist; for other names, the check
        // suggests one.
        let paths = filter.columns().into_iter().filter(|name| name.contains('.'));
        self.columns(&paths.map(str::to_owned).collect::<Vec<_>>())?;
        filter.check(&self.schema).map_err(|error| self.with_partition_hint(error.into()))
    }

    /// Adds the fields inside of structs; the schema and the files have top-level columns only.
    pub(super) fn with_nested(mut self) -> Self {
        self.top_level = self.schema.fields().len();
        let mut nested = NestedColumn::all(&self.schema);
        if nested.is_empty() {
            return self;
        }
        let mut known: Option<(Fields, Vec<Origin>, Vec<Origin>)> = None;
        for file in &mut self.files {
            let own = file.table.declared_schema().fields();
            // Most data sets have one schema, which needs no look-ups.
            let same = known
                .as_ref()
                .filter(|(fields, top, _)| fields == own && is_same_place(top, &file.columns));
            let below = match same {
                Some((.., below)) => below.clone(),
                None => {
                    let below = origins(file, &nested);
                    known = Some((own.clone(), file.columns.clone(), below.clone()));
                    below
                }
            };
            for (column, origin) in nested.iter_mut().zip(&below) {
                if matches!(origin, Origin::Absent) && !column.field.is_nullable() {
                    column.field = Arc::new(column.field.as_ref().clone().with_nullable(true));
                }
            }
            file.columns.extend(below);
        }
        let nested = nested.into_iter().map(|NestedColumn { field, .. }| {
            let data_type = with_wide_keys(field.data_type());
            Arc::new(Arc::unwrap_or_clone(field).with_data_type(data_type))
        });
        let fields = self.schema.fields().iter().cloned().chain(nested);
        self.schema = Arc::new(Schema::new_with_metadata(
            fields.collect::<Vec<_>>(),
            self.schema.metadata().clone(),
        ));
        self
    }
}

fn is_same_place(first: &[Origin], second: &[Origin]) -> bool {
    let place = |origin: &Origin| if let Origin::File(own) = origin { Some(*own) } else { None };
    first.len() == second.len()
        && first.iter().zip(second).all(|(first, second)| place(first) == place(second))
}

/// Where a file has the fields of the data set.
pub(super) fn origins(file: &OpenFile, wanted: &[NestedColumn]) -> Vec<Origin> {
    let (top, nested) = (file.table.declared_schema().fields().len(), file.table.nested());
    let names = |steps: &[Step]| steps.iter().map(|step| step.name.clone()).collect::<Vec<_>>();
    let mut places: HashMap<(usize, Vec<String>), usize> = HashMap::with_capacity(nested.len());
    for (place, column) in nested.iter().enumerate() {
        places.entry((column.root, names(&column.steps))).or_insert(top + place);
    }
    let origin = |column: &NestedColumn| {
        let Some(Origin::File(own)) = file.columns.get(column.root) else { return None };
        // What is a top-level column here may itself be a field there, in a mixture.
        let (root, mut path) = match own.checked_sub(top) {
            None => (*own, Vec::new()),
            Some(place) => nested.get(place).map(|column| (column.root, names(&column.steps)))?,
        };
        path.extend(names(&column.steps));
        places.get(&(root, path)).copied().map(Origin::File)
    };
    wanted.iter().map(|column| origin(column).unwrap_or(Origin::Absent)).collect()
}

/// A column of a schema, which may be a field inside of structs: its number, and its type.
///
/// # Errors
/// [`shardmill_plan::Error::UnknownColumn`] and [`Error::UnknownPath`].
pub fn column_of(schema: &Schema, name: &str) -> Result<(usize, FieldRef)> {
    let nested = NestedColumn::all(schema);
    let found = column_number(schema, &nested, name)
        .and_then(|number| Some((number, Arc::clone(column_field(schema, &nested, number)?))));
    found.ok_or_else(|| unknown_path(schema, &nested, name))
}

/// Why there is no column `name`.
fn unknown_path(schema: &Schema, nested: &[NestedColumn], name: &str) -> Error {
    let missing = || unknown_column(name, schema.fields()).into();
    if !name.contains('.') {
        return missing();
    }
    let reason = if name.split('.').any(str::is_empty) {
        PathFault::EmptyPart
    } else {
        let dots = name.rmatch_indices('.').map(|(dot, _)| dot);
        let known = |dot| {
            let before = name.get(..dot)?;
            let field = column_field(schema, nested, column_number(schema, nested, before)?)?;
            Some((before.to_owned(), name.get(dot + 1..)?, field))
        };
        // The longest part of the path that exists.
        let Some((parent, rest, field)) = dots.into_iter().find_map(known) else {
            return missing();
        };
        let part = rest.split('.').next().unwrap_or(rest).to_owned();
        match fields_of(field.data_type()) {
            Some(fields) => {
                PathFault::NoField { available: available(&part, fields), parent, part }
            }
            None => PathFault::NotAStruct { parent, part, data_type: field.data_type().clone() },
        }
    };
    Error::UnknownPath { path: name.to_owned(), reason }
}
