//! Finds the lines of a file while it is scanned.

use crate::records::{Borders, Cutter};

/// A newline ends a line, and nothing else does: JSON has no newline inside of a string. A carriage return before it is white space.
#[derive(Debug)]
pub(super) struct LineBorders {
    line_start: u64,
    line: u64,
    is_blank: bool,
}

pub(super) fn is_blank(text: &[u8]) -> bool {
    text.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r'))
}

impl LineBorders {
    pub(super) fn new(start: u64) -> Self {
        Self { line_start: start, line: 1, is_blank: true }
    }
}

impl Borders for LineBorders {
    fn push(&mut self, chunk: &[u8], offset: u64, cutter: &mut Cutter) {
        let mut from = 0;
        for newline in memchr::memchr_iter(b'\n', chunk) {
            let at = offset + newline as u64;
            self.is_blank = self.is_blank && is_blank(chunk.get(from..newline).unwrap_or_default());
            if !self.is_blank {
                cutter.record(self.line_start, at, self.line);
            }
            from = newline + 1;
            *self = Self { line_start: at + 1, line: self.line + 1, is_blank: true };
        }
        self.is_blank = self.is_blank && is_blank(chunk.get(from..).unwrap_or_default());
    }

    fn finish(&mut self, end: u64, cutter: &mut Cutter) {
        if !self.is_blank {
            cutter.record(self.line_start, end, self.line);
        }
    }
}
