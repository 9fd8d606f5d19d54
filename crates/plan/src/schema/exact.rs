//! The exact conversion of values to the type that their column has in all files.
//!
//! The invariant: [`exactly`] returns the same values in another type, or the first row that this
//! type cannot hold.

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, GenericListArray, MapArray, OffsetSizeTrait, StructArray,
    new_null_array,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_cast::{can_cast_types, cast};
use arrow_ord::cmp::distinct;
use arrow_schema::{ArrowError, DataType, FieldRef, Fields, TimeUnit};
use shardmill_formats::records::parsed;
use shardmill_formats::table::type_name;
use std::sync::Arc;

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
    fn without_conversion(from: &DataType, to: &DataType) -> Self {
        let (from, to) = (type_name(from), type_name(to));
        Self::Types(ArrowError::CastError(format!("{from} cannot be converted to {to}")))
    }

    /// As an error of Arrow, for a caller that does not count rows.
    #[must_use]
    pub fn into_arrow(self, from: &DataType, to: &DataType) -> ArrowError {
        match self {
            Self::Value { value, .. } => ArrowError::CastError(format!(
                "{value} of type {} cannot be converted exactly to {}",
                type_name(from),
                type_name(to)
            )),
            Self::Types(error) => error,
        }
    }
}

/// The same values as `to`.
///
/// # Errors
/// [`Misfit::Value`] for the first value that would change, as when it is rounded or out of range.
pub fn exactly(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, Misfit> {
    use DataType::{
        Binary, BinaryView, Dictionary, FixedSizeBinary, FixedSizeList, LargeList, LargeUtf8, List,
        ListView, Map, Struct, Timestamp, Utf8, Utf8View,
    };
    if array.data_type() == to {
        return Ok(Arc::clone(array));
    }
    // Files that have only nulls in a column may have any type.
    if array.logical_null_count() == array.len() {
        return Ok(new_null_array(to, array.len()));
    }
    match (array.data_type(), to) {
        (Struct(_), Struct(fields)) => Ok(Arc::new(fields_exactly(array.as_struct(), fields)?)),
        (List(_), List(item)) => list_exactly::<i32, i32>(array.as_list(), item),
        (List(_), LargeList(item)) => list_exactly::<i32, i64>(array.as_list(), item),
        (LargeList(_), List(item)) => list_exactly::<i64, i32>(array.as_list(), item),
        (LargeList(_), LargeList(item)) => list_exactly::<i64, i64>(array.as_list(), item),
        (FixedSizeList(_, size), FixedSizeList(item, wanted)) if size == wanted => {
            let list = array.as_fixed_size_list();
            let values = exactly(list.values(), item.data_type()).map_err(|misfit| {
                of_item(misfit, |place| place / list.value_length().max(1).unsigned_abs() as usize)
            })?;
            Ok(Arc::new(FixedSizeListArray::try_new_with_length(
                Arc::clone(item),
                *size,
                values,
                list.nulls().cloned(),
                list.len(),
            )?))
        }
        (FixedSizeList(item, _), List(_)) => exactly(&cast(array, &List(Arc::clone(item)))?, to),
        (FixedSizeList(item, _), LargeList(_)) => {
            exactly(&cast(array, &LargeList(Arc::clone(item)))?, to)
        }
        (List(item) | LargeList(item), FixedSizeList(_, size)) => {
            exactly(&flat_exactly(array, &FixedSizeList(Arc::clone(item), *size))?, to)
        }
        (ListView(item), _) => exactly(&cast(array, &List(Arc::clone(item)))?, to),
        (_, ListView(item)) => Ok(cast(&exactly(array, &List(Arc::clone(item)))?, to)?),
        (Map(..), Map(entries, is_sorted)) => {
            let map = array.as_map();
            let Struct(fields) = entries.data_type() else {
                return Err(ArrowError::InvalidArgumentError(format!(
                    "{} has no entries",
                    type_name(to)
                ))
                .into());
            };
            let row_of = |place| row_of(map.offsets(), place);
            let parts = map
                .entries()
                .columns()
                .iter()
                .zip(fields)
                .map(|(part, field)| exactly(part, field.data_type()));
            let parts =
                parts.collect::<Result<Vec<_>, _>>().map_err(|misfit| of_item(misfit, row_of))?;
            let entries_array = StructArray::try_new_with_length(
                fields.clone(),
                parts,
                map.entries().nulls().cloned(),
                map.entries().len(),
            )?;
            Ok(Arc::new(MapArray::try_new(
                Arc::clone(entries),
                map.offsets().clone(),
                entries_array,
                map.nulls().cloned(),
                *is_sorted,
            )?))
        }
        (Dictionary(_, own), Dictionary(_, value)) if own == value => flat_exactly(array, to),
        (Dictionary(_, value), _) => exactly(&cast(array, value)?, to),
        (_, Dictionary(_, value)) => Ok(cast(&exactly(array, value)?, to)?),
        (Utf8 | LargeUtf8 | Utf8View, _) if !to.is_nested() => texts_exactly(array, to),
        (BinaryView, FixedSizeBinary(_)) => exactly(&cast(array, &Binary)?, to),
        (Timestamp(_, own), Timestamp(_, zone)) if own.is_some() != zone.is_some() => {
            Err(Misfit::without_conversion(array.data_type(), to))
        }
        // Arrow would make lists of one item, without a check of the item, and join items to texts.
        (own, to) if own.is_nested() != to.is_nested() => Err(Misfit::without_conversion(own, to)),
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
    Ok(StructArray::try_new_with_length(
        fields.clone(),
        children,
        array.nulls().cloned(),
        array.len(),
    )?)
}

fn list_exactly<From: OffsetSizeTrait, To: OffsetSizeTrait>(
    list: &GenericListArray<From>,
    item: &FieldRef,
) -> Result<ArrayRef, Misfit> {
    let offsets = list.offsets();
    let values = exactly(list.values(), item.data_type())
        .map_err(|misfit| of_item(misfit, |place| row_of(offsets, place)))?;
    let converted: Option<Vec<To>> =
        offsets.iter().map(|offset| To::from_usize(offset.as_usize())).collect();
    let converted = converted.ok_or(ArrowError::OffsetOverflowError(list.values().len()))?;
    Ok(Arc::new(GenericListArray::<To>::try_new(
        Arc::clone(item),
        OffsetBuffer::new(converted.into()),
        values,
        list.nulls().cloned(),
    )?))
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

/// Values of numbers, decimals and times are parsed as those of text files: Arrow would round them.
fn texts_exactly(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, Misfit> {
    let texts = cast(array, &DataType::LargeUtf8)?;
    let texts = texts.as_string::<i64>();
    let misfit = |row| Misfit::Value { row, value: texts.value(row).to_owned() };
    parsed(texts.iter(), to, misfit).unwrap_or_else(|| flat_exactly(array, to))
}

fn flat_exactly(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, Misfit> {
    // Without the option `safe` Arrow would stop at the first overflow,
    // but would not say in which row.
    let converted = cast(array, to)?;
    let (own, nulls) = (array.logical_nulls(), converted.logical_nulls());
    let is_lost = |row: &usize| {
        nulls.as_ref().is_some_and(|nulls| nulls.is_null(*row))
            && own.as_ref().is_none_or(|own| own.is_valid(*row))
    };
    let has_lost = nulls.as_ref().map_or(0, NullBuffer::null_count)
        != own.as_ref().map_or(0, NullBuffer::null_count);
    let mut changed = if has_lost { (0..array.len()).find(is_lost) } else { None };
    if array.data_type().is_integer() && matches!(to, DataType::Time32(_) | DataType::Time64(_)) {
        changed = first_beyond_a_day(&converted)?.into_iter().chain(changed).min();
    }
    if may_round(array.data_type(), to) {
        let differs = distinct(&cast(&converted, array.data_type())?, array)?;
        changed = differs.values().set_indices().next().into_iter().chain(changed).min();
    }
    match changed {
        Some(row) => Err(Misfit::Value { row, value: shown(array, row)? }),
        None => Ok(converted),
    }
}

/// The first row of times of day that is not between midnight and midnight.
fn first_beyond_a_day(times: &ArrayRef) -> Result<Option<usize>, ArrowError> {
    let ticks = match times.data_type() {
        DataType::Time32(TimeUnit::Second) => 86_400,
        DataType::Time32(_) => 86_400_000,
        DataType::Time64(TimeUnit::Microsecond) => 86_400_000_000,
        _ => 86_400_000_000_000_i64,
    };
    let numbers = cast(times, &DataType::Int64)?;
    let mut numbers = numbers.as_primitive::<Int64Type>().iter();
    Ok(numbers.position(|number| number.is_some_and(|number| !(0..ticks).contains(&number))))
}

/// A time that no calendar shows is a number.
fn shown(array: &ArrayRef, row: usize) -> Result<String, ArrowError> {
    let of = |array: &ArrayRef| {
        ArrayFormatter::try_new(array, &FormatOptions::new())?.value(row).try_to_string()
    };
    of(array).or_else(|_| of(&cast(array, &DataType::Int64)?))
}

/// Whether a cast may change a value instead of making it null.
fn may_round(from: &DataType, to: &DataType) -> bool {
    let is_text = |data_type: &DataType| data_type.is_string() || data_type.is_binary();
    match (from, to) {
        (DataType::Dictionary(..), DataType::Dictionary(..)) => false,
        _ if from.is_integer() && to.is_integer() => false,
        _ if from.is_floating() && to.is_floating() => {
            from.primitive_width() > to.primitive_width()
        }
        // A text that is not a value of the other type becomes null.
        _ if is_text(from) || is_text(to) => false,
        _ if from.is_nested() || to.is_nested() => false,
        // Only a user declares some of them, such as a boolean for numbers.
        _ => can_cast_types(to, from),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use DataType::{Float64, Int64, Timestamp};
    use arrow_array::{BinaryViewArray, Int64Array, ListArray, StringArray, TimestampSecondArray};
    use arrow_schema::TimeUnit::{Microsecond, Nanosecond, Second};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn values_come_back_or_are_named(
            values in proptest::collection::vec(proptest::option::of(any::<i64>()), 1..20),
        ) {
            let array: ArrayRef = Arc::new(Int64Array::from(values.clone()));
            let is_exact = |value: &Option<i64>| {
                value.is_none_or(|value| {
                    value.unsigned_abs().leading_zeros() + value.trailing_zeros() >= 11
                })
            };
            match (exactly(&array, &Float64), values.iter().position(|value| !is_exact(value))) {
                (Ok(floats), None) => prop_assert_eq!(&cast(&floats, &Int64).unwrap(), &array),
                (Err(Misfit::Value { row, value }), Some(first)) => {
                    prop_assert_eq!((row, value), (first, values[first].unwrap().to_string()));
                }
                (found, expected) => prop_assert!(false, "{found:?}, expected {expected:?}"),
            }
        }
    }

    #[test]
    fn row_of_a_list_is_named_after_empty_and_null_ones() {
        let lists =
            vec![Some(vec![Some(1)]), Some(vec![]), None, Some(vec![Some(2), Some(i64::MAX)])];
        let array: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists));
        let misfit = exactly(&array, &DataType::new_list(Float64, true)).unwrap_err();
        assert!(matches!(misfit, Misfit::Value { row: 3, .. }), "{misfit:?}");
    }

    #[test]
    fn declared_type_takes_only_values_that_it_can_hold() {
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None, Some(7)]));
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("1"), None, Some("x")]));
        assert_eq!(exactly(&numbers, &DataType::Utf8).unwrap().as_string::<i32>().value(2), "7");
        for (array, to) in [(&numbers, DataType::Boolean), (&texts, Int64)] {
            let misfit = exactly(array, &to).unwrap_err();
            assert!(matches!(misfit, Misfit::Value { row: 2, .. }), "{misfit:?}");
        }
    }

    #[test]
    fn text_that_the_declared_type_would_round_is_named() {
        let micro = |zone: Option<&str>| Timestamp(Microsecond, zone.map(Into::into));
        for (text, to, is_exact) in [
            ("1.5", DataType::Decimal128(5, 1), true),
            ("1.55", DataType::Decimal128(5, 1), false),
            ("1.50", DataType::Decimal256(40, 1), true),
            ("15.5e-1", DataType::Decimal256(40, 1), false),
            ("1.55", DataType::Decimal32(5, 1), false),
            ("1.55", DataType::Decimal64(5, 2), true),
            ("1.55", DataType::Decimal256(40, 1), false),
            ("2020-01-01", DataType::Date32, true),
            ("2020-01-01T05:00:00", DataType::Date32, false),
            ("12:00:00", DataType::Time32(Second), true),
            ("12:00:00.5", DataType::Time32(Second), false),
            ("2020-01-01 10:00:00.123456", micro(None), true),
            ("2020-01-01 10:00:00.1234567", micro(None), false),
            ("2020-01-01T10:00:00+01:00", micro(None), false),
            ("2020-01-01T10:00:00+01:00", micro(Some("UTC")), true),
            ("9007199254740992", Float64, true),
            ("9007199254740993", Float64, false),
            ("0.1", Float64, true),
        ] {
            let array: ArrayRef = Arc::new(StringArray::from(vec![None, Some(text)]));
            match exactly(&array, &to) {
                Ok(values) => assert!(is_exact && values.data_type() == &to, "{text} {values:?}"),
                Err(Misfit::Value { row, value }) => {
                    assert_eq!((is_exact, row, value.as_str()), (false, 1, text), "{to}");
                }
                Err(other) => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn lists_of_the_declared_length_become_lists_of_fixed_size() {
        let lists = |second: Vec<Option<i64>>| -> ArrayRef {
            let lists = vec![Some(vec![Some(1), None]), None, Some(second)];
            Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists))
        };
        let fixed = DataType::new_fixed_size_list(Float64, 2, true);
        let found = exactly(&lists(vec![Some(3), Some(4)]), &fixed).unwrap();
        assert_eq!((found.data_type(), found.null_count()), (&fixed, 1));
        let misfit = exactly(&lists(vec![Some(3)]), &fixed).unwrap_err();
        assert!(matches!(misfit, Misfit::Value { row: 2, .. }), "{misfit:?}");
    }

    #[test]
    fn binaries_of_the_declared_length_become_binaries_of_fixed_size() {
        let wide: ArrayRef = Arc::new(BinaryViewArray::from(vec![Some(b"ab".as_slice()), None]));
        let found = exactly(&wide, &DataType::FixedSizeBinary(2)).unwrap();
        assert_eq!((found.data_type(), found.null_count()), (&DataType::FixedSizeBinary(2), 1));
        let misfit = exactly(&wide, &DataType::FixedSizeBinary(3)).unwrap_err();
        assert!(matches!(misfit, Misfit::Value { row: 0, .. }), "{misfit:?}");
    }

    #[test]
    fn time_with_a_zone_is_never_one_without() {
        let array: ArrayRef = Arc::new(TimestampSecondArray::from(vec![0]));
        for zone in ["UTC", "Europe/London"] {
            let misfit = exactly(&array, &Timestamp(Second, Some(zone.into()))).unwrap_err();
            assert!(matches!(misfit, Misfit::Types(_)), "{misfit:?}");
        }
    }

    #[test]
    fn time_beyond_the_finer_unit_is_shown() {
        let array: ArrayRef = Arc::new(TimestampSecondArray::from(vec![0, i64::MAX]));
        let misfit = exactly(&array, &Timestamp(Nanosecond, None)).unwrap_err();
        assert!(
            matches!(&misfit, Misfit::Value { row: 1, value } if *value == i64::MAX.to_string()),
            "{misfit:?}"
        );
    }
}
