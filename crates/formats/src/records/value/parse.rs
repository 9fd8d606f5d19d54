//! What parsers of all types have in common.

use arrow_array::ArrowPrimitiveType;

/// Parses one type of value.
pub(crate) trait Parse: Send {
    type Arrow: ArrowPrimitiveType;

    /// Parses only plain spellings, which are nearly all values; `None` is inconclusive.
    fn parse_plain(&self, text: &[u8]) -> Option<<Self::Arrow as ArrowPrimitiveType>::Native>;

    /// Parses any spelling.
    fn parse(&self, text: &[u8]) -> Option<<Self::Arrow as ArrowPrimitiveType>::Native>;
}

/// Blanks around numbers, dates and times of day are ignored.
pub(super) fn trim(text: &[u8]) -> &[u8] {
    let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
    let start = text.iter().position(|byte| !is_blank(byte)).unwrap_or(text.len());
    let end = text.iter().rposition(|byte| !is_blank(byte)).map_or(start, |last| last + 1);
    text.get(start..end).unwrap_or_default()
}
