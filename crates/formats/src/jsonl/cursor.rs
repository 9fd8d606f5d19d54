//! A cursor over the JSON text of one line.

use super::fault::Fault;
use arrow_schema::DataType;

/// Python writes such an escape for text that was decoded with `surrogateescape`, or split between
/// UTF-16 units.
const HALF_A_PAIR: &str =
    "the escape is half of a surrogate pair, not a character (write both halves, or \\ufffd)";

/// Deeper than any real document, shallow enough for the stack of a thread.
const MAX_DEPTH: usize = 128;

#[derive(Debug, Clone)]
pub(super) struct Cursor<'a> {
    text: &'a [u8],
    position: usize,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(text: &'a [u8]) -> Self {
        Self { text, position: 0 }
    }

    pub(super) fn fault(&self, expected: &'static str) -> Fault {
        Fault::Syntax { position: self.position, expected }
    }

    fn rest(&self) -> &'a [u8] {
        self.text.get(self.position..).unwrap_or_default()
    }

    /// The text of the value read since `start`.
    pub(super) fn since(&self, start: &Self) -> &'a [u8] {
        self.text.get(start.position..self.position).unwrap_or_default()
    }

    /// A fault: the next value is not of `data_type`.
    pub(super) fn misfit(&mut self, data_type: &DataType) -> Fault {
        let start = self.clone();
        match self.skip() {
            Ok(()) => Fault::value(self.since(&start), data_type),
            Err(syntax) => syntax,
        }
    }

    /// The next byte that is not white space, without consuming it.
    pub(super) fn peek(&mut self) -> Option<u8> {
        loop {
            let byte = self.text.get(self.position).copied()?;
            if !matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
                return Some(byte);
            }
            self.position += 1;
        }
    }

    /// Consumes `byte` if it is next.
    pub(super) fn take(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.position += usize::from(is_next);
        is_next
    }

    pub(super) fn expect(&mut self, byte: u8, expected: &'static str) -> Result<(), Fault> {
        if self.take(byte) { Ok(()) } else { Err(self.fault(expected)) }
    }

    /// Checks that only white space follows.
    pub(super) fn end(&mut self) -> Result<(), Fault> {
        if self.peek().is_none() { Ok(()) } else { Err(self.fault("expected the end of the line")) }
    }

    pub(super) fn literal(&mut self, literal: &'static str) -> Result<(), Fault> {
        if !self.rest().starts_with(literal.as_bytes()) {
            return Err(self.fault("expected a value"));
        }
        self.position += literal.len();
        Ok(())
    }

    /// The text of a number, checked against the grammar of JSON; or `NaN`, `Infinity` or
    /// `-Infinity`, as Python writes them.
    pub(super) fn number(&mut self) -> Result<&'a [u8], Fault> {
        let start = self.position;
        let is_negative = self.rest().starts_with(b"-");
        self.position += usize::from(is_negative);
        let whole = self.digits();
        if whole.is_empty()
            && (self.literal("Infinity").is_ok() || (!is_negative && self.literal("NaN").is_ok()))
        {
            return Ok(self.text.get(start..self.position).unwrap_or_default());
        }
        if whole.is_empty() || (whole.len() > 1 && whole.starts_with(b"0")) {
            return Err(self.fault("expected a number"));
        }
        if self.rest().starts_with(b".") {
            self.position += 1;
            if self.digits().is_empty() {
                return Err(self.fault("expected a digit"));
            }
        }
        if let [b'e' | b'E', rest @ ..] = self.rest() {
            self.position += 1 + usize::from(matches!(rest.first(), Some(b'+' | b'-')));
            if self.digits().is_empty() {
                return Err(self.fault("expected a digit"));
            }
        }
        Ok(self.text.get(start..self.position).unwrap_or_default())
    }

    /// Whether the next value, which begins at the position, is a number that is not finite.
    pub(super) fn is_non_finite(&self) -> bool {
        matches!(self.rest(), [b'N' | b'I', ..] | [b'-', b'I', ..])
    }

    fn digits(&mut self) -> &'a [u8] {
        let rest = self.rest();
        let len = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
        self.position += len;
        rest.get(..len).unwrap_or_default()
    }

    /// A string without its quotes. A string with escapes is decoded into `unescaped`.
    pub(super) fn string<'b>(&mut self, unescaped: &'b mut Vec<u8>) -> Result<&'b [u8], Fault>
    where
        'a: 'b,
    {
        self.expect(b'"', "expected a string")?;
        let plain = self.plain_text()?;
        if self.rest().starts_with(b"\"") {
            self.position += 1;
            return Ok(plain);
        }
        unescaped.clear();
        unescaped.extend_from_slice(plain);
        while !self.rest().starts_with(b"\"") {
            self.escape(unescaped)?;
            unescaped.extend_from_slice(self.plain_text()?);
        }
        self.position += 1;
        Ok(unescaped)
    }

    /// The text up to the next quote or backslash.
    fn plain_text(&mut self) -> Result<&'a [u8], Fault> {
        let rest = self.rest();
        let Some(len) = memchr::memchr2(b'"', b'\\', rest) else {
            self.position = self.text.len();
            return Err(self.fault("expected the end of a string"));
        };
        let text = rest.get(..len).unwrap_or_default();
        if let Some(control) = text.iter().position(|byte| *byte < 0x20) {
            self.position += control;
            return Err(self.fault("expected no control character in a string"));
        }
        self.position += len;
        Ok(text)
    }

    fn escape(&mut self, unescaped: &mut Vec<u8>) -> Result<(), Fault> {
        let byte = match self.rest() {
            [_, b'u', ..] => return self.unicode(unescaped),
            [_, b'n', ..] => b'\n',
            [_, b't', ..] => b'\t',
            [_, b'r', ..] => b'\r',
            [_, b'b', ..] => 0x08,
            [_, b'f', ..] => 0x0c,
            [_, byte @ (b'"' | b'\\' | b'/'), ..] => *byte,
            _ => return Err(self.fault("expected an escape")),
        };
        unescaped.push(byte);
        self.position += 2;
        Ok(())
    }

    fn unicode(&mut self, unescaped: &mut Vec<u8>) -> Result<(), Fault> {
        let start = self.position;
        let first = self.code_unit()?;
        let code = match first {
            0xd800..=0xdbff => match self.code_unit() {
                Ok(second @ 0xdc00..=0xdfff) => {
                    Some(0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00))
                }
                _ => None,
            },
            code => Some(code),
        };
        let character = code
            .and_then(char::from_u32)
            .ok_or(Fault::Syntax { position: start, expected: HALF_A_PAIR })?;
        unescaped.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        Ok(())
    }

    /// Four hexadecimal digits after `\u`.
    fn code_unit(&mut self) -> Result<u32, Fault> {
        let hex = self
            .rest()
            .strip_prefix(b"\\u")
            .and_then(|rest| rest.get(..4))
            .filter(|hex| hex.iter().all(u8::is_ascii_hexdigit));
        let code = hex
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .and_then(|hex| u32::from_str_radix(hex, 16).ok());
        let Some(code) = code else { return Err(self.fault("expected four hexadecimal digits")) };
        self.position += 6;
        Ok(code)
    }

    /// Skips and validates one value of any kind.
    pub(super) fn skip(&mut self) -> Result<(), Fault> {
        self.skip_in(0)
    }

    fn skip_in(&mut self, depth: usize) -> Result<(), Fault> {
        if depth > MAX_DEPTH {
            return Err(self.fault("expected at most 128 levels"));
        }
        match self.peek() {
            Some(b'"') => self.skip_string(),
            Some(b'{') => self.skip_items(b'{', b'}', &mut |cursor| {
                cursor.peek();
                cursor.skip_string()?;
                cursor.expect(b':', "expected a colon")?;
                cursor.skip_in(depth + 1)
            }),
            Some(b'[') => self.skip_items(b'[', b']', &mut |cursor| cursor.skip_in(depth + 1)),
            Some(b't') => self.literal("true"),
            Some(b'f') => self.literal("false"),
            Some(b'n') => self.literal("null"),
            Some(b'-' | b'0'..=b'9' | b'N' | b'I') => self.number().map(|_| ()),
            _ => Err(self.fault("expected a value")),
        }
    }

    fn skip_items(
        &mut self,
        open: u8,
        close: u8,
        skip: &mut dyn FnMut(&mut Self) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        self.expect(open, "expected a value")?;
        if self.take(close) {
            return Ok(());
        }
        loop {
            skip(self)?;
            if self.take(close) {
                return Ok(());
            }
            self.expect(b',', "expected a comma or a closing bracket")?;
        }
    }

    fn skip_string(&mut self) -> Result<(), Fault> {
        self.expect(b'"', "expected a string")?;
        let mut unescaped = Vec::new();
        loop {
            self.plain_text()?;
            if self.take(b'"') {
                return Ok(());
            }
            unescaped.clear();
            self.escape(&mut unescaped)?;
        }
    }
}
