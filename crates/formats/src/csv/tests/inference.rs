//! Expected types are those that pyarrow 26 infers for the same text.

use super::*;

fn inferred(values: &[&str]) -> String {
    let text = values.iter().fold("a,b\n".to_owned(), |text, value| text + value + ",x\n");
    let inferred = infer(&[memory("a.csv", text)], &Unpacker::default(), &CsvOptions::default())
        .expect("a table");
    match inferred.schema().field(0).data_type() {
        DataType::Utf8 => "string".to_owned(),
        other => other.to_string(),
    }
}

#[test]
fn types_are_those_of_pyarrow() {
    let cases: &[(&[&str], &str)] = &[
        (&["1", "true"], "Boolean"),
        (&["0", "1"], "Int64"),
        (&["T"], "string"),
        (&["1", "1.5"], "Float64"),
        (&["+1"], "Float64"),
        (&["nan", "1"], "Int64"),
        (&["-nan", "1.5"], "Float64"),
        (&["NaN"], "Null"),
        (&[""], "Null"),
        (&["\"NA\"", "2"], "Int64"),
        (&["NA", "x"], "string"),
        (&["2024-01-01"], "Date32"),
        (&[" 2024-01-01"], "Date32"),
        (&["20240101"], "Int64"),
        (&["12:30"], "Time32(s)"),
        (&["12:30:15.5"], "string"),
        (&["2024-01-01 12"], "Timestamp(s)"),
        (&["2024-01-01T12:00:00.5"], "Timestamp(ns)"),
        (&["2024-01-01T12:00:00Z"], "Timestamp(s, \"UTC\")"),
        (&["2024-01-01T12:00:00.5Z"], "Timestamp(ns, \"UTC\")"),
        (&["2024-01-01", "2024-01-01 10:00:00"], "Timestamp(s)"),
        (&["2024-01-01 10:00:00", "2024-01-01T10:00:00Z"], "string"),
        (&["2024-01-01", "2024-01-01T12Z"], "string"),
        (&["2024-01-01 12:00:00.5", "1600-01-01 00:00:00.5"], "string"),
        (&["2024-01-01", "12:30"], "string"),
        (&["9223372036854775808"], "Float64"),
        (&["9223372036854775808", "true"], "string"),
        (&["1", "2024-01-01"], "string"),
        (&[" true"], "string"),
        (&[" ", "1"], "string"),
    ];
    for (values, expected) in cases {
        assert_eq!(inferred(values), *expected, "{values:?}");
    }
}

#[test]
fn types_are_joined_over_all_files_by_name() {
    let files = [
        memory("1.csv", "a,b\n1,x\n"),
        memory("2.csv", "b,a,c\ny,1.5,true\n"),
        memory("3.csv", ""),
        memory("4.csv", "c,d\n"),
    ];
    let inferred = infer(&files, &Unpacker::default(), &CsvOptions::default()).expect("a table");
    let expected = [
        ("a", DataType::Float64),
        ("b", DataType::Utf8),
        ("c", DataType::Boolean),
        ("d", DataType::Null),
    ];
    assert_eq!(*inferred.schema(), schema(&expected));
    let file = CsvFile::open(Arc::clone(&files[1]), inferred.schema(), CsvOptions::default())
        .expect("a file");
    assert_eq!(shown(&read_all(&file).expect("rows")), rows(&[&["1.5", "y", "true", "∅"]]));
}

#[test]
fn a_first_record_longer_than_the_sample_is_looked_at_whole() {
    let text = format!("a,b\n1,\"{}\"\n", "long\n".repeat(500_000));
    let inferred = infer(&[memory("a.csv", text)], &Unpacker::default(), &CsvOptions::default())
        .expect("a table");
    assert_eq!(*inferred.schema(), schema(&[("a", DataType::Int64), ("b", DataType::Utf8)]));
}

#[test]
fn without_a_header_columns_are_numbered() {
    let options = CsvOptions { header: false, ..CsvOptions::default() };
    assert_eq!(
        shown(&table("1,x\n2,y\n", &options, 100).expect("rows")),
        rows(&[&["1", "x"], &["2", "y"]])
    );
    let inferred =
        infer(&[memory("a.csv", "1,x\n")], &Unpacker::default(), &options).expect("a table");
    assert_eq!(inferred.schema().field(1).name(), "f1");
    let error =
        infer(&[memory("a.csv", "1,x\n"), memory("b.csv", "1\n")], &Unpacker::default(), &options)
            .expect_err("other width");
    assert_eq!(error.to_string(), "`b.csv` has 1 columns, the schema has 2");
}

#[test]
fn names_that_repeat_are_refused() {
    let error =
        infer(&[memory("a.csv", "a,a\n1,2\n")], &Unpacker::default(), &CsvOptions::default())
            .expect_err("twice");
    assert_eq!(error.to_string(), "The header of `a.csv` names the column `a` twice");
}
