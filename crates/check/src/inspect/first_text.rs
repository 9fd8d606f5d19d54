//! The first texts of a file, truncated.

use serde::Serialize;

/// Texts are truncated to this many characters.
pub(super) const TEXT_LEN: usize = 200;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FirstText {
    pub sample: String,
    pub position: i64,
    pub text: String,
}

/// The first characters of a text, with a mark at its end if it was truncated.
pub(super) fn cut(text: &str) -> String {
    match text.char_indices().nth(TEXT_LEN) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}
