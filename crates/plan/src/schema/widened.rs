//! The type of a column whose files disagree.
//!
//! The invariant: [`widened`] looks at types alone and does not depend on the order of the files.

use arrow_schema::extension::{EXTENSION_TYPE_METADATA_KEY, EXTENSION_TYPE_NAME_KEY};
use arrow_schema::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Field, FieldRef, Fields, TimeUnit,
};
use std::collections::HashMap;
use std::sync::Arc;

/// The type of the values of a dictionary, or the type itself.
#[must_use]
pub fn value_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, value) => value,
        other => other,
    }
}

/// The type for the values of two types, if there is one. Whether each value fits
/// is decided by [`exactly`](super::exactly).
#[must_use]
pub fn widened(first: &DataType, second: &DataType) -> Option<DataType> {
    use DataType::{
        Binary, BinaryView, Date32, Date64, Dictionary, Duration, FixedSizeList, Float16, Float32,
        Float64, LargeBinary, LargeList, LargeUtf8, List, Map, Null, Struct, Time32, Time64,
        Timestamp, Utf8, Utf8View,
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
        (Float16 | Float32 | Float64, other) | (other, Float16 | Float32 | Float64)
            if other.is_integer() =>
        {
            Float64
        }
        (Timestamp(unit, zone), Timestamp(other, other_zone)) if zone == other_zone => {
            Timestamp(*unit.max(other), zone.clone())
        }
        (Duration(unit), Duration(other)) => Duration(*unit.max(other)),
        (Time32(unit) | Time64(unit), Time32(other) | Time64(other)) => match unit.max(other) {
            unit @ (TimeUnit::Second | TimeUnit::Millisecond) => Time32(*unit),
            unit => Time64(*unit),
        },
        (Date32, Date64) | (Date64, Date32) => Date64,
        (List(item), List(other)) => List(widened_field(item, other)?),
        (List(item) | LargeList(item), List(other) | LargeList(other)) => {
            LargeList(widened_field(item, other)?)
        }
        (FixedSizeList(item, size), FixedSizeList(other, other_size)) if size == other_size => {
            FixedSizeList(widened_field(item, other)?, *size)
        }
        (FixedSizeList(item, _) | List(item), FixedSizeList(other, _) | List(other)) => {
            List(widened_field(item, other)?)
        }
        (FixedSizeList(item, _) | LargeList(item), FixedSizeList(other, _) | LargeList(other)) => {
            LargeList(widened_field(item, other)?)
        }
        (Struct(fields), Struct(others)) => Struct(widened_fields(fields, others)?),
        (Map(entries, is_sorted), Map(others, other_is_sorted)) => {
            Map(widened_entries(entries, others)?, *is_sorted && *other_is_sorted)
        }
        _ => decimal(first, second).or_else(|| integer(first, second))?,
    })
}

/// The name is that of `first`.
pub(super) fn widened_field(first: &Field, second: &Field) -> Option<FieldRef> {
    let data_type = widened(first.data_type(), second.data_type())?;
    Some(Arc::new(
        first
            .clone()
            .with_metadata(common_metadata(first, second))
            .with_data_type(data_type)
            .with_nullable(first.is_nullable() || second.is_nullable()),
    ))
}

/// What both fields state of their values, such as an extension type. A column of type null has no
/// values.
pub(super) fn common_metadata(first: &Field, second: &Field) -> HashMap<String, String> {
    match (first.data_type(), second.data_type()) {
        (DataType::Null, _) => return second.metadata().clone(),
        (_, DataType::Null) => return first.metadata().clone(),
        _ => {}
    }
    // The parameters of an extension type mean nothing without its name, and the other way round.
    let extension_keys = [EXTENSION_TYPE_NAME_KEY, EXTENSION_TYPE_METADATA_KEY];
    let is_same = |key: &str| first.metadata().get(key) == second.metadata().get(key);
    let has_one_extension = extension_keys.iter().all(|key| is_same(key));
    let is_kept = |key: &str| is_same(key) && (has_one_extension || !extension_keys.contains(&key));
    let mut kept = first.metadata().clone();
    kept.retain(|key, _value| is_kept(key));
    kept
}

/// Fields are matched by name, and null where they are missing.
fn widened_fields(first: &Fields, second: &Fields) -> Option<Fields> {
    // A name that occurs twice cannot be matched.
    let is_twice = |fields: &Fields, name: &str| {
        fields.iter().filter(|field| field.name() == name).count() > 1
    };
    if first
        .iter()
        .chain(second)
        .any(|field| is_twice(first, field.name()) || is_twice(second, field.name()))
    {
        return None;
    }
    let alone = |field: &FieldRef| Some(Arc::new(Field::clone(field).with_nullable(true)));
    let known = first.iter().map(|field| {
        second
            .find(field.name())
            .map_or_else(|| alone(field), |(_, other)| widened_field(field, other))
    });
    let new = second.iter().filter(|field| first.find(field.name()).is_none()).map(alone);
    known.chain(new).collect()
}

/// Key and value are matched by place: their names vary among writers.
fn widened_entries(first: &Field, second: &Field) -> Option<FieldRef> {
    let (DataType::Struct(own), DataType::Struct(other)) = (first.data_type(), second.data_type())
    else {
        return None;
    };
    let parts = own
        .iter()
        .zip(other)
        .map(|(own, other)| widened_field(own, other))
        .collect::<Option<Fields>>()?;
    Some(Arc::new(first.clone().with_data_type(DataType::Struct(parts))))
}

/// Signed if one of them is. An unsigned 64-bit integer beside a signed one is a signed one,
/// because no integer type holds both.
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

/// The digits before and after the point that both need. Decimals and floats have no common type:
/// most decimal fractions are not exact in binary.
fn decimal(first: &DataType, second: &DataType) -> Option<DataType> {
    use DataType::{Decimal32, Decimal64, Decimal128, Decimal256};
    let digits = |data_type: &DataType| match data_type {
        Decimal32(precision, scale)
        | Decimal64(precision, scale)
        | Decimal128(precision, scale)
        | Decimal256(precision, scale) => {
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

#[cfg(test)]
mod tests {
    use super::*;
    use DataType::{
        Binary, Boolean, Date32, Date64, Decimal128, Duration, Float16, Float32, Float64, Int8,
        Int16, Int32, Int64, LargeBinary, LargeUtf8, Null, Time32, Time64, Timestamp, UInt8,
        UInt16, UInt32, UInt64, Utf8, Utf8View,
    };
    use TimeUnit::{Microsecond, Millisecond, Nanosecond, Second};
    use proptest::prelude::*;
    use proptest::sample::select;

    fn flat() -> impl Strategy<Value = DataType> {
        let numbers = vec![
            Int8,
            Int16,
            Int32,
            Int64,
            UInt8,
            UInt16,
            UInt32,
            UInt64,
            Float16,
            Float32,
            Float64,
            Decimal128(5, 2),
            Decimal128(9, 0),
        ];
        let times = vec![
            Timestamp(Second, None),
            Timestamp(Nanosecond, None),
            Timestamp(Millisecond, Some("UTC".into())),
            Duration(Second),
        ];
        let more = vec![
            Duration(Microsecond),
            Time32(Second),
            Time64(Nanosecond),
            Date32,
            Date64,
            Null,
            Boolean,
            Binary,
            LargeBinary,
        ];
        let texts =
            vec![Utf8, LargeUtf8, Utf8View, DataType::Dictionary(Box::new(Int32), Box::new(Utf8))];
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
                fields.prop_map(|fields| DataType::Struct(
                    fields.into_iter().map(|(name, inner)| Field::new(name, inner, true)).collect()
                ))
            ]
        })
    }

    /// With fields in order of their names: a data set has them in order of first appearance.
    fn sorted(data_type: DataType) -> DataType {
        let field = |field: &FieldRef| {
            Arc::new(Field::clone(field).with_data_type(sorted(field.data_type().clone())))
        };
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
        fn order_of_files_does_not_matter(
            first in any_type(),
            second in any_type(),
            third in any_type(),
        ) {
            let of = |first: &DataType, second: &DataType| widened(first, second).map(sorted);
            prop_assert_eq!(of(&first, &second), of(&second, &first));
            if let (Some(left), Some(right)) = (of(&first, &second), of(&second, &third)) {
                prop_assert_eq!(of(&left, &third), of(&first, &right));
            }
        }
    }
}
