//! The header `Content-Range` of an answer. It comes from outside, so that every number in it is checked against what was asked.

use std::ops::Range;

/// What part of an object an answer holds, and how long the whole object is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) span: Range<u64>,
    pub(super) size: u64,
}

impl Part {
    /// Of `bytes 0-99/1000`; `None` when it is anything else, or contradicts itself.
    pub(super) fn parse(header: &str) -> Option<Self> {
        let (span, size) = header.strip_prefix("bytes ")?.split_once('/')?;
        let (first, last) = span.split_once('-')?;
        let (first, last, size) = (number(first)?, number(last)?, number(size)?);
        // A last byte below the size leaves room for the end behind it.
        (first <= last && last < size).then(|| Self { span: first..last + 1, size })
    }

    pub(super) fn len(&self) -> u64 {
        self.span.end - self.span.start
    }
}

/// The size in `bytes */0`, with which a range that holds nothing is refused.
pub(super) fn size_of_refused(header: &str) -> Option<u64> {
    number(header.strip_prefix("bytes */")?)
}

/// Digits only: the parser of the standard library takes a sign as well.
pub(super) fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn part_and_size_are_read() {
        assert_eq!(Part::parse("bytes 0-99/1000"), Some(Part { span: 0..100, size: 1000 }));
        assert_eq!(Part::parse("bytes 5-5/6"), Some(Part { span: 5..6, size: 6 }));
        assert_eq!(size_of_refused("bytes */0"), Some(0));
    }

    #[test]
    fn what_contradicts_itself_or_overflows_is_refused() {
        for header in [
            "",
            "bytes",
            "bytes 0-99",
            "bytes 0-99/*",
            "bytes 0-99/99",
            "bytes 9-8/100",
            "bytes 0--1/0",
            "bytes -5-9/100",
            "bytes +1-9/100",
            "bytes 0-18446744073709551615/18446744073709551615",
            "bytes 0-18446744073709551616/18446744073709551617",
            "items 0-99/1000",
            "bytes 0-9/10/11",
        ] {
            assert_eq!(Part::parse(header), None, "{header}");
        }
    }
}
