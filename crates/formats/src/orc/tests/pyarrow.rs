//! The file was written by `pyarrow.orc`: 400 rows in one stripe, zstd, every seventh value null;
//! row `i` is a function of `i`.

use super::*;
use crate::table::Statistics;
use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, Float32Type, Float64Type, Int32Type};
use arrow_array::{Array, TimestampNanosecondArray};
use arrow_select::filter::filter_record_batch;
use std::sync::Arc;

pub(super) const PYARROW: &[u8] = include_bytes!("pyarrow.orc");

fn file() -> OrcFile {
    OrcFile::open(memory("pyarrow.orc", PYARROW)).expect("a file")
}

/// The same rows read with arrow-json, without the columns that JSON cannot represent exactly.
fn expected(file: &OrcFile, columns: &[usize]) -> RecordBatch {
    let line = |row: i64| {
        let list = |len: i64| (0..len).map(|item| item.to_string()).collect::<Vec<_>>().join(",");
        let inner_text = if row % 2 == 1 { "null".to_owned() } else { format!("\"b{row}\"") };
        let lists = (0..row % 3)
            .map(|item| {
                format!("[{}]", (0..item).map(|_| item.to_string()).collect::<Vec<_>>().join(","))
            })
            .collect::<Vec<_>>()
            .join(",");
        let (square, eighth, flag, text) =
            (row * row - 1000, row as f64 / 8.0, row % 3 == 0, row % 50);
        if row % 7 == 3 {
            return "{}\n".to_owned();
        }
        format!(
            "{{\"number\":{square},\"real\":{eighth},\"flag\":{flag},\"text\":\"text {text}\",\
             \"list\":[{}],\"inner\":{{\"a\":{row},\"b\":{inner_text}}},\"lists\":[{lists}]}}\n",
            list(row % 4)
        )
    };
    let text: String = (0..400).map(line).collect();
    let schema = Arc::new(file.schema().project(columns).expect("columns"));
    let reader = arrow_json::ReaderBuilder::new(Arc::clone(&schema))
        .build(text.as_bytes())
        .expect("a reader");
    arrow_select::concat::concat_batches(
        &schema,
        &reader.collect::<Result<Vec<_>, _>>().expect("rows"),
    )
    .expect("one schema")
}

#[test]
fn nested_and_flat_columns_are_read() {
    let file = file();
    let columns = [0, 1, 3, 4, 7, 8, 9];
    let all = read_all(&file).expect("rows");
    assert_eq!(all.project(&columns).expect("columns"), expected(&file, &columns));
    assert!(all.column(2).as_primitive::<Float64Type>().value(0).is_nan());
    assert_eq!(all.column(5).as_primitive::<Date32Type>().value(399), 199);
    let times: &TimestampNanosecondArray = all.column(6).as_primitive();
    assert_eq!(
        (times.value(2), times.is_null(3), times.value(399)),
        (2 * 86_400_000_000_000 + 2, true, 399 * 86_400_000_000_000 + 399)
    );
}

#[test]
fn selections_of_nested_columns_are_the_filtered_rows() {
    let file = file();
    let columns = [9, 0, 8, 7];
    let (all, mut row) = (expected(&file, &columns), 0);
    for (block, stated) in file.blocks().iter().enumerate() {
        let len = usize::try_from(stated.rows).expect("few rows");
        for step in [1, 2, 13, 1000] {
            let selection: BooleanBuffer = (0..len).map(|row| row % step == step / 2).collect();
            let wanted =
                filter_record_batch(&all.slice(row, len), &selection.clone().into()).expect("rows");
            assert_eq!(file.read(block, &columns, Some(&selection)).expect("rows"), wanted);
        }
        row += len;
    }
}

#[test]
fn statistics_bound_the_values_of_each_stripe() {
    let file = file();
    let statistics = |column: usize| file.statistics(column).expect("statistics");
    let all = read_all(&file).expect("rows");
    let mut row = 0;
    for (block, stated) in file.blocks().iter().enumerate() {
        let part = all.slice(row, usize::try_from(stated.rows).expect("few rows"));
        row += usize::try_from(stated.rows).expect("few rows");
        for column in [0, 1, 2, 3, 4, 5] {
            let Statistics { null_counts, row_counts, .. } = statistics(column);
            assert_eq!(
                (null_counts[block], row_counts[block]),
                (Some(part.column(column).null_count() as u64), stated.rows)
            );
        }
        let numbers = part.column(0).as_primitive::<Int32Type>();
        assert_eq!(
            statistics(0).min.as_primitive::<Int32Type>().value(block),
            numbers.iter().flatten().min().expect("values")
        );
        assert_eq!(
            statistics(0).max.as_primitive::<Int32Type>().value(block),
            numbers.iter().flatten().max().expect("values")
        );
        let reals = part.column(1).as_primitive::<Float32Type>();
        assert_eq!(
            Some(statistics(1).max.as_primitive::<Float32Type>().value(block)),
            reals.iter().flatten().reduce(f32::max)
        );
        let texts = part.column(4).as_string::<i32>();
        assert_eq!(
            statistics(4).max.as_string::<i32>().value(block),
            texts.iter().flatten().max().expect("values")
        );
    }
    assert!(statistics(2).min.is_null(0), "the column begins with NaN");
    assert!(
        statistics(1).min.as_primitive::<Float32Type>().value(0).is_sign_negative(),
        "zero may have been negative"
    );
    assert!([6, 7, 8, 9].iter().all(|column| file.statistics(*column).is_none()));
}

#[test]
fn one_column_is_fetched_without_the_others() {
    #[derive(Debug)]
    struct Counting(Arc<dyn shardmill_storage::RangeRead>, std::sync::atomic::AtomicU64);
    impl shardmill_storage::RangeRead for Counting {
        fn path(&self) -> &str {
            self.0.path()
        }
        fn identity(&self) -> shardmill_storage::Identity {
            self.0.identity()
        }
        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> shardmill_storage::Result<()> {
            self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            self.0.read_at(offset, buffer)
        }
    }
    let counting = Arc::new(Counting(memory("pyarrow.orc", PYARROW), 0.into()));
    let file = OrcFile::open(Arc::clone(&counting) as Arc<dyn shardmill_storage::RangeRead>)
        .expect("a file");
    file.read(0, &[0, 4, 9], None).expect("rows");
    assert_eq!(
        counting.1.load(std::sync::atomic::Ordering::Relaxed),
        3,
        "the tail, the footer of the stripe, its streams"
    );
}
