//! The grammar of both option strings: comma-separated items, each `key` or `key:value`, without
//! repeated keys.

use super::super::Error;
use Numbers::{Any, Bytes, Integers, Never};

/// Maximal value of a count.
pub(super) const COUNT_MAX: i64 = i32::MAX as i64;

/// A key, the words that its value may be, and the numbers. No value is the empty word.
pub(super) type Key = (&'static str, &'static [&'static str], Numbers);

/// The least and the greatest number that a value may be.
#[derive(Debug, Clone, Copy)]
pub(super) enum Numbers {
    Never,
    /// Surrounding white space and a plus sign are allowed.
    Integers(i64, i64),
    /// Real numbers with an optional suffix B, k, K, M, G, T, P or E, rounded,
    /// and saturated to 64 bits.
    Bytes(u64, u64),
    /// The value may be any text.
    Any,
}

/// Keys in order, with their values.
#[derive(Debug)]
pub(super) struct Items<'a>(Vec<(&'static str, &'a str, Option<i128>)>);

impl<'a> Items<'a> {
    /// The items of `text`, whose keys and values must be in `table`.
    pub(super) fn parse(text: &'a str, table: &[Key]) -> Result<Self, Error> {
        let mut items: Vec<(&Key, &str)> = Vec::new();
        for item in text.split(',').filter(|item| !item.is_empty()) {
            let (name, value) = item.split_once(':').unwrap_or((item, ""));
            let Some(key) = table.iter().find(|(key, ..)| *key == name) else {
                let known: Vec<&str> = table.iter().map(|(key, ..)| *key).collect();
                return Err(refused(
                    name,
                    format!("there is no such option; the options are {}", known.join(", ")),
                ));
            };
            if items.iter().any(|(earlier, _)| earlier.0 == name) {
                return Err(refused(name, "occurs more than once"));
            }
            items.push((key, value));
        }
        items
            .into_iter()
            .map(|(key, value)| Ok((key.0, value, checked(key, value)?)))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|(key, ..)| *key)
    }

    /// The value of an option as it is written.
    pub(super) fn text(&self, key: &str) -> Option<&'a str> {
        self.0.iter().find(|(known, ..)| *known == key).map(|(_, text, _)| *text)
    }

    /// The value of an option that is given as a number.
    pub(super) fn number<T: TryFrom<i128>>(&self, key: &str) -> Option<T> {
        let (.., number) = self.0.iter().find(|(known, ..)| *known == key)?;
        number.and_then(|number| T::try_from(number).ok())
    }

    /// As [`Items::number`], if what the value may be depends on another option.
    pub(super) fn number_of<T: TryFrom<i128>>(&self, key: &Key) -> Result<Option<T>, Error> {
        let number = self.text(key.0).map_or(Ok(None), |text| checked(key, text))?;
        Ok(number.and_then(|number| T::try_from(number).ok()))
    }
}

pub(super) fn refused(key: &str, fault: impl Into<String>) -> Error {
    Error::Option { option: key.to_owned(), fault: fault.into() }
}

/// The number that `value` is, or `None` for a word.
fn checked((key, words, numbers): &Key, value: &str) -> Result<Option<i128>, Error> {
    let number = match numbers {
        Integers(least, most) => trim(value)
            .parse()
            .ok()
            .filter(|number| (least..=most).contains(&number))
            .map(i128::from),
        Bytes(least, most) => {
            bytes(value).filter(|number| (least..=most).contains(&number)).map(i128::from)
        }
        Never | Any => None,
    };
    if number.is_some() || words.contains(&value) || matches!(numbers, Any) {
        return Ok(number);
    }
    let names: Vec<&str> =
        words.iter().map(|word| if word.is_empty() { "none" } else { word }).collect();
    let expected = match numbers {
        Integers(least, most) => format!("an integer in {least}..{most}"),
        Bytes(least, most) => {
            format!("a number of bytes such as 4096, 64K or 1.5M, in {least}..{most}")
        }
        Never | Any => names.join(", "),
    };
    let given =
        if value.is_empty() { "has no value".to_owned() } else { format!("value `{value}`") };
    Err(refused(key, format!("{given}, expected {expected}")))
}

fn bytes(text: &str) -> Option<u64> {
    const UNITS: [(char, i32); 8] =
        [('B', 0), ('k', 10), ('K', 10), ('M', 20), ('G', 30), ('T', 40), ('P', 50), ('E', 60)];
    let (number, power) = UNITS
        .iter()
        .find_map(|(unit, power)| Some((text.strip_suffix(*unit)?, *power)))
        .unwrap_or((text, 0));
    let number = trim(number).parse::<f64>().ok().filter(|number| *number >= 0.0)?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the cast saturates, and the number is not negative"
    )]
    Some((number * 2f64.powi(power)).round() as u64)
}

/// The original also trims vertical tabs.
fn trim(text: &str) -> &str {
    text.trim_matches(|character: char| character.is_ascii_whitespace() || character == '\u{b}')
}
