//! Tables written by arrow-csv, and arbitrary bytes.

use super::*;
use crate::csv::borders::CsvBorders;
use crate::records::{Borders, index};
use arrow_array::{ArrayRef, BooleanArray, Date32Array, Float64Array, Int64Array, StringArray};
use proptest::prelude::*;

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z ]{0,8}", "[\",\n\r'é漢 ]{0,6}", Just(String::new())]
}

fn any_table() -> impl Strategy<Value = RecordBatch> {
    let row = (
        any::<Option<i64>>(),
        any::<Option<f64>>(),
        any::<Option<bool>>(),
        text(),
        prop::option::of(-700_000..2_000_000i32),
    );
    prop::collection::vec(row, 0..60).prop_map(|rows| {
        let columns: [(&str, ArrayRef); 5] = [
            ("integer", Arc::new(rows.iter().map(|row| row.0).collect::<Int64Array>())),
            (
                "real",
                Arc::new(
                    rows.iter()
                        .map(|row| row.1.filter(|value| !value.is_nan()))
                        .collect::<Float64Array>(),
                ),
            ),
            ("flag", Arc::new(rows.iter().map(|row| row.2).collect::<BooleanArray>())),
            (
                "quoted,\"name\"",
                Arc::new(rows.iter().map(|row| Some(row.3.as_str())).collect::<StringArray>()),
            ),
            ("day", Arc::new(rows.iter().map(|row| row.4).collect::<Date32Array>())),
        ];
        RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))
            .expect("a table")
    })
}

fn written(table: &RecordBatch) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = arrow_csv::WriterBuilder::new().with_header(true).build(&mut bytes);
    writer.write(table).expect("memory");
    drop(writer);
    bytes
}

proptest! {
    #[test]
    fn what_arrow_csv_wrote_is_read_back(
        table in any_table(),
        block_bytes in 1u64..400,
        bits in prop::collection::vec(any::<bool>(), 60),
    ) {
        let file = CsvFile::open_with_blocks(
            memory("a.csv", written(&table)),
            &table.schema(),
            CsvOptions::default(),
            block_bytes,
        )
        .expect("a file");
        prop_assert_eq!(&read_all(&file).expect("rows"), &table);
        let (mut row, columns) = (0, [3, 0]);
        for (block, stated) in file.blocks().iter().enumerate() {
            let rows = usize::try_from(stated.rows).expect("few rows");
            let selection = BooleanBuffer::from(&bits[row..row + rows]);
            let expected = table.slice(row, rows).project(&columns).expect("columns");
            let expected =
                arrow_select::filter::filter_record_batch(&expected, &selection.clone().into())
                    .expect("rows");
            prop_assert_eq!(file.read(block, &columns, Some(&selection)).expect("rows"), expected);
            row += rows;
        }
    }

    #[test]
    fn any_bytes_give_the_same_rows_in_blocks_of_any_size(
        bytes in prop::collection::vec(
            prop_oneof![Just(b','), Just(b'"'), Just(b'\n'), Just(b'\r'), Just(b'1'), any::<u8>()],
            0..200,
        ),
        block_bytes in 1u64..50,
    ) {
        let options = CsvOptions { bad_lines: BadLines::Null, ..CsvOptions::default() };
        let Ok(whole) = table(&bytes, &options, 1 << 20) else { return Ok(()) };
        prop_assert_eq!(&table(&bytes, &options, block_bytes).expect("rows"), &whole);
        for bad_lines in [BadLines::Skip, BadLines::Error] {
            let options = CsvOptions { bad_lines, ..CsvOptions::default() };
            let (one, cut) =
                (table(&bytes, &options, 1 << 20), table(&bytes, &options, block_bytes));
            prop_assert_eq!(one.is_ok(), cut.is_ok());
            prop_assert_eq!(one.ok(), cut.ok());
        }
    }

    #[test]
    fn records_do_not_depend_on_how_the_file_was_read(
        bytes in prop::collection::vec(
            prop_oneof![Just(b','), Just(b'"'), Just(b'\n'), Just(b'\r'), Just(b'x')],
            0..100,
        ),
        chunk_bytes in 1usize..20,
    ) {
        let options = CsvOptions::default();
        let whole =
            index(memory("a.csv", &bytes).as_ref(), 0, &mut CsvBorders::new(&options, 0, 1), 16)
                .expect("memory")
                .runs;
        let mut in_chunks = InChunks { borders: CsvBorders::new(&options, 0, 1), chunk_bytes };
        let cut =
            index(memory("a.csv", &bytes).as_ref(), 0, &mut in_chunks, 16).expect("memory").runs;
        prop_assert_eq!(whole, cut);
    }
}

struct InChunks {
    borders: CsvBorders,
    chunk_bytes: usize,
}

impl Borders for InChunks {
    fn push(&mut self, chunk: &[u8], offset: u64, cutter: &mut crate::records::Cutter) {
        for (number, part) in chunk.chunks(self.chunk_bytes).enumerate() {
            self.borders.push(part, offset + (number * self.chunk_bytes) as u64, cutter);
        }
    }

    fn finish(&mut self, end: u64, cutter: &mut crate::records::Cutter) {
        self.borders.finish(end, cutter);
    }
}
