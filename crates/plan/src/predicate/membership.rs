//! Tests in constant time which values are in a list of literals.

use super::compare::is_nan;
use super::leaf::Limit;
use super::position::{Matching, Place, place};
use crate::{Comparison, Literal};
use ahash::AHashSet;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, Float32Array, Float64Array, new_empty_array};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, i256};
use arrow_ord::sort::sort;
use arrow_schema::{ArrowError, DataType};
use arrow_select::concat::concat;
use num_traits::ToPrimitive;
use std::hash::Hash;
use std::sync::Arc;

/// Bits of a table that replaces a set for values that are close together.
const DENSE_SPAN: usize = 1 << 20;

#[derive(Debug, Clone)]
pub(crate) struct Members {
    /// Without NaN.
    pub(crate) sorted: ArrayRef,
    pub(crate) has_nan: bool,
    /// Floats that equal several decimals of the type.
    pub(crate) ranges: Vec<Limit>,
    set: Set,
}

#[derive(Debug, Clone)]
enum Set {
    Dense { first: usize, bits: BooleanBuffer },
    One(AHashSet<u8>),
    Two(AHashSet<u16>),
    Four(AHashSet<u32>),
    Eight(AHashSet<u64>),
    Sixteen(AHashSet<i128>),
    ThirtyTwo(AHashSet<i256>),
    Bytes(AHashSet<Vec<u8>>),
    Booleans([bool; 2]),
}

impl Members {
    /// `Err` contains a literal whose kind does not match the type. Members equal values as in
    /// SQL, where `in` is a list of comparisons, or as in pyarrow's `isin`: it rounds floats to
    /// float32, and does not find -0 by 0.
    pub(super) fn new<'a>(
        literals: &'a [Literal],
        data_type: &DataType,
        is_sql: bool,
    ) -> Result<Result<Self, &'a Literal>, ArrowError> {
        let mut values = vec![new_empty_array(data_type)];
        let (mut has_nan, mut ranges) = (false, Vec::new());
        for literal in literals {
            match place(literal, data_type) {
                None => return Ok(Err(literal)),
                Some(Place::NotANumber) => has_nan = true,
                Some(Place::Among(position)) => match position.matching {
                    Matching::None => {}
                    Matching::One if is_sql => values.extend(position.first.map(with_both_zeros)),
                    Matching::One => values.extend(position.first),
                    Matching::Many => ranges.push(Limit(Place::Among(position))),
                },
            }
            // Arrow casts the list to the type of the column, which rounds only in this case.
            if let (false, DataType::Float32, Literal::Float(value)) = (is_sql, data_type, literal)
            {
                values.extend(
                    value
                        .to_f32()
                        .filter(|value| !value.is_nan())
                        .map(|value| Arc::new(Float32Array::from(vec![value])) as ArrayRef),
                );
            }
        }
        let values = concat(&values.iter().map(AsRef::as_ref).collect::<Vec<_>>())?;
        let sorted = sort(&values, None)?;
        let set = Set::new(&sorted)?;
        Ok(Ok(Self { sorted, has_nan, ranges, set }))
    }

    /// One bit per value; undefined for nulls.
    pub(super) fn find(&self, array: &ArrayRef) -> Result<BooleanBuffer, ArrowError> {
        let mut found = self.set.find(array)?;
        for range in &self.ranges {
            found = &found | range.compare(array, Comparison::Equal)?.values();
        }
        Ok(if self.has_nan { &found | is_nan(array).values() } else { found })
    }
}

/// Zeros of both signs are equal by value, but not bitwise.
pub(crate) fn with_both_zeros(value: ArrayRef) -> ArrayRef {
    match value.data_type() {
        DataType::Float32 if value.as_primitive::<Float32Type>().value(0) == 0.0 => {
            Arc::new(Float32Array::from(vec![-0.0, 0.0]))
        }
        DataType::Float64 if value.as_primitive::<Float64Type>().value(0) == 0.0 => {
            Arc::new(Float64Array::from(vec![-0.0, 0.0]))
        }
        _ => value,
    }
}

impl Set {
    fn new(values: &ArrayRef) -> Result<Self, ArrowError> {
        match values.data_type() {
            DataType::Boolean => {
                return Ok(Self::Booleans([
                    values.as_boolean().has_false(),
                    values.as_boolean().has_true(),
                ]));
            }
            data_type if data_type.primitive_width().is_none() => {
                let mut set = AHashSet::new();
                each_bytes(values, &mut |bytes| {
                    set.insert(bytes.to_vec());
                })?;
                return Ok(Self::Bytes(set));
            }
            _ => {}
        }
        Ok(match values.data_type().primitive_width() {
            Some(1) => Self::One(natives(values)),
            Some(2) => Self::Two(natives(values)),
            Some(4) => Self::dense::<u32>(values).unwrap_or_else(|| Self::Four(natives(values))),
            Some(8) => Self::dense::<u64>(values).unwrap_or_else(|| Self::Eight(natives(values))),
            Some(16) => Self::Sixteen(natives(values)),
            _ => Self::ThirtyTwo(natives(values)),
        })
    }

    fn dense<T: ArrowNativeType>(values: &ArrayRef) -> Option<Self> {
        let data = values.to_data();
        let keys = data
            .buffers()
            .first()?
            .typed_data::<T>()
            .iter()
            .map(|value| value.to_usize())
            .collect::<Option<Vec<_>>>()?;
        let (first, last) = (*keys.iter().min()?, *keys.iter().max()?);
        if last - first >= DENSE_SPAN {
            return None;
        }
        let mut bits = vec![false; last - first + 1];
        for key in keys {
            *bits.get_mut(key - first)? = true;
        }
        Some(Self::Dense { first, bits: BooleanBuffer::from(bits) })
    }

    fn find(&self, array: &ArrayRef) -> Result<BooleanBuffer, ArrowError> {
        Ok(match self {
            Self::Dense { first, bits } => {
                let is_in = |key: Option<usize>| {
                    key.and_then(|key| key.checked_sub(*first))
                        .is_some_and(|bit| bit < bits.len() && bits.value(bit))
                };
                if array.data_type().primitive_width() == Some(4) {
                    lookup(array, |key: u32| is_in(key.to_usize()))
                } else {
                    lookup(array, |key: u64| is_in(key.to_usize()))
                }
            }
            Self::One(set) => lookup(array, |key: u8| set.contains(&key)),
            Self::Two(set) => lookup(array, |key: u16| set.contains(&key)),
            Self::Four(set) => lookup(array, |key: u32| set.contains(&key)),
            Self::Eight(set) => lookup(array, |key: u64| set.contains(&key)),
            Self::Sixteen(set) => lookup(array, |key: i128| set.contains(&key)),
            Self::ThirtyTwo(set) => lookup(array, |key: i256| set.contains(&key)),
            Self::Bytes(set) => {
                let mut found = Vec::with_capacity(array.len());
                each_bytes(array, &mut |bytes| found.push(set.contains(bytes)))?;
                BooleanBuffer::from(found)
            }
            Self::Booleans([with_false, with_true]) => {
                let array = array.as_boolean();
                BooleanBuffer::collect_bool(array.len(), |row| {
                    if array.value(row) { *with_true } else { *with_false }
                })
            }
        })
    }
}

fn natives<T: ArrowNativeType + Hash + Eq>(values: &ArrayRef) -> AHashSet<T> {
    let data = values.to_data();
    data.buffers()
        .first()
        .map(|buffer| buffer.typed_data::<T>().iter().copied().collect())
        .unwrap_or_default()
}

fn lookup<T: ArrowNativeType>(array: &ArrayRef, is_in: impl Fn(T) -> bool) -> BooleanBuffer {
    let data = array.to_data();
    let values = data
        .buffers()
        .first()
        .and_then(|buffer| buffer.typed_data::<T>().get(data.offset()..data.offset() + array.len()))
        .unwrap_or_default();
    BooleanBuffer::collect_bool(array.len(), |row| {
        values.get(row).is_some_and(|value| is_in(*value))
    })
}

/// Calls `see` for each value, including those under nulls.
pub(super) fn each_bytes(array: &ArrayRef, see: &mut dyn FnMut(&[u8])) -> Result<(), ArrowError> {
    macro_rules! each {
        ($array:expr) => {{
            let array = $array;
            (0..array.len()).for_each(|row| see(AsRef::<[u8]>::as_ref(array.value(row))));
        }};
    }
    match array.data_type() {
        DataType::Utf8 => each!(array.as_string::<i32>()),
        DataType::LargeUtf8 => each!(array.as_string::<i64>()),
        DataType::Utf8View => each!(array.as_string_view()),
        DataType::Binary => each!(array.as_binary::<i32>()),
        DataType::LargeBinary => each!(array.as_binary::<i64>()),
        DataType::BinaryView => each!(array.as_binary_view()),
        other => return Err(ArrowError::NotYetImplemented(format!("membership of {other}"))),
    }
    Ok(())
}
