//! `tiff:Orientation` in XMP.
//!
//! Searched as text, as Pillow does, in whatever part of the document it is. Invariant: one pass.

const NAME: &[u8] = b"tiff:Orientation";

/// The first orientation, one digit.
pub(super) fn stated(document: &[u8]) -> Option<u8> {
    document.windows(NAME.len()).enumerate().filter(|(_, window)| *window == NAME).find_map(
        |(at, _)| {
            let rest = document.get(at + NAME.len()..)?;
            let digit = rest.strip_prefix(b"=\"").or_else(|| rest.strip_prefix(b">"))?.first()?;
            digit.is_ascii_digit().then(|| digit - b'0')
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attribute_and_element_are_found() {
        assert_eq!(stated(br#"<a tiff:Orientation="6"/>"#), Some(6));
        assert_eq!(stated(b"tiff:Orientation='3' <tiff:Orientation>8</tiff:Orientation>"), Some(8));
        assert_eq!(stated(b"tiff:Orientation=\""), None);
        assert_eq!(stated(b""), None);
    }
}
