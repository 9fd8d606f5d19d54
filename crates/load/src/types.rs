//! The type of a column whose files disagree, and the exact conversion of their values to it.
//!
//! Used for the files of a data set, the files of a table job, and the sources of a mixture. The invariant: [`widened`] looks at types alone and
//! does not depend on the order of the files; [`exactly`] returns the same values in another type, or the first row that this type cannot hold.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, FixedSizeListArray, GenericListArray, MapArray, OffsetSizeTrait, StructArray, new_null_array};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_cast::cast;
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_ord::cmp::distinct;
use arrow_schema::{ArrowError, DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Field, FieldRef, Fields, TimeUnit};
use shardmill_formats::table::type_name;
use std::sync::Arc;

/// The type of the values of a dictionary, or the type itself.
pub(crate) fn value_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, value) => value,
        other => other,
    }
}

/// The type for the values of two types, if there is one. Whether each value fits is decided by [`exactly`].
#[must_use]
pub fn widened(first: &DataType, second: &DataType) -> Option<DataType> {
    use DataType::{
        Binary, BinaryView, Date32, Date64, Dictionary, Duration, FixedSizeList, Float16, Float32, Float64, LargeBinary, LargeList, LargeUtf8, List,
        Map, Null, Struct, Time32, Time64, Timestamp, Utf8, Utf8View,
    };
    if first == second {
        return Some(first.clone());
    }
    Some(match (first, second) {
        (Null, other) | (other, Null) => other.clone(),
        (Dictionary(_, value), Dictionary(_, other)) => widened(value, other)?,
        (Dictionary(_, value), other) | (other, Dictionary(_, value)) => widened(value, other)?,
        (Utf8 | Utf8View, Utf8 | Utf8View) => Utf8,
        (Utf8 | LargeUtf8 | Utf8View, Utf8 | LargeUtf8 | Utf8View) => LargeUtf8,
        (Binary | BinaryView, Binary | BinaryView) => Binary,
        (Binary | LargeBinary | BinaryView, Binary | LargeBinary | BinaryView) => LargeBinary,
        (Float16, Float32) | (Float32, Float16) => Float32,
        (Float16 | Float32 | Float64, Float16 | Float32 | Float64) => Float64,
        (Float16 | Float32 | Float64, other) | (other, Float16 | Float32 | Float64) if other.is_integer() => Float64,
        (Timestamp(unit, zone), Timestamp(other, other_zone)) if zone == other_zone => Timestamp(*unit.max(other), zone.clone()),
        (Duration(unit), Duration(other)) => Duration(*unit.max(other)),
        (Time32(unit) | Time64(unit), Time32(other) | Time64(other)) => match unit.max(other) {
            unit @ (TimeUnit::Second | TimeUnit::Millisecond) => Time32(*unit),
            unit => Time64(*unit),
        },
        (Date32, Date64) | (Date64, Date32) => Date64,
        (List(item), List(other)) => List(widened_field(item, other)?),
        (List(item) | LargeList(item), List(other) | LargeList(other)) => LargeList(widened_field(item, other)?),
        (FixedSizeList(item, size), FixedSizeList(other, other_size)) if size == other_size => FixedSizeList(widened_field(item, other)?, *size),
        (FixedSizeList(item, _) | List(item), FixedSizeList(other, _) | List(other)) => List(widened_field(item, other)?),
        (FixedSizeList(item, _) | LargeList(item), FixedSizeList(other, _) | LargeList(other)) => LargeList(widened_field(item, other)?),
        (Struct(fields), Struct(others)) => Struct(widened_fields(fields, others)?),
        (Map(entries, is_sorted), Map(others, other_is_sorted)) => Map(widened_entries(entries, others)?, *is_sorted && *other_is_sorted),
        _ => decimal(first, second).or_else(|| integer(first, second))?,
    })
}

/// The name and metadata are those of `first`.
pub(crate) fn widened_field(first: &Field, second: &Field) -> Option<FieldRef> {
    let data_type = widened(first.data_type(), second.data_type())?;
    Some(Arc::new(first.clone().with_data_type(data_type).with_nullable(first.is_nullable() || second.is_nullable())))
}

/// Fields are matched by name, and null where they are missing.
fn widened_fields(first: &Fields, second: &Fields) -> Option<Fields> {
    // A name that occurs twice cannot be matched.
    let is_twice = |fields: &Fields, name: &str| fields.iter().filter(|field| field.name() == name).count() > 1;
    if first.iter().chain(second).any(|field| is_twice(first, field.name()) || is_twice(second, field.name())) {
        return None;
    }
    let alone = |field: &FieldRef| Some(Arc::new(Field::clone(field).with_nullable(true)));
    let known = first.iter().map(|field| second.find(field.name()).map_or_else(|| alone(field), |(_, other)| widened_field(field, other)));
    let new = second.iter().filter(|field| first.find(field.name()).is_none()).map(alone);
    known.chain(new).collect()
}

/// Key and value are matched by place: their names vary among writers.
fn widened_entries(first: &Field, second: &Field) -> Option<FieldRef> {
    let (DataType::Struct(own), DataType::Struct(other)) = (first.data_type(), second.data_type()) else { return None };
    let parts = own.iter().zip(other).map(|(own, other)| widened_field(own, other)).collect::<Option<Fields>>()?;
    Some(Arc::new(first.clone().with_data_type(DataType::Struct(parts))))
}

/// Signed if one of them is. An unsigned 64-bit integer beside a signed one is a signed one, because no integer type holds both.
fn integer(first: &DataType, second: &DataType) -> Option<DataType> {
    use DataType::{Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64};
    let bits = |data_type: &DataType| match data_type {
        Int8 => Some((true, 8)),
        Int16 => Some((true, 16)),
        Int32 => Some((true, 32)),
        Int64 => Some((true, 64)),
        UInt8 => Some((false, 8)),
        UInt16 => Some((false, 16)),
        UInt32 => Some((false, 32)),
        UInt64 => Some((false, 64)),
        _ => None,
    };
    let ((first_signed, first_bits), (second_signed, second_bits)) = (bits(first)?, bits(second)?);
    if !first_signed && !second_signed {
        return Some(if first_bits > second_bits { first.clone() } else { second.clone() });
    }
    let needed = |is_signed: bool, bits: u32| if is_signed { bits } else { bits + 1 };
    Some(match needed(first_signed, first_bits).max(needed(second_signed, second_bits)) {
        0..=8 => Int8,
        9..=16 => Int16,
        17..=32 => Int32,
        _ => Int64,
    })
}

/// Of uint64. All integers count as many, so that the order of the files does not matter.
const INTEGER_DIGITS: i16 = 20;

/// The digits before and after the point that both need. Decimals and floats have no common type: most decimal
/// fractions are not exact in binary.
fn decimal(first: &DataType, second: &DataType) -> Option<DataType> {
    use DataType::{Decimal32, Decimal64, Decimal128, Decimal256};
    let digits = |data_type: &DataType| match data_type {
        Decimal32(precision, scale) | Decimal64(precision, scale) | Decimal128(precision, scale) | Decimal256(precision, scale) => {
            Some((i16::from(*precision) - i16::from(*scale), i16::from(*scale)))
        }
        other if other.is_integer() => Some((INTEGER_DIGITS, 0)),
        _ => None,
    };
    if !first.is_decimal() && !second.is_decimal() {
        return None;
    }
    let ((whole, scale), (other_whole, other_scale)) = (digits(first)?, digits(second)?);
    let scale = scale.max(other_scale);
    let precision = u8::try_from(whole.max(other_whole) + scale).ok()?;
    let scale = i8::try_from(scale).ok()?;
    let is_wide = matches!((first, second), (Decimal256(..), _) | (_, Decimal256(..)));
    match precision {
        ..=DECIMAL128_MAX_PRECISION if !is_wide => Some(Decimal128(precision, scale)),
        ..=DECIMAL256_MAX_PRECISION => Some(Decimal256(precision, scale)),
        _ => None,
    }
}

/// Why an array cannot be converted.
#[derive(Debug)]
pub enum Misfit {
    /// The first row with a value that the type cannot hold, and the value.
    Value { row: usize, value: String },
    /// Arrow has no conversion between the types.
    Types(ArrowError),
}

impl From<ArrowError> for Misfit {
    fn from(error: ArrowError) -> Self {
        Self::Types(error)
    }
}

impl Misfit {
    /// As an error of Arrow, for a caller that does not count rows.
    #[must_use]
    pub fn into_arrow(self, from: &DataType, to: &DataType) -> ArrowError {
        match self {
            Self::Value { value, .. } => {
                ArrowError::CastError(format!("{value} of type {} cannot be converted exactly to {}", type_name(from), type_name(to)))
            }
            Self::Types(error) => error,
        }
    }
}

/// The same values as `to`.
///
/// # Errors
/// [`Misfit::Value`] for the first value that would change, as when it is rounded or out of range.
pub fn exactly(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, Misfit> {
    use DataType::{Dictionary, FixedSizeList, LargeList, List, Map, Struct};
    if array.data_type() == to {
        return Ok(Arc::clone(array));
    }
    match (array.data_type(), to) {
        (DataType::Null, to) => Ok(new_null_array(to, array.len())),
        (Struct(_), Struct(fields)) => Ok(Arc::new(fields_exactly(array.as_struct(), fields)?)),
        (List(_), List(item)) => list_exactly::<i32, i32>(array.as_list(), item),
        (List(_), LargeList(item)) => list_exactly::<i32, i64>(array.as_list(), item),
        (LargeList(_), List(item)) => list_exactly::<i64, i32>(array.as_list(), item),
        (LargeList(_), LargeList(item)) => list_exactly::<i64, i64>(array.as_list(), item),
        (FixedSizeList(_, size), FixedSizeList(item, wanted)) if size == wanted => {
            let list = array.as_fixed_size_list();
            let values = exactly(list.values(), item.data_type())
                .map_err(|misfit| of_item(misfit, |place| place / list.value_length().max(1).unsigned_abs() as usize))?;
            Ok(Arc::new(FixedSizeListArray::try_new_with_length(Arc::clone(item), *size, values, list.nulls().cloned(), list.len())?))
        }
        (FixedSizeList(item, _), List(_)) => exactly(&cast(array, &List(Arc::clone(item)))?, to),
        (FixedSizeList(item, _), LargeList(_)) => exactly(&cast(array, &LargeList(Arc::clone(item)))?, to),
        (Map(..), Map(entries, is_sorted)) => {
            let map = array.as_map();
            let Struct(fields) = entries.data_type() else {
                return Err(ArrowError::InvalidArgumentError(format!("{} has no entries", type_name(to))).into());
            };
            let row_of = |place| row_of(map.offsets(), place);
            let parts = map.entries().columns().iter().zip(fields).map(|(part, field)| exactly(part, field.data_type()));
            let parts = parts.collect::<Result<Vec<_>, _>>().map_err(|misfit| of_item(misfit, row_of))?;
            let entries_array = StructArray::try_new_with_length(fields.clone(), parts, map.entries().nulls().cloned(), map.entries().len())?;
            Ok(Arc::new(MapArray::try_new(Arc::clone(entries), map.offsets().clone(), entries_array, map.nulls().cloned(), *is_sorted)?))
        }
        (Dictionary(_, own), Dictionary(_, value)) if own == value => flat_exactly(array, to),
        (Dictionary(_, value), _) => exactly(&cast(array, value)?, to),
        (_, Dictionary(_, value)) => Ok(cast(&exactly(array, value)?, to)?),
        _ => flat_exactly(array, to),
    }
}

fn fields_exactly(array: &StructArray, fields: &Fields) -> Result<StructArray, Misfit> {
    let missing = array.fields().iter().find(|own| fields.find(own.name()).is_none());
    if let Some(own) = missing {
        return Err(ArrowError::CastError(format!(
            "a struct with the field `{}` cannot be {}",
            own.name(),
            type_name(&DataType::Struct(fields.clone()))
        ))
        .into());
    }
    let child = |field: &FieldRef| match array.column_by_name(field.name()) {
        Some(child) => exactly(child, field.data_type()),
        None => Ok(new_null_array(field.data_type(), array.len())),
    };
    let children = fields.iter().map(child).collect::<Result<Vec<_>, _>>()?;
    Ok(StructArray::try_new_with_length(fields.clone(), children, array.nulls().cloned(), array.len())?)
}

fn list_exactly<From: OffsetSizeTrait, To: OffsetSizeTrait>(list: &GenericListArray<From>, item: &FieldRef) -> Result<ArrayRef, Misfit> {
    let offsets = list.offsets();
    let values = exactly(list.values(), item.data_type()).map_err(|misfit| of_item(misfit, |place| row_of(offsets, place)))?;
    let converted: Option<Vec<To>> = offsets.iter().map(|offset| To::from_usize(offset.as_usize())).collect();
    let converted = converted.ok_or(ArrowError::OffsetOverflowError(list.values().len()))?;
    Ok(Arc::new(GenericListArray::<To>::try_new(Arc::clone(item), OffsetBuffer::new(converted.into()), values, list.nulls().cloned())?))
}

/// The row of an item: preceding empty rows start there as well.
fn row_of<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>, place: usize) -> usize {
    offsets.partition_point(|start| start.as_usize() <= place).saturating_sub(1)
}

fn of_item(misfit: Misfit, row_of: impl Fn(usize) -> usize) -> Misfit {
    match misfit {
        Misfit::Value { row, value } => Misfit::Value { row: row_of(row), value },
        types => types,
    }
}

fn flat_exactly(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, Misfit> {
    // Without the option `safe` Arrow would stop at the first overflow, but would not say in which row.
    let converted = cast(array, to)?;
    let (own, nulls) = (array.logical_nulls(), converted.logical_nulls());
    let is_lost = |row: &usize| nulls.as_ref().is_some_and(|nulls| nulls.is_null(*row)) && own.as_ref().is_none_or(|own| own.is_valid(*row));
    let has_lost = nulls.as_ref().map_or(0, NullBuffer::null_count) != own.as_ref().map_or(0, NullBuffer::null_count);
    let mut changed = if has_lost { (0..array.len()).find(is_lost) } else { None };
    if may_round(array.data_type(), to) {
        let differs = distinct(&cast(&converted, array.data_type())?, array)?;
        changed = differs.values().set_indices().next().into_iter().chain(changed).min();
    }
    match changed {
        Some(row) => Err(Misfit::Value { row, value: shown(array, row)? }),
        None => Ok(converted),
    }
}

/// A time that no calendar shows is a number.
fn shown(array: &ArrayRef, row: usize) -> Result<String, ArrowError> {
    let of = |array: &ArrayRef| ArrayFormatter::try_new(array, &FormatOptions::new())?.value(row).try_to_string();
    of(array).or_else(|_| of(&cast(array, &DataType::Int64)?))
}

/// Whether a cast may change a value instead of making it null.
fn may_round(from: &DataType, to: &DataType) -> bool {
    match (from, to) {
        _ if from.is_integer() && to.is_integer() => false,
        _ if from.is_floating() && to.is_floating() => from.primitive_width() > to.primitive_width(),
        _ if from.is_numeric() && to.is_numeric() => true,
        _ => from.is_temporal() && to.is_temporal(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use DataType::{
        Binary, Boolean, Date32, Date64, Decimal128, Duration, Float16, Float32, Float64, Int8, Int16, Int32, Int64, LargeBinary, LargeUtf8, Null,
        Time32, Time64, Timestamp, UInt8, UInt16, UInt32, UInt64, Utf8, Utf8View,
    };
    use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
    use arrow_array::{Int64Array, ListArray, TimestampSecondArray};
    use proptest::prelude::*;
    use proptest::sample::select;

    fn flat() -> impl Strategy<Value = DataType> {
        let numbers = vec![Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64, Float16, Float32, Float64, Decimal128(5, 2), Decimal128(9, 0)];
        let times = vec![Timestamp(Second, None), Timestamp(Nanosecond, None), Timestamp(Millisecond, Some("UTC".into())), Duration(Second)];
        let more = vec![Duration(Microsecond), Time32(Second), Time64(Nanosecond), Date32, Date64, Null, Boolean, Binary, LargeBinary];
        let texts = vec![Utf8, LargeUtf8, Utf8View, DataType::Dictionary(Box::new(Int32), Box::new(Utf8))];
        select([numbers, times, more, texts].concat())
    }

    fn any_type() -> impl Strategy<Value = DataType> {
        flat().prop_recursive(2, 8, 2, |inner| {
            let item = |data_type| Arc::new(Field::new_list_field(data_type, true));
            let list = prop_oneof![
                inner.clone().prop_map(move |inner| DataType::List(item(inner))),
                inner.clone().prop_map(move |inner| DataType::LargeList(item(inner))),
                inner.clone().prop_map(move |inner| DataType::FixedSizeList(item(inner), 2)),
            ];
            let fields = proptest::collection::btree_map("[ab]", inner, 1..3);
            prop_oneof![
                list,
                fields.prop_map(|fields| DataType::Struct(fields.into_iter().map(|(name, inner)| Field::new(name, inner, true)).collect()))
            ]
        })
    }

    /// With fields in order of their names: a data set has them in order of first appearance.
    fn sorted(data_type: DataType) -> DataType {
        let field = |field: &FieldRef| Arc::new(Field::clone(field).with_data_type(sorted(field.data_type().clone())));
        match data_type {
            DataType::List(item) => DataType::List(field(&item)),
            DataType::LargeList(item) => DataType::LargeList(field(&item)),
            DataType::FixedSizeList(item, size) => DataType::FixedSizeList(field(&item), size),
            DataType::Struct(fields) => {
                let mut fields: Vec<FieldRef> = fields.iter().map(field).collect();
                fields.sort_by(|first, second| first.name().cmp(second.name()));
                DataType::Struct(fields.into())
            }
            other => other,
        }
    }

    proptest! {
        #[test]
        fn order_of_files_does_not_matter(first in any_type(), second in any_type(), third in any_type()) {
            let of = |first: &DataType, second: &DataType| widened(first, second).map(sorted);
            prop_assert_eq!(of(&first, &second), of(&second, &first));
            if let (Some(left), Some(right)) = (of(&first, &second), of(&second, &third)) {
                prop_assert_eq!(of(&left, &third), of(&first, &right));
            }
        }

        #[test]
        fn values_come_back_or_are_named(values in proptest::collection::vec(proptest::option::of(any::<i64>()), 1..20)) {
            let array: ArrayRef = Arc::new(Int64Array::from(values.clone()));
            let is_exact = |value: &Option<i64>| value.is_none_or(|value| value.unsigned_abs().leading_zeros() + value.trailing_zeros() >= 11);
            match (exactly(&array, &Float64), values.iter().position(|value| !is_exact(value))) {
                (Ok(floats), None) => prop_assert_eq!(&cast(&floats, &Int64).unwrap(), &array),
                (Err(Misfit::Value { row, value }), Some(first)) => prop_assert_eq!((row, value), (first, values[first].unwrap().to_string())),
                (found, expected) => prop_assert!(false, "{found:?}, expected {expected:?}"),
            }
        }
    }

    #[test]
    fn row_of_a_list_is_named_after_empty_and_null_ones() {
        let lists = vec![Some(vec![Some(1)]), Some(vec![]), None, Some(vec![Some(2), Some(i64::MAX)])];
        let array: ArrayRef = Arc::new(ListArray::from_iter_primitive::<arrow_array::types::Int64Type, _, _>(lists));
        let misfit = exactly(&array, &DataType::new_list(Float64, true)).unwrap_err();
        assert!(matches!(misfit, Misfit::Value { row: 3, .. }), "{misfit:?}");
    }

    #[test]
    fn time_beyond_the_finer_unit_is_shown() {
        let array: ArrayRef = Arc::new(TimestampSecondArray::from(vec![0, i64::MAX]));
        let misfit = exactly(&array, &Timestamp(Nanosecond, None)).unwrap_err();
        assert!(matches!(&misfit, Misfit::Value { row: 1, value } if *value == i64::MAX.to_string()), "{misfit:?}");
    }
}
