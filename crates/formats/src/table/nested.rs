//! Fields inside of structs as columns of their own: `meta.lang` is the field `lang`
//! of the column `meta`.
//!
//! The fields of a schema are numbered in preorder, after its top-level columns, so a file can be
//! asked for any of them without any preparation. The invariant: a nested column has one value per
//! row, which is null where one of the structs around it is null; the field of a struct in a list
//! is a list of that field.

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, BooleanArray, FixedSizeListArray, GenericListArray, OffsetSizeTrait,
};
use arrow_buffer::NullBuffer;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, Schema};
use arrow_select::nullif::nullif;
use std::sync::Arc;

/// Fields that are nested deeper are not numbered, so that the names of a hostile schema take no
/// quadratic memory.
const MAX_DEPTH: usize = 128;

/// A field inside of structs.
#[derive(Debug, Clone)]
pub struct NestedColumn {
    /// The top-level column, by index.
    pub root: usize,
    /// From the top-level column down to the field.
    pub steps: Vec<Step>,
    /// Named by the whole path, with the type and the nullability of the column.
    pub field: FieldRef,
}

/// The step from a struct, or from a list of structs, to one of its fields.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Step {
    pub index: usize,
    pub name: String,
}

impl NestedColumn {
    /// Every field inside of the structs of `schema`, in the order of their numbers.
    #[must_use]
    pub fn all(schema: &Schema) -> Vec<Self> {
        let mut found = Vec::new();
        for (root, field) in schema.fields().iter().enumerate() {
            Self { root, steps: Vec::new(), field: Arc::clone(field) }.descend(&mut found);
        }
        found
    }

    fn descend(&self, found: &mut Vec<Self>) {
        let fields = fields_of(self.field.data_type()).filter(|_| self.steps.len() < MAX_DEPTH);
        for (index, child) in fields.into_iter().flatten().enumerate() {
            let step = Step { index, name: child.name().clone() };
            let (data_type, is_nullable) = flat(&self.field, std::slice::from_ref(&step));
            let name = format!("{}.{}", self.field.name(), child.name());
            let field = Arc::new(
                Field::new(name, data_type, is_nullable).with_metadata(child.metadata().clone()),
            );
            let nested = Self {
                root: self.root,
                steps: self.steps.iter().cloned().chain([step]).collect(),
                field,
            };
            found.push(nested.clone());
            nested.descend(found);
        }
    }
}

/// The number of the column `name`: a top-level column, or the first field inside of structs with
/// this path.
#[must_use]
pub fn column_number(schema: &Schema, nested: &[NestedColumn], name: &str) -> Option<usize> {
    let below = || {
        nested
            .iter()
            .position(|column| column.field.name() == name)
            .map(|place| schema.fields().len() + place)
    };
    schema.index_of(name).ok().or_else(below)
}

/// The column with this number.
#[must_use]
pub fn column_field<'a>(
    schema: &'a Schema,
    nested: &'a [NestedColumn],
    number: usize,
) -> Option<&'a FieldRef> {
    let top = schema.fields();
    top.get(number)
        .or_else(|| nested.get(number.checked_sub(top.len())?).map(|column| &column.field))
}

/// The fields of a struct, or of the structs in a list.
#[must_use]
pub fn fields_of(data_type: &DataType) -> Option<&Fields> {
    match data_type {
        DataType::Struct(fields) => Some(fields),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            fields_of(item.data_type())
        }
        _ => None,
    }
}

/// Type and nullability of what `steps` lead to.
fn flat(field: &Field, steps: &[Step]) -> (DataType, bool) {
    let Some((step, rest)) = steps.split_first() else {
        return (field.data_type().clone(), field.is_nullable());
    };
    let of_items = |item: &Field| {
        let (data_type, is_nullable) = flat(item, steps);
        Arc::new(Field::new(item.name(), data_type, is_nullable))
    };
    match field.data_type() {
        DataType::Struct(fields) => {
            let (data_type, is_nullable) =
                fields.get(step.index).map_or((DataType::Null, true), |child| flat(child, rest));
            (data_type, is_nullable || field.is_nullable())
        }
        DataType::List(item) => (DataType::List(of_items(item)), field.is_nullable()),
        DataType::LargeList(item) => (DataType::LargeList(of_items(item)), field.is_nullable()),
        DataType::FixedSizeList(item, size) => {
            (DataType::FixedSizeList(of_items(item), *size), field.is_nullable())
        }
        other => (other.clone(), field.is_nullable()),
    }
}

/// What of the top-level columns is decoded for a read, and how the requested
/// columns are made of it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Projection<'a> {
    schema: &'a Schema,
    nested: &'a [NestedColumn],
    columns: &'a [usize],
}

impl<'a> Projection<'a> {
    pub(crate) fn new(
        schema: &'a Schema,
        nested: &'a [NestedColumn],
        columns: &'a [usize],
    ) -> Self {
        Self { schema, nested, columns }
    }

    /// The top-level column of a column, and the steps from there.
    fn target(&self, column: usize) -> Option<(usize, &'a [Step])> {
        match column.checked_sub(self.schema.fields().len()) {
            None => Some((column, &[])),
            Some(place) => {
                self.nested.get(place).map(|nested| (nested.root, nested.steps.as_slice()))
            }
        }
    }

    fn targets(&self) -> impl Iterator<Item = (usize, &'a [Step])> {
        self.columns.iter().filter_map(|column| self.target(*column))
    }

    /// The top-level columns to decode, ascending and distinct.
    pub(crate) fn roots(&self) -> Vec<usize> {
        let mut roots: Vec<usize> = self.targets().map(|(root, _)| root).collect();
        roots.sort_unstable();
        roots.dedup();
        roots
    }

    /// A top-level column without the fields that no requested column needs.
    pub(crate) fn field(&self, root: usize) -> Option<FieldRef> {
        let paths: Vec<&[Step]> =
            self.targets().filter(|(own, _)| *own == root).map(|(_, steps)| steps).collect();
        self.schema.fields().get(root).map(|field| pruned(field, &paths))
    }

    /// The requested columns in their order, made of the decoded top-level columns `roots`.
    pub(crate) fn deliver(
        &self,
        roots: &[usize],
        decoded: &[ArrayRef],
    ) -> Result<Vec<ArrayRef>, ArrowError> {
        let column = |(root, steps): (usize, &[Step])| {
            let array = roots.binary_search(&root).ok().and_then(|place| decoded.get(place));
            values(
                array.ok_or_else(|| {
                    ArrowError::SchemaError(format!("column {root} was not decoded"))
                })?,
                steps,
            )
        };
        self.targets().map(column).collect()
    }
}

fn pruned(field: &FieldRef, paths: &[&[Step]]) -> FieldRef {
    if paths.iter().any(|path| path.is_empty()) {
        return Arc::clone(field);
    }
    let data_type = match field.data_type() {
        DataType::Struct(fields) => {
            let kept = fields.iter().enumerate().filter_map(|(index, child)| {
                let below: Vec<&[Step]> = paths
                    .iter()
                    .filter_map(|path| path.split_first())
                    .filter(|(step, _)| step.index == index)
                    .map(|(_, rest)| rest)
                    .collect();
                (!below.is_empty()).then(|| pruned(child, &below))
            });
            DataType::Struct(kept.collect())
        }
        DataType::List(item) => DataType::List(pruned(item, paths)),
        DataType::LargeList(item) => DataType::LargeList(pruned(item, paths)),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(pruned(item, paths), *size),
        other => other.clone(),
    };
    Arc::new(Field::clone(field).with_data_type(data_type))
}

/// The values that `steps` lead to. Steps go by name, because decoded structs may lack fields that
/// were not requested.
///
/// # Errors
/// For a step to a field that the array does not have.
pub fn values(array: &ArrayRef, steps: &[Step]) -> Result<ArrayRef, ArrowError> {
    let Some((step, rest)) = steps.split_first() else { return Ok(Arc::clone(array)) };
    match array.data_type() {
        DataType::Struct(_) => {
            let array = array.as_struct();
            let missing =
                || ArrowError::SchemaError(format!("a struct lacks its field {:?}", step.name));
            let child = array.column_by_name(&step.name).ok_or_else(missing)?;
            values(&with_nulls(child, array.nulls())?, rest)
        }
        DataType::List(item) => list_values::<i32>(array, item, steps),
        DataType::LargeList(item) => list_values::<i64>(array, item, steps),
        DataType::FixedSizeList(item, size) => {
            let list = array.as_fixed_size_list();
            let below = values(list.values(), steps)?;
            let made = FixedSizeListArray::try_new_with_length(
                item_field(item, &below, steps),
                *size,
                below,
                list.nulls().cloned(),
                list.len(),
            )?;
            Ok(Arc::new(made))
        }
        other => Err(ArrowError::SchemaError(format!("{other} has no field {:?}", step.name))),
    }
}

fn list_values<O: OffsetSizeTrait>(
    array: &ArrayRef,
    item: &Field,
    steps: &[Step],
) -> Result<ArrayRef, ArrowError> {
    let list = array.as_list::<O>();
    let below = values(list.values(), steps)?;
    let field = item_field(item, &below, steps);
    Ok(Arc::new(GenericListArray::<O>::try_new(
        field,
        list.offsets().clone(),
        below,
        list.nulls().cloned(),
    )?))
}

fn item_field(item: &Field, values: &ArrayRef, steps: &[Step]) -> FieldRef {
    Arc::new(Field::new(item.name(), values.data_type().clone(), is_nullable(item, steps)))
}

/// As of [`flat`], by name.
fn is_nullable(field: &Field, steps: &[Step]) -> bool {
    let Some((step, rest)) = steps.split_first() else { return field.is_nullable() };
    match field.data_type() {
        DataType::Struct(fields) => {
            field.is_nullable()
                || fields.find(&step.name).is_none_or(|(_, child)| is_nullable(child, rest))
        }
        _ => field.is_nullable(),
    }
}

/// `array`, null also where `outer` is.
fn with_nulls(array: &ArrayRef, outer: Option<&NullBuffer>) -> Result<ArrayRef, ArrowError> {
    match outer.filter(|outer| outer.null_count() > 0) {
        // Arrays of these types have no nulls of their own.
        Some(_)
            if matches!(
                array.data_type(),
                DataType::Null | DataType::Union(..) | DataType::RunEndEncoded(..)
            ) =>
        {
            Ok(Arc::clone(array))
        }
        Some(outer) => nullif(array, &BooleanArray::new(!outer.inner(), None)),
        None => Ok(Arc::clone(array)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Int32Array, ListArray, StructArray};
    use arrow_buffer::OffsetBuffer;

    fn structs(values: Vec<Option<i32>>, nulls: Option<Vec<bool>>) -> ArrayRef {
        let fields = Fields::from(vec![
            Field::new("x", DataType::Int32, true),
            Field::new("y", DataType::Int32, true),
        ]);
        let column: ArrayRef = Arc::new(Int32Array::from(values));
        Arc::new(StructArray::new(
            fields,
            vec![Arc::clone(&column), column],
            nulls.map(NullBuffer::from),
        ))
    }

    #[test]
    fn fields_are_numbered_in_preorder_and_nullable_below_nullable_structs() {
        let inner = DataType::Struct(vec![Field::new("c", DataType::Int32, false)].into());
        let item = Field::new("item", inner.clone(), false);
        let outer = DataType::Struct(
            vec![
                Field::new("b", inner, false),
                Field::new("d", DataType::List(Arc::new(item)), false),
            ]
            .into(),
        );
        let schema = Schema::new(vec![
            Field::new("k", DataType::Int32, false),
            Field::new("a", outer, true),
        ]);
        let nested = NestedColumn::all(&schema);
        let names: Vec<_> = nested
            .iter()
            .map(|column| (column.field.name().as_str(), column.field.is_nullable()))
            .collect();
        assert_eq!(names, [("a.b", true), ("a.b.c", true), ("a.d", true), ("a.d.c", true)]);
        let items = DataType::List(Arc::new(Field::new("item", DataType::Int32, false)));
        assert_eq!(column_field(&schema, &nested, 5).unwrap().data_type(), &items);
        assert_eq!(column_number(&schema, &nested, "a.b.c"), Some(3));
    }

    #[test]
    fn null_struct_makes_its_fields_null_and_a_list_of_structs_becomes_a_list() {
        let steps = [Step { index: 1, name: "y".to_owned() }];
        let array = structs(vec![Some(1), None, Some(3)], Some(vec![true, true, false]));
        assert_eq!(
            values(&array, &steps).unwrap().as_ref(),
            &Int32Array::from(vec![Some(1), None, None])
        );

        let item = Arc::new(Field::new("item", array.data_type().clone(), true));
        let list: ArrayRef = Arc::new(ListArray::new(
            item,
            OffsetBuffer::from_lengths([2, 0, 1]),
            array,
            Some(vec![true, false, true].into()),
        ));
        let found = values(&list, &steps).unwrap();
        let lists = found.as_list::<i32>();
        assert_eq!(lists.values().as_ref(), &Int32Array::from(vec![Some(1), None, None]));
        assert_eq!((lists.value_length(0), lists.is_null(1), lists.value_length(2)), (2, true, 1));
    }

    #[test]
    fn only_needed_fields_are_decoded_and_all_of_them_if_the_struct_itself_is_requested() {
        let schema =
            Schema::new(vec![Field::new("s", structs(vec![], None).data_type().clone(), true)]);
        let nested = NestedColumn::all(&schema);
        let kept = |columns: &[usize]| {
            Projection::new(&schema, &nested, columns)
                .field(0)
                .map(|field| fields_of(field.data_type()).unwrap().len())
        };
        assert_eq!((kept(&[2]), kept(&[1, 2]), kept(&[2, 0])), (Some(1), Some(2), Some(2)));
    }
}
