//! Builds the Arrow array of one column. Nothing is allocated for a single value.

use super::layout::take_array_apart;
use crate::mds::Number;
use crate::mds::encoding::Encoding;
use crate::mds::read::head::word;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, FixedSizeListArray, ListArray, make_array,
    new_empty_array,
};
use arrow_buffer::{Buffer, MutableBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field};
use std::sync::Arc;

/// Gathers the values of one column.
#[derive(Debug)]
pub(super) enum Builder {
    Views {
        values: Vec<u8>,
        views: Vec<u128>,
        is_text: bool,
    },
    Numbers {
        number: Number,
        values: MutableBuffer,
    },
    /// Arrays of one shape.
    Grids {
        number: Number,
        shape: Vec<u32>,
        values: MutableBuffer,
    },
    /// Arrays with the same number of dimensions; each level has one offset more than lists.
    Arrays {
        encoding: Encoding,
        number: Number,
        levels: Vec<Vec<i32>>,
        dimensions: Vec<u64>,
        values: MutableBuffer,
    },
    BlobLists {
        has_placeholder: bool,
        lists: Vec<i32>,
        ends: Vec<i32>,
        values: Vec<u8>,
    },
}

impl Builder {
    /// `bytes` is the approximate total size of the values.
    pub(super) fn new(
        encoding: &Encoding,
        known: Option<(Number, usize)>,
        rows: usize,
        bytes: usize,
    ) -> Self {
        match encoding {
            Encoding::Int => Self::Numbers {
                number: Number::Int64,
                values: MutableBuffer::with_capacity(rows * 8),
            },
            Encoding::Number(number) => Self::Numbers {
                number: *number,
                values: MutableBuffer::with_capacity(rows * number.width()),
            },
            Encoding::NdArray { number: Some(number), shape: Some(shape) } => Self::Grids {
                number: *number,
                shape: shape.clone(),
                values: MutableBuffer::with_capacity(bytes),
            },
            Encoding::NdArray { number, .. } => {
                let (found, dimensions) = known.unwrap_or((Number::Float64, 1));
                let levels = vec![vec![0]; dimensions];
                let (encoding, number) = (encoding.clone(), number.unwrap_or(found));
                Self::Arrays {
                    encoding,
                    number,
                    levels,
                    dimensions: Vec::new(),
                    values: MutableBuffer::with_capacity(bytes),
                }
            }
            Encoding::JpegArray => Self::lists(false),
            Encoding::ListPil | Encoding::ListJpeg | Encoding::ListPng => Self::lists(true),
            Encoding::Bytes | Encoding::Pickle | Encoding::Pil | Encoding::Jpeg | Encoding::Png => {
                Self::views(false, rows, bytes)
            }
            Encoding::Str
            | Encoding::Json
            | Encoding::StrInt
            | Encoding::StrFloat
            | Encoding::StrDecimal => Self::views(true, rows, bytes),
        }
    }

    fn views(is_text: bool, rows: usize, bytes: usize) -> Self {
        Self::Views { values: Vec::with_capacity(bytes), views: Vec::with_capacity(rows), is_text }
    }

    fn lists(has_placeholder: bool) -> Self {
        Self::BlobLists { has_placeholder, lists: vec![0], ends: vec![0], values: Vec::new() }
    }

    pub(super) fn push(&mut self, value: &[u8]) -> Result<(), String> {
        match self {
            Self::Views { values, views, is_text: _ } => {
                let offset = u32::try_from(values.len()).map_err(|_above| TOO_LARGE.to_owned())?;
                views.push(arrow_array::builder::make_view(value, 0, offset));
                if value.len() > 12 {
                    values.extend_from_slice(value);
                }
            }
            Self::Numbers { values, .. } | Self::Grids { values, .. } => {
                values.extend_from_slice(value);
            }
            Self::Arrays { encoding, number, levels, dimensions, values } => {
                let (found, numbers) = take_array_apart(encoding, value, dimensions)?;
                if (found, dimensions.len()) != (*number, levels.len()) {
                    let (wanted, own) = (number.name(), found.name());
                    let (wanted_dimensions, own_dimensions) = (levels.len(), dimensions.len());
                    return Err(format!(
                        "it has {own_dimensions} dimensions of {own}, the first array \
                         has {wanted_dimensions} of {wanted}"
                    ));
                }
                let mut lists = 1;
                for (offsets, dimension) in levels.iter_mut().zip(dimensions.iter()) {
                    let len = i32::try_from(*dimension).map_err(|_above| TOO_LARGE)?;
                    let mut last = offsets.last().copied().unwrap_or(0);
                    for _list in 0..lists {
                        last = last.checked_add(len).ok_or(TOO_LARGE)?;
                        offsets.push(last);
                    }
                    lists *= *dimension;
                }
                values.extend_from_slice(numbers);
            }
            Self::BlobLists { has_placeholder, lists, ends, values } => {
                let start = if *has_placeholder { 4 } else { 0 };
                let count = word(value, start)
                    .and_then(|count| usize::try_from(count).ok())
                    .ok_or("it has no count")?;
                let table = count
                    .checked_mul(4)
                    .and_then(|len| value.get(start + 4..(start + 4).checked_add(len)?))
                    .ok_or("its sizes extend past its end")?;
                let blobs = value.get(start + 4 + table.len()..).unwrap_or_default();
                let mut position = 0_usize;
                for size in table.chunks_exact(4).filter_map(|size| word(size, 0)) {
                    position = usize::try_from(size)
                        .ok()
                        .and_then(|size| position.checked_add(size))
                        .ok_or(TOO_LARGE)?;
                    ends.push(
                        i32::try_from(values.len().saturating_add(position))
                            .map_err(|_above| TOO_LARGE)?,
                    );
                }
                if position != blobs.len() {
                    return Err(format!(
                        "its items have `{position}` bytes, it has `{}` for them",
                        blobs.len()
                    ));
                }
                values.extend_from_slice(blobs);
                lists.push(i32::try_from(ends.len() - 1).map_err(|_above| TOO_LARGE)?);
            }
        }
        Ok(())
    }

    /// # Errors
    /// For text that is not UTF-8, with its row.
    pub(super) fn finish(self) -> Result<ArrayRef, (Option<usize>, ArrowError)> {
        if let Self::Views { values, views, is_text: true } = self {
            let bytes = BinaryViewArray::try_new(
                ScalarBuffer::from(views),
                vec![Buffer::from_vec(values)],
                None,
            )
            .map_err(|source| (None, source))?;
            let bad_row = |source| {
                (
                    (0..bytes.len()).find(|row| std::str::from_utf8(bytes.value(*row)).is_err()),
                    source,
                )
            };
            return Ok(Arc::new(bytes.clone().to_string_view().map_err(bad_row)?));
        }
        self.into_array().map_err(|source| (None, source))
    }

    fn into_array(self) -> Result<ArrayRef, ArrowError> {
        let offsets = |offsets: Vec<i32>| OffsetBuffer::new(ScalarBuffer::from(offsets));
        let item =
            |array: &ArrayRef| Arc::new(Field::new_list_field(array.data_type().clone(), true));
        Ok(match self {
            Self::Views { values, views, .. } => Arc::new(BinaryViewArray::try_new(
                ScalarBuffer::from(views),
                vec![Buffer::from_vec(values)],
                None,
            )?),
            Self::Numbers { number, values } => numbers(number, values)?,
            Self::Grids { number, shape, values } => {
                let mut array = numbers(number, values)?;
                for dimension in shape.into_iter().rev() {
                    let width = i32::try_from(dimension)
                        .map_err(|_above| ArrowError::InvalidArgumentError(TOO_LARGE.to_owned()))?;
                    array =
                        Arc::new(FixedSizeListArray::try_new(item(&array), width, array, None)?);
                }
                array
            }
            Self::Arrays { number, levels, values, .. } => {
                let mut array = numbers(number, values)?;
                for level in levels.into_iter().rev() {
                    array =
                        Arc::new(ListArray::try_new(item(&array), offsets(level), array, None)?);
                }
                array
            }
            Self::BlobLists { lists, ends, values, .. } => {
                let blobs: ArrayRef =
                    Arc::new(BinaryArray::try_new(offsets(ends), Buffer::from_vec(values), None)?);
                Arc::new(ListArray::try_new(
                    Arc::new(Field::new_list_field(DataType::Binary, true)),
                    offsets(lists),
                    blobs,
                    None,
                )?)
            }
        })
    }
}

const TOO_LARGE: &str = "its values are too large for one Arrow array";

fn numbers(number: Number, values: MutableBuffer) -> Result<ArrayRef, ArrowError> {
    let (len, values) = (values.len() / number.width().max(1), vec![Buffer::from(values)]);
    let empty = new_empty_array(&number.data_type()).to_data();
    Ok(make_array(empty.into_builder().len(len).buffers(values).build()?))
}
