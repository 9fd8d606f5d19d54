use super::*;
use crate::records::{BadLine, Declared};

fn two() -> SchemaRef {
    schema(&[("a", DataType::Int64), ("b", DataType::Utf8)])
}

fn error(text: impl AsRef<[u8]>) -> String {
    read_all(&open(text, &two(), BadLines::Error, 1 << 20)).expect_err("a bad line").to_string()
}

#[test]
fn an_error_names_file_line_and_field() {
    assert_eq!(
        error("{\"a\": 1}\r\n\r\n{\"a\": 1.5}\n"),
        "Line 3 of `a.jsonl`: `1.5` in column `a` is not a valid int64"
    );
    assert_eq!(
        error("{\"a\": \"5\"}"),
        "Line 1 of `a.jsonl`: `\"5\"` in column `a` is not a valid int64"
    );
    assert_eq!(
        error("{\"a\": 9223372036854775808}"),
        "Line 1 of `a.jsonl`: `9223372036854775808` in column `a` is not a valid int64"
    );
    assert_eq!(error(b"{\"b\": \"\xff\"}"), "Line 1 of `a.jsonl`: column `b` is not valid UTF-8");
    assert_eq!(error("{\"a\": 1, \"a\": 2}"), "Line 1 of `a.jsonl` has the field `a` twice");
    assert_eq!(error("[1]"), "Line 1 of `a.jsonl` is not an object");
    assert_eq!(
        error("{\"a\": 1}{\"a\": 2}"),
        "Line 1 of `a.jsonl` is not valid JSON at byte 9: expected the end of the line"
    );
    assert_eq!(
        error("{\n\"a\": 1\n}\n"),
        "Line 1 of `a.jsonl` is not valid JSON at byte 2: expected a string"
    );
    assert_eq!(
        error("{\"a\": 01}"),
        "Line 1 of `a.jsonl` is not valid JSON at byte 9: expected a number"
    );
    for name in ["NaN", "Infinity", "-Infinity"] {
        assert_eq!(
            error(format!("{{\"a\": {name}}}")),
            format!("Line 1 of `a.jsonl`: `{name}` in column `a` is not a valid int64")
        );
    }
    assert_eq!(
        error("{\"a\": -NaN}"),
        "Line 1 of `a.jsonl` is not valid JSON at byte 8: expected a number"
    );
    assert_eq!(
        error("{\"a\": Infinite}"),
        "Line 1 of `a.jsonl` is not valid JSON at byte 7: expected a number"
    );
    assert_eq!(
        error("{\"a\": nan}"),
        "Line 1 of `a.jsonl` is not valid JSON at byte 7: expected a value"
    );
    assert_eq!(
        error("{\"a\": 1"),
        "Line 1 of `a.jsonl` is not valid JSON at byte 8: expected a comma or a closing brace"
    );
    let half =
        "the escape is half of a surrogate pair, not a character (write both halves, or \\ufffd)";
    for text in ["\\ud800", "\\ud800\\u0041", "\\ud800\\ud800", "\\udc00", "\\ud800\\n"] {
        assert_eq!(
            error(format!("{{\"b\": \"{text}\"}}")),
            format!("Line 1 of `a.jsonl` is not valid JSON at byte 8: {half}")
        );
    }
    assert_eq!(
        error("{\"b\": \"\\u12\"}"),
        "Line 1 of `a.jsonl` is not valid JSON at byte 8: expected four hexadecimal digits"
    );
    assert_eq!(
        error("{\"b\": \"tab\there\"}"),
        "Line 1 of `a.jsonl` is not valid JSON at byte 11: expected no control \
         character in a string"
    );
    let nested = schema(&[("p", DataType::new_list(DataType::Int64, true))]);
    let error = read_all(&open("{\"p\": [1, \"x\"]}", &nested, BadLines::Error, 9))
        .expect_err("a bad value");
    assert_eq!(
        error.to_string(),
        "Line 1 of `a.jsonl`: `\"x\"` in column `p[1]` is not a valid int64"
    );
}

#[test]
fn numbers_that_are_not_finite_can_be_refused() {
    let (float, text) = (schema(&[("a", DataType::Float32)]), schema(&[("a", DataType::Utf8)]));
    for name in ["NaN", "Infinity", "-Infinity"] {
        let line = format!("{{\"a\": -1}}\n{{\"a\": {name}}}\n");
        for types in [&float, &text] {
            let options = JsonlOptions { refuses_nan: true, ..JsonlOptions::default() };
            let file =
                JsonlFile::open(memory("a.jsonl", &line), types, options.clone()).expect("a file");
            assert_eq!(
                read_all(&file).expect_err("refused").to_string(),
                format!("Line 2 of `a.jsonl`: `{name}` in column `a` is not a valid double")
            );
            let options = JsonlOptions { bad_lines: BadLines::Null, ..options };
            let rows = read_all(
                &JsonlFile::open(memory("a.jsonl", &line), types, options).expect("a file"),
            )
            .expect("rows");
            assert!(rows.column(0).is_valid(0) && rows.column(0).is_null(1));
        }
    }
}

#[test]
fn integers_that_an_inferred_double_would_round_are_named_as_such() {
    for (line, text) in [
        (1, "{\"a\": 123456789012345678901234567890}"),
        (1, "{\"a\": 18446744073709551615}\n{\"a\": -1}"),
        (2, "{\"a\": 0.5}\n{\"a\": -9007199254740993}"),
        (2, "{\"a\": NaN}\n{\"a\": 9007199254740993}"),
    ] {
        let object = memory("a.jsonl", text);
        let options = JsonlOptions { declared: Declared::nothing(), ..JsonlOptions::default() };
        let inferred =
            infer(&[Arc::clone(&object)], &Unpacker::default(), &options).expect("types");
        let file = JsonlFile::open_inferred(object, &inferred, options).expect("a file");
        let message = read_all(&file).expect_err("an integer").to_string();
        assert!(
            message.starts_with(&format!("Line {line} of `a.jsonl`: column `a` has the integer `")),
            "{message}"
        );
        assert!(
            message.ends_with("which double rounds, and no integer type holds all of its values"),
            "{message}"
        );
    }
}

const TEXT: &str =
    "{\"a\": 1, \"b\": \"x\"}\n\n{\"a\": \"y\", \"b\": \"z\"}\n{\"a\": 2, \"b\": \n {\"a\": 3}\n";

#[test]
fn skipped_lines_are_counted_and_listed() {
    for block_bytes in [1, 30, 1000] {
        let file = open(TEXT, &two(), BadLines::Skip, block_bytes);
        let line = |line, reason: &str| BadLine { line, reason: reason.to_owned() };
        let expected = [
            line(3, "Line 3 of `a.jsonl`: `\"y\"` in column `a` is not a valid int64"),
            line(4, "Line 4 of `a.jsonl` is not valid JSON at byte 15: expected a value"),
        ];
        assert_eq!(
            (file.quarantine().count, file.quarantine().lines.as_slice()),
            (2, expected.as_slice())
        );
        assert_eq!(
            read_all(&file).expect("rows"),
            by_arrow_json("{\"a\": 1, \"b\": \"x\"}\n{\"a\": 3}", &two())
        );
    }
    let file = open(TEXT, &two(), BadLines::Skip, 1000);
    let batch = file.read(0, &[0], Some(&BooleanBuffer::from(vec![false, true]))).expect("a row");
    assert_eq!(batch, by_arrow_json("{\"a\": 3}", &schema(&[("a", DataType::Int64)])));
}

#[test]
fn bad_values_are_null_where_asked_for() {
    let expected = "{\"a\": 1, \"b\": \"x\"}\n{\"b\": \"z\"}\n{}\n{\"a\": 3}";
    assert_eq!(
        read_all(&open(TEXT, &two(), BadLines::Null, 1000)).expect("rows"),
        by_arrow_json(expected, &two())
    );
    let inner: arrow_schema::Fields = [
        Field::new("x", DataType::Int64, true),
        Field::new("y", DataType::new_list(DataType::Int64, true), true),
    ]
    .into_iter()
    .collect();
    let nested = schema(&[("s", DataType::Struct(inner))]);
    let bad = "{\"s\": {\"x\": 1, \"y\": [1, \"p\", 2]}}\n7\n{\"s\": {\"y\": [5, 6,}}\n{\"s\": \
        [1]}\n{\"s\": {\"y\": 1, \"x\": 2}}";
    let expected = "{\"s\": {\"x\": 1, \"y\": [1, null, 2]}}\n{}\n{}\n{}\n{\"s\": {\"x\": 2}}";
    assert_eq!(
        read_all(&open(bad, &nested, BadLines::Null, 1000)).expect("rows"),
        by_arrow_json(expected, &nested)
    );
}

#[test]
fn deep_nesting_is_refused_and_does_not_exhaust_the_stack() {
    let deep = format!("{{\"other\": {}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    assert!(error(&deep).contains("expected at most 128 levels"));
    assert_eq!(
        infer(&[memory("a.jsonl", &deep)], &Unpacker::default(), &JsonlOptions::default())
            .expect("nothing")
            .schema()
            .fields()
            .len(),
        0
    );
}

#[test]
fn types_that_json_cannot_hold_are_refused() {
    let map = schema(&[("a", DataType::Duration(arrow_schema::TimeUnit::Second))]);
    let error = JsonlFile::open(memory("a.jsonl", ""), &map, JsonlOptions::default())
        .expect_err("a duration");
    assert!(error.to_string().starts_with("Column `a` cannot be duration[s]"), "{error}");
}
