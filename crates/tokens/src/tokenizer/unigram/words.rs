//! Repeated words, with their best segmentations.
//!
//! No token crosses the beginning of a word, so the text before a word affects its segmentation in
//! one way only: scores are added to another sum, and rounded differently. A segmentation that is
//! better than all others by more than the rounding error is the best one in any text.

use super::{Lattice, Library, Outcome, Token, Unigram};
use std::collections::HashMap;
use std::ops::Range;

const MARKER: char = '\u{2581}';

/// Longer words are rarely repeated.
const LONGEST: usize = 64;

/// After this many words, all are forgotten.
const MOST: usize = 1 << 15;

#[derive(Debug, Default)]
pub(super) struct Words {
    places: HashMap<Box<str>, usize>,
    words: Vec<Word>,
}

#[derive(Debug)]
struct Word {
    tokens: Box<[Token]>,
    /// If the absolute sum before the word is lower, rounding cannot change a token.
    limit: f64,
}

impl Words {
    /// The tokens of a word after text with `sum`, unless rounding may change them.
    pub(super) fn tokens(
        &mut self,
        model: &Unigram,
        word: &str,
        sum: f64,
        lattice: &mut Lattice,
    ) -> Option<&[Token]> {
        if word.len() > LONGEST {
            return None;
        }
        let place = self.places.get(word).copied().unwrap_or_else(|| {
            if self.words.len() >= MOST {
                self.places.clear();
                self.words.clear();
            }
            self.words.push(Word::new(model, word, lattice));
            self.places.insert(word.into(), self.words.len() - 1);
            self.words.len() - 1
        });
        let known = self.words.get(place)?;
        (sum.abs() < known.limit).then_some(&*known.tokens)
    }
}

impl Word {
    fn new(model: &Unigram, word: &str, lattice: &mut Lattice) -> Self {
        let mut tokens = Vec::new();
        let Outcome { margin, reach, .. } =
            model.search(Library::HuggingFace, word, 0.0, lattice, |start, id| {
                tokens.extend(u32::try_from(start).map(|start| (start, id)));
            });
        // There are at most as many additions as characters. Each one changes a sum by up to half
        // of the distance between numbers of its size, and a comparison has two sums. Twice that
        // leaves room for the rounding of the numbers here.
        let additions = u32::try_from(2 * word.chars().count()).map_or(f64::INFINITY, f64::from);
        let limit = |epsilon: f64| margin / (additions * epsilon) - reach;
        let limit = match model.library {
            Library::SentencePiece => limit(f64::from(f32::EPSILON)),
            // The text of the unknown token may have a different score than an unknown character.
            Library::HuggingFace if tokens.iter().any(|(_, id)| *id == model.unknown) => 0.0,
            // Without text before the word, the sum is exact.
            Library::HuggingFace => limit(f64::EPSILON).max(f64::MIN_POSITIVE),
        };
        Self { tokens: tokens.into(), limit }
    }
}

/// Whether the text of a token has no space marker after another character.
pub(super) fn ends_words(token: &[u8]) -> bool {
    std::str::from_utf8(token).is_ok_and(|token| !token.trim_start_matches(MARKER).contains(MARKER))
}

/// The words of a text. A word begins at a space marker that follows another character. Without
/// `ends_words`, the text is one word.
pub(super) fn split(text: &str, ends_words: bool) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut rest = 0..text.len();
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let word = text.get(rest.clone())?;
        let end = if ends_words {
            let letters = word.trim_start_matches(MARKER);
            rest.end - letters.len() + letters.find(MARKER).unwrap_or(letters.len())
        } else {
            rest.end
        };
        let range = rest.start..end;
        rest.start = end;
        Some(range)
    })
}
