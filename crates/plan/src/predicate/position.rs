//! Locates a literal among the values of a column's type.
//!
//! The invariant: values are never rounded for a comparison. A literal that the type cannot
//! represent lies between two of its values, or below or above all of them, and a comparison
//! with it becomes one with those neighbours. Only decimals and floats are compared
//! as floats, as in Arrow.

use super::scaled::{Scaled, in_domain, parts_of};
use crate::Literal;
use arrow_array::types::{ArrowPrimitiveType, Float32Type, Float64Type};
use arrow_array::{
    ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, Float64Array, LargeBinaryArray,
    LargeStringArray, PrimitiveArray, StringArray, StringViewArray, make_array,
};
use arrow_buffer::{Buffer, i256};
use arrow_data::ArrayData;
use arrow_schema::{DECIMAL128_MAX_PRECISION, DataType, TimeUnit};
use num_traits::{Float, ToPrimitive, Zero};
use std::cmp::Ordering;
use std::sync::Arc;

/// A literal relative to a column.
#[derive(Debug, Clone)]
pub(super) enum Place {
    NotANumber,
    Among(Position),
}

/// Arrays of length one.
#[derive(Debug, Clone)]
pub(super) struct Position {
    /// The first value that is not below the literal.
    pub first: Option<ArrayRef>,
    /// The last value that is not above it.
    pub last: Option<ArrayRef>,
    pub matching: Matching,
}

/// How many values of the type equal the literal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Matching {
    None,
    One,
    /// From `first` to `last`: decimals that are finer than the floats near them.
    Many,
}

impl Position {
    fn exact(value: ArrayRef) -> Self {
        Self { first: Some(Arc::clone(&value)), last: Some(value), matching: Matching::One }
    }
}

/// The type in which a column is compared with a literal, if it differs from its own.
pub(super) fn compared_as(data_type: &DataType, literal: Option<&Literal>) -> DataType {
    let is_binary = matches!(literal, Some(Literal::Binary(_)));
    match data_type {
        DataType::Dictionary(_, value) => compared_as(value, literal),
        DataType::Float16 => DataType::Float32,
        DataType::FixedSizeBinary(_) => DataType::Binary,
        DataType::Utf8 if is_binary => DataType::Binary,
        DataType::LargeUtf8 if is_binary => DataType::LargeBinary,
        DataType::Utf8View if is_binary => DataType::BinaryView,
        other => other.clone(),
    }
}

/// `None` if values of the type and the literal are not comparable.
/// `data_type` is returned by [`compared_as`].
pub(super) fn place(literal: &Literal, data_type: &DataType) -> Option<Place> {
    let position = match (data_type, literal) {
        (DataType::Boolean, Literal::Boolean(value)) => {
            Position::exact(Arc::new(BooleanArray::from(vec![*value])))
        }
        (DataType::Float64, _) => return float::<Float64Type>(literal),
        (DataType::Float32, _) => return float::<Float32Type>(literal),
        (DataType::Utf8, Literal::Text(text)) => {
            Position::exact(Arc::new(StringArray::from(vec![text.as_str()])))
        }
        (DataType::LargeUtf8, Literal::Text(text)) => {
            Position::exact(Arc::new(LargeStringArray::from(vec![text.as_str()])))
        }
        (DataType::Utf8View, Literal::Text(text)) => {
            Position::exact(Arc::new(StringViewArray::from(vec![text.as_str()])))
        }
        (DataType::Binary | DataType::LargeBinary | DataType::BinaryView, _) => {
            Position::exact(bytes(literal, data_type)?)
        }
        (_, Literal::Float(value)) if data_type.is_integer() || data_type.is_decimal() => {
            if value.is_nan() {
                return Some(Place::NotANumber);
            }
            among_decimals(*value, data_type)?
        }
        _ => {
            let (scaled, scale) = parts_of(literal, data_type)?;
            discrete(&scaled, scale, data_type)?
        }
    };
    Some(Place::Among(position))
}

impl Literal {
    /// One value of the literal's own type. `None` if it is out of the type's range.
    pub(crate) fn to_array(&self) -> Option<ArrayRef> {
        let own = match self {
            Self::Boolean(_) => DataType::Boolean,
            Self::Integer(_) => DataType::Int64,
            Self::Unsigned(_) => DataType::UInt64,
            Self::Float(value) => return Some(Arc::new(Float64Array::from(vec![*value]))),
            Self::Text(_) => DataType::Utf8,
            Self::Binary(_) => DataType::Binary,
            Self::Decimal { unscaled, scale } => {
                let digits = unscaled.to_string().trim_start_matches('-').len();
                let precision = u8::try_from(digits).ok()?.max(scale.unsigned_abs());
                if precision <= DECIMAL128_MAX_PRECISION {
                    DataType::Decimal128(precision, *scale)
                } else {
                    DataType::Decimal256(precision, *scale)
                }
            }
            Self::Timestamp { unit, zone, .. } => {
                DataType::Timestamp(*unit, zone.as_deref().map(Arc::from))
            }
            Self::Date(_) => DataType::Date32,
            Self::Time { unit: unit @ (TimeUnit::Second | TimeUnit::Millisecond), .. } => {
                DataType::Time32(*unit)
            }
            Self::Time { unit, .. } => DataType::Time64(*unit),
            Self::Duration { unit, .. } => DataType::Duration(*unit),
        };
        match place(self, &own)? {
            Place::Among(position) => position.first.filter(|_| position.matching == Matching::One),
            Place::NotANumber => None,
        }
    }
}

fn bytes(literal: &Literal, data_type: &DataType) -> Option<ArrayRef> {
    let bytes = match literal {
        Literal::Binary(bytes) => bytes.as_slice(),
        Literal::Text(text) => text.as_bytes(),
        _ => return None,
    };
    Some(match data_type {
        DataType::Binary => Arc::new(BinaryArray::from(vec![bytes])),
        DataType::LargeBinary => Arc::new(LargeBinaryArray::from(vec![bytes])),
        _ => Arc::new(BinaryViewArray::from(vec![bytes])),
    })
}

fn discrete(literal: &Scaled, scale: i16, data_type: &DataType) -> Option<Position> {
    let (floor, ceiling) = literal.at_scale(scale);
    let matching = if floor == ceiling { Matching::One } else { Matching::None };
    neighbours(floor, ceiling, matching, data_type)
}

/// `last` and `first`, clamped to the range of the type.
fn neighbours(
    last: i256,
    first: i256,
    matching: Matching,
    data_type: &DataType,
) -> Option<Position> {
    let domain = in_domain(data_type)?;
    let (min, max) = (*domain.start(), *domain.end());
    let first = (first <= max).then(|| first.max(min));
    let last = (last >= min).then(|| last.min(max));
    let matching =
        if first > last || first.is_none() || last.is_none() { Matching::None } else { matching };
    let value = |value: Option<i256>| match value {
        Some(value) => fixed_width(value, data_type).map(Some),
        None => Some(None),
    };
    Some(Position { first: value(first)?, last: value(last)?, matching })
}

/// Integers are compared exactly with a float; decimals are compared as the nearest floats.
fn among_decimals(literal: f64, data_type: &DataType) -> Option<Position> {
    let saturated = |value: f64| {
        i256::from_f64(value).unwrap_or(if value > 0.0 { i256::MAX } else { i256::MIN })
    };
    if data_type.is_integer() {
        let matching = if literal.fract() == 0.0 { Matching::One } else { Matching::None };
        return neighbours(
            saturated(literal.floor()),
            saturated(literal.ceil()),
            matching,
            data_type,
        );
    }
    let (DataType::Decimal32(_, scale)
    | DataType::Decimal64(_, scale)
    | DataType::Decimal128(_, scale)
    | DataType::Decimal256(_, scale)) = data_type
    else {
        return None;
    };
    let domain = in_domain(data_type)?;
    let exponent = -i16::from(*scale);
    // Parsing text is the correctly rounded conversion from a decimal to a float.
    let as_float =
        |unscaled: i256| format!("{unscaled}e{exponent}").parse::<f64>().unwrap_or(f64::NAN);
    let first_where = |holds: &dyn Fn(f64) -> bool| {
        let one = i256::from_i128(1);
        let (mut low, mut high) = (*domain.start(), domain.end().wrapping_add(one));
        while low < high {
            let middle = low.wrapping_add(high.wrapping_sub(low) >> 1);
            if holds(as_float(middle)) {
                high = middle;
            } else {
                low = middle.wrapping_add(one);
            }
        }
        low
    };
    let (first, behind) =
        (first_where(&|value| value >= literal), first_where(&|value| value > literal));
    let last = behind.wrapping_sub(i256::from_i128(1));
    let matching = match last.cmp(&first) {
        Ordering::Less => Matching::None,
        Ordering::Equal => Matching::One,
        Ordering::Greater => Matching::Many,
    };
    neighbours(last, first, matching, data_type)
}

/// One value of an integer, decimal, date or time type.
fn fixed_width(value: i256, data_type: &DataType) -> Option<ArrayRef> {
    let narrow = value.to_i128();
    let buffer = match (data_type, data_type.primitive_width()?) {
        (DataType::UInt64, _) => Buffer::from_slice_ref([u64::try_from(narrow?).ok()?]),
        (DataType::UInt32, _) => Buffer::from_slice_ref([u32::try_from(narrow?).ok()?]),
        (DataType::UInt16, _) => Buffer::from_slice_ref([u16::try_from(narrow?).ok()?]),
        (DataType::UInt8, _) => Buffer::from_slice_ref([u8::try_from(narrow?).ok()?]),
        (_, 1) => Buffer::from_slice_ref([i8::try_from(narrow?).ok()?]),
        (_, 2) => Buffer::from_slice_ref([i16::try_from(narrow?).ok()?]),
        (_, 4) => Buffer::from_slice_ref([i32::try_from(narrow?).ok()?]),
        (_, 8) => Buffer::from_slice_ref([i64::try_from(narrow?).ok()?]),
        (_, 16) => Buffer::from_slice_ref([narrow?]),
        _ => Buffer::from_slice_ref([value]),
    };
    ArrayData::builder(data_type.clone()).len(1).add_buffer(buffer).build().ok().map(make_array)
}

fn float<T: ArrowPrimitiveType>(literal: &Literal) -> Option<Place>
where
    T::Native: Float + std::str::FromStr + ToPrimitive + Neighbours,
{
    let (nearest, order) = match literal {
        Literal::Float(value) if value.is_nan() => return Some(Place::NotANumber),
        Literal::Integer(_) | Literal::Unsigned(_) | Literal::Decimal { scale: 0, .. } => {
            let (exact, _) = Scaled::of(literal)?.at_scale(0);
            let nearest: T::Native = exact.to_string().parse().ok()?;
            let order = match i256::from_f64(nearest.to_f64()?) {
                Some(value) => value.cmp(&exact),
                None if nearest > T::Native::zero() => Ordering::Greater,
                None => Ordering::Less,
            };
            (nearest, order)
        }
        Literal::Float(_) | Literal::Decimal { .. } => {
            let exact = match literal {
                Literal::Float(value) => *value,
                other => Scaled::of(other)?.to_f64()?,
            };
            let nearest = <T::Native as num_traits::NumCast>::from(exact)?;
            (nearest, nearest.to_f64()?.partial_cmp(&exact)?)
        }
        _ => return None,
    };
    let value =
        |value: T::Native| Some(Arc::new(PrimitiveArray::<T>::from_value(value, 1)) as ArrayRef);
    Some(Place::Among(match order {
        Ordering::Equal => {
            Position { first: value(nearest), last: value(nearest), matching: Matching::One }
        }
        Ordering::Less => Position {
            first: value(nearest.above()),
            last: value(nearest),
            matching: Matching::None,
        },
        Ordering::Greater => Position {
            first: value(nearest),
            last: value(nearest.below()),
            matching: Matching::None,
        },
    }))
}

trait Neighbours {
    fn above(self) -> Self;
    fn below(self) -> Self;
}

impl Neighbours for f64 {
    fn above(self) -> Self {
        self.next_up()
    }

    fn below(self) -> Self {
        self.next_down()
    }
}

impl Neighbours for f32 {
    fn above(self) -> Self {
        self.next_up()
    }

    fn below(self) -> Self {
        self.next_down()
    }
}
