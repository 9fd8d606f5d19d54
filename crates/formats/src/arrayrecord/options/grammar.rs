//! The grammar of both option strings: comma-separated items, each `key` or `key:value`, without repeated keys.

use super::super::Error;
use std::fmt::Display;
use std::ops::RangeInclusive;

/// Maximal value of a count.
pub(super) const COUNT_MAX: u32 = i32::MAX as u32;

/// A missing value is an empty string.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Item<'a> {
    pub key: &'a str,
    pub value: &'a str,
}

/// All items of `text` in order; their keys must be in `known`.
pub(super) fn items<'a>(text: &'a str, known: &[&str]) -> Result<Vec<Item<'a>>, Error> {
    let mut items: Vec<Item<'a>> = Vec::new();
    for text in text.split(',').filter(|item| !item.is_empty()) {
        let (key, value) = text.split_once(':').unwrap_or((text, ""));
        let item = Item { key, value };
        if !known.contains(&key) {
            return Err(item.refused(format!("there is no such option; the options are {}", known.join(", "))));
        }
        if items.iter().any(|earlier| earlier.key == key) {
            return Err(item.refused("occurs more than once"));
        }
        items.push(item);
    }
    Ok(items)
}

impl Item<'_> {
    pub(super) fn refused(&self, fault: impl Into<String>) -> Error {
        Error::Option { option: self.key.to_owned(), fault: fault.into() }
    }

    fn no_value(&self, expected: impl Display) -> Error {
        match self.value {
            "" => self.refused(format!("has no value, expected {expected}")),
            value => self.refused(format!("value `{value}`, expected {expected}")),
        }
    }

    /// For keys without a value.
    pub(super) fn bare(&self) -> Result<(), Error> {
        if self.value.is_empty() { Ok(()) } else { Err(self.no_value("none")) }
    }

    pub(super) fn one_of<T: Copy>(&self, values: &[(&str, T)]) -> Result<T, Error> {
        let expected = || values.iter().map(|(name, _)| if name.is_empty() { "none" } else { name }).collect::<Vec<_>>().join(", ");
        values.iter().find(|(name, _)| *name == self.value).map(|(_, value)| *value).ok_or_else(|| self.no_value(expected()))
    }

    /// Surrounding white space and a plus sign are allowed.
    pub(super) fn integer<T: TryFrom<i64> + PartialOrd + Display>(&self, range: RangeInclusive<T>) -> Result<T, Error> {
        let value = trim(self.value).parse::<i64>().ok().and_then(|value| T::try_from(value).ok());
        value.filter(|value| range.contains(value)).ok_or_else(|| self.no_value(format!("an integer in {}..{}", range.start(), range.end())))
    }

    /// A real number with an optional suffix B, k, K, M, G, T, P or E, rounded, and saturated to 64 bits.
    pub(super) fn bytes(&self, range: RangeInclusive<u64>) -> Result<u64, Error> {
        let (number, shift) = match self.value.char_indices().next_back() {
            Some((at, unit @ ('B' | 'k' | 'K' | 'M' | 'G' | 'T' | 'P' | 'E'))) => (self.value.get(..at).unwrap_or_default(), shift(unit)),
            _ => (self.value, 0),
        };
        let value = trim(number).parse::<f64>().ok().filter(|number| *number >= 0.0);
        let value = value.map(|number| (number * (1u64 << shift) as f64).round());
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates, and no negative number is left")]
        let value = value.map(|number| number as u64);
        let expected = || format!("a number of bytes such as 4096, 64K or 1.5M, in {}..{}", range.start(), range.end());
        value.filter(|value| range.contains(value)).ok_or_else(|| self.no_value(expected()))
    }

    /// `None` for `auto`.
    pub(super) fn unless_auto<T>(&self, parse: impl FnOnce(&Self) -> Result<T, Error>) -> Result<Option<T>, Error> {
        if self.value == "auto" { Ok(None) } else { parse(self).map(Some) }
    }
}

fn shift(unit: char) -> u32 {
    match unit {
        'k' | 'K' => 10,
        'M' => 20,
        'G' => 30,
        'T' => 40,
        'P' => 50,
        'E' => 60,
        _ => 0,
    }
}

/// The original also trims vertical tabs.
fn trim(text: &str) -> &str {
    text.trim_matches(|character: char| character.is_ascii_whitespace() || character == '\u{b}')
}
