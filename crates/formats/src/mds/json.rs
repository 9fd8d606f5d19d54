//! JSON text in samples, written by other programs.

/// Whether `text` is one JSON value. `NaN` and the infinities count as numbers, as in Python.
pub(super) fn is_json(text: &str) -> bool {
    let is_plain = |text: &str| serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    is_plain(text) || without_special_floats(text).is_some_and(|text| is_plain(&text))
}

/// `text` with a 0 for each `NaN` and infinity outside of strings; `None` if it contains none.
fn without_special_floats(text: &str) -> Option<String> {
    let mut replaced = String::with_capacity(text.len());
    let (mut is_inside, mut is_escaped, mut found) = (false, false, false);
    let mut rest = text;
    while let Some(character) = rest.chars().next() {
        let special = ["NaN", "Infinity", "-Infinity"]
            .into_iter()
            .find(|name| !is_inside && rest.starts_with(name));
        if let Some(special) = special {
            replaced.push('0');
            rest = rest.get(special.len()..).unwrap_or_default();
            found = true;
            continue;
        }
        match character {
            '"' if !is_escaped => is_inside = !is_inside,
            _ => {}
        }
        is_escaped = is_inside && character == '\\' && !is_escaped;
        replaced.push(character);
        rest = rest.get(character.len_utf8()..).unwrap_or_default();
    }
    found.then_some(replaced)
}
