//! The positions of the objects of a file: one per line, or the elements of one JSON array.
//!
//! Elements are found by strings and brackets alone, piece by piece; their content is left to the
//! parser. The invariant: an array that is truncated, or followed by other text, is never accepted
//! as a shorter one.

use super::borders::is_blank;

/// How the objects of a file are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    Lines,
    Array,
}

impl Shape {
    /// Decides from the first bytes of a file, which may be all of them; `None` when they do not
    /// suffice. A line such as `[1, 2]` is a bad line, not an array.
    pub(super) fn of(text: &[u8], is_whole: bool) -> Option<Self> {
        let mut solid = text.iter().enumerate().filter(|(_, byte)| !byte.is_ascii_whitespace());
        let (open, second) = (solid.next(), solid.next());
        match (open, second) {
            (None, _) => is_whole.then_some(Self::Lines),
            (Some((_, b'[')), None) => is_whole.then_some(Self::Array),
            (Some((open, b'[')), Some((second, byte))) => {
                let is_spread =
                    text.get(open..second).is_some_and(|between| between.contains(&b'\n'));
                Some(if is_spread || matches!(byte, b'{' | b']') {
                    Self::Array
                } else {
                    Self::Lines
                })
            }
            _ => Some(Self::Lines),
        }
    }
}

/// An element of an array: its start, end and first line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Element {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) line: u64,
}

/// The position of an unexpected byte between the elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Broken {
    pub(super) offset: u64,
    pub(super) line: u64,
    pub(super) expected: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    BeforeArray,
    /// An element or the end of the array may follow.
    First,
    /// After a comma.
    Next,
    /// In an element, outside of strings.
    Value,
    Text,
    Escape,
    /// After an element.
    After,
    AfterArray,
}

/// Finds the elements of an array that is pushed in chunks.
#[derive(Debug)]
pub(super) struct Elements {
    state: State,
    depth: u64,
    line: u64,
    start: u64,
    start_line: u64,
}

impl Elements {
    /// For a whole file.
    pub(super) fn of_file() -> Self {
        Self { state: State::BeforeArray, depth: 0, line: 1, start: 0, start_line: 1 }
    }

    /// For consecutive elements inside of an array.
    fn of_run() -> Self {
        Self { state: State::First, ..Self::of_file() }
    }

    /// The next element that ends in `chunk`, which begins at `base`; `position` is the next byte
    /// to read, and is advanced.
    pub(super) fn next(
        &mut self,
        chunk: &[u8],
        position: &mut usize,
        base: u64,
    ) -> Result<Option<Element>, Broken> {
        while let Some(rest) = chunk.get(*position..).filter(|rest| !rest.is_empty()) {
            if self.state == State::Text {
                let Some(len) = memchr::memchr3(b'"', b'\\', b'\n', rest) else {
                    *position = chunk.len();
                    break;
                };
                *position += len + 1;
                match rest.get(len) {
                    Some(b'\\') => self.state = State::Escape,
                    Some(b'\n') => self.line += 1,
                    _ if self.depth == 0 => return Ok(Some(self.ended(base + *position as u64))),
                    _ => self.state = State::Value,
                }
                continue;
            }
            let Some(byte) = rest.first().copied() else { break };
            let at = base + *position as u64;
            // The byte that ends a number or a literal is processed again.
            if self.state == State::Value
                && self.depth == 0
                && (matches!(byte, b',' | b']') || byte.is_ascii_whitespace())
            {
                return Ok(Some(self.ended(at)));
            }
            *position += 1;
            self.line += u64::from(byte == b'\n');
            if self.state == State::Escape {
                self.state = State::Text;
            } else if self.state == State::Value {
                match byte {
                    b'"' => self.state = State::Text,
                    b'{' | b'[' => self.depth += 1,
                    b'}' | b']' => {
                        self.depth = self.depth.saturating_sub(1);
                        if self.depth == 0 {
                            return Ok(Some(self.ended(at + 1)));
                        }
                    }
                    _ => {}
                }
            } else if !byte.is_ascii_whitespace() {
                self.between(byte, at)?;
            }
        }
        Ok(None)
    }

    /// Handles a byte outside of elements.
    fn between(&mut self, byte: u8, at: u64) -> Result<(), Broken> {
        let expected = match (self.state, byte) {
            (State::BeforeArray, b'[') => {
                self.state = State::First;
                return Ok(());
            }
            (State::First | State::After, b']') => {
                self.state = State::AfterArray;
                return Ok(());
            }
            (State::After, b',') => {
                self.state = State::Next;
                return Ok(());
            }
            (State::First | State::Next, byte) if !matches!(byte, b',' | b']' | b'}' | b':') => {
                (self.start, self.start_line, self.depth) =
                    (at, self.line, u64::from(matches!(byte, b'{' | b'[')));
                self.state = if byte == b'"' { State::Text } else { State::Value };
                return Ok(());
            }
            (State::BeforeArray, _) => "expected an array",
            (State::First, _) => "expected a value",
            (State::Next, _) => "expected a value after the comma",
            (State::AfterArray, _) => "expected nothing after the array",
            _ => "expected a comma or the end of the array",
        };
        Err(Broken { offset: at, line: self.line, expected })
    }

    fn ended(&mut self, end: u64) -> Element {
        self.state = State::After;
        Element { start: self.start, end, line: self.start_line }
    }

    /// Checks that an array whose file ends at `end` is complete.
    pub(super) fn check_end(&self, end: u64) -> Result<(), Broken> {
        match self.state {
            State::AfterArray => Ok(()),
            _ => Err(Broken {
                offset: end,
                line: self.line,
                expected: "the file ends before the array does",
            }),
        }
    }

    /// A number or a literal that ends with its run.
    fn last(&mut self, end: u64) -> Option<Element> {
        (self.state == State::Value && self.depth == 0).then(|| self.ended(end))
    }
}

/// A record in a piece of a file.
#[derive(Debug)]
pub(super) struct Record<'a> {
    /// Start in the piece.
    pub(super) position: usize,
    /// Counted from 1 at the start of the piece.
    pub(super) line: u64,
    pub(super) text: &'a [u8],
}

/// The records of a piece of a file.
#[derive(Debug)]
pub(super) struct Records<'a> {
    bytes: &'a [u8],
    position: usize,
    line: u64,
    elements: Option<Elements>,
}

impl<'a> Records<'a> {
    /// For a run of whole records.
    pub(super) fn of_run(bytes: &'a [u8], shape: Shape) -> Self {
        Self {
            bytes,
            position: 0,
            line: 1,
            elements: (shape == Shape::Array).then(Elements::of_run),
        }
    }

    /// For the start of a file. Broken text ends the iteration; opening the file reports it.
    pub(super) fn of_start(bytes: &'a [u8], shape: Shape) -> Self {
        Self {
            bytes,
            position: 0,
            line: 1,
            elements: (shape == Shape::Array).then(Elements::of_file),
        }
    }

    fn line(&mut self) -> Option<Record<'a>> {
        while self.position <= self.bytes.len() {
            let rest = self.bytes.get(self.position..).unwrap_or_default();
            let len = memchr::memchr(b'\n', rest).unwrap_or(rest.len());
            let text = rest.get(..len).unwrap_or_default();
            let record = Record { position: self.position, line: self.line, text };
            self.position += len + 1;
            self.line += 1;
            if !is_blank(text) {
                return Some(record);
            }
        }
        None
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        let Some(elements) = &mut self.elements else { return self.line() };
        let found = elements.next(self.bytes, &mut self.position, 0).ok()?;
        let element = found.or_else(|| elements.last(self.bytes.len() as u64))?;
        let (start, end) =
            (usize::try_from(element.start).ok()?, usize::try_from(element.end).ok()?);
        Some(Record { position: start, line: element.line, text: self.bytes.get(start..end)? })
    }
}
