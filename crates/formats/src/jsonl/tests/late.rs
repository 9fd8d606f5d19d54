//! The types of a file whose sample is shorter than the file: as if the sample were the file.

use super::*;
use crate::jsonl::borders::{ElementBorders, LineBorders};
use crate::jsonl::late::Late;
use crate::jsonl::records::Shape;
use crate::limit::DecodeLimit;
use crate::records::{Borders, Cutter, Pieces, index};
use proptest::prelude::*;

/// Passes chunks on in smaller ones.
struct InChunks<'a> {
    borders: &'a mut dyn Borders,
    chunk_bytes: usize,
}

impl Borders for InChunks<'_> {
    fn push(&mut self, chunk: &[u8], offset: u64, cutter: &mut Cutter) {
        for (number, part) in chunk.chunks(self.chunk_bytes).enumerate() {
            self.borders.push(part, offset + (number * self.chunk_bytes) as u64, cutter);
        }
    }

    fn finish(&mut self, end: u64, cutter: &mut Cutter) {
        self.borders.finish(end, cutter);
    }
}

fn types(text: &str) -> Option<Inferred> {
    infer(&[memory("a.json", text)], &Unpacker::default(), &JsonlOptions::default()).ok()
}

/// The schema of `text` after a sample.
fn late_types(sample: &str, text: &str, shape: Shape, chunk_bytes: usize) -> SchemaRef {
    let inferred = types(sample).expect("types");
    let mut late = Late::new(&inferred.sample().row, shape);
    let mut look = |piece: &[u8]| late.look(piece);
    let (mut lines, mut elements) = (LineBorders::new(0), ElementBorders::new());
    let borders: &mut dyn Borders = if shape == Shape::Lines { &mut lines } else { &mut elements };
    let mut pieces = Pieces::new(borders, DecodeLimit::default(), &mut look);
    index(
        memory("a.json", text).as_ref(),
        0,
        &mut InChunks { borders: &mut pieces, chunk_bytes },
        1 << 20,
    )
    .expect("memory");
    if let Some(members) = late.into_changed() {
        inferred.add("a.json", members);
    }
    inferred.late_schema().unwrap_or_else(|| Arc::clone(inferred.schema()))
}

fn any_value() -> impl Strategy<Value = serde_json::Value> {
    let scalar = prop_oneof![
        Just(serde_json::Value::Null),
        any::<i32>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<u64>().prop_map(Into::into),
        (-1e30..1e30).prop_map(Into::into),
        any::<bool>().prop_map(Into::into),
        prop::sample::select(vec!["NaN", "-Infinity"]).prop_map(Into::into),
        "[\"a{}:,.\\\\é]{0,6}".prop_map(Into::into),
    ];
    scalar.prop_recursive(3, 12, 4, |value| {
        let object = prop::collection::btree_map("[ab\"é]", value.clone(), 0..3);
        prop_oneof![
            prop::collection::vec(value, 0..3).prop_map(Into::into),
            object.prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
        ]
    })
}

fn any_record() -> impl Strategy<Value = String> {
    let members = prop::collection::vec(("[a-d\"]", any_value()), 0..5);
    (members, any::<bool>()).prop_map(|(members, is_spread)| {
        let object: serde_json::Map<_, _> = members.into_iter().collect();
        let text = serde_json::Value::Object(object)
            .to_string()
            .replace("\"NaN\"", "NaN")
            .replace("\"-Infinity\"", "-Infinity");
        // Outside of strings, which have no such pair of characters.
        if is_spread { text.replace("\":", "\" \t: ").replace('é', "\\u00e9") } else { text }
    })
}

proptest! {
    #[test]
    fn types_are_those_of_a_sample_of_the_whole_file(
        records in prop::collection::vec(any_record(), 2..8),
        sampled in 1usize..4,
        chunk_bytes in 1usize..100,
    ) {
        let text = records.join("\n");
        // Values without a common type are errors wherever they are.
        let Some(whole) = types(&text) else { return Ok(()) };
        let sample = records[..sampled.min(records.len())].join("\n");
        prop_assert_eq!(&late_types(&sample, &text, Shape::Lines, chunk_bytes), whole.schema());
        let array = format!("[{}]", records.join(" ,\n"));
        prop_assert_eq!(&late_types(&sample, &array, Shape::Array, chunk_bytes), whole.schema());
    }

    #[test]
    fn any_bytes_are_passed(
        bytes in
            prop::collection::vec(prop::sample::select(b"{}[]\",:\\an1.e \n".to_vec()), 0..100),
        chunk_bytes in 1usize..20,
    ) {
        let text = String::from_utf8(bytes).expect("ASCII");
        late_types("{\"a\": 1}", &text, Shape::Lines, chunk_bytes);
        late_types("{\"a\": 1}", &text, Shape::Array, chunk_bytes);
    }
}

#[test]
fn names_that_are_data_do_not_fill_the_schema() {
    let mut text = "{\"scores\": {\"a\": 1}}\n".to_owned();
    (0..5000)
        .for_each(|row| text.push_str(&format!("{{\"scores\": {{\"user {row}\": {row}}}}}\n")));
    let found = late_types("{\"scores\": {\"a\": 1}}", &text, Shape::Lines, 1 << 16);
    let DataType::Struct(members) = found.field(0).data_type() else { panic!("{found}") };
    assert_eq!(
        (members.len(), members[0].name().as_str(), members[1].name().as_str()),
        (1026, "a", "user 0")
    );
}

#[test]
fn files_add_their_types_in_any_order() {
    let files = [
        ("2", "{\"c\": \"x\", \"b\": [1]}"),
        ("1", "{\"a\": 0.5, \"d\": {\"e\": 1}}"),
        ("3", "{\"d\": {\"f\": 0.5, \"e\": 0.5}, \"c\": 1}"),
    ];
    let add = |order: [usize; 3]| {
        let fresh = types("{\"a\": 1, \"b\": null}").expect("types");
        for (path, text) in order.map(|number| files[number]) {
            let mut late = Late::new(&fresh.sample().row, Shape::Lines);
            late.look(text.as_bytes());
            fresh.add(path, late.into_changed().expect("a change"));
        }
        fresh.late_schema().expect("other types")
    };
    let expected = add([0, 1, 2]);
    assert!(
        [[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]]
            .into_iter()
            .all(|order| add(order) == expected)
    );
    let inner = DataType::Struct(
        vec![Field::new("e", DataType::Float64, true), Field::new("f", DataType::Float64, true)]
            .into(),
    );
    let fields = [
        ("a", DataType::Float64),
        ("b", DataType::new_list(DataType::Int64, true)),
        ("d", inner),
        ("c", DataType::Utf8),
    ];
    assert_eq!(expected, schema(&fields));
}

#[test]
fn integer_beyond_int64_is_found_at_any_place_of_a_line() {
    let sample = "{\"a\": 1, \"b\": [1]}";
    for (text, a, b) in [
        ("{\"a\": 9223372036854775807, \"b\": [2]}", DataType::Int64, DataType::Int64),
        (
            "{\"a\": -9223372036854775808, \"b\": [-9223372036854775808]}",
            DataType::Int64,
            DataType::Int64,
        ),
        ("{\"a\": 9223372036854775808, \"b\": [2]}", DataType::UInt64, DataType::Int64),
        ("{\"a\": -1}\n{\"a\": 9223372036854775808}", DataType::Float64, DataType::Int64),
        (
            "{\"b\": [100, 20, 3, 18446744073709551615, 4], \"a\": 2}",
            DataType::Int64,
            DataType::UInt64,
        ),
        (
            "{\"a\" : 18446744073709551615, \"b\": [1234567890, 9223372036854775807]}",
            DataType::UInt64,
            DataType::Int64,
        ),
        ("{\"a\": 18446744073709551616}", DataType::Float64, DataType::Int64),
    ] {
        assert_eq!(
            late_types(sample, text, Shape::Lines, 1 << 16),
            schema(&[("a", a), ("b", DataType::new_list(b, true))]),
            "{text}"
        );
    }
}

#[test]
fn lines_with_more_than_an_object_decide_nothing() {
    let text = "{\"a\": 1}\n{\"a\": 2, \"b\": 3} x\n{\"a\": 0.5}{\"a\": 1}\n";
    assert_eq!(late_types("{\"a\": 1}", text, Shape::Lines, 10), schema(&[("a", DataType::Int64)]));
}
