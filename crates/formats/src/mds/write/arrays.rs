//! Lists of numbers as arrays with one shape each.

use super::way::becomes;
use crate::mds::encoding::{Encoding, MAX_DIMENSIONS};
use crate::mds::{Error, Number};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{Buffer, NullBuffer};
use arrow_schema::DataType;

/// A column of nested lists, split into its levels.
#[derive(Debug)]
pub(super) struct Arrays {
    levels: Vec<Level>,
    /// The nulls of the numbers.
    nulls: Option<NullBuffer>,
    bytes: Buffer,
    number: Number,
    has_number: bool,
    shape: Option<Vec<u32>>,
}

/// The items of the lists of one level.
#[derive(Debug)]
struct Level {
    items: Items,
    nulls: Option<NullBuffer>,
}

#[derive(Debug)]
enum Items {
    Offsets(Vec<i64>),
    /// The same number of items each, starting at an offset.
    Fixed {
        size: usize,
    },
}

impl Arrays {
    /// Whether lists of this type are arrays of the encoding, except for their shapes.
    pub(super) fn fits(
        data_type: &DataType,
        number: Option<Number>,
        shape: Option<&[u32]>,
    ) -> bool {
        let (mut levels, mut inner) = (0, data_type);
        while let DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _) = inner
        {
            levels += 1;
            inner = item.data_type();
        }
        let is_number = number
            .map_or_else(|| Number::of_type(inner).is_some(), |number| becomes(inner, number));
        is_number
            && (1..=MAX_DIMENSIONS).contains(&levels)
            && shape.is_none_or(|shape| shape.len() == levels)
    }

    /// `None` for a type that does not fit.
    pub(super) fn new(
        encoding: &Encoding,
        array: &ArrayRef,
        cast: &dyn Fn(&ArrayRef, &DataType) -> Result<ArrayRef, Error>,
    ) -> Result<Option<Self>, Error> {
        let Encoding::NdArray { number, shape } = encoding else { return Ok(None) };
        let mut levels = Vec::new();
        let mut inner = ArrayRef::clone(array);
        loop {
            let (items, values) = match inner.data_type() {
                DataType::List(_) => {
                    let lists = inner.as_list::<i32>();
                    (
                        Items::Offsets(
                            lists.value_offsets().iter().map(|offset| i64::from(*offset)).collect(),
                        ),
                        ArrayRef::clone(lists.values()),
                    )
                }
                DataType::LargeList(_) => {
                    let lists = inner.as_list::<i64>();
                    (
                        Items::Offsets(lists.value_offsets().to_vec()),
                        ArrayRef::clone(lists.values()),
                    )
                }
                DataType::FixedSizeList(_, size) => (
                    Items::Fixed { size: usize::try_from(*size).unwrap_or(0) },
                    ArrayRef::clone(inner.as_fixed_size_list().values()),
                ),
                _ => break,
            };
            levels.push(Level { items, nulls: inner.nulls().cloned() });
            inner = values;
        }
        let Some(own) = number.or_else(|| Number::of_type(inner.data_type())) else {
            return Ok(None);
        };
        let nulls = inner.nulls().cloned();
        let numbers = cast(&inner, &own.data_type())?;
        let bytes = number_bytes(numbers.as_ref(), own);
        Ok(Some(Self {
            levels,
            nulls,
            bytes,
            number: own,
            has_number: number.is_some(),
            shape: shape.clone(),
        }))
    }

    /// Whether the array of a row contains any null.
    pub(super) fn holds_null(&self, row: usize) -> bool {
        let mut range = (row, row + 1);
        for level in &self.levels {
            if holds_null(level.nulls.as_ref(), range) {
                return true;
            }
            range = level.items_of(range);
        }
        holds_null(self.nulls.as_ref(), range)
    }

    /// # Errors
    /// Why the lists of a row are not an array of the encoding.
    pub(super) fn append(&self, row: usize, samples: &mut Vec<u8>) -> Result<(), String> {
        let mut range = (row, row + 1);
        let mut shape = Vec::with_capacity(self.levels.len());
        for level in &self.levels {
            shape.push(level.len_of_all(range).ok_or("its lists have unequal lengths")?);
            range = level.items_of(range);
        }
        if shape.contains(&0) {
            return Err("an array cannot have a dimension of 0".to_owned());
        }
        if !self.has_number {
            samples.push(self.number.code());
        }
        match &self.shape {
            None => append_shape(&shape, samples),
            Some(wanted)
                if wanted
                    .iter()
                    .map(|dimension| u64::from(*dimension))
                    .eq(shape.iter().copied()) => {}
            Some(_) => return Err(format!("its shape is {shape:?}")),
        }
        let width = self.number.width();
        samples.extend_from_slice(
            self.bytes.get(range.0 * width..range.1 * width).unwrap_or_default(),
        );
        Ok(())
    }
}

fn holds_null(nulls: Option<&NullBuffer>, range: (usize, usize)) -> bool {
    nulls.is_some_and(|nulls| {
        nulls.null_count() > 0 && (range.0..range.1).any(|item| nulls.is_null(item))
    })
}

/// Appends one byte with the number of dimensions and their width, then the dimensions in as few
/// bytes as the largest one needs.
fn append_shape(shape: &[u64], samples: &mut Vec<u8>) {
    let largest = shape.iter().copied().max().unwrap_or(0);
    let (code, width) = match largest {
        0..=0xff => (0, 1),
        0x100..=0xffff => (1, 2),
        0x1_0000..=0xffff_ffff => (2, 4),
        _ => (3, 8),
    };
    samples.push(u8::try_from(shape.len() << 2 | code).unwrap_or(u8::MAX));
    for dimension in shape {
        samples.extend_from_slice(dimension.to_le_bytes().get(..width).unwrap_or_default());
    }
}

impl Level {
    /// Items of consecutive lists.
    fn items_of(&self, lists: (usize, usize)) -> (usize, usize) {
        match &self.items {
            Items::Offsets(offsets) => {
                let at = |list: usize| {
                    offsets.get(list).and_then(|offset| usize::try_from(*offset).ok()).unwrap_or(0)
                };
                (at(lists.0), at(lists.1))
            }
            Items::Fixed { size } => (lists.0 * size, lists.1 * size),
        }
    }

    /// The number of items of each of these lists, if it is equal for all.
    fn len_of_all(&self, lists: (usize, usize)) -> Option<u64> {
        match &self.items {
            Items::Fixed { size } => Some(*size as u64),
            Items::Offsets(offsets) => {
                let mut lens = offsets.get(lists.0..=lists.1)?.windows(2).map(|pair| match pair {
                    [start, end] => end - start,
                    _ => 0,
                });
                let first = lens.next()?;
                lens.all(|len| len == first).then(|| u64::try_from(first).ok()).flatten()
            }
        }
    }
}

/// The numbers of an array of exactly this type, with their memory layout,
/// which is that of samples.
pub(super) fn number_bytes(array: &dyn Array, number: Number) -> Buffer {
    const { assert!(cfg!(target_endian = "little"), "shards hold little-endian numbers") };
    let (data, width) = (array.to_data(), number.width());
    data.buffers()
        .first()
        .map(|bytes| bytes.slice_with_length(data.offset() * width, data.len() * width))
        .unwrap_or_default()
}
