//! Constants of a filter: exact values, each with its own type.
//!
//! Parsed from JSON ([`wire`]); the predicate locates a literal among the values of a column's
//! type. The invariant: a literal is never rounded when it is parsed.

mod wire;

use arrow_buffer::i256;
use arrow_schema::TimeUnit;
use serde::{Deserialize, Serialize};
use std::fmt;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "serde_json::Value", into = "serde_json::Value")]
pub enum Literal {
    Boolean(bool),
    Integer(i64),
    Unsigned(u64),
    Float(f64),
    /// For a string column; a date or time column parses it as ISO 8601.
    Text(String),
    Binary(Vec<u8>),
    /// `unscaled` × 10^-`scale`
    Decimal {
        unscaled: i256,
        scale: i8,
    },
    /// Since 1970-01-01. With a zone an instant, without one a local time.
    Timestamp {
        value: i64,
        unit: TimeUnit,
        zone: Option<String>,
    },
    /// Days since 1970-01-01.
    Date(i32),
    /// Since midnight.
    Time {
        value: i64,
        unit: TimeUnit,
    },
    Duration {
        value: i64,
        unit: TimeUnit,
    },
}

impl fmt::Display for Literal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Boolean(value) => write!(formatter, "the boolean {value}"),
            Self::Integer(value) => write!(formatter, "the integer {value}"),
            Self::Unsigned(value) => write!(formatter, "the integer {value}"),
            Self::Float(value) => write!(formatter, "the float {value}"),
            Self::Text(value) => write!(formatter, "the string {value:?}"),
            Self::Binary(value) => write!(formatter, "{} bytes", value.len()),
            Self::Decimal { unscaled, scale } => {
                write!(formatter, "the decimal {unscaled}e{}", -i16::from(*scale))
            }
            Self::Timestamp { value, unit, zone: None } => {
                write!(formatter, "the timestamp {value}{} without a zone", unit_name(*unit))
            }
            Self::Timestamp { value, unit, zone: Some(zone) } => {
                write!(formatter, "the timestamp {value}{} in {zone}", unit_name(*unit))
            }
            Self::Date(days) => write!(formatter, "the date {days} days after 1970-01-01"),
            Self::Time { value, unit } => write!(formatter, "the time {value}{}", unit_name(*unit)),
            Self::Duration { value, unit } => {
                write!(formatter, "the duration {value}{}", unit_name(*unit))
            }
        }
    }
}

/// The unit as Arrow and pyarrow abbreviate it.
#[must_use]
pub fn unit_name(unit: TimeUnit) -> &'static str {
    match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    }
}
