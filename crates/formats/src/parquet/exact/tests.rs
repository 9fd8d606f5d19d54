//! INT96 values of the low-level writer, compared with the arithmetic of their definition.

use crate::parquet::{Error, ParquetFile, ParquetTable};
use crate::records::memory::memory;
use crate::table::{TableError, TableFile};
use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::TimestampMicrosecondType;
use arrow_buffer::BooleanBuffer;
use arrow_schema::{DataType, TimeUnit};
use parquet::data_type::{Int96, Int96Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use proptest::prelude::*;
use std::sync::Arc;

/// The Julian day, and nanoseconds of the day.
type Time = (i32, i64);

/// A file with the optional column `t`, with statistics and a row group for each of `groups`.
fn written(groups: &[Vec<Option<Time>>], has_dictionary: bool) -> Vec<u8> {
    let schema = Arc::new(parse_message_type("message schema { optional int96 t; }").unwrap());
    let properties = WriterProperties::builder().set_dictionary_enabled(has_dictionary).build();
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties)).unwrap();
    for times in groups {
        let mut group = writer.next_row_group().unwrap();
        let mut column = group.next_column().unwrap().unwrap();
        let values: Vec<Int96> = times.iter().flatten().map(|time| int96(*time)).collect();
        let levels: Vec<i16> = times.iter().map(|time| i16::from(time.is_some())).collect();
        column.typed::<Int96Type>().write_batch(&values, Some(&levels), None).unwrap();
        column.close().unwrap();
        group.close().unwrap();
    }
    writer.into_inner().unwrap()
}

fn int96((day, of_day): Time) -> Int96 {
    let mut value = Int96::new();
    let of_day = of_day.cast_unsigned();
    let half = |bits: u64| u32::try_from(bits & 0xffff_ffff).unwrap();
    value.set_data(half(of_day), half(of_day >> 32), day.cast_unsigned());
    value
}

fn microseconds((day, of_day): Time) -> Option<i64> {
    let nanoseconds = (i128::from(day) - 2_440_588) * 86_400_000_000_000 + i128::from(of_day);
    (nanoseconds % 1000 == 0).then(|| i64::try_from(nanoseconds / 1000).ok()).flatten()
}

fn table(groups: &[Vec<Option<Time>>], has_dictionary: bool) -> ParquetTable {
    ParquetTable::open(memory("a.parquet", written(groups, has_dictionary))).unwrap()
}

fn any_time() -> impl Strategy<Value = Time> {
    let whole = (2_000_000..6_000_000i32, 0..86_400_000_000i64)
        .prop_map(|(day, microsecond)| (day, microsecond * 1000));
    prop_oneof![
        20 => whole,
        1 => (any::<i32>(), any::<i64>()),
        1 => (2_440_588..2_440_590i32, 0..86_400_000_000_000i64),
    ]
}

proptest! {
    #[test]
    fn each_time_is_exact_or_the_first_row_without_one_is_named(
        times in proptest::collection::vec(proptest::option::of(any_time()), 1..40),
        has_dictionary: bool,
        keep in proptest::collection::vec(any::<bool>(), 40),
    ) {
        let groups: Vec<_> = times.chunks(17).map(<[_]>::to_vec).collect();
        let table = table(&groups, has_dictionary);
        let mut row = 0;
        for (block, group) in groups.iter().enumerate() {
            let keep: BooleanBuffer = keep.iter().copied().take(group.len()).collect();
            for selection in [None, Some(&keep)] {
                let kept: Vec<usize> = (0..group.len())
                    .filter(|row| selection.is_none_or(|keep| keep.value(*row)))
                    .collect();
                let is_lost = |place: &&usize| {
                    group[**place].is_some_and(|time| microseconds(time).is_none())
                };
                match (table.read(block, &[0], selection), kept.iter().find(is_lost)) {
                    (Ok(batch), None) => {
                        let found: Vec<_> = batch
                            .column(0)
                            .as_primitive::<TimestampMicrosecondType>()
                            .iter()
                            .collect();
                        prop_assert_eq!(
                            found,
                            kept.iter()
                                .map(|place| group[*place].and_then(microseconds))
                                .collect::<Vec<_>>()
                        );
                    }
                    (
                        Err(TableError::Parquet(Error::Value { column, row: named, .. })),
                        Some(place),
                    ) => {
                        prop_assert_eq!((column.as_str(), named), ("t", (row + place) as u64));
                    }
                    (found, lost) => prop_assert!(false, "{found:?} {lost:?}"),
                }
            }
            row += group.len();
        }
    }
}

#[test]
fn bounds_of_times_are_unknown_and_nulls_are_counted() {
    let file =
        ParquetFile::open(memory("a.parquet", written(&[vec![Some((2_440_588, 0)), None]], true)))
            .unwrap();
    assert_eq!(
        file.schema().field(0).data_type(),
        &DataType::Timestamp(TimeUnit::Microsecond, None)
    );
    let known = file.column_statistics(&[0], 0).unwrap();
    assert!(known.min.is_null(0) && known.max.is_null(0));
    assert_eq!(known.null_counts, [Some(1)]);
    assert!(file.pages(0, 0).unwrap().is_none());
}

#[test]
fn batches_of_a_file_name_the_row_too() {
    let bytes = written(&[vec![Some((2_440_588, 0)); 3], vec![None, Some((2_440_588, 1))]], false);
    let file = ParquetFile::open(memory("a.parquet", bytes)).unwrap();
    let found: Vec<_> = file.batches(&["t"], None, 1 << 20).unwrap().collect();
    assert_eq!(found[0].as_ref().unwrap().num_rows(), 3);
    let message = found[1].as_ref().unwrap_err().to_string();
    assert!(
        message.contains("`t` of `a.parquet` has a value in row 4 ")
            && message.ends_with("1970-01-01T00:00:00.000000001"),
        "{message}"
    );
}
