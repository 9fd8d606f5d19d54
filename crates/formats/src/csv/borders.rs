//! Finds the borders of records while a file is scanned.

use super::CsvOptions;
use crate::records::{Borders, Cutter};

/// Mirrors the tokenizer without fields: it only tracks quoting.
#[derive(Debug)]
pub(super) struct CsvBorders {
    delimiter: u8,
    quote: Option<u8>,
    state: State,
    /// The last byte of the preceding chunk.
    previous: u8,
    record_start: u64,
    record_line: u64,
    line: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Plain,
    Quoted,
    /// After a quote in a quoted field, which another quote directly after it would escape.
    Closing {
        quote: u64,
    },
}

impl CsvBorders {
    /// `start` is the offset of the first record, `line` its line.
    pub(super) fn new(options: &CsvOptions, start: u64, line: u64) -> Self {
        Self {
            delimiter: options.delimiter,
            quote: options.quote,
            state: State::Plain,
            previous: b'\n',
            record_start: start,
            record_line: line,
            line,
        }
    }

    /// A quote at `at`; `before` is the byte before it.
    fn quote(&mut self, at: u64, before: u8) {
        self.state = match self.state {
            State::Quoted => State::Closing { quote: at },
            State::Closing { quote } if quote + 1 == at => State::Quoted,
            State::Plain | State::Closing { .. }
                if before == self.delimiter || at == self.record_start =>
            {
                State::Quoted
            }
            State::Plain | State::Closing { .. } => State::Plain,
        };
    }

    fn line_end(&mut self, at: u64, byte: u8, before: u8, cutter: &mut Cutter) {
        let is_second_half = byte == b'\n' && before == b'\r';
        if !is_second_half {
            self.line += 1;
        }
        if self.state == State::Quoted {
            return;
        }
        self.state = State::Plain;
        if at > self.record_start {
            cutter.record(self.record_start, at, self.record_line);
        }
        self.record_start = at + 1;
        self.record_line = self.line;
    }
}

impl Borders for CsvBorders {
    fn push(&mut self, chunk: &[u8], offset: u64, cutter: &mut Cutter) {
        // Without a quote character, the search gets a line end twice.
        let quote = self.quote.unwrap_or(b'\n');
        for position in memchr::memchr3_iter(b'\n', b'\r', quote, chunk) {
            let Some(byte) = chunk.get(position).copied() else { break };
            let before = position
                .checked_sub(1)
                .and_then(|before| chunk.get(before))
                .copied()
                .unwrap_or(self.previous);
            let at = offset + position as u64;
            if Some(byte) == self.quote {
                self.quote(at, before);
            } else {
                self.line_end(at, byte, before, cutter);
            }
        }
        self.previous = chunk.last().copied().unwrap_or(self.previous);
    }

    fn finish(&mut self, end: u64, cutter: &mut Cutter) {
        if end > self.record_start {
            cutter.record(self.record_start, end, self.record_line);
        }
    }
}
