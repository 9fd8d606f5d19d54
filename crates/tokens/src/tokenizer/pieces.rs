//! Long texts, cut where the ids do not change.
//!
//! A cut is between a letter and a single space before a letter. No grammar of the engine has a
//! match across it, none looks back, and none looks ahead from a letter; pre-tokenizers that split
//! at white space, and models whose tokens have a space marker only at their start, end a word
//! there as well.
//!
//! The grammars also end a match between a letter and a line feed, a full stop or a comma before a
//! letter: a match with a letter goes on with letters, marks and, for contractions, apostrophes
//! alone. So texts without spaces can be cut as well.

use super::engine::Cut;
use super::vocabulary::Vocabulary;
use std::ops::Range;
use std::sync::LazyLock;

/// The aim for a piece; one without a place to cut is longer.
pub(crate) const PIECE_BYTES: usize = 1 << 20;

/// What is cut before, in [`Cut::AfterLetter`]; elsewhere only the first one.
const SEPARATORS: [u8; 4] = [b' ', b'\n', b'.', b','];

/// The general category Letter, as sorted ranges.
static LETTERS: LazyLock<Vec<(char, char)>> =
    LazyLock::new(|| match regex_syntax::parse(r"\p{L}").map(regex_syntax::hir::Hir::into_kind) {
        Ok(regex_syntax::hir::HirKind::Class(regex_syntax::hir::Class::Unicode(class))) => {
            class.iter().map(|range| (range.start(), range.end())).collect()
        }
        _ => vec![('A', 'Z'), ('a', 'z')],
    });

fn is_letter(character: char) -> bool {
    let place = LETTERS.partition_point(|(_, end)| *end < character);
    LETTERS.get(place).is_some_and(|(start, _)| *start <= character)
}

/// The cuts of an engine that a tokenizer's added tokens and vocabulary allow.
pub(crate) fn allowed(cut: Cut, uses_marker: bool, vocabulary: &Vocabulary) -> Cut {
    let is_letter_bounded =
        |content: &str| content.starts_with(is_letter) || content.ends_with(is_letter);
    let is_safe = |cut: Cut| {
        let is_cut_by = |content: &str, separator: u8| {
            content.as_bytes() == [separator]
                || (content.contains(char::from(separator))
                    && content.chars().any(char::is_alphabetic))
        };
        let spans =
            |content: &str| separators(cut).iter().any(|separator| is_cut_by(content, *separator));
        !vocabulary.added().iter().any(|added| {
            spans(&added.content) || (added.bounds.are_any() && is_letter_bounded(&added.content))
        })
    };
    let is_split = !uses_marker || vocabulary.marks_begin_words();
    match cut {
        cut if is_split && is_safe(cut) => cut,
        Cut::AfterLetter if is_split && is_safe(Cut::BeforeSpace) => Cut::BeforeSpace,
        _ => Cut::Never,
    }
}

fn separators(cut: Cut) -> &'static [u8] {
    match cut {
        Cut::Never => &[],
        Cut::BeforeSpace | Cut::DropSpace => SEPARATORS.split_at(1).0,
        Cut::AfterLetter => &SEPARATORS,
    }
}

/// Ranges of `text`, each at most [`PIECE_BYTES`] long where there is a place to cut.
pub(crate) fn pieces(text: &str, cut: Cut) -> Vec<Range<usize>> {
    let dropped = usize::from(cut == Cut::DropSpace);
    let mut pieces = Vec::new();
    let mut start = 0;
    while cut != Cut::Never && text.len() - start > PIECE_BYTES {
        let aim = start + PIECE_BYTES;
        let Some(place) = last_cut(text, start, aim, cut).or_else(|| first_cut(text, aim, cut))
        else {
            break;
        };
        pieces.push(start..place);
        start = place + dropped;
    }
    pieces.push(start..text.len());
    pieces
}

fn is_cut(text: &str, place: usize) -> bool {
    let before = text.get(..place).and_then(|before| before.chars().next_back());
    let after = text.get(place + 1..).and_then(|after| after.chars().next());
    before.is_some_and(is_letter) && after.is_some_and(is_letter)
}

/// The last place in `start..end`, which is not at `start` itself.
fn last_cut(text: &str, start: usize, end: usize, cut: Cut) -> Option<usize> {
    let bytes = text.as_bytes().get(start..end)?;
    let places = bytes.iter().enumerate().rev().filter(|(_, byte)| separators(cut).contains(byte));
    places.map(|(place, _)| start + place).find(|place| *place > start && is_cut(text, *place))
}

fn first_cut(text: &str, start: usize, cut: Cut) -> Option<usize> {
    let bytes = text.as_bytes().get(start..)?;
    let places = bytes.iter().enumerate().filter(|(_, byte)| separators(cut).contains(byte));
    places.map(|(place, _)| start + place).find(|place| is_cut(text, *place))
}
