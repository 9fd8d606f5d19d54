//! Changes of a template's source.

use std::ops::Range;

/// A range of bytes, and the text in its place.
pub(super) type Edit = (Range<usize>, String);

/// `text` after `edits`, which are in the order of their ranges. `None` if a range is not one of
/// the text, or begins before the end of an earlier one.
pub(super) fn edited(text: &str, edits: &[Edit]) -> Option<String> {
    let mut edited =
        String::with_capacity(text.len() + edits.iter().map(|(_, new)| new.len()).sum::<usize>());
    let mut from = 0;
    for (range, new) in edits {
        text.get(range.clone())?;
        edited.push_str(text.get(from..range.start)?);
        edited.push_str(new);
        from = range.end;
    }
    edited.push_str(text.get(from..)?);
    Some(edited)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_replaced_and_those_that_are_none_of_the_text_are_refused() {
        let edit = |range, new: &str| (range, new.to_owned());
        assert_eq!(
            edited("abécd", &[edit(1..1, "-"), edit(2..4, "e"), edit(6..6, "!")]).unwrap(),
            "a-becd!"
        );
        assert_eq!(edited("abc", &[]).unwrap(), "abc");
        for edits in [
            [edit(0..1, ""), edit(3..3, "")],
            [edit(0..2, ""), edit(1..2, "")],
            [edit(0..0, ""), edit(0..9, "")],
        ] {
            assert!(edited("abé", &edits).is_none(), "{edits:?}");
        }
    }
}
