use super::*;
use arrow_array::ArrowPrimitiveType;
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int64Type, Time32MillisecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt64Type,
};
use arrow_schema::TimeUnit;
use proptest::prelude::*;

fn any<P: Parse>(parser: &P, text: &str) -> Option<<P::Arrow as ArrowPrimitiveType>::Native> {
    parser.parse_plain(text.as_bytes()).or_else(|| parser.parse(text.as_bytes()))
}

#[test]
fn integers_take_what_pyarrow_takes() {
    let int64 = Integer::<Int64Type>::new();
    for (text, value) in [
        ("1", 1),
        (" 1", 1),
        ("1\t", 1),
        ("-0", 0),
        ("01", 1),
        ("0x1F", 31),
        ("0X1f", 31),
        ("00000000000000000000001", 1),
    ] {
        assert_eq!(any(&int64, text), Some(value), "{text}");
    }
    assert_eq!(any(&int64, "9223372036854775807"), Some(i64::MAX));
    assert_eq!(any(&int64, "-9223372036854775808"), Some(i64::MIN));
    assert_eq!(any(&int64, "0xFFFFFFFFFFFFFFFF"), Some(-1));
    for text in [
        "",
        " ",
        "-",
        "--1",
        "- 1",
        "+1",
        "1.0",
        "1e5",
        "1_000",
        "0x",
        "-0x1F",
        "0x+1",
        "9223372036854775808",
        "1 2",
        "१",
    ] {
        assert_eq!(any(&int64, text), None, "{text}");
    }
    assert_eq!(any(&Integer::<Int8Type>::new(), "128"), None);
    assert_eq!(any(&Integer::<Int8Type>::new(), "0xFF"), Some(-1));
    assert_eq!(any(&Integer::<UInt8Type>::new(), "255"), Some(255));
    assert_eq!(any(&Integer::<UInt8Type>::new(), "-1"), None);
    assert_eq!(any(&Integer::<UInt64Type>::new(), "18446744073709551615"), Some(u64::MAX));
}

#[test]
fn floats_take_what_pyarrow_takes() {
    let float64 = Float::<Float64Type>::new();
    for (text, value) in [
        ("1.", 1.0),
        (".5", 0.5),
        ("+1.5", 1.5),
        ("1E5", 1e5),
        ("1e-5", 1e-5),
        ("1e400", f64::INFINITY),
        ("-Infinity", f64::NEG_INFINITY),
        (" 2 ", 2.0),
    ] {
        assert_eq!(any(&float64, text), Some(value), "{text}");
    }
    assert!(any(&float64, "nan").is_some_and(f64::is_nan));
    assert!(any(&float64, "-0").is_some_and(|value| value == 0.0 && value.is_sign_negative()));
    for text in ["", ".", "-", "1e", "1d5", "1,5", "1.2.3", "infin", "0x10", "1 2"] {
        assert_eq!(any(&float64, text), None, "{text}");
    }
}

#[test]
fn dates_and_times_take_what_pyarrow_takes() {
    assert_eq!(any(&Date, "1970-01-01"), Some(0));
    assert_eq!(any(&Date, " 2024-02-29 "), Some(19_782));
    assert_eq!(any(&Date, "0001-01-01"), Some(-719_162));
    for text in [
        "2024-1-1",
        "2023-02-29",
        "2024-13-01",
        "2024-00-10",
        "2024-01-00",
        "-2024-01-01",
        "20240101",
        "2024-01-01T",
    ] {
        assert_eq!(any(&Date, text), None, "{text}");
    }
    let time = TimeOfDay::<Time32MillisecondType>::new(TimeUnit::Millisecond);
    assert_eq!(any(&time, "12:30"), Some(45_000_000));
    assert_eq!(any(&time, "12:30:00.5 "), Some(45_000_500));
    for text in ["12", "24:00:00", "23:59:60", "1:00", "12:30:15Z", "12:30:15.", "12:30:15.1234"] {
        assert_eq!(any(&time, text), None, "{text}");
    }
}

#[test]
fn timestamps_take_what_pyarrow_takes() {
    let local = Timestamp::<TimestampSecondType>::new(TimeUnit::Second, false);
    for text in ["2024-01-01 12:00:00", "2024-01-01T12:00:00", "2024-01-01 12:00", "2024-01-01 12"]
    {
        assert_eq!(any(&local, text), Some(1_704_110_400), "{text}");
    }
    for text in [
        "2024-01-01T",
        "2024-01-01T12:",
        "2024-01-01t12:00:00",
        "2024-01-01T1200",
        " 2024-01-01 12:00",
        "2024-01-01T12:00:00Z",
        "2024-01-01 12:00:00.5",
    ] {
        assert_eq!(any(&local, text), None, "{text}");
    }
    let zoned = Timestamp::<TimestampSecondType>::new(TimeUnit::Second, true);
    for text in [
        "2024-01-01T12:00:00Z",
        "2024-01-01T13:00:00+01:00",
        "2024-01-01T13:00:00+0100",
        "2024-01-01T13+01",
        "2024-01-01T11:30-00:30",
    ] {
        assert_eq!(any(&zoned, text), Some(1_704_110_400), "{text}");
    }
    for text in [
        "2024-01-01 12:00:00",
        "2024-01-01Z",
        "2024-01-01 +01",
        "2024-01-01T12:00:00+24:00",
        "2024-01-01T12:00:00z",
    ] {
        assert_eq!(any(&zoned, text), None, "{text}");
    }
    let fine = Timestamp::<TimestampNanosecondType>::new(TimeUnit::Nanosecond, false);
    assert_eq!(any(&fine, "1969-12-31 23:59:59.123456789"), Some(-876_543_211));
    assert_eq!(any(&fine, "1600-01-01 00:00:00.5"), None, "beyond 64 bits");
    assert_eq!(any(&fine, "2024-01-01T12:00:00.1234567891"), None);
    let milliseconds = Timestamp::<TimestampMillisecondType>::new(TimeUnit::Millisecond, false);
    assert_eq!(any(&milliseconds, "1970-01-01 00:00:00.12"), Some(120));
}

#[test]
fn rounded_integers_and_infinite_numbers_are_told_apart() {
    for (text, rounded, beyond) in [
        ("9007199254740993", true, true),
        ("9007199254740992", false, false),
        ("1000000000000000.0e400", false, true),
        (" -1e400", false, true),
        ("0.1000000000000000055", false, false),
        ("-infinity", false, false),
    ] {
        let found = (is_rounded(text.as_bytes()), is_beyond(text.as_bytes(), &DataType::Float64));
        assert_eq!(found, (rounded, beyond), "{text}");
    }
    assert!(is_beyond(b"16777217", &DataType::Float32) && is_beyond(b"1e39", &DataType::Float32));
}

#[test]
fn decimals_are_exact_or_refused() {
    let Some(money) = Decimal::<Decimal128Type>::new(5, 2) else { panic!("a scale of 2") };
    for (text, value) in
        [("1.25", 125), ("-1.5", -150), ("3", 300), (".5", 50), ("1.2500", 125), ("999.99", 99_999)]
    {
        assert_eq!(any(&money, text), Some(value), "{text}");
    }
    for text in ["1.255", "1000", "", ".", "-", "1e2", "1.2.3"] {
        assert_eq!(any(&money, text), None, "{text}");
    }
}

proptest! {
    #[test]
    fn every_float_is_read_as_the_standard_library_reads_it(
        value in any_float(),
        digits in 0usize..20,
    ) {
        for text in [format!("{value}"), format!("{value:e}"), format!("{value:.digits$}")] {
            prop_assert_eq!(
                any(&Float::<Float64Type>::new(), &text).map(f64::to_bits),
                text.parse::<f64>().ok().map(f64::to_bits)
            );
            prop_assert_eq!(
                any(&Float::<Float32Type>::new(), &text).map(f32::to_bits),
                text.parse::<f32>().ok().map(f32::to_bits)
            );
        }
    }

    #[test]
    fn every_integer_is_read_back(value: i64) {
        prop_assert_eq!(any(&Integer::<Int64Type>::new(), &value.to_string()), Some(value));
    }

    #[test]
    fn no_text_panics(text in "[-+0-9a-fxX:TZ. ]{0,40}") {
        any(&Integer::<Int64Type>::new(), &text);
        any(&Float::<Float32Type>::new(), &text);
        any(&Date, &text);
        Stamp::parse(text.as_bytes());
        Decimal::<Decimal128Type>::new(38, 10).and_then(|decimal| any(&decimal, &text));
    }
}

fn any_float() -> impl Strategy<Value = f64> {
    prop_oneof![
        -1000.0..1000.0f64,
        prop::num::f64::NORMAL | prop::num::f64::ZERO | prop::num::f64::SUBNORMAL
    ]
}
