//! Values that a decoder would change are decoded in a wider form, and converted here: the same
//! values, or an error.
//!
//! Decoders return times in 64 bits, in which times far from 1970 wrap around, become null or lose
//! a fraction. Parquet decodes INT96 and intervals as their twelve bytes. ORC decodes times as
//! decimals of seconds with nine digits after the point.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, ArrowTimestampType, Decimal128Type, IntervalDayTimeType,
    IntervalMonthDayNanoType, IntervalYearMonthType, TimestampMicrosecondType,
    TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
};
use arrow_array::{
    Array, ArrayRef, OffsetSizeTrait, PrimitiveArray, TimestampSecondArray, make_array,
};
use arrow_buffer::{IntervalDayTime, IntervalMonthDayNano, NullBuffer, OffsetBuffer};
use arrow_cast::display::array_value_to_string;
use arrow_schema::{
    ArrowError, DECIMAL128_MAX_PRECISION, DataType, Field, FieldRef, IntervalUnit, TimeUnit,
    UnionFields,
};
use std::sync::Arc;

/// The twelve bytes of an INT96, or of an interval of Parquet.
pub(crate) const TWELVE_BYTES: DataType = DataType::FixedSizeBinary(12);

/// Nanoseconds since 1970, as a decimal of seconds.
pub(crate) const NANOSECONDS: DataType = DataType::Decimal128(DECIMAL128_MAX_PRECISION, 9);

const JULIAN_DAY_OF_EPOCH: i128 = 2_440_588;
const DAY_NANOSECONDS: i128 = 86_400 * SECOND_NANOSECONDS;
const SECOND_NANOSECONDS: i128 = 1_000_000_000;
const MILLISECOND_NANOSECONDS: i64 = 1_000_000;

/// A value that its type cannot hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{data_type} cannot hold {value}")]
pub(crate) struct Misfit {
    /// Counted from the first row of the array.
    pub(crate) row: u64,
    pub(crate) value: String,
    pub(crate) data_type: DataType,
}

pub(crate) fn children(data_type: &DataType) -> Vec<&FieldRef> {
    match data_type {
        DataType::Struct(fields) => fields.iter().collect(),
        DataType::Union(fields, _) => fields.iter().map(|(_, field)| field).collect(),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => vec![item],
        _ => Vec::new(),
    }
}

pub(crate) fn with_children(data_type: &DataType, fields: Vec<FieldRef>) -> DataType {
    match (data_type, fields.as_slice()) {
        (DataType::Struct(_), _) => DataType::Struct(fields.into()),
        (DataType::Union(own, mode), _) if own.len() == fields.len() => DataType::Union(
            own.iter().map(|(id, _)| id).zip(fields).collect::<UnionFields>(),
            *mode,
        ),
        (DataType::List(_), [item]) => DataType::List(Arc::clone(item)),
        (DataType::LargeList(_), [item]) => DataType::LargeList(Arc::clone(item)),
        (DataType::FixedSizeList(_, size), [item]) => {
            DataType::FixedSizeList(Arc::clone(item), *size)
        }
        (DataType::Map(_, is_sorted), [item]) => DataType::Map(Arc::clone(item), *is_sorted),
        _ => data_type.clone(),
    }
}

/// Why a column cannot be converted.
#[derive(Debug)]
pub(crate) enum Failure {
    Value(Misfit),
    Arrow(ArrowError),
}

impl From<ArrowError> for Failure {
    fn from(error: ArrowError) -> Self {
        Self::Arrow(error)
    }
}

/// The same values as `to`, which differs only in types that are decoded in another form.
pub(crate) fn exactly(array: &ArrayRef, to: &DataType) -> Result<ArrayRef, Failure> {
    if array.data_type() == to {
        return Ok(Arc::clone(array));
    }
    if array.data_type() == &TWELVE_BYTES || array.data_type() == &NANOSECONDS {
        let found = match to {
            DataType::Timestamp(TimeUnit::Second, zone) => {
                times::<TimestampSecondType>(array, zone)
            }
            DataType::Timestamp(TimeUnit::Millisecond, zone) => {
                times::<TimestampMillisecondType>(array, zone)
            }
            DataType::Timestamp(TimeUnit::Microsecond, zone) => {
                times::<TimestampMicrosecondType>(array, zone)
            }
            DataType::Timestamp(TimeUnit::Nanosecond, zone) => {
                times::<TimestampNanosecondType>(array, zone)
            }
            DataType::Interval(IntervalUnit::YearMonth) => {
                intervals::<IntervalYearMonthType>(array, &year_month)
            }
            DataType::Interval(IntervalUnit::DayTime) => {
                intervals::<IntervalDayTimeType>(array, &day_time)
            }
            DataType::Interval(IntervalUnit::MonthDayNano) => {
                intervals::<IntervalMonthDayNanoType>(array, &month_day_nano)
            }
            _ => return Ok(Arc::clone(array)),
        };
        return found.map_err(|(row, value)| {
            Failure::Value(Misfit { row: row as u64, value, data_type: to.clone() })
        });
    }
    let (data, fields) = (array.to_data(), children(to));
    if fields.is_empty() || data.child_data().len() != fields.len() {
        return Ok(Arc::clone(array));
    }
    let in_row = |failure| match failure {
        Failure::Value(misfit) => {
            Failure::Value(Misfit { row: row_of(array, misfit.row), ..misfit })
        }
        other => other,
    };
    let parts = data.child_data().iter().zip(fields);
    let parts = parts
        .map(|(part, field)| exactly(&make_array(part.clone()), field.data_type()).map_err(in_row));
    let parts = parts.collect::<Result<Vec<_>, _>>()?;
    let fields = children(array.data_type()).into_iter().zip(&parts);
    let fields = fields.map(|(field, part)| {
        Arc::new(Field::clone(field).with_data_type(part.data_type().clone()))
    });
    let data_type = with_children(array.data_type(), fields.collect());
    let parts = parts.iter().map(Array::to_data).collect();
    Ok(make_array(data.into_builder().data_type(data_type).child_data(parts).build()?))
}

/// The row of an item. Empty rows before it begin there as well.
fn row_of(array: &ArrayRef, place: u64) -> u64 {
    fn within<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>, place: u64) -> u64 {
        offsets.partition_point(|start| start.as_usize() as u64 <= place).saturating_sub(1) as u64
    }
    match array.data_type() {
        DataType::List(_) => within(array.as_list::<i32>().offsets(), place),
        DataType::LargeList(_) => within(array.as_list::<i64>().offsets(), place),
        DataType::Map(..) => within(array.as_map().offsets(), place),
        DataType::FixedSizeList(_, size) => place / u64::from(size.unsigned_abs().max(1)),
        _ => place,
    }
}

type Found = Result<ArrayRef, (usize, String)>;

fn times<T: ArrowTimestampType>(array: &ArrayRef, zone: &Option<Arc<str>>) -> Found {
    let unit = match T::UNIT {
        TimeUnit::Second => SECOND_NANOSECONDS,
        TimeUnit::Millisecond => i128::from(MILLISECOND_NANOSECONDS),
        TimeUnit::Microsecond => 1000,
        TimeUnit::Nanosecond => 1,
    };
    let of = |nanoseconds: i128| {
        (nanoseconds % unit == 0).then(|| i64::try_from(nanoseconds / unit).ok()).flatten()
    };
    let nulls = array.logical_nulls();
    let times = match array.as_primitive_opt::<Decimal128Type>() {
        Some(decimals) => values::<T, _>(decimals.iter(), nulls, &of, &time_text)?,
        None => values::<T, _>(
            twelve_bytes(array).map(|value| value.map(nanoseconds)),
            nulls,
            &of,
            &time_text,
        )?,
    };
    Ok(Arc::new(times.with_timezone_opt(zone.clone())))
}

fn intervals<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    of: &dyn Fn([u32; 3]) -> Option<T::Native>,
) -> Found {
    Ok(Arc::new(values::<T, _>(twelve_bytes(array), array.logical_nulls(), of, &interval_text)?))
}

fn twelve_bytes(array: &ArrayRef) -> impl Iterator<Item = Option<[u32; 3]>> {
    let bytes = array.as_fixed_size_binary_opt();
    bytes.into_iter().flatten().map(|value| value.map(words))
}

/// The results of `of` for all values, or the first row for which there is none, with the text of
/// its value.
fn values<T: ArrowPrimitiveType, V: Copy>(
    all: impl Iterator<Item = Option<V>>,
    nulls: Option<NullBuffer>,
    of: &dyn Fn(V) -> Option<T::Native>,
    text: &dyn Fn(V) -> String,
) -> Result<PrimitiveArray<T>, (usize, String)> {
    let mut found = Vec::with_capacity(all.size_hint().0);
    for (row, value) in all.enumerate() {
        found.push(match value {
            None => T::Native::default(),
            Some(value) => of(value).ok_or_else(|| (row, text(value)))?,
        });
    }
    Ok(PrimitiveArray::new(found.into(), nulls))
}

fn words(value: &[u8]) -> [u32; 3] {
    let mut words = [0; 3];
    for (word, bytes) in words.iter_mut().zip(value.chunks_exact(4)) {
        *word = bytes.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
    }
    words
}

/// Since 1970. INT96 is the nanoseconds of a day, and the number of the day.
fn nanoseconds([low, high, day]: [u32; 3]) -> i128 {
    let of_day = (u64::from(high) << 32 | u64::from(low)).cast_signed();
    (i128::from(day.cast_signed()) - JULIAN_DAY_OF_EPOCH) * DAY_NANOSECONDS + i128::from(of_day)
}

fn time_text(all: i128) -> String {
    let (seconds, fraction) =
        (all.div_euclid(SECOND_NANOSECONDS), all.rem_euclid(SECOND_NANOSECONDS));
    let shown = i64::try_from(seconds).map(|seconds| TimestampSecondArray::from(vec![seconds]));
    match shown.map(|time| array_value_to_string(&time, 0)) {
        Ok(Ok(text)) if fraction == 0 => text,
        Ok(Ok(text)) => format!("{text}.{fraction:09}"),
        // A year that Arrow cannot print.
        _ => format!("{all} nanoseconds after 1970"),
    }
}

/// Arrow writers store signed numbers, although the specification says unsigned.
fn year_month([months, days, milliseconds]: [u32; 3]) -> Option<i32> {
    (days == 0 && milliseconds == 0).then_some(months.cast_signed())
}

fn day_time([months, days, milliseconds]: [u32; 3]) -> Option<IntervalDayTime> {
    (months == 0).then_some(IntervalDayTime::new(days.cast_signed(), milliseconds.cast_signed()))
}

fn month_day_nano([months, days, milliseconds]: [u32; 3]) -> Option<IntervalMonthDayNano> {
    let nanoseconds = i64::from(milliseconds) * MILLISECOND_NANOSECONDS;
    Some(IntervalMonthDayNano::new(
        i32::try_from(months).ok()?,
        i32::try_from(days).ok()?,
        nanoseconds,
    ))
}

fn interval_text([months, days, milliseconds]: [u32; 3]) -> String {
    format!("{months} months, {days} days and {milliseconds} milliseconds")
}
