//! Tables written and read by arrow-json, and arbitrary bytes.

use super::*;
use arrow_array::builder::{Float64Builder, ListBuilder};
use arrow_array::{
    ArrayRef, BooleanArray, FixedSizeListArray, Float64Array, Int64Array, StringArray, StructArray,
    TimestampMillisecondArray,
};
use arrow_schema::TimeUnit;
use proptest::prelude::*;

type Row =
    (Option<i64>, Option<f64>, Option<bool>, Option<String>, Option<Vec<Option<f64>>>, Option<i64>);

fn any_rows() -> impl Strategy<Value = Vec<Row>> {
    let real = || prop::option::of(-1e300..1e300f64);
    let row = (
        any::<Option<i64>>(),
        real(),
        any::<Option<bool>>(),
        prop::option::of("[a-z\"\\\\\n\t\r/é漢🎈\u{1}]{0,8}"),
        prop::option::of(prop::collection::vec(real(), 0..4)),
        prop::option::of(-2_000_000_000_000..4_000_000_000_000i64),
    );
    prop::collection::vec(row, 0..50)
}

fn table(rows: &[Row]) -> RecordBatch {
    let mut lists = ListBuilder::new(Float64Builder::new());
    for row in rows {
        lists.append_option(row.4.clone());
    }
    let integers: ArrayRef = Arc::new(rows.iter().map(|row| row.0).collect::<Int64Array>());
    let texts: ArrayRef =
        Arc::new(rows.iter().map(|row| row.3.as_deref()).collect::<StringArray>());
    let pairs = rows.iter().map(|row| row.0.map(|value| vec![Some(value), None]));
    let columns: [(&str, ArrayRef); 7] = [
        ("integer", Arc::clone(&integers)),
        ("real", Arc::new(rows.iter().map(|row| row.1).collect::<Float64Array>())),
        ("flag", Arc::new(rows.iter().map(|row| row.2).collect::<BooleanArray>())),
        ("te\"xt", Arc::clone(&texts)),
        ("list", Arc::new(lists.finish())),
        (
            "inner",
            Arc::new(StructArray::try_from(vec![("i", integers), ("t", texts)]).expect("a struct")),
        ),
        (
            "pair",
            Arc::new(
                FixedSizeListArray::from_iter_primitive::<arrow_array::types::Int64Type, _, _>(
                    pairs, 2,
                ),
            ),
        ),
    ];
    let time = (
        "time",
        Arc::new(rows.iter().map(|row| row.5).collect::<TimestampMillisecondArray>()) as ArrayRef,
    );
    RecordBatch::try_from_iter_with_nullable(
        columns.into_iter().chain([time]).map(|(name, column)| (name, column, true)),
    )
    .expect("a table")
}

proptest! {
    #[test]
    fn what_arrow_json_wrote_is_read_back(
        rows in any_rows(),
        has_nulls: bool,
        block_bytes in 1u64..400,
        bits in prop::collection::vec(any::<bool>(), 50),
    ) {
        let table = table(&rows);
        let mut bytes = Vec::new();
        let mut writer = arrow_json::WriterBuilder::new()
            .with_explicit_nulls(has_nulls)
            .build::<_, arrow_json::writer::LineDelimited>(&mut bytes);
        writer.write(&table).expect("memory");
        writer.finish().expect("memory");
        drop(writer);
        let file = open(&bytes, &table.schema(), BadLines::Error, block_bytes);
        prop_assert_eq!(
            file.blocks().iter().map(|block| block.rows).sum::<u64>(),
            rows.len() as u64
        );
        prop_assert_eq!(
            &read_all(&file).expect("rows"),
            &by_arrow_json(std::str::from_utf8(&bytes).expect("text"), &table.schema())
        );
        let (mut row, columns) = (0, [3, 0, 3]);
        for (block, stated) in file.blocks().iter().enumerate() {
            let len = usize::try_from(stated.rows).expect("few rows");
            let selection = BooleanBuffer::from(&bits[row..row + len]);
            let expected = table.slice(row, len).project(&columns).expect("columns");
            let expected =
                arrow_select::filter::filter_record_batch(&expected, &selection.clone().into())
                    .expect("rows");
            prop_assert_eq!(file.read(block, &columns, Some(&selection)).expect("rows"), expected);
            row += len;
        }
    }

    #[test]
    fn any_text_is_json_exactly_where_serde_says_so(
        line in "([\\[\\]{}:, \"\\\\a0-9.eE+-ntrufls]|NaN|-?Infinity){0,24}",
    ) {
        let fault = crate::json::json_fault(&line, true);
        let mut cursor = cursor::Cursor::new(line.as_bytes());
        let is_ours = cursor.skip().is_ok() && cursor.end().is_ok();
        prop_assert_eq!(is_ours, fault.is_none(), "{}", line);
    }

    #[test]
    fn any_bytes_give_the_same_rows_in_blocks_of_any_size(
        bytes in prop::collection::vec(
            prop_oneof![
                Just(b"{\"a\":1}".to_vec()),
                Just(b"{\"b\":\"x\"}".to_vec()),
                Just(b"\n".to_vec()),
                Just(b"\r".to_vec()),
                Just(b" ".to_vec()),
                prop::collection::vec(any::<u8>(), 1)
            ],
            0..40,
        ),
        block_bytes in 1u64..30,
    ) {
        let bytes = bytes.concat();
        let fields = schema(&[
            ("a", DataType::Int64),
            ("b", DataType::Utf8),
            ("t", DataType::Timestamp(TimeUnit::Second, None)),
        ]);
        for bad_lines in [BadLines::Null, BadLines::Skip, BadLines::Error] {
            // A truncated array cannot be opened.
            let rows = |block_bytes| {
                let options = JsonlOptions { bad_lines, ..JsonlOptions::default() };
                let file = JsonlFile::open_with_blocks(
                    memory("a.jsonl", &bytes),
                    &fields,
                    options,
                    block_bytes,
                )
                .ok()?;
                read_all(&file).ok()
            };
            prop_assert_eq!(rows(1 << 20), rows(block_bytes));
        }
    }
}
