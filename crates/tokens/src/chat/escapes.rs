//! Escapes in the strings of a template. Jinja2 reads them as Python does,
//! and the engine as JSON does.

/// A string of a template, as the engine must read it.
pub(super) fn of_python(written: &str) -> String {
    let mut out = String::with_capacity(written.len());
    let mut rest = written;
    while let Some(place) = rest.find('\\') {
        let (before, escape) = rest.split_at(place);
        let scalar = || char::from_u32(u32::from_str_radix(escape.get(2..10)?, 16).ok()?);
        let same = |length: usize| (length, escape.get(..length).unwrap_or_default().to_owned());
        let (length, new) = match escape.chars().nth(1) {
            Some('/') => (2, r"\\/".to_owned()),
            Some('a') => (2, r"\u0007".to_owned()),
            Some('v') => (2, r"\u000b".to_owned()),
            Some('\n') => (2, String::new()),
            Some('U') => scalar().map_or_else(|| same(2), |scalar| (10, in_utf16(scalar))),
            other => same(1 + other.map_or(0, char::len_utf8)),
        };
        out.push_str(before);
        out.push_str(&new);
        rest = escape.get(length..).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

fn in_utf16(scalar: char) -> String {
    let mut out = String::new();
    out.extend(scalar.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")));
    out
}
