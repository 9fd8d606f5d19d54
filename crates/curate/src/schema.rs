//! The eight reserved columns, and conversion of other types to theirs.

use crate::report::SplitReport;
use crate::{Error, Result};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use std::collections::HashMap;
use std::sync::Arc;

/// The reserved names, in their order.
pub const RESERVED: [&str; 8] =
    ["sample_id", "position", "modality", "content_type", "text_content", "binary_content", "source_ref", "materialize_error"];

/// Field metadata of a column whose cells are JSON text.
const JSON_KEY: &str = "content_type";
const JSON_VALUE: &str = "application/json";

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

/// The reserved fields followed by `extras`.
#[must_use]
pub fn canonical_schema(extras: impl IntoIterator<Item = FieldRef>) -> SchemaRef {
    let reserved = RESERVED.iter().map(|name| Arc::new(reserved_field(name)));
    Arc::new(Schema::new(reserved.chain(extras).collect::<Vec<_>>()))
}

/// `schema`, followed by the reserved fields that it lacks.
#[must_use]
pub(crate) fn with_reserved(schema: &Schema) -> SchemaRef {
    let missing = RESERVED.iter().filter(|name| schema.field_with_name(name).is_err()).map(|name| Arc::new(reserved_field(name)));
    let fields: Vec<FieldRef> = schema.fields().iter().cloned().chain(missing).collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

/// A column whose cells are JSON text.
#[must_use]
pub fn json_field(name: &str) -> Field {
    Field::new(name, DataType::Utf8, true).with_metadata(HashMap::from([(JSON_KEY.to_owned(), JSON_VALUE.to_owned())]))
}

#[must_use]
pub fn is_json_field(field: &Field) -> bool {
    field.metadata().get(JSON_KEY).is_some_and(|value| value == JSON_VALUE)
}

/// The schema of `incoming` after reading: reserved columns have their canonical types (large strings and binaries stay large), dictionaries are
/// unwrapped, the order is kept, and missing reserved columns are appended.
#[must_use]
pub fn reconciled(incoming: &Schema) -> SchemaRef {
    let typed = |field: &FieldRef| match field.data_type() {
        DataType::Null => Arc::new(Field::clone(field).with_data_type(DataType::Utf8)),
        _ => Arc::clone(field),
    };
    Arc::new(Schema::new(reconciled_but_nulls(incoming).fields().iter().map(typed).collect::<Vec<_>>()))
}

/// The same, but an all-null column keeps the null type, so that another file can still determine it.
#[must_use]
pub(crate) fn reconciled_but_nulls(incoming: &Schema) -> SchemaRef {
    let mut fields: Vec<FieldRef> = incoming
        .fields()
        .iter()
        .map(|field| {
            let data_type = plain_type(field.data_type());
            if is_reserved(field.name()) {
                let canonical = reserved_field(field.name());
                let is_large = matches!((canonical.data_type(), &data_type), (DataType::Utf8, DataType::LargeUtf8));
                Arc::new(if is_large { canonical.with_data_type(DataType::LargeUtf8) } else { canonical })
            } else {
                Arc::new(Field::new(field.name(), data_type, true).with_metadata(field.metadata().clone()))
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
    pub(crate) fn is_made(&self) -> bool {
        self.schema.is_some() || self.overrides.is_some()
    }

    /// Whether the user fixes the type of a column.
    pub(crate) fn names(&self, name: &str) -> bool {
        [&self.schema, &self.overrides].into_iter().flatten().any(|schema| schema.field_with_name(name).is_ok())
    }

    #[must_use]
    pub fn apply(&self, inferred: &SchemaRef) -> SchemaRef {
        match (&self.schema, &self.overrides) {
            (Some(schema), _) => Arc::clone(schema),
            (None, None) => Arc::clone(inferred),
            (None, Some(overrides)) => {
                let mut fields: Vec<FieldRef> = inferred
                    .fields()
                    .iter()
                    .map(|field| overrides.fields().iter().find(|other| other.name() == field.name()).unwrap_or(field))
                    .map(Arc::clone)
                    .collect();
                let new = overrides.fields().iter().filter(|field| inferred.field_with_name(field.name()).is_err());
                fields.extend(new.map(Arc::clone));
                Arc::new(Schema::new(fields))
            }
        }
    }

    /// [`Self::apply`], counting the columns that it drops.
    pub(crate) fn apply_counted(&self, inferred: &SchemaRef, report: &mut SplitReport) -> SchemaRef {
        let target = self.apply(inferred);
        for field in inferred.fields().iter().filter(|field| target.field_with_name(field.name()).is_err()) {
            report.drop_key(format!("column `{}` is not in the schema", field.name()));
        }
        target
    }
}

/// # Errors
/// [`Error::ReservedFields`] when a name in `names` is reserved or in `excluded`.
pub fn refuse_reserved(names: &[String], excluded: &[&str]) -> Result<()> {
    let refused: Vec<&str> = names.iter().map(String::as_str).filter(|name| is_reserved(name) || excluded.contains(name)).collect();
    if refused.is_empty() { Ok(()) } else { Err(Error::ReservedFields { names: refused.join(", ") }) }
}
