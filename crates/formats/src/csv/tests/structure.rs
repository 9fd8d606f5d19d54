use super::*;

fn default_rows(text: impl AsRef<[u8]> + Clone) -> Vec<Vec<String>> {
    let expected = shown(&table(text.clone(), &CsvOptions::default(), 1 << 20).expect("rows"));
    for block_bytes in [1, 5, 17] {
        assert_eq!(
            shown(&table(text.clone(), &CsvOptions::default(), block_bytes).expect("rows")),
            expected,
            "blocks of {block_bytes} bytes"
        );
    }
    expected
}

#[test]
fn every_line_end_and_quoting_of_pyarrow_is_read() {
    let two = rows(&[&["1", "2"], &["3", "4"]]);
    assert_eq!(default_rows("a,b\n1,2\n3,4\n"), two);
    assert_eq!(default_rows("a,b\r\n1,2\r\n3,4\r\n"), two);
    assert_eq!(default_rows("a,b\r1,2\r3,4"), two, "lone carriage returns");
    assert_eq!(default_rows("a,b\n1,2\n3,4"), two, "no last line end");
    assert_eq!(default_rows("\n\na,b\n\n1,2\n\r\n\n3,4\n\n"), two, "blank lines");
    assert_eq!(default_rows(b"\xef\xbb\xbfa,b\n1,2\n3,4\n"), two, "byte order mark");
    assert_eq!(default_rows("\"a\",\"b\"\n\"1\",\"2\"\n3,\"4\""), two);
    assert_eq!(
        default_rows("a\n1\n\n2\n"),
        rows(&[&["1"], &["2"]]),
        "blank lines of one column are not rows"
    );
    assert_eq!(default_rows("a\n\"\"\n\"x\"\n"), rows(&[&[""], &["x"]]), "quoted empty fields are");
}

#[test]
fn quoted_fields_hold_anything() {
    assert_eq!(
        default_rows("a,b\n1,\"x\ny\"\n2,\"p,q\"\n3,\"say \"\"hi\"\"\"\n"),
        rows(&[&["1", "x\ny"], &["2", "p,q"], &["3", "say \"hi\""]])
    );
    assert_eq!(default_rows("a,b\n1,\"\r\n\r\n\"\n2,z"), rows(&[&["1", "\r\n\r\n"], &["2", "z"]]));
    assert_eq!(
        default_rows("a,b\n1,\"a\"b\n2,a\"b\n3,\"\"\"\"\n"),
        rows(&[&["1", "ab"], &["2", "a\"b"], &["3", "\""]])
    );
    let options = CsvOptions { quote: None, delimiter: b';', ..CsvOptions::default() };
    assert_eq!(
        shown(&table("a;b\n\"x;y\"\n", &options, 1).expect("rows")),
        rows(&[&["\"x", "y\""]])
    );
}

#[test]
fn nulls_are_those_of_pyarrow() {
    assert_eq!(
        default_rows("a,b\n1,\n,x\nNA,NA\n"),
        rows(&[&["1", ""], &["∅", "x"], &["∅", "NA"]])
    );
    let options = CsvOptions {
        strings_can_be_null: true,
        null_values: vec!["-999".to_owned(), String::new()],
        ..CsvOptions::default()
    };
    assert_eq!(
        shown(&table("a,b\n-999,-999\n2,\n", &options, 9).expect("rows")),
        rows(&[&["∅", "∅"], &["2", "∅"]])
    );
}

#[test]
fn files_without_rows_have_no_blocks() {
    for text in ["", "\n", "\u{feff}", "a,b", "a,b\n", "a,b\r\n\r\n"] {
        let object = memory("a.csv", text);
        let inferred = infer(&[Arc::clone(&object)], &Unpacker::default(), &CsvOptions::default())
            .expect("no error");
        let file = CsvFile::open(object, inferred.schema(), CsvOptions::default()).expect("a file");
        assert!(file.blocks().is_empty(), "{text:?}");
    }
}

#[test]
fn projection_and_selection_deliver_what_was_asked_for() {
    let object = memory("a.csv", "a,b,c\n1,2,3\n4,5,6\n7,8,9\n");
    let schema = schema(&[
        ("a", DataType::Int64),
        ("b", DataType::Int64),
        ("c", DataType::Int64),
        ("lacking", DataType::Utf8),
    ]);
    let file = CsvFile::open(object, &schema, CsvOptions::default()).expect("a file");
    let selection = BooleanBuffer::from(vec![true, false, true]);
    let batch = file.read(0, &[2, 3, 0, 2], Some(&selection)).expect("rows");
    assert_eq!(shown(&batch), rows(&[&["3", "∅", "1", "3"], &["9", "∅", "7", "9"]]));
    assert_eq!(file.read(0, &[], Some(&selection)).expect("rows").num_rows(), 2);
    assert_eq!(file.read(0, &[3], None).expect("rows").num_rows(), 3);
    assert!(file.read(1, &[0], None).is_err());
    assert!(file.read(0, &[4], None).is_err());
}

#[test]
fn blocks_are_cut_at_records_and_count_their_rows() {
    let text =
        (0..1000).fold("a,b\n".to_owned(), |text, row| text + &format!("{row},\"{row}\n\"\n"));
    let object = memory("a.csv", &text);
    let schema = schema(&[("a", DataType::Int64), ("b", DataType::Utf8)]);
    let file = CsvFile::open_with_blocks(Arc::clone(&object), &schema, CsvOptions::default(), 500)
        .expect("a file");
    assert!(file.blocks().len() > 15);
    assert!(file.blocks().iter().all(|block| block.stored_bytes <= 500));
    assert_eq!(file.blocks().iter().map(|block| block.rows).sum::<u64>(), 1000);
    assert_eq!(read_all(&file).expect("rows").num_rows(), 1000);
    let other =
        CsvFile::open(memory("b.csv", text.replace("999", "998")), &schema, CsvOptions::default())
            .expect("a file");
    assert_ne!(file.digest(), other.digest());
}

#[test]
fn options_and_types_that_make_no_sense_are_refused() {
    let object = memory("a.csv", "a\n1\n");
    let nested = schema(&[("a", DataType::new_list(DataType::Int64, true))]);
    let error =
        CsvFile::open(Arc::clone(&object), &nested, CsvOptions::default()).expect_err("a list");
    assert!(error.to_string().starts_with("Column `a` cannot be list<int64>"), "{error}");
    for options in [
        CsvOptions { delimiter: b'\n', ..CsvOptions::default() },
        CsvOptions { quote: Some(b','), ..CsvOptions::default() },
        CsvOptions { delimiter: 0xff, ..CsvOptions::default() },
    ] {
        assert!(matches!(
            infer(&[Arc::clone(&object)], &Unpacker::default(), &options),
            Err(Error::InvalidOption { .. })
        ));
    }
}

#[test]
fn a_file_that_changes_after_it_was_opened_is_an_error() {
    use shardmill_storage::{AnyStore, Store};

    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("a.csv");
    std::fs::write(&path, "a\n1\n2\n3\n").expect("room");
    let name = path.display().to_string();
    let object = AnyStore.open(&name).expect("a file");
    let file = CsvFile::open(object, &schema(&[("a", DataType::Int64)]), CsvOptions::default())
        .expect("a file");
    std::fs::write(&path, "a\n1\n223\n").expect("room");
    assert!(matches!(
        file.read(0, &[0], None),
        Err(TableError::Text(Error::Changed { found: 2, expected: 3, .. }))
    ));
    std::fs::write(&path, "a\n1").expect("room");
    assert!(matches!(file.read(0, &[0], None), Err(TableError::Text(Error::Storage(_)))));
}
