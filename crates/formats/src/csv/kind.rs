//! The types that a text can have, and the type that a column gets.

use super::CsvOptions;
use crate::records::value::{Date, Integer, Parse, Stamp, TimeOfDay, is_float, parse_bool};
use arrow_array::types::{Int64Type, Time32SecondType};
use arrow_schema::{DataType, TimeUnit};
use serde::{Deserialize, Serialize};

/// The spellings of null.
#[derive(Debug, Clone)]
pub(super) struct NullValues {
    values: Vec<Vec<u8>>,
    has_empty: bool,
    max_len: usize,
}

impl NullValues {
    pub(super) fn new(options: &CsvOptions) -> Self {
        let values: Vec<Vec<u8>> =
            options.null_values.iter().map(|value| value.clone().into_bytes()).collect();
        let has_empty = values.iter().any(Vec::is_empty);
        let max_len = values.iter().map(Vec::len).max().unwrap_or_default();
        Self { values, has_empty, max_len }
    }

    pub(super) fn contains(&self, text: &[u8]) -> bool {
        if text.is_empty() {
            return self.has_empty;
        }
        text.len() <= self.max_len && self.values.iter().any(|value| value == text)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.values.iter().map(Vec::as_slice)
    }
}

/// A set of types that can hold all values seen so far. A column gets the first one in pyarrow's
/// order, which is the order of the bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Kinds(u16);

const INTEGER: u16 = 1 << 1;
const BOOLEAN: u16 = 1 << 2;
const DATE: u16 = 1 << 3;
const TIME: u16 = 1 << 4;
const SECONDS: u16 = 1 << 5;
const NANOSECONDS: u16 = 1 << 6;
const ZONED_SECONDS: u16 = 1 << 7;
const ZONED_NANOSECONDS: u16 = 1 << 8;
const REAL: u16 = 1 << 9;
const TEXT: u16 = 1 << 10;
const NULL: u16 = 1;

impl Kinds {
    /// For a column without values.
    pub(super) const ALL: Self = Self((TEXT << 1) - 1);

    /// Keeps only the types that can also hold `text`, which is not null.
    pub(super) fn narrow(&mut self, text: &[u8]) {
        self.0 &= !NULL;
        let mut fits = self.0 & TEXT;
        let mut keep = |kind: u16, is_fit: &dyn Fn() -> bool| {
            if self.0 & kind != 0 && is_fit() {
                fits |= kind;
            }
        };
        let integer = Integer::<Int64Type>::new();
        keep(INTEGER, &|| integer.parse_plain(text).is_some() || integer.parse(text).is_some());
        keep(BOOLEAN, &|| parse_bool(text).is_some());
        keep(DATE, &|| Date.parse(text).is_some());
        keep(TIME, &|| TimeOfDay::<Time32SecondType>::new(TimeUnit::Second).parse(text).is_some());
        if self.0 & (SECONDS | NANOSECONDS | ZONED_SECONDS | ZONED_NANOSECONDS) != 0 {
            let stamp = Stamp::parse(text);
            let is_in = |unit, is_zoned| {
                stamp.is_some_and(|stamp| {
                    stamp.is_zoned == is_zoned && stamp.in_unit(unit).is_some()
                })
            };
            keep(SECONDS, &|| is_in(TimeUnit::Second, false));
            keep(NANOSECONDS, &|| is_in(TimeUnit::Nanosecond, false));
            keep(ZONED_SECONDS, &|| is_in(TimeUnit::Second, true));
            keep(ZONED_NANOSECONDS, &|| is_in(TimeUnit::Nanosecond, true));
        }
        keep(REAL, &|| is_float(text));
        self.0 = fits;
    }

    /// Keeps only the types that are also possible for another file.
    pub(super) fn intersect(&mut self, other: Self) {
        self.0 &= other.0;
    }

    pub(super) fn data_type(self) -> DataType {
        let zone = || Some("UTC".into());
        match 1u16.checked_shl(self.0.trailing_zeros()).unwrap_or(TEXT) {
            NULL => DataType::Null,
            INTEGER => DataType::Int64,
            BOOLEAN => DataType::Boolean,
            DATE => DataType::Date32,
            TIME => DataType::Time32(TimeUnit::Second),
            SECONDS => DataType::Timestamp(TimeUnit::Second, None),
            NANOSECONDS => DataType::Timestamp(TimeUnit::Nanosecond, None),
            ZONED_SECONDS => DataType::Timestamp(TimeUnit::Second, zone()),
            ZONED_NANOSECONDS => DataType::Timestamp(TimeUnit::Nanosecond, zone()),
            REAL => DataType::Float64,
            _ => DataType::Utf8,
        }
    }
}
