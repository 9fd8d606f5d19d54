//! Paths and patterns as the user writes them.

/// The part of a path before its first wildcard.
pub(crate) fn root_of(pattern: &str) -> &str {
    match pattern.find(['*', '?', '[']) {
        Some(wildcard) if std::fs::metadata(pattern).is_err() => pattern
            .get(..wildcard)
            .and_then(|head| head.rfind('/').and_then(|end| head.get(..end)))
            .unwrap_or(""),
        _ => pattern,
    }
}

/// The names in a path.
pub(crate) fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|segment| !matches!(*segment, "" | "."))
}
