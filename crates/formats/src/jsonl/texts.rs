//! The texts of the records of a file, one by one, for readers of whole JSON values.

use super::borders::is_blank;
use super::records::{Broken, Element, Elements, Shape};
use super::{DecodeLimit, Error};
use shardmill_storage::{RangeRead, SequentialRead};
use std::io::Read;

const PIECE_BYTES: usize = 1 << 20;

/// A record, with its place in the content of the file.
#[derive(Debug)]
pub struct RecordText<'a> {
    pub text: &'a [u8],
    pub offset: u64,
    pub line: u64,
}

/// Reads a file of plain text from its start. Memory holds one record and one piece.
pub struct RecordTexts<'a> {
    object: &'a dyn RangeRead,
    reader: SequentialRead<'a>,
    limit: DecodeLimit,
    shape: Option<Shape>,
    elements: Elements,
    line: u64,
    /// The bytes of the file from `base` on that are in memory.
    buffer: Vec<u8>,
    base: u64,
    /// In `buffer`: the start of the open record, and the next byte to look at.
    start: usize,
    position: usize,
    is_at_end: bool,
}

impl<'a> RecordTexts<'a> {
    #[must_use]
    pub fn new(object: &'a dyn RangeRead, limit: DecodeLimit) -> Self {
        Self {
            object,
            reader: SequentialRead::new(object),
            limit,
            shape: None,
            elements: Elements::of_file(),
            line: 1,
            buffer: Vec::new(),
            base: 0,
            start: 0,
            position: 0,
            is_at_end: false,
        }
    }

    /// The next record; blank lines are none. `None` at the end.
    ///
    /// # Errors
    /// When the file cannot be read, for a record beyond the limit, and for an array that is not
    /// complete.
    pub fn next_record(&mut self) -> Result<Option<RecordText<'_>>, Error> {
        let found = loop {
            let found = match self.shape {
                None => None,
                Some(Shape::Lines) => self.line(),
                Some(Shape::Array) => self.element()?,
            };
            match found {
                Some(found) if is_blank(self.between(&found)) => {}
                Some(found) => break found,
                None if self.is_at_end => return Ok(None),
                None => self.read_on()?,
            }
        };
        Ok(Some(RecordText { text: self.between(&found), offset: found.start, line: found.line }))
    }

    fn between(&self, element: &Element) -> &[u8] {
        let at = |offset: u64| usize::try_from(offset - self.base).unwrap_or_default();
        self.buffer.get(at(element.start)..at(element.end)).unwrap_or_default()
    }

    fn line(&mut self) -> Option<Element> {
        let rest = self.buffer.get(self.position..).unwrap_or_default();
        let end = match memchr::memchr(b'\n', rest) {
            Some(len) => self.position + len,
            None => {
                self.position = self.buffer.len();
                if !self.is_at_end || self.start == self.buffer.len() {
                    return None;
                }
                self.buffer.len()
            }
        };
        let element = Element {
            start: self.base + self.start as u64,
            end: self.base + end as u64,
            line: self.line,
        };
        self.line += 1;
        self.start = (end + 1).min(self.buffer.len());
        self.position = self.start;
        Some(element)
    }

    fn element(&mut self) -> Result<Option<Element>, Error> {
        let found = self.elements.next(&self.buffer, &mut self.position, self.base);
        let found = found.map_err(|broken| self.broken(broken))?;
        match &found {
            Some(_) => self.start = self.position,
            None if self.is_at_end => {
                let end = self.base + self.buffer.len() as u64;
                self.elements.check_end(end).map_err(|broken| self.broken(broken))?;
            }
            None => {}
        }
        Ok(found)
    }

    fn broken(&self, Broken { offset, line, expected }: Broken) -> Error {
        Error::Array { path: self.object.path().to_owned(), line, offset, expected }
    }

    fn read_on(&mut self) -> Result<(), Error> {
        self.limit.check(
            self.object.path(),
            (self.buffer.len() - self.start) as u64,
            "a record of at least",
            || format!("line {}", self.line),
        )?;
        self.buffer.drain(..self.start);
        self.base += self.start as u64;
        self.position -= self.start;
        self.start = 0;
        let read = self.reader.by_ref().take(PIECE_BYTES as u64).read_to_end(&mut self.buffer);
        let read = read.map_err(|source| Error::Unpack {
            path: self.object.path().to_owned(),
            unpacked: self.base,
            source,
        })?;
        self.is_at_end = read < PIECE_BYTES;
        if self.shape.is_none() {
            if self.buffer.starts_with(crate::records::BYTE_ORDER_MARK) {
                self.start = crate::records::BYTE_ORDER_MARK.len();
                self.position = self.start;
            }
            let text = self.buffer.get(self.start..).unwrap_or_default();
            self.shape = Shape::of(text, self.is_at_end);
        }
        Ok(())
    }
}
