//! The types as which columns are stored: neither the encoder nor all readers support every layout
//! of Arrow.

use super::Error;
use crate::table::type_name;
use arrow_array::{Array, ArrayRef, Date64Array, make_array};
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::{
    ArrowError, DataType, Field, FieldRef, Fields, IntervalUnit, Schema, SchemaRef, TimeUnit,
};
use std::sync::Arc;

const DAY_MILLISECONDS: i64 = 24 * 60 * 60 * 1000;

/// The schema with the stored type of each column.
///
/// # Errors
/// [`Error::UnsupportedType`].
pub(super) fn stored_schema(schema: SchemaRef) -> Result<SchemaRef, Error> {
    let unsupported = |field: &Field| Error::UnsupportedType {
        column: field.name().clone(),
        data_type: type_name(field.data_type()),
    };
    let fields = schema
        .fields()
        .iter()
        .map(|field| stored_field(field).ok_or_else(|| unsupported(field)))
        .collect::<Result<Fields, _>>()?;
    Ok(match fields == *schema.fields() {
        true => schema,
        false => Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone())),
    })
}

fn stored_field(field: &FieldRef) -> Option<FieldRef> {
    let stored = stored(field.data_type())?;
    Some(if stored == *field.data_type() {
        Arc::clone(field)
    } else {
        Arc::new(Field::clone(field).with_data_type(stored))
    })
}

/// `None` if Parquet has no such type.
fn stored(data_type: &DataType) -> Option<DataType> {
    Some(match data_type {
        DataType::Union(..) | DataType::Interval(IntervalUnit::MonthDayNano) => return None,
        DataType::Struct(fields) if fields.is_empty() => return None,
        DataType::Struct(fields) => {
            DataType::Struct(fields.iter().map(stored_field).collect::<Option<Fields>>()?)
        }
        // Views of lists can be written, but most readers do not know the type.
        DataType::List(item) | DataType::ListView(item) => DataType::List(stored_field(item)?),
        DataType::LargeList(item) | DataType::LargeListView(item) => {
            DataType::LargeList(stored_field(item)?)
        }
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(stored_field(item)?, *size),
        DataType::Map(entries, is_sorted) => DataType::Map(stored_field(entries)?, *is_sorted),
        DataType::Dictionary(keys, values) => match stored(values)? {
            DataType::Utf8View => DataType::Dictionary(keys.clone(), Box::new(DataType::Utf8)),
            DataType::BinaryView => DataType::Dictionary(keys.clone(), Box::new(DataType::Binary)),
            values if has_dictionaries(&values) => {
                DataType::Dictionary(keys.clone(), Box::new(values))
            }
            values => values,
        },
        // Parquet has no such units: the column would be integers to every reader that does not
        // know the schema of Arrow.
        DataType::Timestamp(TimeUnit::Second, zone) => {
            DataType::Timestamp(TimeUnit::Millisecond, zone.clone())
        }
        DataType::Time32(TimeUnit::Second) => DataType::Time32(TimeUnit::Millisecond),
        DataType::Date64 => DataType::Date32,
        DataType::RunEndEncoded(_, values) => match stored(values.data_type())? {
            plain if plain == *values.data_type() => data_type.clone(),
            plain => plain,
        },
        other => other.clone(),
    })
}

/// Whether dictionaries of such values can be written, and read by the common readers.
fn has_dictionaries(values: &DataType) -> bool {
    use DataType::{Binary, Float32, Float64, LargeBinary, LargeUtf8, Utf8};
    matches!(values, Utf8 | LargeUtf8 | Binary | LargeBinary | Float32 | Float64)
        || values.is_integer()
}

/// The column as a file has it; unchanged if Parquet has no such type.
///
/// # Errors
/// When a value has no equal in the stored type.
pub fn as_stored(column: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    stored(column.data_type())
        .map_or_else(|| Ok(Arc::clone(column)), |stored| stored_array(column, &stored))
}

/// The same values in their stored type.
///
/// # Errors
/// When a value has no equal there.
pub(super) fn stored_array(array: &ArrayRef, stored: &DataType) -> Result<ArrayRef, ArrowError> {
    if array.data_type().equals_datatype(stored) {
        return Ok(ArrayRef::clone(array));
    }
    check_dates(array)?;
    cast_with_options(array, stored, &CastOptions { safe: false, ..CastOptions::default() })
}

/// Refuses a date with a time of day, which the cast would drop.
fn check_dates(array: &dyn Array) -> Result<(), ArrowError> {
    if let Some(dates) = array.as_any().downcast_ref::<Date64Array>() {
        return match dates.iter().flatten().find(|date| date % DAY_MILLISECONDS != 0) {
            Some(date) => Err(ArrowError::CastError(format!("the date64 {date} is not midnight"))),
            None => Ok(()),
        };
    }
    array
        .to_data()
        .child_data()
        .iter()
        .try_for_each(|child| check_dates(&make_array(child.clone())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use DataType::{Date32, Date64, Int32, Utf8};
    use arrow_array::types::{Date64Type, Int32Type};
    use arrow_array::{
        DictionaryArray, Int32Array, ListArray, RunArray, StringArray, StructArray,
        Time32SecondArray, TimestampSecondArray,
    };
    use arrow_cast::cast;
    use arrow_schema::TimeUnit::{Millisecond, Second};
    use proptest::prelude::*;

    fn milliseconds(zone: Option<&str>) -> DataType {
        DataType::Timestamp(Millisecond, zone.map(Into::into))
    }

    #[test]
    fn seconds_and_date64_are_stored_in_units_of_parquet_at_any_depth() {
        let seconds = |zone: Option<&str>| DataType::Timestamp(Second, zone.map(Into::into));
        let list = |item: DataType| DataType::new_list(item, true);
        let of_struct =
            |field: DataType| DataType::Struct(vec![Field::new("a", field, true)].into());
        let map = |value: DataType| {
            let entries = DataType::Struct(
                vec![Field::new("keys", Utf8, false), Field::new("values", value, true)].into(),
            );
            DataType::Map(Arc::new(Field::new("entries", entries, false)), false)
        };
        let dictionary = |values: DataType| DataType::Dictionary(Box::new(Int32), Box::new(values));
        for (given, expected) in [
            (seconds(None), milliseconds(None)),
            (seconds(Some("Europe/Berlin")), milliseconds(Some("Europe/Berlin"))),
            (DataType::Time32(Second), DataType::Time32(Millisecond)),
            (of_struct(list(Date64)), of_struct(list(Date32))),
            (map(seconds(None)), map(milliseconds(None))),
            (dictionary(Date64), Date32),
            (DataType::Duration(Second), DataType::Duration(Second)),
        ] {
            assert_eq!(stored(&given), Some(expected), "{given}");
        }
    }

    proptest! {
        #[test]
        fn stored_values_are_the_given_ones_or_an_error(
            values in proptest::collection::vec(
                proptest::option::of(-1_000_000_000..1_000_000_000_i64),
                1..20,
            ),
            is_days: bool,
        ) {
            let values: Vec<_> = values
                .into_iter()
                .map(|value| {
                    value.map(
                        |value| if is_days { value / 10_000 * DAY_MILLISECONDS } else { value },
                    )
                })
                .collect();
            let dates: ArrayRef = Arc::new(Date64Array::from(values.clone()));
            let is_whole = values.iter().flatten().all(|value| value % DAY_MILLISECONDS == 0);
            match stored_array(&dates, &Date32) {
                Ok(days) => {
                    prop_assert!(is_whole);
                    prop_assert_eq!(&cast(&days, &Date64).unwrap(), &dates);
                }
                Err(_) => prop_assert!(!is_whole),
            }
            let times: ArrayRef = Arc::new(TimestampSecondArray::from(values));
            let finer = stored_array(&times, &milliseconds(None)).unwrap();
            prop_assert_eq!(&cast(&finer, times.data_type()).unwrap(), &times);
        }
    }

    #[test]
    fn value_without_an_equal_is_an_error() {
        let refused: [(ArrayRef, DataType); 3] = [
            (Arc::new(TimestampSecondArray::from(vec![i64::MAX / 999])), milliseconds(None)),
            (
                Arc::new(Time32SecondArray::from(vec![i32::MAX / 999])),
                DataType::Time32(Millisecond),
            ),
            (Arc::new(Date64Array::from(vec![1])), Date32),
        ];
        for (array, stored) in refused {
            assert!(stored_array(&array, &stored).is_err(), "{stored}");
        }
    }

    #[test]
    fn nested_values_are_converted() {
        let check = |array: ArrayRef| {
            let to = stored(array.data_type()).unwrap();
            let converted = stored_array(&array, &to).unwrap();
            assert_eq!(converted.data_type(), &to);
            converted
        };
        let dates = || Arc::new(Date64Array::from(vec![Some(DAY_MILLISECONDS), None]));
        let list = ListArray::from_iter_primitive::<Date64Type, _, _>([
            Some(vec![Some(0), None]),
            None,
            Some(vec![Some(-DAY_MILLISECONDS)]),
        ]);
        check(Arc::new(list.slice(1, 2)));
        check(Arc::new(StructArray::from(vec![(
            Arc::new(Field::new("a", Date64, true)),
            dates() as ArrayRef,
        )])));
        let keyed = check(Arc::new(DictionaryArray::<Int32Type>::new(
            Int32Array::from(vec![0, 1, 0]),
            dates(),
        )));
        assert_eq!(
            &*keyed,
            &arrow_array::Date32Array::from(vec![Some(1), None, Some(1)]) as &dyn Array
        );
        let runs = check(Arc::new(
            RunArray::<Int32Type>::try_new(&Int32Array::from(vec![2, 3]), &*dates()).unwrap(),
        ));
        assert_eq!(
            &*runs,
            &arrow_array::Date32Array::from(vec![Some(1), Some(1), None]) as &dyn Array
        );
        let words: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
        assert_eq!(&stored_array(&words, &Utf8).unwrap(), &words);
    }
}
