//! Which columns are packed, and the columns of a batch of packs.

use super::{Error, Result};
use crate::Dataset;
use crate::columns::FillValue;
use arrow_array::ArrayRef;
use arrow_schema::{DataType, Field, FieldRef, Fields};
use std::collections::BTreeMap;
use std::sync::Arc;

/// 1, 2, … for the pieces of rows in a pack; 0 for padding.
pub const SEGMENT_IDS: &str = "segment_ids";
/// 0, 1, … in each piece.
pub const POSITIONS: &str = "positions";
/// Numbers of tokens of each piece, as one list per pack.
pub const DOCUMENT_LENGTHS: &str = "document_lengths";

/// The packed columns.
#[derive(Debug)]
pub struct PackColumns {
    columns: Vec<usize>,
    pub(super) packed: Vec<PackedColumn>,
    pub(super) length: u32,
    pub(super) nulls_are_empty: bool,
    fields: Fields,
}

#[derive(Debug)]
pub(super) struct PackedColumn {
    pub(super) name: String,
    pub(super) element: DataType,
    /// One value of the token type.
    pub(super) pad: ArrayRef,
}

impl PackColumns {
    /// `columns` are indices, `pads` is keyed by name and defaults to zero.
    ///
    /// # Errors
    /// For a column that is not a list of numbers, and a pad value that does not fit its type.
    pub fn new(
        dataset: &Dataset,
        columns: Vec<usize>,
        length: u32,
        pads: &BTreeMap<String, FillValue>,
        nulls_are_empty: bool,
    ) -> Result<Self> {
        let mut packed: Vec<PackedColumn> = Vec::with_capacity(columns.len());
        for field in columns.iter().filter_map(|column| dataset.schema().fields().get(*column)) {
            let (column, data_type) = (field.name().clone(), field.data_type().clone());
            if [SEGMENT_IDS, POSITIONS, DOCUMENT_LENGTHS].contains(&column.as_str()) {
                return Err(Error::ReservedName { column });
            }
            if packed.iter().any(|other| other.name == column) {
                return Err(Error::Twice { column });
            }
            let Some(element) = element_of(&data_type) else {
                return Err(Error::NotTokens { column, data_type });
            };
            let value = pads.get(&column).cloned().unwrap_or_else(|| FillValue::zero(&element));
            let Some(pad) = value.to_array(&element) else {
                return Err(Error::PadValue {
                    column,
                    data_type: element,
                    value: value.to_string(),
                });
            };
            packed.push(PackedColumn { name: column, element, pad });
        }
        let mut fields: Vec<FieldRef> =
            packed.iter().map(|column| fixed(&column.name, &column.element, length)).collect();
        fields.push(fixed(SEGMENT_IDS, &DataType::Int32, length));
        fields.push(fixed(POSITIONS, &DataType::Int32, length));
        fields.push(Arc::new(Field::new(
            DOCUMENT_LENGTHS,
            DataType::List(item(&DataType::Int32)),
            false,
        )));
        Ok(Self { columns, packed, length, nulls_are_empty, fields: fields.into() })
    }

    /// Indices of the columns that are read.
    #[must_use]
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// Schema of a batch of packs.
    #[must_use]
    pub fn fields(&self) -> &Fields {
        &self.fields
    }

    /// Size of one pack.
    pub(crate) fn pack_bytes(&self) -> u64 {
        let tokens: usize =
            self.packed.iter().map(|column| column.element.primitive_width().unwrap_or(1)).sum();
        (tokens as u64 + 2 * size_of::<i32>() as u64).saturating_mul(u64::from(self.length))
    }
}

pub(super) fn item(element: &DataType) -> FieldRef {
    Arc::new(Field::new("item", element.clone(), false))
}

fn fixed(name: &str, element: &DataType, length: u32) -> FieldRef {
    Arc::new(Field::new(
        name,
        DataType::FixedSizeList(item(element), i32::try_from(length).unwrap_or(i32::MAX)),
        false,
    ))
}

/// The token type of a list of numbers.
fn element_of(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            let element = item.data_type();
            (element.is_integer() || element.is_floating() || *element == DataType::Boolean)
                .then(|| element.clone())
        }
        _ => None,
    }
}
