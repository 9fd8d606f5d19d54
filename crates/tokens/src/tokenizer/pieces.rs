//! Long texts, cut where the ids do not change.
//!
//! A cut is between a letter and a single space before a letter. No grammar of the engine has a match across it, none looks back, and none looks ahead from
//! a letter; pre-tokenizers that split at white space, and models whose tokens have a space marker only at their start, end a word there as well.

use super::engine::Cut;
use super::vocabulary::Vocabulary;
use std::ops::Range;
use std::sync::LazyLock;

/// The aim for a piece; one without a place to cut is longer.
pub(crate) const PIECE_BYTES: usize = 1 << 20;

/// The general category Letter, as sorted ranges.
static LETTERS: LazyLock<Vec<(char, char)>> = LazyLock::new(|| match regex_syntax::parse(r"\p{L}").map(regex_syntax::hir::Hir::into_kind) {
    Ok(regex_syntax::hir::HirKind::Class(regex_syntax::hir::Class::Unicode(class))) => {
        class.iter().map(|range| (range.start(), range.end())).collect()
    }
    _ => vec![('A', 'Z'), ('a', 'z')],
});

fn is_letter(character: char) -> bool {
    let place = LETTERS.partition_point(|(_, end)| *end < character);
    LETTERS.get(place).is_some_and(|(start, _)| *start <= character)
}

/// Whether a tokenizer's added tokens and vocabulary allow the cuts of its engine.
pub(crate) fn allowed(cut: Cut, uses_marker: bool, vocabulary: &Vocabulary) -> Cut {
    let spans = |content: &str| content == " " || (content.contains(' ') && content.chars().any(char::is_alphabetic));
    let is_letter_bounded = |content: &str| content.starts_with(is_letter) || content.ends_with(is_letter);
    let is_unsafe = vocabulary.added().iter().any(|added| spans(&added.content) || (added.is_bounded && is_letter_bounded(&added.content)));
    let is_split = !uses_marker || vocabulary.marks_begin_words();
    if is_unsafe || !is_split { Cut::Never } else { cut }
}

/// Ranges of `text`, each at most [`PIECE_BYTES`] long where there is a place to cut.
pub(crate) fn pieces(text: &str, cut: Cut) -> Vec<Range<usize>> {
    let dropped = usize::from(cut == Cut::DropSpace);
    let mut pieces = Vec::new();
    let mut start = 0;
    while cut != Cut::Never && text.len() - start > PIECE_BYTES {
        let aim = start + PIECE_BYTES;
        let Some(space) = last_cut(text, start, aim).or_else(|| first_cut(text, aim)) else {
            break;
        };
        pieces.push(start..space);
        start = space + dropped;
    }
    pieces.push(start..text.len());
    pieces
}

fn is_cut(text: &str, space: usize) -> bool {
    let before = text.get(..space).and_then(|before| before.chars().next_back());
    let after = text.get(space + 1..).and_then(|after| after.chars().next());
    before.is_some_and(is_letter) && after.is_some_and(is_letter)
}

/// The last place in `start..end`, which is not at `start` itself.
fn last_cut(text: &str, start: usize, end: usize) -> Option<usize> {
    let bytes = text.as_bytes().get(start..end)?;
    memchr::memrchr_iter(b' ', bytes).map(|space| start + space).find(|space| *space > start && is_cut(text, *space))
}

fn first_cut(text: &str, start: usize) -> Option<usize> {
    let bytes = text.as_bytes().get(start..)?;
    memchr::memchr_iter(b' ', bytes).map(|space| start + space).find(|space| is_cut(text, *space))
}
