//! Which columns are packed, and the columns of a batch of packs.

use super::amounts::image_columns;
use super::{Error, Result};
use crate::Dataset;
use crate::columns::FillValue;
use crate::images::{Images, masked};
use arrow_array::ArrayRef;
use arrow_schema::{DataType, Field, FieldRef, Fields};
use shardmill_plan::packing::Unit;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// 1, 2, … for the pieces of rows in a pack; 0 for padding.
pub const SEGMENT_IDS: &str = "segment_ids";
/// 0, 1, … in each piece.
pub const POSITIONS: &str = "positions";
/// Numbers of tokens of each piece, as one list per pack.
pub const DOCUMENT_LENGTHS: &str = "document_lengths";
/// The same with the padding of pieces.
pub const PADDED_LENGTHS: &str = "padded_lengths";

/// The length of each row.
pub const LENGTHS: &str = "lengths";
/// Tokens of a batch, and of all ranks in the same step.
pub const TOKENS_OF_RANK: &str = "tokens_of_rank";
pub const TOKENS_OF_STEP: &str = "tokens_of_step";

/// Time, height and width of positions of images.
pub(super) const AXES: i32 = 3;

/// What losses ignore.
const IGNORED_LABEL: i128 = -100;

/// The packed columns.
#[derive(Debug)]
pub struct PackColumns {
    columns: Vec<usize>,
    pub(super) packed: Vec<PackedColumn>,
    pub(super) length: u32,
    pub(super) has_padding: bool,
    pub(super) nulls_are_empty: bool,
    pub(super) images: Option<PackedImages>,
    fields: Fields,
}

/// The form of packs.
#[derive(Debug, Clone, Default)]
pub struct PackForm {
    /// Tokens of a pack.
    pub length: u32,
    /// Whether pieces are padded inside of packs.
    pub has_padding: bool,
    /// Columns with labels, which become those of the next token. One that is not packed is made
    /// from the first column.
    pub next_token: Vec<String>,
    /// Whether the token after the last one of a piece is the first one of the next piece.
    pub across: bool,
}

/// Where the images of a data set of documents are.
#[derive(Debug, Clone)]
pub(crate) struct PackedImages {
    pub(crate) images: Arc<Images>,
    /// Columns of the data set: the places of images, their shapes if the rule has any, and their
    /// pixels.
    pub(super) columns: Vec<usize>,
    /// The place of the first of them among the columns that are read.
    pub(super) first: usize,
    /// Of these columns, and of what says which images were decoded.
    pub(crate) fields: Vec<FieldRef>,
}

/// Which token is in the place of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    Itself,
    NextOfRow,
    /// Also of the next piece.
    Next,
}

#[derive(Debug)]
pub(super) struct PackedColumn {
    pub(super) name: String,
    pub(super) element: DataType,
    /// One value of the token type.
    pub(super) pad: ArrayRef,
    /// Number of the read column; its tokens have another type only if labels are made.
    pub(super) source: usize,
    pub(super) shown: Shown,
}

impl PackColumns {
    /// `columns` are indices, `pads` is keyed by name and defaults to zero.
    ///
    /// # Errors
    /// For a column that is not a list of numbers, a pad value that does not fit its type, and
    /// labels that are made of other tokens than integers.
    pub fn new(
        dataset: &Dataset,
        mut columns: Vec<usize>,
        form: PackForm,
        pads: &BTreeMap<String, FillValue>,
        nulls_are_empty: bool,
    ) -> Result<Self> {
        let PackForm { length, has_padding, next_token, across } = form;
        let reserved = [SEGMENT_IDS, POSITIONS, DOCUMENT_LENGTHS];
        let next = if across { Shown::Next } else { Shown::NextOfRow };
        let mut packed: Vec<PackedColumn> = Vec::with_capacity(columns.len());
        for field in columns.iter().filter_map(|column| dataset.schema().fields().get(*column)) {
            let (column, data_type) = (field.name().clone(), field.data_type().clone());
            if reserved.contains(&column.as_str()) || (has_padding && column == PADDED_LENGTHS) {
                return Err(Error::ReservedName { column });
            }
            let Some(element) = element_of(&data_type) else {
                return Err(Error::NotTokens { column, data_type });
            };
            let pad = pad_of(&column, &element, pads, FillValue::zero(&element))?;
            let shown = if next_token.contains(&column) { next } else { Shown::Itself };
            packed.push(PackedColumn { name: column, element, pad, source: packed.len(), shown });
        }
        let is_missing = |name: &String| packed.iter().all(|column| column.name != *name);
        let made: Vec<String> = next_token.into_iter().filter(is_missing).collect();
        for name in made {
            let Some(first) = packed.first() else { break };
            if !first.element.is_integer() {
                let (column, data_type) = (first.name.clone(), first.element.clone());
                return Err(Error::NotLabels { column, data_type });
            }
            let element = DataType::Int64;
            let pad = pad_of(&name, &element, pads, FillValue::Integer(IGNORED_LABEL))?;
            packed.push(PackedColumn { name, element, pad, source: 0, shown: next });
        }
        let mut fields: Vec<FieldRef> =
            packed.iter().map(|column| fixed(&column.name, &column.element, length)).collect();
        fields.push(fixed(SEGMENT_IDS, &DataType::Int32, length));
        fields.push(fixed(POSITIONS, &DataType::Int32, length));
        for name in [Some(DOCUMENT_LENGTHS), has_padding.then_some(PADDED_LENGTHS)] {
            let list = DataType::List(item(&DataType::Int32));
            fields.extend(name.map(|name| Arc::new(Field::new(name, list, false))));
        }
        let images = PackedImages::of(dataset, columns.len());
        if let Some(images) = &images {
            if images.images.has_rope()
                && let Some(positions) = fields.iter_mut().find(|field| field.name() == POSITIONS)
            {
                let axes = DataType::FixedSizeList(item(positions.data_type()), AXES);
                *positions = Arc::new(Field::new(POSITIONS, axes, false));
            }
            columns.extend(&images.columns);
            fields.extend(images.fields.iter().cloned());
        }
        let fields = fields.into();
        Ok(Self { columns, packed, length, has_padding, nulls_are_empty, images, fields })
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

    /// The pack of a token among those of a superbatch.
    pub(crate) fn pack_of(&self, token: usize) -> usize {
        token / usize::try_from(self.length).unwrap_or(usize::MAX).max(1)
    }

    /// Masks the labels of documents whose images are filled, if these are to be masked.
    /// `documents` are their tokens in all packs of a superbatch.
    pub(crate) fn mask(
        &self,
        arrays: &mut [ArrayRef],
        documents: &[Range<usize>],
    ) -> crate::Result<()> {
        let images = self.images.as_ref();
        let planned = images.and_then(|images| images.images.options().planned.as_ref());
        let Some((labels, mask)) = planned.and_then(|planned| planned.masked.as_ref()) else {
            return Ok(());
        };
        let is_label =
            |column: &PackedColumn| column.shown != Shown::Itself || column.name == *labels;
        for (column, array) in self.packed.iter().zip(arrays) {
            if !is_label(column) {
                continue;
            }
            let tokens = documents.iter().map(|tokens| {
                // Its first token may be the label in the place before it.
                let before = tokens.start.checked_sub(1).filter(|before| {
                    column.shown == Shown::Next
                        && self.pack_of(*before) == self.pack_of(tokens.start)
                });
                before.unwrap_or(tokens.start)..tokens.end
            });
            *array = masked(array, tokens, *mask).map_err(crate::Error::assemble)?;
        }
        Ok(())
    }

    /// The images of packs, if their rows are documents.
    pub(crate) fn images(&self) -> Option<&PackedImages> {
        self.images.as_ref()
    }

    /// Size of the pixels of a patch.
    pub(super) fn patch_bytes(&self) -> u64 {
        self.images.as_ref().map_or(0, |images| images.images.patch_bytes())
    }

    /// Size of the pixels of a pack, if all of its tokens are those of images.
    pub(super) fn most_pixel_bytes(&self) -> u64 {
        let length = u64::from(self.length);
        self.images.as_ref().map_or(0, |images| images.images.bytes_of_tokens(length))
    }

    /// Size of one pack without pixels.
    pub(crate) fn pack_bytes(&self) -> u64 {
        let ids = 2 * size_of::<i32>() as u64 * u64::from(self.length);
        self.bytes_of(&self.packed).saturating_add(ids)
    }

    /// Size of the rows in a full pack.
    #[must_use]
    pub fn row_bytes(&self) -> u64 {
        // Labels that are made come after the columns that are read.
        let of_images = self.images.as_ref().map_or(0, |images| images.columns.len());
        let read = self.columns.len() - of_images;
        self.bytes_of(self.packed.get(..read).unwrap_or(&self.packed))
    }

    fn bytes_of(&self, packed: &[PackedColumn]) -> u64 {
        let width = |column: &PackedColumn| column.element.primitive_width().unwrap_or(1);
        let tokens: usize = packed.iter().map(width).sum();
        (tokens as u64).saturating_mul(u64::from(self.length))
    }
}

impl PackedImages {
    /// `None` if the data set has no documents with images. `first` is the number of columns that
    /// are read before those of images.
    pub(super) fn of(dataset: &Dataset, first: usize) -> Option<Self> {
        let (pixels, images) = dataset.planned_images()?;
        let columns: Vec<usize> = image_columns(dataset, images).chain([pixels]).collect();
        let fields = columns.iter().filter_map(|column| dataset.schema().fields().get(*column));
        // Which images were decoded is known last.
        let fields = fields.chain(images.outputs().get(1)).cloned().collect();
        Some(Self { images: Arc::clone(images), columns, first, fields })
    }
}

/// The delivered columns whose lists have the planned lengths.
#[derive(Debug, Clone, Default)]
pub struct RowColumns {
    /// The column that was counted, if no column says the lengths, and those with equal lists.
    pub counted: Vec<usize>,
}

impl RowColumns {
    /// The field of the lengths.
    #[must_use]
    pub fn lengths(unit: Unit) -> FieldRef {
        let data_type = if unit == Unit::Float { DataType::Float32 } else { DataType::Int32 };
        Arc::new(Field::new(LENGTHS, data_type, false))
    }

    /// # Errors
    /// For a column that is named as what is added to a batch.
    pub fn check_names<'a>(mut names: impl Iterator<Item = &'a str>) -> Result<()> {
        let reserved = [LENGTHS, TOKENS_OF_RANK, TOKENS_OF_STEP];
        match names.find(|name| reserved.contains(name)) {
            Some(name) => Err(Error::ReservedName { column: name.to_owned() }),
            None => Ok(()),
        }
    }
}

/// One value of the type of a column.
fn pad_of(
    column: &str,
    element: &DataType,
    pads: &BTreeMap<String, FillValue>,
    default: FillValue,
) -> Result<ArrayRef> {
    let value = pads.get(column).cloned().unwrap_or(default);
    value.to_array(element).ok_or_else(|| Error::PadValue {
        column: column.to_owned(),
        data_type: element.clone(),
        value: value.to_string(),
    })
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
