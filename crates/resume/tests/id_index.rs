//! Compares the index with sets of the standard library.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "functions of a test, which fails by them"
)]

use arrow_array::{
    Array, ArrayRef, BinaryArray, Decimal128Array, DictionaryArray, FixedSizeBinaryArray,
    Int64Array, LargeStringArray, StringArray, StringViewArray, UInt64Array,
};
use arrow_schema::{DataType, Field, Schema};
use proptest::prelude::*;
use shardmill_engine::Cancel;
use shardmill_resume::index::{IdIndex, IndexBuilder, IndexOptions};
use shardmill_resume::keys::IdSchema;
use shardmill_resume::{DoneIds, Error};
use std::collections::HashSet;
use std::sync::Arc;

fn schema_of(types: &[DataType]) -> IdSchema {
    let names: Vec<String> = (0..types.len()).map(|number| format!("id{number}")).collect();
    let fields: Vec<Field> = names
        .iter()
        .zip(types)
        .map(|(name, data_type)| Field::new(name, data_type.clone(), true))
        .collect();
    IdSchema::of(&Schema::new(fields), &names).unwrap()
}

fn build(batches: &[Vec<ArrayRef>], memory_bytes: u64) -> (tempfile::TempDir, IdIndex) {
    let directory = tempfile::tempdir().unwrap();
    let types: Vec<DataType> = batches[0].iter().map(|array| array.data_type().clone()).collect();
    let options = IndexOptions { memory_bytes, threads: 2, ..IndexOptions::default() };
    let path = directory.path().join("a.ids").display().to_string();
    let builder = IndexBuilder::new(&path, schema_of(&types), options).unwrap();
    std::thread::scope(|scope| {
        for half in batches.chunks(batches.len().div_ceil(2)) {
            let builder = &builder;
            scope.spawn(move || half.iter().for_each(|batch| builder.add(batch).unwrap()));
        }
    });
    let index = builder.finish(&Cancel::default()).unwrap();
    assert_eq!(
        std::fs::read_dir(directory.path()).unwrap().count(),
        1,
        "nothing but the index is left"
    );
    (directory, index)
}

fn answers(index: &IdIndex, ids: &[ArrayRef]) -> Vec<bool> {
    index.contains(ids).unwrap().iter().collect()
}

/// Typical ids: numbers, numbers with zeros, UUIDs in both cases, hashes, words, and long texts.
fn text() -> impl Strategy<Value = Option<String>> {
    let number = (any::<u64>(), 0u32..64).prop_map(|(number, shift)| (number >> shift).to_string());
    let uuid = any::<u128>().prop_map(|value| uuid::Uuid::from_u128(value).to_string());
    prop_oneof![
        6 => (0u32..3000).prop_map(|number| Some(number.to_string())),
        2 => number.prop_map(Some),
        1 => (0u32..300).prop_map(|number| Some(format!("0{number}"))),
        2 => uuid.clone().prop_map(Some),
        1 => uuid.clone().prop_map(|uuid| Some(uuid.to_uppercase())),
        1 => uuid.prop_map(|uuid| Some(uuid.replace('-', ""))),
        2 => "[a-c ]{0,4}".prop_map(Some),
        1 => "[a-z0-9]{14,40}".prop_map(Some),
        1 => Just(None),
    ]
}

fn as_kind(texts: &[Option<String>], kind: usize) -> ArrayRef {
    match kind {
        0 => Arc::new(texts.iter().cloned().collect::<StringArray>()),
        1 => Arc::new(texts.iter().cloned().collect::<LargeStringArray>()),
        2 => Arc::new(texts.iter().cloned().collect::<StringViewArray>()),
        _ => Arc::new(
            texts
                .iter()
                .map(Option::as_deref)
                .collect::<DictionaryArray<arrow_array::types::Int32Type>>(),
        ),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn strings_of_all_classes_are_found_exactly_whatever_array_they_come_in(
        texts in prop::collection::vec(text(), 1..1500),
        probed in prop::collection::vec(text(), 0..500),
        kinds in (0usize..4, 0usize..4),
        memory_bytes in prop_oneof![Just(1u64), Just(1 << 30)],
    ) {
        let batches: Vec<Vec<ArrayRef>> =
            texts.chunks(199).map(|part| vec![as_kind(part, kinds.0)]).collect();
        let (_directory, index) = build(&batches, memory_bytes);
        let set: HashSet<&String> = texts.iter().flatten().collect();
        prop_assert_eq!(index.len(), set.len() as u64);
        prop_assert_eq!(
            (index.rows(), index.nulls()),
            (texts.len() as u64, texts.iter().filter(|text| text.is_none()).count() as u64)
        );
        let probed: Vec<Option<String>> = probed.into_iter().chain(texts.iter().cloned()).collect();
        let expected: Vec<bool> = probed
            .iter()
            .map(|text| text.as_ref().is_some_and(|text| set.contains(text)))
            .collect();
        prop_assert_eq!(answers(&index, &[as_kind(&probed, kinds.1)]), expected);
        let (first, last) = (probed.iter().flatten().min(), probed.iter().flatten().max());
        if let (Some(first), Some(last)) = (first, last) {
            let one = |text: &String| as_kind(&[Some(text.clone())], kinds.1);
            prop_assert!(index.may_contain(&one(first), &one(last)) || set.is_empty());
        }
    }

    #[test]
    fn integers_are_found_exactly_whether_dense_or_not(
        runs in prop::collection::vec(
            (any::<i64>(), 1i64..3000, 1i64..70, prop_oneof![Just(0u32), Just(40), Just(50)]),
            1..12,
        ),
        probed in prop::collection::vec((any::<i64>(), 0u32..60), 0..300),
        memory_bytes in prop_oneof![Just(1u64), Just(1 << 30)],
    ) {
        let ids: Vec<i64> = runs
            .iter()
            .flat_map(|(start, len, step, shift)| {
                (0..*len).map(move |number| (start >> shift).wrapping_add(number * step))
            })
            .collect();
        let batches: Vec<Vec<ArrayRef>> = ids
            .chunks(777)
            .map(|part| vec![Arc::new(Int64Array::from(part.to_vec())) as ArrayRef])
            .collect();
        let (_directory, index) = build(&batches, memory_bytes);
        let set: HashSet<i64> = ids.iter().copied().collect();
        prop_assert_eq!(index.len(), set.len() as u64);
        let near =
            ids.iter().step_by(17).flat_map(|id| [id.wrapping_sub(1), *id, id.wrapping_add(1)]);
        let probed: Vec<i64> = probed.iter().map(|(id, shift)| id >> shift).chain(near).collect();
        let expected: Vec<bool> = probed.iter().map(|id| set.contains(id)).collect();
        prop_assert_eq!(answers(&index, &[Arc::new(Int64Array::from(probed.clone()))]), expected);
        for pair in probed.windows(2).take(50) {
            let (from, to) = (pair[0].min(pair[1]), pair[0].max(pair[1]));
            let one = |id: i64| Arc::new(Int64Array::from(vec![id])) as ArrayRef;
            prop_assert!(
                index.may_contain(&one(from), &one(to))
                    || !set.iter().any(|id| (from..=to).contains(id))
            );
        }
    }

    #[test]
    fn pairs_are_found_exactly_and_values_do_not_run_together(
        pairs in prop::collection::vec(
            (prop::option::of("[a-b]{0,3}"), prop::option::of("[a-b]{0,20}")),
            1..300,
        ),
        probed in prop::collection::vec(
            (prop::option::of("[a-b]{0,3}"), prop::option::of("[a-b]{0,20}")),
            0..100,
        ),
    ) {
        let columns = |pairs: &[(Option<String>, Option<String>)]| -> Vec<ArrayRef> {
            vec![
                Arc::new(pairs.iter().map(|pair| pair.0.clone()).collect::<StringArray>()),
                Arc::new(pairs.iter().map(|pair| pair.1.clone()).collect::<StringArray>()),
            ]
        };
        let (_directory, index) = build(&[columns(&pairs)], 1 << 20);
        let whole = |pair: &&(Option<String>, Option<String>)| pair.0.is_some() && pair.1.is_some();
        let set: HashSet<_> = pairs.iter().filter(whole).collect();
        prop_assert_eq!(index.len(), set.len() as u64);
        let probed: Vec<_> = probed.into_iter().chain(pairs.clone()).collect();
        prop_assert_eq!(
            answers(&index, &columns(&probed)),
            probed.iter().map(|pair| set.contains(pair)).collect::<Vec<_>>()
        );
    }

    #[test]
    fn bytes_and_decimals_are_found_exactly(
        bytes in prop::collection::vec(prop::collection::vec(0u8..3, 0..18), 1..300),
        probed in prop::collection::vec(prop::collection::vec(0u8..3, 0..18), 0..100),
        decimals in prop::collection::vec(-5i128..5, 1..20),
    ) {
        let (_directory, index) =
            build(&[vec![Arc::new(BinaryArray::from_iter_values(&bytes))]], 1 << 20);
        let set: HashSet<_> = bytes.iter().collect();
        prop_assert_eq!(index.len(), set.len() as u64);
        prop_assert_eq!(
            answers(&index, &[Arc::new(BinaryArray::from_iter_values(&probed))]),
            probed.iter().map(|value| set.contains(value)).collect::<Vec<_>>()
        );
        let array = |values: &[i128]| {
            Arc::new(
                Decimal128Array::from(values.to_vec()).with_precision_and_scale(20, 3).unwrap(),
            ) as ArrayRef
        };
        let (_directory, index) = build(&[vec![array(&decimals)]], 1 << 20);
        let all: Vec<i128> = (-6..6).collect();
        prop_assert_eq!(
            answers(&index, &[array(&all)]),
            all.iter().map(|value| decimals.contains(value)).collect::<Vec<_>>()
        );
    }
}

#[test]
fn spilled_index_of_many_keys_answers_as_one_built_in_memory() {
    let value = |number: u64| {
        format!(
            "{:032x}",
            u128::from(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)) << 60 | u128::from(number)
        )
    };
    let batches: Vec<Vec<ArrayRef>> = (0..60)
        .map(|batch| {
            vec![Arc::new(StringArray::from_iter_values(
                (0..5000).map(|row| value((batch * 4000 + row) * 3)),
            )) as ArrayRef]
        })
        .collect();
    for memory_bytes in [1 << 20, 1 << 30] {
        let (_directory, index) = build(&batches, memory_bytes);
        assert_eq!(index.len(), 59 * 4000 + 5000);
        let probed = StringArray::from_iter_values((0..100_000).map(value));
        assert_eq!(
            answers(&index, &[Arc::new(probed)]),
            (0..100_000).map(|number| number % 3 == 0).collect::<Vec<_>>()
        );
        assert!(index.num_bytes() < index.len() * 16, "{} bytes", index.num_bytes());
        index.verify().unwrap();
    }
}

#[test]
fn consecutive_numbers_take_next_to_nothing_in_any_order_of_their_files() {
    let batch = |number: u64| {
        vec![Arc::new(UInt64Array::from_iter_values(number * 10_000..(number + 1) * 10_000))
            as ArrayRef]
    };
    let batches: Vec<Vec<ArrayRef>> = (0..400).map(|number| batch(number * 7 % 400)).collect();
    let (_directory, index) = build(&batches, 1 << 30);
    assert_eq!(index.len(), 4_000_000);
    assert!(index.num_bytes() < 1000, "{} bytes", index.num_bytes());
}

#[test]
fn shuffled_dense_numbers_take_less_than_a_byte_each() {
    let ids = (0..300_000u64).map(|number| number * 7919 % 300_007 * 2);
    let (_directory, index) = build(&[vec![Arc::new(UInt64Array::from_iter_values(ids))]], 1 << 30);
    assert_eq!(index.len(), 300_000);
    assert!(index.num_bytes() < 300_000, "{} bytes", index.num_bytes());
}

#[test]
fn another_type_is_refused_and_both_are_named() {
    let (_directory, index) = build(&[vec![Arc::new(StringArray::from(vec!["7"]))]], 1 << 20);
    let error = index.contains(&[Arc::new(Int64Array::from(vec![7]))]).unwrap_err();
    assert!(matches!(error, Error::TypeMismatch { .. }));
    assert_eq!(
        error.to_string(),
        "Ids of column `id0` are signed integer here and string in the index"
    );
}

#[test]
fn fixed_binaries_of_every_length_are_distinguished_from_their_neighbours() {
    for len in [1usize, 15, 16, 17, 40] {
        let value = |number: u8| vec![number; len];
        let array = |numbers: std::ops::Range<u8>| {
            Arc::new(FixedSizeBinaryArray::try_from_iter(numbers.map(value)).unwrap()) as ArrayRef
        };
        let (_directory, index) = build(&[vec![array(0..9)]], 1 << 20);
        assert_eq!(answers(&index, &[array(7..11)]), [true, true, false, false]);
    }
}

/// A file with any change is rejected, or gives the same results.
#[test]
fn damaged_files_are_refused_or_answer_as_before() {
    let texts: Vec<Option<String>> = (0..400)
        .map(|number| Some(format!("{number}")))
        .chain((0..400).map(|number| Some(format!("w{}", number * 31))))
        .collect();
    let ids = as_kind(&texts, 0);
    let (directory, index) = build(&[vec![Arc::clone(&ids)]], 1 << 30);
    let probed = as_kind(
        &(0..500)
            .flat_map(|number| [Some(format!("{number}")), Some(format!("w{number}"))])
            .collect::<Vec<_>>(),
        2,
    );
    let expected = answers(&index, &[Arc::clone(&probed)]);
    let whole = std::fs::read(index.path()).unwrap();
    let path = directory.path().join("damaged.ids").display().to_string();
    let check = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        if let Ok(found) =
            IdIndex::open(&path).and_then(|index| index.contains(&[Arc::clone(&probed)]))
        {
            assert_eq!(found.iter().collect::<Vec<_>>(), expected);
        }
    };
    for place in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[place] ^= 1 << (place % 8);
        check(&bytes);
        if place % 5 == 0 {
            check(&whole[..place]);
        }
    }
    std::fs::write(&path, b"").unwrap();
    assert!(matches!(IdIndex::open(&path), Err(Error::NotAnIndex { .. })));
}

#[test]
fn cancelled_build_publishes_nothing_and_leaves_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.ids").display().to_string();
    let builder =
        IndexBuilder::new(&path, schema_of(&[DataType::Int64]), IndexOptions::default()).unwrap();
    builder.add(&[Arc::new(Int64Array::from_iter_values(0..1000))]).unwrap();
    let cancel = Cancel::default();
    cancel.cancel();
    assert!(matches!(builder.finish(&cancel), Err(Error::Engine(_))));
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}
