//! Tables written by orc-rust.

use super::*;
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Float32Array, Float64Array, Int16Array, Int64Array,
    StringArray,
};
use orc_rust::ArrowWriterBuilder;
use orc_rust::compression::CompressionType;
use proptest::prelude::*;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

type Row = (Option<i64>, Option<f64>, Option<bool>, Option<String>, Option<Vec<u8>>, i16);

fn any_rows() -> impl Strategy<Value = Vec<Row>> {
    let text = prop_oneof![Just(Some("often".to_owned())), prop::option::of("[a-zé漢]{0,8}")];
    let real = prop::option::of(-1e300..1e300f64);
    let row = (
        any::<Option<i64>>(),
        real,
        any::<Option<bool>>(),
        text,
        prop::option::of(prop::collection::vec(any::<u8>(), 0..6)),
        any::<i16>(),
    );
    // Integers of one table have similar magnitudes.
    (prop::collection::vec(row, 1..300), 0..62).prop_map(|(rows, shift)| {
        rows.into_iter()
            .map(|row| (row.0.map(|value| value >> shift), row.1, row.2, row.3, row.4, row.5))
            .collect()
    })
}

fn table(rows: &[Row]) -> RecordBatch {
    let columns: [(&str, ArrayRef); 7] = [
        ("integer", Arc::new(rows.iter().map(|row| row.0).collect::<Int64Array>())),
        ("real", Arc::new(rows.iter().map(|row| row.1).collect::<Float64Array>())),
        ("flag", Arc::new(rows.iter().map(|row| row.2).collect::<BooleanArray>())),
        ("text", Arc::new(rows.iter().map(|row| row.3.as_deref()).collect::<StringArray>())),
        ("bytes", Arc::new(rows.iter().map(|row| row.4.as_deref()).collect::<BinaryArray>())),
        ("short", Arc::new(rows.iter().map(|row| row.5).collect::<Int16Array>())),
        (
            "narrow",
            Arc::new(rows.iter().map(|row| Some(f32::from(row.5) / 4.0)).collect::<Float32Array>()),
        ),
    ];
    RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))
        .expect("a table")
}

pub(super) fn written(
    table: &RecordBatch,
    compression: Option<CompressionType>,
    batch_rows: usize,
    stripe_bytes: usize,
) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut builder = ArrowWriterBuilder::new(&mut bytes, table.schema())
        .with_batch_size(batch_rows)
        .with_stripe_byte_size(stripe_bytes);
    if let Some(compression) = compression {
        builder = builder.with_compression(compression).with_compression_block_size(1 << 10);
    }
    let mut writer = builder.try_build().expect("a writer");
    writer.write(table).expect("memory");
    writer.close().expect("memory");
    bytes
}

fn any_compression() -> impl Strategy<Value = Option<CompressionType>> {
    prop_oneof![
        Just(None),
        Just(Some(CompressionType::Zlib)),
        Just(Some(CompressionType::Snappy)),
        Just(Some(CompressionType::Lz4)),
        Just(Some(CompressionType::Zstd))
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn what_orc_rust_wrote_is_read_back(
        rows in any_rows(),
        compression in any_compression(),
        stripe_bytes in 100usize..5000,
        bits in prop::collection::vec(any::<bool>(), 300),
    ) {
        let table = table(&rows);
        // The writer panics on some runs with few large integers among small ones.
        let bytes = std::panic::catch_unwind(AssertUnwindSafe(|| {
            written(&table, compression, 50, stripe_bytes)
        }));
        prop_assume!(bytes.is_ok());
        let file = OrcFile::open(memory("a.orc", bytes.unwrap_or_default())).expect("a file");
        prop_assert_eq!(&read_all(&file).expect("rows"), &table);
        let (mut row, columns) = (0, [4, 0, 4, 3]);
        for (block, stated) in file.blocks().iter().enumerate() {
            let len = usize::try_from(stated.rows).expect("few rows");
            let selection = BooleanBuffer::from(&bits[row..row + len]);
            let expected = table.slice(row, len).project(&columns).expect("columns");
            let expected =
                arrow_select::filter::filter_record_batch(&expected, &selection.clone().into())
                    .expect("rows");
            prop_assert_eq!(file.read(block, &columns, Some(&selection)).expect("rows"), expected);
            prop_assert_eq!(
                file.read(block, &[], Some(&selection)).expect("rows").num_rows(),
                selection.count_set_bits()
            );
            row += len;
        }
    }

    #[test]
    fn long_runs_of_rows_are_left_out(
        stripe_rows in 1usize..30_000,
        from in 0usize..30_000,
        len in 0usize..9000,
    ) {
        let rows: Vec<Row> = (0..30_000)
            .take(stripe_rows)
            .map(|row| {
                let text = (row % 3 > 0).then(|| format!("{}", row % 40));
                (
                    (row % 5 > 0).then_some(row * row),
                    Some(row as f64),
                    Some(row % 2 == 0),
                    text,
                    None,
                    7,
                )
            })
            .collect();
        let table = table(&rows);
        let file = OrcFile::open(memory(
            "a.orc",
            written(&table, Some(CompressionType::Snappy), 8192, 1 << 30),
        ))
        .expect("a file");
        let selection: BooleanBuffer =
            (0..stripe_rows).map(|row| (from..from + len).contains(&row)).collect();
        let expected = arrow_select::filter::filter_record_batch(&table, &selection.clone().into())
            .expect("rows");
        prop_assert_eq!(
            file.read(0, &[0, 1, 2, 3, 4, 5, 6], Some(&selection)).expect("rows"),
            expected
        );
    }
}
