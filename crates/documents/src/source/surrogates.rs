//! Finds an escape that makes JSON text invalid although most writers produce it: half of a
//! surrogate pair.
//!
//! Python writes it for text that was decoded with `surrogateescape` or split between UTF-16 units.
//! The parser's own message only mentions the end of an escape.

/// The fault and its position in the text; `None` if all pairs are complete.
#[must_use]
pub(crate) fn lone_surrogate(text: &[u8]) -> Option<String> {
    let mut at = 0;
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        at += rest.iter().position(|byte| *byte == b'\\')?;
        match unit_at(text, at) {
            Some(0xd800..=0xdbff) if matches!(unit_at(text, at + 6), Some(0xdc00..=0xdfff)) => {
                at += 12;
            }
            Some(unit @ 0xd800..=0xdfff) => {
                return Some(format!(
                    "the escape \\u{unit:04x} at byte {at} of the JSON is half of a surrogate \
                     pair, not a character (write both halves, or \\ufffd)"
                ));
            }
            // An escaped backslash does not start another escape.
            _ => at += 2,
        }
    }
    None
}

/// The UTF-16 unit that is escaped at `at`.
fn unit_at(text: &[u8], at: usize) -> Option<u16> {
    let digits = text.get(at..at.checked_add(6)?)?.strip_prefix(b"\\u")?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::lone_surrogate;

    #[test]
    fn half_of_a_pair_is_found_where_it_stands() {
        for (text, offset) in [
            (r#"{"a": "\ud800"}"#, Some(7)),
            (r#""\udc00""#, Some(1)),
            (r#""\ud83d\ud83d\ude00""#, Some(1)),
            (r#""\ud83d""#, Some(1)),
        ] {
            let found = lone_surrogate(text.as_bytes());
            assert_eq!(
                found
                    .map(|what| what.contains(&format!("at byte {} ", offset.unwrap_or_default()))),
                offset.map(|_| true),
                "{text}"
            );
        }
        for text in [r#""\ud83d\ude00""#, r#""\\ud800""#, r#""\u00e9""#, "{", r#""\u""#] {
            assert_eq!(lone_surrogate(text.as_bytes()), None, "{text}");
        }
    }
}
