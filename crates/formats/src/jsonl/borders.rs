//! Finds the lines of a file while it is scanned.

use super::records::{Broken, Elements};
use crate::records::{Borders, Cutter};

/// Only a newline ends a line, because JSON strings contain no newlines. A carriage return before
/// it is white space.
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

/// The elements of an array are its records, and the array must be complete.
#[derive(Debug)]
pub(super) struct ElementBorders {
    elements: Elements,
    pub(super) broken: Option<Broken>,
}

impl ElementBorders {
    pub(super) fn new() -> Self {
        Self { elements: Elements::of_file(), broken: None }
    }
}

impl Borders for ElementBorders {
    fn push(&mut self, chunk: &[u8], offset: u64, cutter: &mut Cutter) {
        let mut position = 0;
        while self.broken.is_none() {
            match self.elements.next(chunk, &mut position, offset) {
                Ok(Some(element)) => cutter.record(element.start, element.end, element.line),
                Ok(None) => return,
                Err(broken) => self.broken = Some(broken),
            }
        }
    }

    fn finish(&mut self, end: u64, _cutter: &mut Cutter) {
        self.broken = self.broken.or_else(|| self.elements.check_end(end).err());
    }
}
