//! Where tokens come from in a text, and which of them are labels.
//!
//! The engine gives no offsets. They follow from the bytes of the tokens, which together are the
//! normalized text.

use crate::error::{Error, Result};
use crate::tokenizer::{Rewriting, Segment, SpecialInText, Tokenizer};
use std::ops::Range;
use unicode_normalization::char::canonical_combining_class;
use unicode_normalization::{IsNormalized, UnicodeNormalization as _, is_nfc_quick};

const MARKER: &str = "\u{2581}";

impl Tokenizer {
    /// Appends the ids of `text`, and for each whether its bytes overlap one of the `spans`, which
    /// are in order. Returns the number of special tokens that the text spells.
    ///
    /// # Errors
    /// As [`Tokenizer::encode_into`]; [`Error::NoOffsets`] when the tokenizer rewrites text in a
    /// way that cannot be followed back.
    pub fn encode_labelled(
        &self,
        text: &str,
        spans: &[Range<usize>],
        special: SpecialInText,
        ids: &mut Vec<u32>,
        labelled: &mut Vec<bool>,
    ) -> Result<usize> {
        let mut ranges = Vec::new();
        let spelled = self.encode_with_ranges(text, special, ids, &mut ranges)?;
        let mut spans = spans.iter().peekable();
        for range in ranges {
            while spans.peek().is_some_and(|span| span.end <= range.start) {
                spans.next();
            }
            labelled.push(
                spans.peek().is_some_and(|span| span.start < range.end && range.start < span.end),
            );
        }
        Ok(spelled)
    }

    /// Appends the ids of `text`, and the bytes of the text that each stands for.
    ///
    /// # Errors
    /// As [`Self::encode_labelled`].
    pub fn encode_with_ranges(
        &self,
        text: &str,
        special: SpecialInText,
        ids: &mut Vec<u32>,
        ranges: &mut Vec<Range<usize>>,
    ) -> Result<usize> {
        let rewriting = self.rewriting()?;
        let start = ids.len();
        let mut segments = Vec::new();
        let spelled = self.encode_traced(text, special, ids, &mut segments)?;
        let ends = segments
            .iter()
            .skip(1)
            .map(|segment| segment.first)
            .chain([ids.len()])
            .collect::<Vec<_>>();
        for (segment, end) in segments.iter().zip(ends) {
            let tokens = ids.get(segment.first.max(start)..end).unwrap_or_default();
            let before = ranges.len();
            match &segment.normalized {
                None => ranges.extend(tokens.iter().map(|_| segment.text.clone())),
                Some(normalized) => {
                    self.align(text, segment, normalized, tokens, rewriting, ranges)?;
                }
            }
            if ranges.len() - before != tokens.len() {
                return Err(Error::NotAligned { offset: segment.text.start });
            }
        }
        Ok(spelled)
    }

    fn align(
        &self,
        text: &str,
        segment: &Segment,
        normalized: &str,
        tokens: &[u32],
        rewriting: Rewriting,
        ranges: &mut Vec<Range<usize>>,
    ) -> Result<()> {
        let not_aligned = || Error::NotAligned { offset: segment.text.start };
        let original = text.get(segment.text.clone()).unwrap_or_default();
        let origins = Origins::new(original, normalized, rewriting).ok_or_else(not_aligned)?;
        let mut at = 0;
        for (place, id) in tokens.iter().enumerate() {
            let next = tokens.get(place + 1).copied();
            let length = self.token_bytes(*id, next, normalized, at).ok_or_else(not_aligned)?;
            let range = origins.of(at..at + length);
            ranges.push(segment.text.start + range.start..segment.text.start + range.end);
            at += length;
        }
        if at == normalized.len() { Ok(()) } else { Err(not_aligned()) }
    }
}

/// Where the bytes of a normalized text come from.
enum Origins {
    Same,
    /// Runs that correspond to each other: starts in the normalized text and in the original, and
    /// both ends.
    Runs(Vec<(usize, usize)>),
}

impl Origins {
    fn new(original: &str, normalized: &str, rewriting: Rewriting) -> Option<Self> {
        if original == normalized {
            return Some(Self::Same);
        }
        match rewriting {
            Rewriting::None => None,
            Rewriting::Markers => markers(original, normalized).map(Self::Runs),
            Rewriting::Nfc => composed(original, normalized).map(Self::Runs),
        }
    }

    fn of(&self, range: Range<usize>) -> Range<usize> {
        let Self::Runs(runs) = self else {
            return range;
        };
        let at = |place: usize| runs.get(place).map_or(0, |(_, original)| *original);
        // The run that the range begins in, and the first one after its end.
        let first = runs.partition_point(|(start, _)| *start <= range.start).saturating_sub(1);
        let last = runs.partition_point(|(start, _)| *start < range.end);
        at(first)..at(last.max(first)).max(at(first))
    }
}

/// One run a character. A marker before the text belongs to the first character,
/// as in the original library.
fn markers(original: &str, normalized: &str) -> Option<Vec<(usize, usize)>> {
    let added = normalized.chars().count().checked_sub(original.chars().count())?;
    let body = normalized.strip_prefix(&MARKER.repeat(added)).filter(|_| added <= 1)?;
    let prefix = normalized.len() - body.len();
    let mut runs = if prefix > 0 { vec![(0, 0)] } else { Vec::new() };
    for ((to, rewritten), (from, character)) in body.char_indices().zip(original.char_indices()) {
        if rewritten != character && (character != ' ' || rewritten != '\u{2581}') {
            return None;
        }
        if prefix == 0 || to > 0 {
            runs.push((prefix + to, from));
        }
    }
    runs.push((normalized.len(), original.len()));
    Some(runs)
}

/// One run between two places where nothing composes.
fn composed(original: &str, normalized: &str) -> Option<Vec<(usize, usize)>> {
    let mut runs = Vec::new();
    let mut to = 0;
    let mut start = 0;
    let mut starts: Vec<usize> = original
        .char_indices()
        .filter(|(_, character)| begins_run(*character))
        .map(|(place, _)| place)
        .collect();
    starts.push(original.len());
    for end in starts {
        if end == start {
            continue;
        }
        runs.push((to, start));
        let run: String = original.get(start..end)?.nfc().collect();
        if !normalized.get(to..)?.starts_with(&run) {
            return None;
        }
        to += run.len();
        start = end;
    }
    runs.push((to, original.len()));
    (to == normalized.len()).then_some(runs)
}

/// Whether a character never joins the one before it.
fn begins_run(character: char) -> bool {
    let composes = || is_nfc_quick(std::iter::once(character)) != IsNormalized::Yes;
    character.is_ascii() || (canonical_combining_class(character) == 0 && !composes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marker_before_a_text_has_the_range_of_the_first_character() {
        let origins = Origins::new("éb a", "\u{2581}éb\u{2581}a", Rewriting::Markers).unwrap();
        let ranges = [0..3, 3..5, 0..5, 5..6, 6..9, 9..10, 6..10].map(|range| origins.of(range));
        assert_eq!(ranges, [0..2, 0..2, 0..2, 2..3, 3..4, 4..5, 3..5]);
        let spaced = Origins::new(" a", "\u{2581}\u{2581}a", Rewriting::Markers).unwrap();
        assert_eq!(
            [0..3, 3..6, 3..7, 6..7].map(|range| spaced.of(range)),
            [0..1, 0..1, 0..2, 1..2]
        );
        let kept = Origins::new(" a", "\u{2581}a", Rewriting::Markers).unwrap();
        assert_eq!([0..3, 3..4].map(|range| kept.of(range)), [0..1, 1..2]);
    }
}
