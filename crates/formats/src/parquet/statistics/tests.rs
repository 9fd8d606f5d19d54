use super::super::ParquetFile;
use super::*;
use crate::table::column_number;
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{
    Array, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, FixedSizeBinaryArray,
    Float32Array, Float64Array, Int8Array, Int32Array, Int64Array, LargeStringArray, ListArray,
    RecordBatch, StringArray, StringViewArray, StructArray, TimestampMicrosecondArray, UInt8Array,
    UInt16Array, UInt32Array, UInt64Array,
};
use arrow_buffer::NullBuffer;
use arrow_select::nullif::nullif;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesBuilder};
use shardmill_storage::{Identity, RangeRead, Result as StorageResult};
use std::sync::Arc;

type TestResult = Result<(), Box<dyn std::error::Error>>;

#[derive(Debug)]
struct Memory(Vec<u8>);

impl RangeRead for Memory {
    fn path(&self) -> &str {
        "memory"
    }

    fn identity(&self) -> Identity {
        Identity { size: self.0.len() as u64, modified_ns: 0 }
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> StorageResult<()> {
        let stored = self.0.iter().skip(offset.try_into().unwrap_or(usize::MAX));
        buffer.iter_mut().zip(stored).for_each(|(target, byte)| *target = *byte);
        Ok(())
    }
}

fn columns() -> Vec<(&'static str, ArrayRef)> {
    let range = 0..100;
    let texts: Vec<Option<String>> = range
        .clone()
        .map(|row| (row % 7 != 0).then(|| format!("{row:03} {}", "ä".repeat(60))))
        .collect();
    vec![
        (
            "i8",
            Arc::new(Int8Array::from_iter_values(
                range.clone().map(|row| i8::try_from(row - 50).unwrap()),
            )) as ArrayRef,
        ),
        (
            "i32",
            Arc::new(Int32Array::from_iter(
                range.clone().map(|row| (row % 10 != 0).then_some(row - 50)),
            )),
        ),
        (
            "i64",
            Arc::new(Int64Array::from_iter_values(range.clone().map(|row| i64::from(row) << 40))),
        ),
        (
            "u8",
            Arc::new(UInt8Array::from_iter_values(
                range.clone().map(|row| u8::try_from(row + 150).unwrap()),
            )),
        ),
        (
            "u16",
            Arc::new(UInt16Array::from_iter_values(
                range.clone().map(|row| u16::try_from(row + 65_000).unwrap()),
            )),
        ),
        (
            "u32",
            Arc::new(UInt32Array::from_iter_values(
                range.clone().map(|row| u32::MAX - u32::try_from(row).unwrap()),
            )),
        ),
        (
            "u64",
            Arc::new(UInt64Array::from_iter_values(
                range.clone().map(|row| u64::MAX - u64::try_from(row).unwrap()),
            )),
        ),
        (
            "f32",
            Arc::new(Float32Array::from_iter(range.clone().map(|row| {
                Some(if row % 9 == 0 {
                    f32::NAN
                } else {
                    0.5 - f32::from(u8::try_from(row).unwrap())
                })
            }))),
        ),
        (
            "f64",
            Arc::new(Float64Array::from_iter_values(
                range.clone().map(|row| if row % 2 == 0 { -0.0 } else { 0.0 }),
            )),
        ),
        ("bool", Arc::new(BooleanArray::from_iter(range.clone().map(|row| Some(row < 50))))),
        ("text", Arc::new(StringArray::from_iter(texts.clone()))),
        ("large", Arc::new(LargeStringArray::from_iter(texts.clone()))),
        ("view", Arc::new(StringViewArray::from_iter(texts.clone()))),
        (
            "dictionary",
            Arc::new(DictionaryArray::<Int32Type>::from_iter(texts.iter().map(Option::as_deref))),
        ),
        (
            "fixed",
            Arc::new(
                FixedSizeBinaryArray::try_from_iter(
                    range.clone().map(|row| [u8::try_from(row + 100).unwrap(); 3]),
                )
                .unwrap(),
            ),
        ),
        (
            "decimal",
            Arc::new(
                Decimal128Array::from_iter_values(range.clone().map(|row| i128::from(row) - 50))
                    .with_precision_and_scale(30, 2)
                    .unwrap(),
            ),
        ),
        ("date", Arc::new(Date32Array::from_iter_values(range.clone().map(|row| row - 50)))),
        (
            "time",
            Arc::new(
                TimestampMicrosecondArray::from_iter_values(range.clone().map(i64::from))
                    .with_timezone("UTC"),
            ),
        ),
        (
            "list",
            Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(
                range.map(|row| Some(vec![Some(row)])),
            )),
        ),
    ]
}

fn properties() -> WriterPropertiesBuilder {
    let paged = WriterProperties::builder()
        .set_data_page_row_count_limit(10)
        .set_write_batch_size(5)
        .set_bloom_filter_enabled(true);
    paged.set_max_row_group_row_count(Some(40)).set_statistics_enabled(EnabledStatistics::Page)
}

fn written(
    properties: WriterProperties,
) -> Result<(Vec<u8>, RecordBatch), Box<dyn std::error::Error>> {
    let batch = RecordBatch::try_from_iter_with_nullable(
        columns().into_iter().map(|(name, array)| (name, array, true)),
    )?;
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties))?;
    writer.write(&batch)?;
    writer.close()?;
    Ok((bytes, batch))
}

fn open(bytes: Vec<u8>) -> ParquetFile {
    ParquetFile::open(Arc::new(Memory(bytes))).unwrap()
}

/// Each stated bound holds for each value of its part, and each count is right.
fn assert_true(statistics: &Statistics, rows: &ArrayRef, first_rows: &[u64]) {
    let value_type = match rows.data_type() {
        DataType::Dictionary(_, value) => value.as_ref().clone(),
        other => other.clone(),
    };
    let cast = |array: &ArrayRef| arrow_cast::cast(array, &value_type).unwrap();
    let (rows, min, max) = (cast(rows), cast(&statistics.min), cast(&statistics.max));
    for (part, first) in first_rows.iter().enumerate() {
        let (first, count) = (
            usize::try_from(*first).unwrap(),
            usize::try_from(statistics.row_counts[part]).unwrap(),
        );
        let part_rows = rows.slice(first, count);
        assert_eq!(statistics.null_counts[part], Some(part_rows.null_count() as u64));
        let compare = |bounds: &ArrayRef| {
            arrow_ord::ord::make_comparator(
                &part_rows,
                bounds,
                arrow_schema::SortOptions::default(),
            )
            .unwrap()
        };
        let (to_min, to_max) = (compare(&min), compare(&max));
        let is_nan = |row: usize| match part_rows.data_type() {
            DataType::Float32 => {
                part_rows.as_primitive::<arrow_array::types::Float32Type>().value(row).is_nan()
            }
            _ => false,
        };
        // Total order distinguishes the two zeros, which a reader of bounds must not do.
        let is_zero = rows.data_type() == &DataType::Float64;
        for row in (0..count).filter(|row| part_rows.is_valid(*row) && !is_nan(*row) && !is_zero) {
            assert!(
                !min.is_valid(part) || to_min(row, part).is_ge(),
                "row {row} of part {part} of {:?}",
                rows.data_type()
            );
            assert!(
                !max.is_valid(part) || to_max(row, part).is_le(),
                "row {row} of part {part} of {:?}",
                rows.data_type()
            );
        }
    }
}

#[test]
fn bounds_and_counts_hold_for_the_rows_of_every_type() -> TestResult {
    for truncated in [None, Some(8)] {
        let (bytes, batch) = written(
            properties()
                .set_statistics_truncate_length(truncated)
                .set_column_index_truncate_length(truncated)
                .build(),
        )?;
        let file = open(bytes);
        for (index, (name, array)) in columns().into_iter().enumerate() {
            let statistics = file.column_statistics(&[0, 1, 2], index);
            if name == "list" {
                assert!(statistics.is_none());
                continue;
            }
            let statistics = statistics.unwrap_or_else(|| panic!("{name}"));
            assert_eq!(statistics.row_counts, [40, 40, 20]);
            assert_true(&statistics, &array, &[0, 40, 80]);
            assert!(
                statistics.min.null_count() == 0 && statistics.max.null_count() == 0,
                "{name} is told nothing of"
            );
            for row_group in 0..3 {
                let pages =
                    file.pages(row_group, index)?.unwrap_or_else(|| panic!("pages of {name}"));
                assert!(pages.first_rows.len() > 1, "{name}");
                let rows =
                    batch.column(index).slice(row_group * 40, if row_group < 2 { 40 } else { 20 });
                assert_true(&pages.statistics, &rows, &pages.first_rows);
            }
        }
        assert_eq!(
            file.column_statistics(&[2, 0, 0], 1).map(|statistics| statistics.row_counts),
            Some(vec![20, 40, 40])
        );
        assert!(
            file.column_statistics(&[3], 1).is_none() && file.column_statistics(&[0], 99).is_none()
        );
        assert!(file.pages(9, 1)?.is_none() && file.pages(0, 99)?.is_none());
    }
    Ok(())
}

#[test]
fn fields_of_structs_are_judged_like_columns_with_the_nulls_of_their_structs() -> TestResult {
    let (names, arrays): (Vec<_>, Vec<_>) = columns().into_iter().unzip();
    let fields: Vec<_> = names
        .iter()
        .zip(&arrays)
        .map(|(name, array)| Field::new(*name, array.data_type().clone(), true))
        .collect();
    let nulls = NullBuffer::from_iter((0..100).map(|row| row % 5 != 0 && row / 40 != 1));
    let inner = StructArray::new(fields.into(), arrays, None);
    let outer = StructArray::new(
        vec![Field::new("in", inner.data_type().clone(), false)].into(),
        vec![Arc::new(inner)],
        Some(nulls.clone()),
    );
    let batch = RecordBatch::try_from_iter_with_nullable([
        ("first", columns().remove(0).1, true),
        ("s", Arc::new(outer) as ArrayRef, true),
    ])?;
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties().build()))?;
    writer.write(&batch)?;
    writer.close()?;
    let file = open(bytes);
    for (name, array) in columns() {
        let number = column_number(file.schema(), file.nested(), &format!("s.in.{name}")).unwrap();
        let statistics = file.column_statistics(&[0, 1, 2], number);
        if name == "list" {
            assert!(statistics.is_none() && file.pages(0, number)?.is_none());
            continue;
        }
        let array = nullif(&array, &BooleanArray::new(!nulls.inner(), None))?;
        assert_true(&statistics.unwrap(), &array, &[0, 40, 80]);
        for row_group in 0..3 {
            let pages = file.pages(row_group, number)?.unwrap_or_else(|| panic!("pages of {name}"));
            let rows = array.slice(row_group * 40, if row_group < 2 { 40 } else { 20 });
            assert_true(&pages.statistics, &rows, &pages.first_rows);
        }
        if array.data_type() == &DataType::Int32 {
            let value: ArrayRef = Arc::new(Int32Array::from(vec![-49]));
            let found: Vec<bool> = (0..3)
                .map(|row_group| file.bloom_may_contain(row_group, number, &value))
                .collect::<Result<_, _>>()?;
            assert_eq!(found, [true, false, false]);
        }
    }
    Ok(())
}

#[test]
fn bloom_filter_never_denies_a_value_that_is_there_and_denies_others() -> TestResult {
    let (bytes, batch) = written(properties().build())?;
    let file = open(bytes);
    for (index, (name, array)) in columns().into_iter().enumerate() {
        for row in (0..100).filter(|row| array.is_valid(*row)) {
            let value = batch.column(index).slice(row, 1);
            let value = match array.data_type() {
                DataType::Dictionary(_, value_type) => arrow_cast::cast(&value, value_type)?,
                _ => value,
            };
            assert!(file.bloom_may_contain(row / 40, index, &value)?, "{name} {row}");
        }
    }
    let foreign: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from_iter_values(500..510)),
        Arc::new(StringArray::from(vec!["x", "y"])),
        Arc::new(Int64Array::from(vec![3])),
    ];
    for (values, column) in foreign.iter().zip([1, 10, 2]) {
        assert!(
            (0..3).any(|row_group| !file.bloom_may_contain(row_group, column, values).unwrap()),
            "{column}"
        );
    }
    Ok(())
}

#[test]
fn file_without_statistics_tells_nothing() -> TestResult {
    let (bytes, _) = written(
        WriterProperties::builder()
            .set_statistics_enabled(EnabledStatistics::None)
            .set_offset_index_disabled(true)
            .build(),
    )?;
    let file = open(bytes);
    let statistics = file.column_statistics(&[0], 1).unwrap();
    assert_eq!((statistics.min.null_count(), statistics.null_counts), (1, vec![None]));
    assert!(file.pages(0, 1)?.is_none());
    assert!(file.bloom_may_contain(0, 1, &(Arc::new(Int32Array::from(vec![999])) as ArrayRef))?);
    Ok(())
}

#[test]
fn damage_anywhere_ends_in_an_answer() -> TestResult {
    let (bytes, _) = written(properties().build())?;
    let values: ArrayRef = Arc::new(Int32Array::from(vec![999]));
    // The indexes and filters follow the pages.
    for position in (bytes.len() / 2..bytes.len()).step_by(11) {
        for flip in [0xff, 0x40] {
            let mut damaged = bytes.clone();
            damaged[position] ^= flip;
            let Ok(file) = ParquetFile::open(Arc::new(Memory(damaged))) else { continue };
            for column in [1, 10] {
                let _statistics = file.column_statistics(&[0, 1], column);
                let _pages = file.pages(1, column);
                let _filter = file.bloom_may_contain(1, column, &values);
            }
        }
    }
    Ok(())
}

#[test]
fn order_of_unsigned_values_is_trusted_only_where_it_is_stated() {
    let signed =
        parquet::schema::types::Type::primitive_type_builder("x", Type::INT64).build().unwrap();
    let text = parquet::schema::types::Type::primitive_type_builder("x", Type::BYTE_ARRAY)
        .build()
        .unwrap();
    let old_time =
        parquet::schema::types::Type::primitive_type_builder("x", Type::INT96).build().unwrap();
    let leaf = |leaf| ColumnDescriptor::new(Arc::new(leaf), 0, 0, vec!["x".into()].into());
    let stated = |order| ColumnOrder::TYPE_DEFINED_ORDER(order);
    assert!(is_ordered(&leaf(signed.clone()), ColumnOrder::UNDEFINED, "anything"));
    assert!(!is_ordered(&leaf(signed), ColumnOrder::UNKNOWN, "anything"));
    assert!(!is_ordered(&leaf(text.clone()), ColumnOrder::UNDEFINED, "parquet-mr version 1.5.0"));
    assert!(is_ordered(&leaf(text), stated(SortOrder::UNSIGNED), "parquet-mr version 1.12.0"));
    assert!(!is_ordered(&leaf(old_time), stated(SortOrder::SIGNED), "parquet-mr version 1.12.0"));
    let decimal =
        parquet::schema::types::Type::primitive_type_builder("x", Type::FIXED_LEN_BYTE_ARRAY)
            .with_length(16)
            .build()
            .unwrap();
    assert!(!is_ordered(
        &leaf(decimal.clone()),
        stated(SortOrder::SIGNED),
        "parquet-cpp version 1.5.1-SNAPSHOT"
    ));
    assert!(is_ordered(
        &leaf(decimal),
        stated(SortOrder::SIGNED),
        "parquet-cpp-arrow version 21.0.0"
    ));
}
