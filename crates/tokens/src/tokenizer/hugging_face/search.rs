//! Finds added tokens as the original library does.
//!
//! The engine finds their texts alone. It knows the rules about neighbors too, but applies them in
//! another way: it searches again inside of a match that it rejected or extended, which the
//! original does not, and panics where such a search begins inside of a character.

use crate::tokenizer::added::{Added, Bounds};
use std::collections::HashMap;
use std::ops::Range;
use tokenizers::pipeline::PipelinePatternMatcher;

/// What is known of added tokens, by the ids of the engine.
pub(super) struct AddedTokens(HashMap<u32, Kind>);

#[derive(Clone, Copy, Default)]
struct Kind {
    is_special: bool,
    is_piece: bool,
    bounds: Bounds,
}

/// Which added tokens become ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wanted {
    All,
    Ordinary,
    Special,
    /// Pieces; the other variants do not contain them.
    Pieces,
}

impl AddedTokens {
    pub(super) fn new(added: &[Added]) -> Self {
        // The last one of a text decides.
        let kinds = added.iter().map(|added| {
            (
                added.assigned,
                Kind {
                    is_special: added.is_special,
                    is_piece: added.is_piece,
                    bounds: added.bounds,
                },
            )
        });
        Self(kinds.collect())
    }

    pub(super) fn is_special(&self, id: u32) -> bool {
        self.kind(id).is_special
    }

    fn kind(&self, id: u32) -> Kind {
        self.0.get(&id).copied().unwrap_or_default()
    }
}

/// Goes through the added tokens of one text.
pub(super) struct Search<'a, M> {
    tokens: &'a AddedTokens,
    matcher: &'a M,
    text: &'a str,
    is_normalized: bool,
    /// Where the next match may begin.
    next: usize,
    /// Where the last token ends, with its white space.
    end: usize,
    spelled: usize,
}

impl<'a, M: PipelinePatternMatcher> Search<'a, M> {
    /// `matcher` knows no rules about neighbors. With `is_normalized`, the tokens that are found
    /// after normalization.
    pub(super) fn new(
        tokens: &'a AddedTokens,
        matcher: &'a M,
        text: &'a str,
        is_normalized: bool,
    ) -> Self {
        Self { tokens, matcher, text, is_normalized, next: 0, end: 0, spelled: 0 }
    }

    /// The special tokens up to here, whether or not they are wanted.
    pub(super) fn spelled(&self) -> usize {
        self.spelled
    }

    /// White space that a token takes may be a token too, and is one more token then, unless it
    /// takes white space itself: then nothing is left of it. So a range can begin before the end of
    /// the one before.
    pub(super) fn next(&mut self, wanted: Wanted) -> Option<(Range<usize>, u32)> {
        loop {
            let ((start, end), id) = self.matcher.extract_next(
                self.text.as_bytes(),
                self.next,
                self.is_normalized,
                false,
            )?;
            self.next = end;
            let Kind { is_special, is_piece, bounds } = self.tokens.kind(id);
            let (before, after) = (self.text.get(..start)?, self.text.get(end..)?);
            if bounds.is_word
                && (before.chars().next_back().is_some_and(is_word)
                    || after.chars().next().is_some_and(is_word))
            {
                continue;
            }
            self.spelled += usize::from(is_special);
            let is_wanted = match wanted {
                Wanted::All => !is_piece,
                Wanted::Ordinary => !is_special && !is_piece,
                Wanted::Special => is_special,
                Wanted::Pieces => is_piece,
            };
            if !is_wanted {
                continue;
            }
            let start =
                if bounds.takes_left { before.trim_end().len().max(self.end) } else { start };
            let end =
                if bounds.takes_right { self.text.len() - after.trim_start().len() } else { end };
            if start >= end {
                continue;
            }
            self.end = end;
            return Some((start..end, id));
        }
    }
}

fn is_word(character: char) -> bool {
    regex_syntax::try_is_word_character(character)
        .unwrap_or_else(|_| character.is_alphanumeric() || character == '_')
}
