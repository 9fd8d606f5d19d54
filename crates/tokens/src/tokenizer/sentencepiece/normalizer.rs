//! Normalization as sentencepiece does it: characters by a map, then white space.

use super::super::engine::{Before, Normalizer, Place};
use super::super::normalizers::{MOST_GROWTH, longest_text};
use super::file::Normalization;
use crate::error::{Error, Result};

/// What a space becomes.
pub(super) const MARKER: &str = "\u{2581}";

pub(super) struct Rules {
    charsmap: Option<Charsmap>,
    prefix: Prefix,
    remove_extra_whitespaces: bool,
    escape_whitespaces: bool,
    /// User-defined pieces, which stay as they are; the longest first.
    symbols: Vec<String>,
}

/// Where a space is added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Prefix {
    Never,
    /// Before the first part of a text that is not an added token.
    First,
    /// After the last part of a text.
    Suffix,
    /// As in transformers: before a text, unless it begins with an added token or a space.
    Start,
    /// As in transformers: before each part between added tokens, unless it begins with a space.
    EveryPart,
}

impl Rules {
    pub(super) fn new(
        path: &str,
        spec: Normalization<'_>,
        prefix: Prefix,
        mut symbols: Vec<String>,
    ) -> Result<Self> {
        symbols.sort_by_key(|symbol| std::cmp::Reverse(symbol.len()));
        if longest_text(spec.charsmap) > MOST_GROWTH {
            let what = format!("its charsmap writes more than {MOST_GROWTH} bytes for a character");
            return Err(Error::Unsupported { path: path.to_owned(), what });
        }
        let charsmap = if spec.charsmap.is_empty() {
            None
        } else {
            let parsed = Charsmap::parse(spec.charsmap);
            Some(parsed.ok_or_else(|| Error::Invalid {
                path: path.to_owned(),
                problem: "its precompiled charsmap is incomplete".to_owned(),
            })?)
        };
        Ok(Self {
            charsmap,
            prefix,
            remove_extra_whitespaces: spec.remove_extra_whitespaces,
            escape_whitespaces: spec.escape_whitespaces,
            symbols,
        })
    }

    fn space(&self) -> &'static str {
        if self.escape_whitespaces { MARKER } else { " " }
    }

    fn has_prefix(&self, text: &str, place: Place) -> bool {
        let has_space = || text.starts_with([' ', '\u{2581}']);
        match self.prefix {
            Prefix::Never | Prefix::Suffix => false,
            Prefix::First => is_first(place),
            Prefix::Start => place.before == Before::Nothing && !has_space(),
            Prefix::EveryPart => place.before != Before::Piece && !has_space(),
        }
    }

    /// What the text begins with, and how many bytes of it that replaces.
    fn first<'a>(&'a self, text: &'a str) -> (&'a str, usize) {
        if let Some(symbol) = self.symbols.iter().find(|symbol| text.starts_with(symbol.as_str())) {
            return (symbol, symbol.len());
        }
        if let Some(found) = self.charsmap.as_ref().and_then(|charsmap| charsmap.longest(text)) {
            return found;
        }
        let length = text.chars().next().map_or(0, char::len_utf8);
        (text.get(..length).unwrap_or_default(), length)
    }
}

/// Control tokens are not a part of the text.
fn is_first(place: Place) -> bool {
    matches!(place.before, Before::Nothing | Before::Tokens)
}

impl Normalizer for Rules {
    fn normalize(&self, text: &str, place: Place) -> String {
        let mut rest = text;
        let mut out = String::with_capacity(text.len() + text.len() / 4);
        let opens = is_first(place);
        if opens && self.remove_extra_whitespaces {
            while let (" ", length) = self.first(rest) {
                rest = rest.get(length..).unwrap_or_default();
            }
            if rest.is_empty() && place.is_last {
                return out;
            }
        }
        if self.has_prefix(text, place) {
            out.push_str(self.space());
        }
        let mut is_after_space = opens && self.remove_extra_whitespaces;
        while !rest.is_empty() {
            let (mut piece, length) = self.first(rest);
            if is_after_space {
                piece = piece.trim_start_matches(' ');
            }
            if !piece.is_empty() {
                for part in piece.split_inclusive(' ') {
                    match part.strip_suffix(' ') {
                        Some(before) => {
                            out.push_str(before);
                            out.push_str(self.space());
                        }
                        None => out.push_str(part),
                    }
                }
                is_after_space = piece.ends_with(' ');
            }
            is_after_space &= self.remove_extra_whitespaces;
            rest = rest.get(length.max(1)..).unwrap_or_default();
        }
        if place.is_last {
            if self.remove_extra_whitespaces {
                out.truncate(out.trim_end_matches(self.space()).len());
            }
            if self.prefix == Prefix::Suffix {
                out.push_str(self.space());
            }
        }
        out
    }

    fn is_spacing(&self) -> bool {
        self.charsmap.is_none()
            && self.escape_whitespaces
            && self.prefix != Prefix::Suffix
            && !self.remove_extra_whitespaces
            && self.symbols.is_empty()
    }
}

/// A double array of prefixes, and what they become, as texts that end with NUL.
struct Charsmap {
    units: Vec<u32>,
    texts: Vec<u8>,
}

impl Charsmap {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let (size, rest) = bytes.split_first_chunk::<4>()?;
        let size = usize::try_from(u32::from_le_bytes(*size)).ok()?;
        let (units, texts) = rest.split_at_checked(size)?;
        let units: Vec<u32> = units
            .chunks_exact(4)
            .filter_map(|unit| unit.try_into().ok())
            .map(u32::from_le_bytes)
            .collect();
        let is_whole = size % 4 == 0
            && !units.is_empty()
            && texts.last().is_none_or(|last| *last == 0)
            && std::str::from_utf8(texts).is_ok();
        is_whole.then(|| Self { units, texts: texts.to_vec() })
    }

    /// The longest prefix of the text that is in the map.
    fn longest(&self, text: &str) -> Option<(&str, usize)> {
        let offset = |unit: u32| (unit >> 10) << ((unit & (1 << 9)) >> 6);
        let mut node = offset(*self.units.first()?);
        let mut found = None;
        for (place, byte) in text.bytes().enumerate() {
            node ^= u32::from(byte);
            let Some(unit) = self.units.get(node as usize).copied() else {
                break;
            };
            if unit & ((1 << 31) | 0xff) != u32::from(byte) {
                break;
            }
            node ^= offset(unit);
            if (unit >> 8) & 1 == 1 {
                let value = self.units.get(node as usize).map(|value| value & !(1 << 31));
                found = value.map(|value| (value, place + 1));
            }
        }
        let (value, length) = found.filter(|(_, length)| text.is_char_boundary(*length))?;
        let rest = self.texts.get(value as usize..)?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        let text = std::str::from_utf8(rest.get(..end)?).ok()?;
        Some((text, length))
    }
}
