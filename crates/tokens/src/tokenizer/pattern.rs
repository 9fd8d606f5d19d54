//! Patterns that cut text, outside of the engine's grammars.

use crate::error::{Error, Result};
use fancy_regex::{Regex, RegexBuilder};

/// Of compiled parts, and of what is built while they run.
const SIZE_LIMIT: usize = 64 << 20;

/// What happens to a match, and of the text between matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Behavior {
    Removed,
    Isolated,
    MergedWithPrevious,
    MergedWithNext,
    Contiguous,
}

pub(crate) struct Pattern {
    regex: Regex,
    behavior: Behavior,
    is_inverted: bool,
}

impl Pattern {
    pub(crate) fn new(pattern: &str, behavior: Behavior, is_inverted: bool) -> std::result::Result<Self, String> {
        let regex = compile(pattern)?;
        Ok(Self { regex, behavior, is_inverted })
    }

    pub(crate) fn behavior(&self) -> Behavior {
        self.behavior
    }

    /// Ranges that cover `text`, each with whether it is a match.
    ///
    /// # Errors
    /// When a match needs too many steps. `start` is where the text is in its document, if that is known.
    pub(crate) fn matches(&self, text: &str, start: Option<usize>) -> Result<Vec<((usize, usize), bool)>> {
        let mut ranges = Vec::new();
        let mut end = 0;
        for found in self.regex.find_iter(text) {
            let found = found.map_err(|error| Error::PatternLimit { offset: start.map(|start| start + end), reason: error.to_string() })?;
            if end != found.start() {
                ranges.push(((end, found.start()), self.is_inverted));
            }
            ranges.push(((found.start(), found.end()), !self.is_inverted));
            end = found.end();
        }
        if end != text.len() {
            ranges.push(((end, text.len()), self.is_inverted));
        }
        Ok(ranges)
    }
}

/// A pattern of Oniguruma, which the original library uses: its word characters are letters, marks, all numbers and connectors.
pub(super) fn translated(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        match (character, (character == '\\').then(|| characters.next()).flatten()) {
            ('\\', Some('w')) => out.push_str(r"[\p{L}\p{M}\p{N}\p{Pc}]"),
            ('\\', Some('W')) => out.push_str(r"[^\p{L}\p{M}\p{N}\p{Pc}]"),
            (first, second) => {
                out.push(first);
                out.extend(second);
            }
        }
    }
    out
}

pub(super) fn compile(pattern: &str) -> std::result::Result<Regex, String> {
    let built = RegexBuilder::new(pattern).delegate_size_limit(SIZE_LIMIT).delegate_dfa_size_limit(SIZE_LIMIT).build();
    built.map_err(|error| error.to_string())
}
