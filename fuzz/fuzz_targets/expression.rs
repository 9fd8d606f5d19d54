//! Any JSON as a filter: it is refused or evaluated to one truth a row, over columns of every kind
//! that a filter may meet.
#![no_main]

use arrow_array::types::Int8Type;
use arrow_array::{
    ArrayRef, BinaryArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray,
    Float16Array, Float32Array, Float64Array, Int8Array, Int64Array, NullArray, RecordBatch,
    StringArray, StringViewArray, TimestampMicrosecondArray, UInt64Array,
};
use libfuzzer_sys::fuzz_target;
use shardmill_plan::Expression;
use std::sync::{Arc, LazyLock};

/// Short names, so that a mutation hits one.
static ROWS: LazyLock<RecordBatch> = LazyLock::new(|| {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("a", Arc::new(Int64Array::from(vec![Some(i64::MIN), None, Some(i64::MAX)]))),
        ("b", Arc::new(UInt64Array::from(vec![Some(0), None, Some(u64::MAX)]))),
        ("c", Arc::new(Int8Array::from(vec![Some(-128), None, Some(127)]))),
        ("d", Arc::new(Float64Array::from(vec![Some(f64::NAN), None, Some(-0.0)]))),
        ("e", Arc::new(Float32Array::from(vec![Some(f32::INFINITY), None, Some(0.1)]))),
        ("f", Arc::new(StringArray::from(vec![Some(""), None, Some("ü")]))),
        (
            "g",
            Arc::new(StringViewArray::from(vec![
                Some("a view that is longer than twelve bytes"),
                None,
                Some("x"),
            ])),
        ),
        ("h", Arc::new(BooleanArray::from(vec![Some(true), None, Some(false)]))),
        ("i", Arc::new(NullArray::new(3))),
        (
            "j",
            Arc::new(
                TimestampMicrosecondArray::from(vec![Some(i64::MAX), None, Some(0)])
                    .with_timezone("UTC"),
            ),
        ),
        ("k", Arc::new(Date32Array::from(vec![Some(i32::MIN), None, Some(0)]))),
        ("l", Arc::new(BinaryArray::from(vec![Some(b"x".as_slice()), None, Some(b"")]))),
        (
            "m",
            Arc::new(
                [Some("p"), None, Some("q")].into_iter().collect::<DictionaryArray<Int8Type>>(),
            ),
        ),
        ("n", Arc::new(Float16Array::from(vec![None, None, None]))),
        ("o", Arc::new(Decimal128Array::from(vec![Some(i128::MAX), None, Some(1)]))),
    ];
    RecordBatch::try_from_iter(columns).expect("equal lengths")
});

fuzz_target!(|json: &[u8]| {
    let Ok(expression) = serde_json::from_slice::<Expression>(json) else { return };
    let Ok(truth) = expression.evaluate(&ROWS) else { return };
    assert_eq!(truth.iter().count(), ROWS.num_rows());
    let kept = expression.keep(&ROWS).expect("it was evaluated");
    assert!(kept.iter().zip(truth.iter()).all(|(kept, truth)| *kept == (truth == Some(true))));
    // What travels to another machine means the same there.
    let spelled = serde_json::to_string(&expression).expect("an expression has a spelling");
    if let Ok(again) = serde_json::from_str::<Expression>(&spelled) {
        assert_eq!(again.keep(&ROWS).ok(), Some(kept));
    }
});
