//! How a value of a file becomes one of its table.

use crate::dataset::rows::repeated;
use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, GenericListArray, MapArray, OffsetSizeTrait, StructArray,
};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields};
use shardmill_formats::table::Step;
use std::sync::Arc;

/// How a value of the file becomes one of the table.
#[derive(Debug, Clone)]
pub(super) enum Shape {
    Same,
    Struct(Vec<Part>),
    List(Box<Self>),
    Map(Box<Self>, Box<Self>),
}

/// A field of a struct of the table.
#[derive(Debug, Clone)]
pub(super) struct Part {
    pub(super) name: String,
    pub(super) value: Value,
}

#[derive(Debug, Clone)]
pub(super) enum Value {
    /// A field of the file, by index.
    Own(usize, Shape),
    /// The same value in each row, as an array of length one.
    Default(ArrayRef),
}

impl Shape {
    pub(super) fn apply(&self, array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
        let made: ArrayRef = match (self, array.data_type()) {
            (Self::Same, _) => Arc::clone(array),
            (Self::Struct(parts), DataType::Struct(_)) => {
                Arc::new(struct_of(array.as_struct(), parts)?)
            }
            (Self::List(shape), DataType::List(item)) => {
                list_of::<i32>(array.as_list(), item, shape)?
            }
            (Self::List(shape), DataType::LargeList(item)) => {
                list_of::<i64>(array.as_list(), item, shape)?
            }
            (Self::List(shape), DataType::FixedSizeList(item, size)) => {
                let list = array.as_fixed_size_list();
                let items = shape.apply(list.values())?;
                let item = typed(item, &items);
                Arc::new(FixedSizeListArray::try_new_with_length(
                    item,
                    *size,
                    items,
                    list.nulls().cloned(),
                    list.len(),
                )?)
            }
            (Self::Map(key, value), DataType::Map(entries, is_sorted)) => {
                let (map, shapes) = (array.as_map(), [key, value]);
                let columns = map
                    .entries()
                    .columns()
                    .iter()
                    .zip(shapes)
                    .map(|(column, shape)| shape.apply(column));
                let columns = columns.collect::<Result<Vec<_>, _>>()?;
                let fields: Fields = map
                    .entries()
                    .fields()
                    .iter()
                    .zip(&columns)
                    .map(|(field, column)| typed(field, column))
                    .collect();
                let rows = map.entries().len();
                let made = StructArray::try_new_with_length(
                    fields.clone(),
                    columns,
                    map.entries().nulls().cloned(),
                    rows,
                )?;
                let entries =
                    Arc::new(Field::clone(entries).with_data_type(DataType::Struct(fields)));
                Arc::new(MapArray::try_new(
                    entries,
                    map.offsets().clone(),
                    made,
                    map.nulls().cloned(),
                    *is_sorted,
                )?)
            }
            (_, other) => {
                return Err(ArrowError::SchemaError(format!(
                    "{other} does not have the declared fields"
                )));
            }
        };
        Ok(made)
    }

    /// The indices in the file that lead to the field of the table at `steps`, and its shape;
    /// `None` if a default has to be filled in.
    pub(super) fn below(&self, steps: &[Step]) -> Option<(Vec<usize>, Self)> {
        match (self, steps.split_first()) {
            (_, None) => Some((Vec::new(), self.clone())),
            (Self::List(item), Some(_)) => {
                let (places, shape) = item.below(steps)?;
                Some((
                    places,
                    if matches!(shape, Self::Same) { shape } else { Self::List(Box::new(shape)) },
                ))
            }
            (Self::Struct(parts), Some((step, rest))) => {
                let Value::Own(place, shape) = &parts.get(step.index)?.value else { return None };
                let (places, shape) = shape.below(rest)?;
                // A list of structs in between becomes a list of the field.
                Some((std::iter::once(*place).chain(places).collect(), shape))
            }
            (Self::Same, Some(_)) => {
                Some((steps.iter().map(|step| step.index).collect(), Self::Same))
            }
            (Self::Map(..), Some(_)) => None,
        }
    }
}

pub(super) fn typed(field: &Field, array: &ArrayRef) -> FieldRef {
    Arc::new(field.clone().with_data_type(array.data_type().clone()))
}

pub(super) fn struct_of(array: &StructArray, parts: &[Part]) -> Result<StructArray, ArrowError> {
    let (mut fields, mut columns) =
        (Vec::with_capacity(parts.len()), Vec::with_capacity(parts.len()));
    for part in parts {
        let (field, column) = match &part.value {
            Value::Own(place, shape) => {
                let own = array.fields().get(*place).zip(array.columns().get(*place));
                let (field, column) = own.ok_or_else(|| {
                    ArrowError::SchemaError(format!("a struct lacks its field {}", part.name))
                })?;
                (Field::clone(field), shape.apply(column)?)
            }
            Value::Default(value) => (
                Field::new(&part.name, value.data_type().clone(), true),
                repeated(value, array.len())?,
            ),
        };
        fields
            .push(Arc::new(field.with_name(&part.name).with_data_type(column.data_type().clone())));
        columns.push(column);
    }
    StructArray::try_new_with_length(fields.into(), columns, array.nulls().cloned(), array.len())
}

pub(super) fn list_of<O: OffsetSizeTrait>(
    list: &GenericListArray<O>,
    item: &Field,
    shape: &Shape,
) -> Result<ArrayRef, ArrowError> {
    let items = shape.apply(list.values())?;
    let item = typed(item, &items);
    Ok(Arc::new(GenericListArray::<O>::try_new(
        item,
        list.offsets().clone(),
        items,
        list.nulls().cloned(),
    )?))
}
