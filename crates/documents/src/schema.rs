//! The nine reserved columns, and conversion of other types to theirs.

use crate::ledger::Ledger;
use crate::{Error, Result};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use std::collections::HashMap;
use std::sync::Arc;

/// The reserved names of the parts of a row, in their order.
pub const RESERVED: [&str; 8] = [
    "sample_id",
    "position",
    "modality",
    "content_type",
    "text_content",
    "binary_content",
    "source_ref",
    "materialize_error",
];

/// The ninth reserved name, and the last column: values that the schema of the job cannot hold, as
/// one JSON object by key.
pub const RESCUED: &str = "rescued";

/// Field metadata that tells [`RESCUED`] from a column of the user with this name.
const RESCUED_KEY: &str = "shardmill";

/// Field metadata of a column whose cells are JSON text.
const JSON_KEY: &str = "content_type";
const JSON_VALUE: &str = "application/json";

/// Whether a column with this name is a part of each row. [`RESCUED`] is not:
/// it is a passthrough column.
#[must_use]
pub fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

/// The canonical field of a reserved name.
#[must_use]
pub fn reserved_field(name: &str) -> Field {
    let data_type = match name {
        "position" => DataType::Int32,
        "binary_content" => DataType::LargeBinary,
        _ => DataType::Utf8,
    };
    Field::new(name, data_type, !matches!(name, "sample_id" | "position" | "modality"))
}

/// The reserved fields, with `extras` before the last one.
#[must_use]
pub fn canonical_schema(extras: impl IntoIterator<Item = FieldRef>) -> SchemaRef {
    let reserved = RESERVED.iter().map(|name| Arc::new(reserved_field(name)));
    let fields = reserved.chain(extras).chain([Arc::new(rescued_field())]);
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

#[must_use]
pub fn rescued_field() -> Field {
    let mut field = json_field(RESCUED);
    field.metadata_mut().insert(RESCUED_KEY.to_owned(), RESCUED.to_owned());
    field
}

/// Whether a job wrote the column.
#[must_use]
pub(crate) fn is_rescued_field(field: &Field) -> bool {
    field.name() == RESCUED
        && field.metadata().get(RESCUED_KEY).is_some_and(|value| value == RESCUED)
}

/// `schema`, followed by the reserved fields that it lacks.
#[must_use]
pub fn with_reserved(schema: &Schema) -> SchemaRef {
    let missing = RESERVED
        .iter()
        .filter(|name| schema.field_with_name(name).is_err())
        .map(|name| Arc::new(reserved_field(name)));
    let fields: Vec<FieldRef> = schema.fields().iter().cloned().chain(missing).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// A column whose cells are JSON text.
#[must_use]
pub fn json_field(name: &str) -> Field {
    Field::new(name, DataType::Utf8, true)
        .with_metadata(HashMap::from([(JSON_KEY.to_owned(), JSON_VALUE.to_owned())]))
}

#[must_use]
pub fn is_json_field(field: &Field) -> bool {
    field.metadata().get(JSON_KEY).is_some_and(|value| value == JSON_VALUE)
}

/// The schema of `incoming` after reading: reserved columns have their canonical types (large
/// strings and binaries stay large), dictionaries are unwrapped, the order is kept, missing
/// reserved columns are appended, and [`RESCUED`] is the last one.
#[must_use]
pub fn reconciled(incoming: &Schema) -> SchemaRef {
    let typed = |field: &FieldRef| match field.data_type() {
        DataType::Null => Arc::new(Field::clone(field).with_data_type(DataType::Utf8)),
        _ => Arc::clone(field),
    };
    let columns = reconciled_but_nulls(incoming);
    let fields = columns.fields().iter().map(typed).chain([Arc::new(rescued_field())]);
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The same without [`RESCUED`], and an all-null column keeps the null type, so that another file
/// can still determine it.
#[must_use]
pub(crate) fn reconciled_but_nulls(incoming: &Schema) -> SchemaRef {
    let mut fields: Vec<FieldRef> = incoming
        .fields()
        .iter()
        .filter(|field| field.name() != RESCUED)
        .map(|field| {
            let data_type = plain_type(field.data_type());
            if is_reserved(field.name()) {
                let canonical = reserved_field(field.name());
                let is_large = matches!(
                    (canonical.data_type(), &data_type),
                    (DataType::Utf8, DataType::LargeUtf8)
                );
                Arc::new(if is_large {
                    canonical.with_data_type(DataType::LargeUtf8)
                } else {
                    canonical
                })
            } else {
                Arc::new(
                    Field::new(field.name(), data_type, true)
                        .with_metadata(field.metadata().clone()),
                )
            }
        })
        .collect();
    let missing = RESERVED.iter().filter(|name| incoming.field_with_name(name).is_err());
    fields.extend(missing.map(|name| Arc::new(reserved_field(name))));
    Arc::new(Schema::new(fields))
}

fn plain_type(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Dictionary(_, value) => plain_type(value),
        DataType::Utf8View => DataType::Utf8,
        DataType::BinaryView => DataType::Binary,
        other => other.clone(),
    }
}

/// The columns fixed by the user.
#[derive(Debug, Clone, Default)]
pub struct SchemaChoice {
    /// Exactly these columns, in this order.
    pub schema: Option<SchemaRef>,
    /// Types and additions merged over the inferred columns.
    pub overrides: Option<SchemaRef>,
}

impl SchemaChoice {
    /// Whether the user fixes any column.
    pub fn is_made(&self) -> bool {
        self.schema.is_some() || self.overrides.is_some()
    }

    /// The columns of `schema` with the types that the user declares.
    pub fn retyped(&self, schema: &SchemaRef) -> SchemaRef {
        let Some(overrides) = &self.overrides else { return Arc::clone(schema) };
        let field = |field: &FieldRef| {
            Arc::clone(
                overrides.fields().find(field.name()).map_or(field, |(_, declared)| declared),
            )
        };
        Arc::new(Schema::new_with_metadata(
            schema.fields().iter().map(field).collect::<Vec<_>>(),
            schema.metadata().clone(),
        ))
    }

    #[must_use]
    pub fn apply(&self, inferred: &SchemaRef) -> SchemaRef {
        match (&self.schema, &self.overrides) {
            (Some(schema), _) => Arc::clone(schema),
            (None, None) => Arc::clone(inferred),
            (None, Some(overrides)) => {
                let mut fields: Vec<FieldRef> =
                    self.retyped(inferred).fields().iter().cloned().collect();
                let new = overrides
                    .fields()
                    .iter()
                    .filter(|field| inferred.field_with_name(field.name()).is_err());
                let is_last = |field: &FieldRef| field.name() == RESCUED;
                let end = fields.len() - usize::from(fields.last().is_some_and(is_last));
                fields.splice(end..end, new.map(Arc::clone));
                Arc::new(Schema::new_with_metadata(fields, inferred.metadata().clone()))
            }
        }
    }

    /// Whether the user states the type of a column.
    #[must_use]
    pub fn declares(&self, name: &str) -> bool {
        let declared = self.schema.as_ref().or(self.overrides.as_ref());
        declared.is_some_and(|declared| declared.field_with_name(name).is_ok())
    }

    /// [`Self::apply`], counting the columns that it drops.
    pub fn apply_counted(&self, inferred: &SchemaRef, ledger: &mut Ledger) -> SchemaRef {
        let target = self.apply(inferred);
        let is_left_out = |field: &&FieldRef| target.field_with_name(field.name()).is_err();
        for field in
            inferred.fields().iter().filter(is_left_out).filter(|field| field.name() != RESCUED)
        {
            ledger.drop_key(format!("column `{}` is not in the schema", field.name()));
        }
        target
    }
}

/// The columns of a job of documents.
#[derive(Debug, Clone, Copy)]
pub struct JobSchema<'a> {
    /// On which all files have agreed.
    pub agreed: &'a SchemaRef,
    pub choice: &'a SchemaChoice,
}

/// # Errors
/// [`Error::ReservedFields`] when a name in `names` is reserved or in `excluded`.
pub fn refuse_reserved(names: &[String], excluded: &[&str]) -> Result<()> {
    let refused: Vec<&str> = names
        .iter()
        .map(String::as_str)
        .filter(|name| is_reserved(name) || *name == RESCUED || excluded.contains(name))
        .collect();
    if refused.is_empty() {
        Ok(())
    } else {
        Err(Error::ReservedFields { names: refused.join(", ") })
    }
}
