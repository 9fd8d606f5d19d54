//! A data file with the columns of its table.
//!
//! Fields are matched at every level by id, or by name in files without ids, once, when the file is
//! opened. They then have the names and the order of the table, so that nothing above depends on
//! the schema that the file was written with. The invariant: a field of the file with another id is
//! never delivered, whatever its name; a field that the file lacks has its default or is null.

mod shape;
mod view;

use self::shape::{Part, Shape, Value};
use self::view::TableView;
use super::table::TableColumn;
use crate::{Error, Result};
use arrow_schema::{DataType, Field, FieldRef, Fields, Schema};
use shardmill_formats::table::TableFile;
use std::sync::Arc;

/// Field metadata key of Parquet readers for the id of a column.
const FIELD_ID: &str = "PARQUET:field_id";

/// `inner` with those `columns` of the table that it has.
///
/// # Errors
/// If the file has no ids and the columns have no names, if a required field is missing, or if only
/// one of two types is nested.
pub(super) fn with_columns(
    inner: Arc<dyn TableFile>,
    schema: &Schema,
    columns: &[TableColumn],
) -> Result<Arc<dyn TableFile>> {
    let own = inner.declared_schema().fields();
    let has_ids = has_id(own);
    if !has_ids && !own.is_empty() && columns.iter().all(|column| column.names.is_empty()) {
        return Err(Error::NoFieldIds { path: inner.path().to_owned() });
    }
    let matcher = Matcher {
        path: inner.path(),
        by_id: has_ids && columns.iter().any(|column| column.id.is_some()),
    };
    let mut top = Vec::with_capacity(columns.len());
    for (column, field) in columns.iter().zip(schema.fields()) {
        let Some(place) = matcher.place(own, column) else { continue };
        if let Some(known) = own.get(place) {
            top.push(Part {
                name: field.name().clone(),
                value: Value::Own(place, matcher.shape(known, field, column)?),
            });
        }
    }
    if is_same(&top, own) {
        return Ok(inner);
    }
    Ok(Arc::new(TableView::new(inner, top).map_err(Error::assemble)?))
}

fn id_of(field: &Field) -> Option<i64> {
    field.metadata().get(FIELD_ID)?.parse().ok()
}

fn has_id(fields: &Fields) -> bool {
    fields.iter().any(|field| id_of(field).is_some())
}

/// Whether the fields of the file are those of the table, with the same names in the same order.
fn is_same(parts: &[Part], own: &Fields) -> bool {
    let is_there = |(number, (part, own)): (usize, (&Part, &FieldRef))| {
        part.name == *own.name()
            && matches!(part.value, Value::Own(place, Shape::Same) if place == number)
    };
    parts.len() == own.len() && parts.iter().zip(own).enumerate().all(is_there)
}

struct Matcher<'a> {
    path: &'a str,
    by_id: bool,
}

impl Matcher<'_> {
    fn place(&self, own: &Fields, column: &TableColumn) -> Option<usize> {
        own.iter().position(|own| {
            if self.by_id {
                column.id.is_some() && id_of(own) == column.id
            } else {
                column.names.contains(own.name())
            }
        })
    }

    fn shape(&self, own: &Field, field: &Field, column: &TableColumn) -> Result<Shape> {
        use DataType::{FixedSizeList, LargeList, List, Map, Struct};
        let below = |own: &Field, field: &Field, number: usize| {
            column.parts.get(number).map_or(Ok(Shape::Same), |part| self.shape(own, field, part))
        };
        match (own.data_type(), field.data_type()) {
            (Struct(own), Struct(fields)) => self.struct_shape(own, fields, column),
            (
                List(own) | LargeList(own) | FixedSizeList(own, _),
                List(item) | LargeList(item) | FixedSizeList(item, _),
            ) => {
                let shape = below(own, item, 0)?;
                Ok(if matches!(shape, Shape::Same) { shape } else { Shape::List(Box::new(shape)) })
            }
            (Map(own, _), Map(entries, _)) => {
                let parts = |entries: &Field| {
                    entries_of(entries).and_then(|parts| {
                        Some((Arc::clone(parts.first()?), Arc::clone(parts.get(1)?)))
                    })
                };
                let (Some((own_key, own_value)), Some((key, value))) = (parts(own), parts(entries))
                else {
                    return Ok(Shape::Same);
                };
                let (key, value) = (below(&own_key, &key, 0)?, below(&own_value, &value, 1)?);
                let is_same = matches!((&key, &value), (Shape::Same, Shape::Same));
                Ok(if is_same { Shape::Same } else { Shape::Map(Box::new(key), Box::new(value)) })
            }
            (known, wanted) if known.is_nested() || wanted.is_nested() => {
                Err(shardmill_plan::Error::SchemaConflict {
                    column: field.name().clone(),
                    first: "the table".to_owned(),
                    first_type: wanted.clone(),
                    second: self.path.to_owned(),
                    second_type: known.clone(),
                }
                .into())
            }
            _ => Ok(Shape::Same),
        }
    }

    fn struct_shape(&self, own: &Fields, fields: &Fields, column: &TableColumn) -> Result<Shape> {
        // Without its id, a field could be a dropped one.
        if self.by_id && own.iter().any(|own| id_of(own).is_none()) {
            return Err(Error::NoFieldIds { path: self.path.to_owned() });
        }
        let mut parts = Vec::with_capacity(fields.len());
        for (field, column) in fields.iter().zip(&column.parts) {
            let found = self.place(own, column).and_then(|place| Some((place, own.get(place)?)));
            let value = match (found, &column.default) {
                (Some((place, own)), _) => Value::Own(place, self.shape(own, field, column)?),
                (None, Some(value)) => Value::Default(Arc::clone(value)),
                // Filled with nulls when the rows get the types of the table.
                (None, None) if field.is_nullable() => continue,
                (None, None) => {
                    return Err(Error::MissingRequired {
                        column: field.name().clone(),
                        path: self.path.to_owned(),
                    });
                }
            };
            parts.push(Part { name: field.name().clone(), value });
        }
        Ok(if is_same(&parts, own) { Shape::Same } else { Shape::Struct(parts) })
    }
}

fn entries_of(entries: &Field) -> Option<&Fields> {
    if let DataType::Struct(parts) = entries.data_type() { Some(parts) } else { None }
}
