use super::*;
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;

fn inferred(files: &[&str]) -> Result<SchemaRef, Error> {
    let files: Vec<_> = files
        .iter()
        .enumerate()
        .map(|(number, text)| memory(&format!("{number}.jsonl"), text))
        .collect();
    infer(&files, &Unpacker::default(), &JsonlOptions::default())
        .map(|inferred| Arc::clone(inferred.schema()))
}

#[test]
fn types_are_joined_over_lines_and_files() {
    let files = [
        "{\"a\": 1, \"b\": null, \"c\": [1, 2], \"d\": {\"x\": true}}\n\n{\"b\": \"t\"}",
        "",
        "{\"c\": [1.5], \"d\": {\"y\": []}, \"big\": 9223372036854775808, \"e\": {}, \"n\": \
         null}\r\n{\"a\": -0}\r\n",
    ];
    let inner = DataType::Struct(
        [
            Field::new("x", DataType::Boolean, true),
            Field::new("y", DataType::new_list(DataType::Null, true), true),
        ]
        .into_iter()
        .collect(),
    );
    let expected = schema(&[
        ("a", DataType::Int64),
        ("b", DataType::Utf8),
        ("c", DataType::new_list(DataType::Float64, true)),
        ("d", inner),
        ("big", DataType::UInt64),
        ("e", DataType::Struct(Vec::<Field>::new().into())),
        ("n", DataType::Null),
    ]);
    let found = inferred(&files).expect("types");
    assert_eq!(found, expected);
    let rows = read_all(&open(files[2], &found, BadLines::Error, 10)).expect("rows");
    assert_eq!(rows, by_arrow_json(files[2], &found));
}

#[test]
fn numbers_that_are_not_finite_are_doubles_as_those_of_python() {
    let text = "{\"a\": 1, \"b\": [NaN]}\n{\"a\": Infinity}\n{\"a\": -Infinity, \"b\": [2, \
        -0.5]}\n{\"a\": null}\n";
    let found = inferred(&[text]).expect("types");
    assert_eq!(
        found,
        schema(&[("a", DataType::Float64), ("b", DataType::new_list(DataType::Float64, true))])
    );
    let rows = read_all(&open(text, &found, BadLines::Error, 30)).expect("rows");
    assert_eq!(
        rows.column(0).as_primitive::<Float64Type>().iter().collect::<Vec<_>>(),
        [Some(1.0), Some(f64::INFINITY), Some(-f64::INFINITY), None]
    );
    assert!(
        rows.column(1).as_list::<i32>().value(0).as_primitive::<Float64Type>().value(0).is_nan()
    );
}

#[test]
fn given_strings_hold_the_text_of_any_value() {
    let text = "{\"a\": 5}\n{\"a\": \"A\"}\n{\"a\": true}\n{\"a\": 1.50}\n{\"a\": NaN}\n{\"a\": \
        null}\n{\"a\":  [1, {} ] }\n";
    let rows = read_all(&open(text, &schema(&[("a", DataType::Utf8)]), BadLines::Error, 30))
        .expect("rows");
    let expected =
        [Some("5"), Some("A"), Some("true"), Some("1.50"), Some("NaN"), None, Some("[1, {} ]")];
    assert_eq!(rows.column(0).as_string::<i32>().iter().collect::<Vec<_>>(), expected);
}

#[test]
fn values_without_a_common_type_are_one_error_that_names_both_places() {
    let error = inferred(&["{\"a\": {\"b\": [1]}}\n", "\n{\"a\": {\"b\": [\"x\"]}}\n"])
        .expect_err("a conflict");
    assert_eq!(
        error.to_string(),
        "Field `a.b[]` is an integer in line 1 of `0.jsonl` and a string in line 2 of `1.jsonl`"
    );
    let error = inferred(&["{\"a\": 1}\n{\"a\": true}\n"]).expect_err("a conflict");
    assert_eq!(
        error.to_string(),
        "Field `a` is an integer in line 1 of `0.jsonl` and a boolean in line 2 of `0.jsonl`"
    );
    assert!(error.hint().is_some());
}

#[test]
fn lines_that_are_not_json_decide_nothing() {
    let text = "{\"a\": \"x\", \n{\"a\": \"x\"} y\n{\"a\": \"x\"}{\"b\": 1}\n{\"a\": 1}\n[1]\n7\n";
    assert_eq!(inferred(&[text]).expect("types"), schema(&[("a", DataType::Int64)]));
}

#[test]
fn a_first_line_longer_than_the_sample_is_looked_at_whole() {
    let text = format!("{{\"a\": \"{}\"}}\n{{\"a\": \"x\", \"late\": 1}}\n", "x".repeat(3 << 20));
    assert_eq!(inferred(&[&text]).expect("types").field(0).data_type(), &DataType::Utf8);
}
