//! A data file with the columns of its table.
//!
//! Fields are matched at every level by id, or by name in files without ids, once, when the file is
//! opened. They then have the names and the order of the table, so that nothing above depends on
//! the schema that the file was written with. The invariant: a field of the file with another id is
//! never delivered, whatever its name; a field that the file lacks has its default or is null.

use super::rows::repeated;
use super::table::TableColumn;
use crate::{Error, Result};
use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, GenericListArray, MapArray, OffsetSizeTrait, RecordBatch,
    RecordBatchOptions, StructArray, new_empty_array,
};
use arrow_buffer::BooleanBuffer;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, Schema, SchemaRef};
use shardmill_formats::table::{
    Block, BlockPages, NestedColumn, Statistics, Step, TableError, TableFile, column_field, values,
};
use std::collections::HashMap;
use std::ops::{ControlFlow, Range};
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

/// How a value of the file becomes one of the table.
#[derive(Debug, Clone)]
enum Shape {
    Same,
    Struct(Vec<Part>),
    List(Box<Self>),
    Map(Box<Self>, Box<Self>),
}

/// A field of a struct of the table.
#[derive(Debug, Clone)]
struct Part {
    name: String,
    value: Value,
}

#[derive(Debug, Clone)]
enum Value {
    /// A field of the file, by index.
    Own(usize, Shape),
    /// The same value in each row, as an array of length one.
    Default(ArrayRef),
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

impl Shape {
    fn apply(&self, array: &ArrayRef) -> std::result::Result<ArrayRef, ArrowError> {
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
                let columns = columns.collect::<std::result::Result<Vec<_>, _>>()?;
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
    fn below(&self, steps: &[Step]) -> Option<(Vec<usize>, Self)> {
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

fn typed(field: &Field, array: &ArrayRef) -> FieldRef {
    Arc::new(field.clone().with_data_type(array.data_type().clone()))
}

fn struct_of(array: &StructArray, parts: &[Part]) -> std::result::Result<StructArray, ArrowError> {
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

fn list_of<O: OffsetSizeTrait>(
    list: &GenericListArray<O>,
    item: &Field,
    shape: &Shape,
) -> std::result::Result<ArrayRef, ArrowError> {
    let items = shape.apply(list.values())?;
    let item = typed(item, &items);
    Ok(Arc::new(GenericListArray::<O>::try_new(
        item,
        list.offsets().clone(),
        items,
        list.nulls().cloned(),
    )?))
}

/// How a column is made: from the column `own` of the file, then from the field at `steps` of that.
#[derive(Debug)]
struct Source {
    own: usize,
    shape: Shape,
    steps: Vec<Step>,
}

#[derive(Debug)]
struct TableView {
    inner: Arc<dyn TableFile>,
    schema: SchemaRef,
    declared: SchemaRef,
    nested: Vec<NestedColumn>,
    /// For the top-level columns, then for the fields inside of structs.
    sources: Vec<Source>,
}

impl TableView {
    fn new(inner: Arc<dyn TableFile>, top: Vec<Part>) -> std::result::Result<Self, ArrowError> {
        let mut sources = Vec::with_capacity(top.len());
        let (mut delivered, mut declared) = (Vec::new(), Vec::new());
        for Part { name, value } in top {
            let Value::Own(own, shape) = value else { continue };
            for (schema, fields) in
                [(inner.schema(), &mut delivered), (inner.declared_schema(), &mut declared)]
            {
                let field = schema
                    .fields()
                    .get(own)
                    .ok_or_else(|| ArrowError::SchemaError(format!("there is no column {own}")))?;
                fields.push(typed(
                    &Field::clone(field).with_name(&name),
                    &shape.apply(&new_empty_array(field.data_type()))?,
                ));
            }
            sources.push(Source { own, shape, steps: Vec::new() });
        }
        let (schema, declared): (SchemaRef, SchemaRef) =
            (Arc::new(Schema::new(delivered)), Arc::new(Schema::new(declared)));
        let nested = NestedColumn::all(&declared);
        let places = |steps: &[Step]| steps.iter().map(|step| step.index).collect::<Vec<_>>();
        let known: HashMap<(usize, Vec<usize>), usize> = inner
            .nested()
            .iter()
            .zip(inner.declared_schema().fields().len()..)
            .map(|(column, own)| ((column.root, places(&column.steps)), own))
            .collect();
        let source = |column: &NestedColumn| {
            let root = sources.get(column.root)?;
            let direct = root
                .shape
                .below(&column.steps)
                .and_then(|(places, shape)| Some((*known.get(&(root.own, places))?, shape)));
            Some(match direct {
                Some((own, shape)) => Source { own, shape, steps: Vec::new() },
                None => {
                    Source { own: root.own, shape: root.shape.clone(), steps: column.steps.clone() }
                }
            })
        };
        let below: Vec<Source> = nested.iter().filter_map(source).collect();
        sources.extend(below);
        Ok(Self { inner, schema, declared, nested, sources })
    }

    fn own(&self, columns: &[usize]) -> Vec<usize> {
        columns
            .iter()
            .filter_map(|column| self.sources.get(*column))
            .map(|source| source.own)
            .collect()
    }

    /// The number in the file of a column whose values are those of the file.
    fn plain(&self, column: usize) -> Option<usize> {
        self.sources
            .get(column)
            .filter(|source| matches!(source.shape, Shape::Same) && source.steps.is_empty())
            .map(|source| source.own)
    }

    fn delivered(
        &self,
        batch: &RecordBatch,
        columns: &[usize],
    ) -> std::result::Result<RecordBatch, TableError> {
        let made = |(column, array): (&usize, &ArrayRef)| -> std::result::Result<_, ArrowError> {
            let missing = || ArrowError::SchemaError(format!("there is no column {column}"));
            let source = self.sources.get(*column).ok_or_else(missing)?;
            let array = values(&source.shape.apply(array)?, &source.steps)?;
            let field = column_field(&self.declared, &self.nested, *column).ok_or_else(missing)?;
            Ok((typed(field, &array), array))
        };
        let made = columns
            .iter()
            .zip(batch.columns())
            .map(made)
            .collect::<std::result::Result<(Vec<_>, Vec<_>), _>>();
        let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
        made.and_then(|(fields, arrays)| {
            RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
        })
        .map_err(|source| TableError::Join { path: self.path().to_owned(), source })
    }
}

impl TableFile for TableView {
    fn path(&self) -> &str {
        self.inner.path()
    }

    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn declared_schema(&self) -> &SchemaRef {
        &self.declared
    }

    fn nested(&self) -> &[NestedColumn] {
        &self.nested
    }

    fn blocks(&self) -> &[Block] {
        self.inner.blocks()
    }

    fn read(
        &self,
        block: usize,
        columns: &[usize],
        selection: Option<&BooleanBuffer>,
    ) -> std::result::Result<RecordBatch, TableError> {
        self.delivered(&self.inner.read(block, &self.own(columns), selection)?, columns)
    }

    fn read_run(
        &self,
        blocks: Range<usize>,
        columns: &[usize],
    ) -> std::result::Result<RecordBatch, TableError> {
        self.delivered(&self.inner.read_run(blocks, &self.own(columns))?, columns)
    }

    fn runs(&self) -> Vec<Range<usize>> {
        self.inner.runs()
    }

    fn scan(
        &self,
        run: Range<usize>,
        columns: &[usize],
        each: &mut dyn FnMut(RecordBatch) -> ControlFlow<()>,
    ) -> std::result::Result<(), TableError> {
        let mut failed = None;
        self.inner.scan(
            run,
            &self.own(columns),
            &mut |batch| match self.delivered(&batch, columns) {
                Ok(batch) => each(batch),
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            },
        )?;
        failed.map_or(Ok(()), Err)
    }

    fn decoded_bytes(&self, block: usize, columns: &[usize]) -> u64 {
        self.inner.decoded_bytes(block, &self.own(columns))
    }

    fn statistics(&self, column: usize) -> Option<Statistics> {
        self.inner.statistics(self.plain(column)?)
    }

    fn list_length(&self, column: usize) -> Option<u64> {
        self.inner.list_length(self.plain(column)?)
    }

    fn page_statistics(
        &self,
        block: usize,
        column: usize,
    ) -> std::result::Result<Option<BlockPages>, TableError> {
        self.plain(column).map_or(Ok(None), |own| self.inner.page_statistics(block, own))
    }

    fn may_contain(
        &self,
        block: usize,
        column: usize,
        values: &ArrayRef,
    ) -> std::result::Result<bool, TableError> {
        self.plain(column).map_or(Ok(true), |own| self.inner.may_contain(block, own, values))
    }

    fn digest(&self) -> u128 {
        self.inner.digest()
    }
}
