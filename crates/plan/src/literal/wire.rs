//! Literals as JSON.
//!
//! Booleans, numbers and strings are plain JSON; an integer beyond 64 bits is a decimal.
//! Other literals are objects with one key: `{"float": "nan"}`, `{"binary": "6869"}` (hexadecimal),
//! `{"decimal": {"unscaled": "110", "scale": 2}}`,
//! `{"timestamp": {"value": 0, "unit": "us", "zone": "UTC"}}`, `{"date": 0}` (days),
//! `{"time": {…}}`, `{"duration": {…}}`.

use super::{Literal, unit_name};
use arrow_buffer::i256;
use arrow_schema::TimeUnit;
use serde_json::{Map, Number, Value, json};

impl TryFrom<Value> for Literal {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let read = match &value {
            Value::Bool(boolean) => Some(Self::Boolean(*boolean)),
            Value::Number(digits) => number(digits),
            Value::String(text) => Some(Self::Text(text.clone())),
            Value::Object(object) if object.len() == 1 => {
                object.iter().next().and_then(|(kind, body)| tagged(kind, body))
            }
            _ => None,
        };
        read.ok_or_else(|| {
            format!(
                "a filter compares with a boolean, number, string, binary, decimal, \
                 date or time, not {value}"
            )
        })
    }
}

fn number(number: &Number) -> Option<Literal> {
    if let Some(integer) =
        number.as_i64().map(Literal::Integer).or_else(|| number.as_u64().map(Literal::Unsigned))
    {
        return Some(integer);
    }
    let text = number.to_string();
    if text.contains(['.', 'e', 'E']) {
        return number.as_f64().filter(|float| float.is_finite()).map(Literal::Float);
    }
    Some(Literal::Decimal { unscaled: i256::from_string(&text)?, scale: 0 })
}

fn tagged(kind: &str, body: &Value) -> Option<Literal> {
    match kind {
        "float" => match body {
            Value::Number(number) => number.as_f64(),
            Value::String(text) => text.parse().ok(),
            _ => None,
        }
        .map(Literal::Float),
        "binary" => bytes_of(body.as_str()?).map(Literal::Binary),
        "decimal" => {
            let (unscaled, scale) =
                (i256::from_string(body.get("unscaled")?.as_str()?)?, body.get("scale")?.as_i64()?);
            Some(Literal::Decimal { unscaled, scale: i8::try_from(scale).ok()? })
        }
        "timestamp" => {
            let (value, unit) = counted(body)?;
            let zone = match body.get("zone") {
                None | Some(Value::Null) => None,
                Some(zone) => Some(zone.as_str()?.to_owned()),
            };
            Some(Literal::Timestamp { value, unit, zone })
        }
        "date" => Some(Literal::Date(i32::try_from(body.as_i64()?).ok()?)),
        "time" => counted(body).map(|(value, unit)| Literal::Time { value, unit }),
        "duration" => counted(body).map(|(value, unit)| Literal::Duration { value, unit }),
        _ => None,
    }
}

fn counted(body: &Value) -> Option<(i64, TimeUnit)> {
    let unit = match body.get("unit")?.as_str()? {
        "s" => TimeUnit::Second,
        "ms" => TimeUnit::Millisecond,
        "us" => TimeUnit::Microsecond,
        "ns" => TimeUnit::Nanosecond,
        _ => return None,
    };
    Some((body.get("value")?.as_i64()?, unit))
}

fn bytes_of(hexadecimal: &str) -> Option<Vec<u8>> {
    let digits = hexadecimal.as_bytes();
    let (pairs, rest) = digits.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

fn digit(character: u8) -> Option<u8> {
    char::from(character).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

impl From<Literal> for Value {
    fn from(literal: Literal) -> Self {
        let object =
            |kind: &str, body: Self| Self::Object(Map::from_iter([(kind.to_owned(), body)]));
        let counted = |value: i64, unit: TimeUnit| json!({"value": value, "unit": unit_name(unit)});
        match literal {
            Literal::Boolean(value) => Self::Bool(value),
            Literal::Integer(value) => Self::from(value),
            Literal::Unsigned(value) => Self::from(value),
            Literal::Float(value) => Number::from_f64(value)
                .map_or_else(|| object("float", Self::String(value.to_string())), Self::Number),
            Literal::Text(value) => Self::String(value),
            Literal::Binary(value) => object(
                "binary",
                Self::String(value.iter().map(|byte| format!("{byte:02x}")).collect()),
            ),
            Literal::Decimal { unscaled, scale } => {
                object("decimal", json!({"unscaled": unscaled.to_string(), "scale": scale}))
            }
            Literal::Timestamp { value, unit, zone } => {
                object("timestamp", json!({"value": value, "unit": unit_name(unit), "zone": zone}))
            }
            Literal::Date(days) => object("date", Self::from(days)),
            Literal::Time { value, unit } => object("time", counted(value, unit)),
            Literal::Duration { value, unit } => object("duration", counted(value, unit)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(literal: &Literal) -> Literal {
        serde_json::from_str(&serde_json::to_string(literal).unwrap()).unwrap()
    }

    #[test]
    fn every_literal_survives_json_exactly() {
        let literals = [
            Literal::Boolean(true),
            Literal::Integer(i64::MIN),
            Literal::Unsigned(u64::MAX),
            Literal::Float(0.1),
            Literal::Float(1e300),
            Literal::Float(5e-324),
            Literal::Float(f64::NEG_INFINITY),
            Literal::Text("ä\0\"".to_owned()),
            Literal::Binary(vec![0, 255, 16]),
            Literal::Decimal { unscaled: i256::MIN, scale: -3 },
            Literal::Timestamp {
                value: i64::MAX,
                unit: TimeUnit::Nanosecond,
                zone: Some("Europe/Berlin".to_owned()),
            },
            Literal::Timestamp { value: -1, unit: TimeUnit::Second, zone: None },
            Literal::Date(-1),
            Literal::Time { value: 1, unit: TimeUnit::Microsecond },
            Literal::Duration { value: 1, unit: TimeUnit::Millisecond },
        ];
        for literal in literals {
            assert_eq!(round_trip(&literal), literal);
        }
        assert!(
            matches!(round_trip(&Literal::Float(f64::NAN)), Literal::Float(value) if value.is_nan())
        );
        assert!(matches!(
            round_trip(&Literal::Float(-0.0)),
            Literal::Float(value) if value.is_sign_negative()
        ));
    }

    #[test]
    fn integer_beyond_64_bits_is_a_decimal_and_not_a_float() {
        let literal: Literal = serde_json::from_str("18446744073709551616").unwrap();
        assert_eq!(literal, Literal::Decimal { unscaled: i256::from_i128(1 << 64), scale: 0 });
    }

    #[test]
    fn invalid_literals_are_refused() {
        for text in [
            "null",
            "[1]",
            "{}",
            r#"{"date": 1, "time": 2}"#,
            r#"{"binary": "abc"}"#,
            r#"{"time": {"value": 1, "unit": "d"}}"#,
            "1e999",
        ] {
            assert!(serde_json::from_str::<Literal>(text).is_err(), "{text}");
        }
    }
}
