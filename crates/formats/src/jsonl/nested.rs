//! Columns of lists and structs that are built from JSON arrays and objects.

use super::JsonlOptions;
use super::column::Column;
use super::cursor::Cursor;
use super::fault::Fault;
use super::growth::Growth;
use crate::records::shown;
use arrow_array::builder::NullBufferBuilder;
use arrow_array::{ArrayRef, FixedSizeListArray, LargeListArray, ListArray, StructArray};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, FieldRef, Fields};
use std::collections::HashMap;
use std::sync::Arc;

pub(super) struct Lists {
    data_type: DataType,
    item: FieldRef,
    /// For lists of fixed size.
    size: Option<usize>,
    /// Start of the first list and end of each list, as numbers of items.
    ends: Vec<usize>,
    valid: NullBufferBuilder,
    items: Box<Column>,
}

impl Lists {
    pub(super) fn new(data_type: &DataType, whole: &DataType) -> Option<Self> {
        let (item, size) = match data_type {
            DataType::List(item) | DataType::LargeList(item) => (item, None),
            DataType::FixedSizeList(item, size) => (item, Some(usize::try_from(*size).ok()?)),
            _ => return None,
        };
        let items = Box::new(Column::new(item.data_type(), whole)?);
        Some(Self {
            data_type: data_type.clone(),
            item: Arc::clone(item),
            size,
            ends: vec![0],
            valid: NullBufferBuilder::new(0),
            items,
        })
    }

    pub(super) fn append(
        &mut self,
        cursor: &mut Cursor<'_>,
        growth: &mut Growth,
    ) -> Result<(), Fault> {
        if cursor.peek() != Some(b'[') {
            return Err(cursor.misfit(&self.data_type));
        }
        let (start, first) = (cursor.clone(), self.items.len());
        cursor.expect(b'[', "expected an array")?;
        if !cursor.take(b']') {
            loop {
                let index = self.items.len() - first;
                self.items
                    .append(cursor, growth)
                    .map_err(|fault| fault.inside(&format!("[{index}]")))?;
                if cursor.take(b']') {
                    break;
                }
                cursor.expect(b',', "expected a comma or a closing bracket")?;
            }
        }
        if self.size.is_some_and(|size| size != self.items.len() - first) {
            return Err(Fault::value(cursor.since(&start), &self.data_type));
        }
        self.ends.push(self.items.len());
        self.valid.append_non_null();
        Ok(())
    }

    pub(super) fn append_null(&mut self) {
        (0..self.size.unwrap_or_default()).for_each(|_| self.items.append_null());
        self.ends.push(self.items.len());
        self.valid.append_null();
    }

    pub(super) fn len(&self) -> usize {
        self.valid.len()
    }

    pub(super) fn truncate(&mut self, len: usize) {
        self.ends.truncate(len + 1);
        self.items.truncate(self.ends.last().copied().unwrap_or_default());
        self.valid.truncate(len);
    }

    pub(super) fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let (items, valid, len) =
            (self.items.finish()?, self.valid.finish(), self.ends.len().saturating_sub(1));
        let too_many = |_| ArrowError::OffsetOverflowError(items.len());
        let ends = self.ends.iter();
        Ok(match &self.data_type {
            DataType::LargeList(_) => {
                let offsets = ends
                    .map(|end| i64::try_from(*end))
                    .collect::<Result<Vec<_>, _>>()
                    .map_err(too_many)?;
                Arc::new(LargeListArray::try_new(
                    Arc::clone(&self.item),
                    OffsetBuffer::new(ScalarBuffer::from(offsets)),
                    items,
                    valid,
                )?)
            }
            DataType::FixedSizeList(_, size) => Arc::new(FixedSizeListArray::try_new_with_length(
                Arc::clone(&self.item),
                *size,
                items,
                valid,
                len,
            )?),
            _ => {
                let offsets = ends
                    .map(|end| i32::try_from(*end))
                    .collect::<Result<Vec<_>, _>>()
                    .map_err(too_many)?;
                Arc::new(ListArray::try_new(
                    Arc::clone(&self.item),
                    OffsetBuffer::new(ScalarBuffer::from(offsets)),
                    items,
                    valid,
                )?)
            }
        })
    }
}

/// Structs; also used for rows.
pub(super) struct Structs {
    fields: Fields,
    places: HashMap<Vec<u8>, usize>,
    children: Vec<Column>,
    valid: NullBufferBuilder,
    /// Whether all fields are selected, so that others are unknown.
    is_whole: bool,
    /// Of rows: whether the type of a column is given.
    declared: Vec<bool>,
}

impl Structs {
    /// `fields` is a selection from `all`, in the same order.
    pub(super) fn new(fields: &Fields, all: &Fields) -> Option<Self> {
        let places = fields
            .iter()
            .enumerate()
            .map(|(place, field)| (field.name().clone().into_bytes(), place))
            .collect();
        let mut wholes = all.iter();
        let mut child = |field: &FieldRef| {
            let whole = wholes.find(|whole| whole.name() == field.name()).unwrap_or(field);
            Column::new(field.data_type(), whole.data_type())
        };
        let children = fields.iter().map(&mut child).collect::<Option<Vec<_>>>()?;
        let is_whole = fields.len() == all.len();
        Some(Self {
            fields: fields.clone(),
            places,
            children,
            valid: NullBufferBuilder::new(0),
            is_whole,
            declared: Vec::new(),
        })
    }

    /// For the rows of a file.
    pub(super) fn rows(fields: &Fields, all: &Fields, options: &JsonlOptions) -> Option<Self> {
        let mut rows = Self::new(fields, all)?;
        rows.is_whole &= !options.skips_unknown;
        rows.declared =
            fields.iter().map(|field| options.declared.contains(field.name())).collect();
        Some(rows)
    }

    pub(super) fn append(
        &mut self,
        cursor: &mut Cursor<'_>,
        growth: &mut Growth,
    ) -> Result<(), Fault> {
        if cursor.peek() != Some(b'{') {
            return Err(cursor.misfit(&DataType::Struct(self.fields.clone())));
        }
        let row = self.valid.len();
        cursor.expect(b'{', "expected an object")?;
        // Writers keep the order of the fields, so the next one is usually the one after the last.
        let mut likely = 0;
        if !cursor.take(b'}') {
            loop {
                let place = self.place(cursor, growth, likely)?;
                cursor.expect(b':', "expected a colon")?;
                match place
                    .and_then(|place| self.children.get_mut(place).zip(self.fields.get(place)))
                {
                    Some((child, field)) if child.len() > row => {
                        return Err(Fault::Duplicate { field: field.name().clone() });
                    }
                    Some((child, field)) => {
                        let is_inferred = growth.is_inferred;
                        growth.is_inferred &=
                            place.is_none_or(|place| self.declared.get(place) != Some(&true));
                        let appended = child.append(cursor, growth);
                        growth.is_inferred = is_inferred;
                        appended.map_err(|fault| fault.inside(field.name()))?;
                    }
                    None => cursor.skip()?,
                }
                likely = place.map_or(likely, |place| place + 1);
                if cursor.take(b'}') {
                    break;
                }
                cursor.expect(b',', "expected a comma or a closing brace")?;
            }
        }
        for child in self.children.iter_mut().filter(|child| child.len() == row) {
            child.append_null();
        }
        self.valid.append_non_null();
        Ok(())
    }

    /// Reads the name of a field. `None` for a field to skip.
    fn place(
        &self,
        cursor: &mut Cursor<'_>,
        growth: &mut Growth,
        likely: usize,
    ) -> Result<Option<usize>, Fault> {
        let name = cursor.string(&mut growth.unescaped)?;
        let is_likely =
            self.fields.get(likely).is_some_and(|field| field.name().as_bytes() == name);
        let place = if is_likely { Some(likely) } else { self.places.get(name).copied() };
        match place {
            None if self.is_whole && growth.is_inferred && !growth.is_lenient => {
                Err(Fault::Unknown { field: shown(name) })
            }
            place => Ok(place),
        }
    }

    pub(super) fn append_null(&mut self) {
        self.children.iter_mut().for_each(Column::append_null);
        self.valid.append_null();
    }

    pub(super) fn len(&self) -> usize {
        self.valid.len()
    }

    pub(super) fn truncate(&mut self, len: usize) {
        self.children.iter_mut().for_each(|child| child.truncate(len));
        self.valid.truncate(len);
    }

    /// The fields alone, for the rows of a table.
    pub(super) fn finish_children(&mut self) -> Result<Vec<ArrayRef>, ArrowError> {
        self.children.iter_mut().map(Column::finish).collect()
    }

    pub(super) fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let (len, children) = (self.valid.len(), self.finish_children()?);
        Ok(Arc::new(StructArray::try_new_with_length(
            self.fields.clone(),
            children,
            self.valid.finish(),
            len,
        )?))
    }
}
