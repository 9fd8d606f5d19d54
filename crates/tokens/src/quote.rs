//! Shortens texts and tokens in messages.

use std::fmt::Write as _;

/// How many characters of a token or a text are shown.
const SHOWN: usize = 80;

/// How many characters of another library's message are shown.
const REASON: usize = 400;

/// The beginning of `text` as a literal. If it is not the whole text, the length follows.
#[must_use]
pub fn quoted(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        None => format!("{text:?}"),
        Some((end, _)) => {
            format!("{:?}… ({} bytes)", text.get(..end).unwrap_or_default(), text.len())
        }
    }
}

/// A message of another library, which may quote a whole text.
pub(crate) fn shortened(reason: &str) -> String {
    match reason.char_indices().nth(REASON) {
        None => reason.to_owned(),
        Some((end, _)) => {
            let mut shown = reason.get(..end).unwrap_or_default().to_owned();
            let _infallible = write!(shown, "… ({} bytes)", reason.len());
            shown
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_is_shown_by_its_beginning_and_length() {
        assert_eq!(quoted("a\n"), "\"a\\n\"");
        assert_eq!(quoted(&"é".repeat(SHOWN)), format!("\"{}\"", "é".repeat(SHOWN)));
        assert_eq!(
            quoted(&"é".repeat(SHOWN + 1)),
            format!("\"{}\"… (162 bytes)", "é".repeat(SHOWN))
        );
        assert_eq!(shortened("not found"), "not found");
        assert_eq!(shortened(&"a".repeat(10_000)).len(), REASON + "… (10000 bytes)".len());
    }
}
