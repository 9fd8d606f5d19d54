use super::*;
use crate::records::BadLine;

const TEXT: &str = "a,b\r\n1,\"two\nlines\"\r\n\r\nx,y\r\n2\r\n3,4,5\r\n6,z\r\n";

fn open(text: impl AsRef<[u8]>, bad_lines: BadLines, block_bytes: u64) -> CsvFile {
    let schema = schema(&[("a", DataType::Int64), ("b", DataType::Utf8)]);
    CsvFile::open_with_blocks(
        memory("a.csv", text),
        &schema,
        CsvOptions { bad_lines, ..CsvOptions::default() },
        block_bytes,
    )
    .expect("a file")
}

fn error(text: impl AsRef<[u8]>) -> String {
    read_all(&open(text, BadLines::Error, 1 << 20)).expect_err("a bad line").to_string()
}

#[test]
fn an_error_names_file_line_and_column() {
    assert_eq!(error(TEXT), "Line 5 of `a.csv`: `x` in column `a` is not a valid int64");
    assert_eq!(error("a,b\n1,x\n2\n"), "Line 3 of `a.csv` has 1 fields, expected 2");
    assert_eq!(error("a,b\n1,x,\n"), "Line 2 of `a.csv` has 3 fields, expected 2");
    assert_eq!(error("a,b\n\n1,\"x\n\n"), "Line 3 of `a.csv`: a quoted field is never closed");
    assert_eq!(error(b"a,b\n1,x\n2,caf\xe9\n"), "Line 3 of `a.csv`: column `b` is not valid UTF-8");
    assert_eq!(
        error("a,b\n1.5,x\n"),
        "Line 2 of `a.csv`: `1.5` in column `a` is not a valid int64"
    );
}

#[test]
fn two_halves_of_a_character_in_two_fields_are_bad() {
    assert_eq!(
        error(b"a,b\n1,x\n2,\xc3\n3,\xa9\n"),
        "Line 3 of `a.csv`: column `b` is not valid UTF-8"
    );
}

#[test]
fn lines_are_the_same_for_every_block_size() {
    for block_bytes in 1..60 {
        let file = open(TEXT, BadLines::Error, block_bytes);
        let first = (0..file.blocks().len())
            .find_map(|block| file.read(block, &[0, 1], None).err())
            .expect("a bad line");
        assert_eq!(
            first.to_string(),
            "Line 5 of `a.csv`: `x` in column `a` is not a valid int64",
            "{block_bytes}"
        );
    }
}

#[test]
fn skipped_records_are_counted_and_listed() {
    for block_bytes in [1, 7, 20, 1000] {
        let file = open(TEXT, BadLines::Skip, block_bytes);
        assert_eq!(
            shown(&read_all(&file).expect("rows")),
            rows(&[&["1", "two\nlines"], &["6", "z"]])
        );
        let line = |line, reason: &str| BadLine { line, reason: reason.to_owned() };
        let expected = [
            line(5, "Line 5 of `a.csv`: `x` in column `a` is not a valid int64"),
            line(6, "Line 6 of `a.csv` has 1 fields, expected 2"),
            line(7, "Line 7 of `a.csv` has 3 fields, expected 2"),
        ];
        assert_eq!(
            (file.quarantine().count, file.quarantine().lines.as_slice()),
            (3, expected.as_slice())
        );
    }
}

#[test]
fn selection_counts_the_records_that_were_not_skipped() {
    let file = open(TEXT, BadLines::Skip, 1000);
    let batch = file.read(0, &[1], Some(&BooleanBuffer::from(vec![false, true]))).expect("rows");
    assert_eq!(shown(&batch), rows(&[&["z"]]));
    assert_eq!(file.read(0, &[], None).expect("rows").num_rows(), 2);
}

#[test]
fn bad_values_are_null_where_asked_for() {
    let file = open(TEXT, BadLines::Null, 1000);
    let expected =
        rows(&[&["1", "two\nlines"], &["∅", "y"], &["2", "∅"], &["3", "4"], &["6", "z"]]);
    assert_eq!(shown(&read_all(&file).expect("rows")), expected);
    assert_eq!(
        shown(&read_all(&open(b"a,b\n1,\xff\n2,ok\n", BadLines::Null, 100)).expect("rows")),
        rows(&[&["1", "∅"], &["2", "ok"]])
    );
}

#[test]
fn a_file_of_bad_lines_keeps_few_reasons() {
    let file = open("a,b\n".to_owned() + &"x\n".repeat(5000), BadLines::Skip, 100);
    assert_eq!((file.quarantine().count, file.quarantine().lines.len()), (5000, 100));
    assert_eq!(read_all(&file).expect("no rows").num_rows(), 0);
}

#[test]
fn quote_that_is_never_closed_is_an_error_under_each_policy() {
    let schema = schema(&[("a", DataType::Int64), ("b", DataType::Utf8)]);
    for text in ["a,b\n1,x\n2,\"y\n3,z\n4,w\n", "a,b\n1,x\n\"2,y\n3,z\n4,w\n"] {
        for bad_lines in [BadLines::Error, BadLines::Skip, BadLines::Null] {
            let opened = CsvFile::open(
                memory("a.csv", text),
                &schema,
                CsvOptions { bad_lines, ..CsvOptions::default() },
            );
            let error = opened
                .map_err(|error| error.to_string())
                .and_then(|file| read_all(&file).map_err(|error| error.to_string()));
            assert_eq!(
                error.expect_err("a quote"),
                "Line 3 of `a.csv`: a quoted field is never closed",
                "{bad_lines:?}"
            );
        }
    }
}

#[test]
fn quote_in_the_first_record_that_is_never_closed_is_named() {
    for header in [true, false] {
        let error = infer(
            &[memory("a.csv", "\na,\"b\n1,2\n")],
            &Unpacker::default(),
            &CsvOptions { header, ..CsvOptions::default() },
        )
        .expect_err("a quote");
        assert_eq!(error.to_string(), "Line 2 of `a.csv`: a quoted field is never closed");
    }
}
