//! Decodes the fields of protobuf messages, as far as ORC metadata needs it.

/// A field as encoded in the message.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Field<'a> {
    pub(super) number: u64,
    pub(super) value: Value<'a>,
    /// Including its tag, to copy it into another message.
    pub(super) raw: &'a [u8],
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Value<'a> {
    Varint(u64),
    Double(f64),
    Bytes(&'a [u8]),
}

/// The bytes are not a valid message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NoMessage;

/// The fields of a validated message, iterated in place, because a hostile
/// message has millions of them.
#[derive(Debug, Clone)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

/// All fields, in order.
pub(super) fn fields(message: &[u8]) -> Result<Fields<'_>, NoMessage> {
    let mut rest = message;
    while !rest.is_empty() {
        field(&mut rest)?;
    }
    Ok(Fields { rest: message })
}

impl<'a> Iterator for Fields<'a> {
    type Item = Field<'a>;

    fn next(&mut self) -> Option<Field<'a>> {
        if self.rest.is_empty() { None } else { field(&mut self.rest).ok() }
    }
}

fn field<'a>(rest: &mut &'a [u8]) -> Result<Field<'a>, NoMessage> {
    let before = *rest;
    let tag = varint(rest)?;
    let value = match tag & 7 {
        0 => Value::Varint(varint(rest)?),
        1 => {
            let bytes: [u8; 8] = take(rest, 8)?.try_into().map_err(|_| NoMessage)?;
            Value::Double(f64::from_le_bytes(bytes))
        }
        2 => {
            let len = varint(rest)?;
            Value::Bytes(take(rest, usize::try_from(len).map_err(|_| NoMessage)?)?)
        }
        5 => Value::Bytes(take(rest, 4)?),
        _ => return Err(NoMessage),
    };
    let raw = before.get(..before.len() - rest.len()).ok_or(NoMessage)?;
    Ok(Field { number: tag >> 3, value, raw })
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> Result<&'a [u8], NoMessage> {
    let (taken, behind) = rest.split_at_checked(len).ok_or(NoMessage)?;
    *rest = behind;
    Ok(taken)
}

/// The next varint.
pub(super) fn varint(rest: &mut &[u8]) -> Result<u64, NoMessage> {
    let (mut value, mut shift) = (0u64, 0);
    loop {
        let (byte, behind) = rest.split_first().ok_or(NoMessage)?;
        *rest = behind;
        let bits = u64::from(byte & 0x7f);
        if shift > 63 || (shift == 63 && bits > 1) {
            return Err(NoMessage);
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
        shift += 7;
    }
}

/// A zigzag integer.
pub(super) fn signed(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

impl<'a> Value<'a> {
    pub(super) fn number(self) -> Option<u64> {
        if let Self::Varint(value) = self { Some(value) } else { None }
    }

    pub(super) fn bytes(self) -> Option<&'a [u8]> {
        if let Self::Bytes(bytes) = self { Some(bytes) } else { None }
    }

    /// The values of a repeated field, packed or not.
    pub(super) fn numbers(self) -> Result<Vec<u64>, NoMessage> {
        match self {
            Self::Varint(value) => Ok(vec![value]),
            Self::Bytes(mut rest) => {
                let mut values = Vec::new();
                while !rest.is_empty() {
                    values.push(varint(&mut rest)?);
                }
                Ok(values)
            }
            Self::Double(_) => Err(NoMessage),
        }
    }
}

/// Appends a field that holds a message.
pub(super) fn put_bytes(message: &mut Vec<u8>, number: u64, bytes: &[u8]) {
    put_digits(message, number << 3 | 2);
    put_digits(message, bytes.len() as u64);
    message.extend_from_slice(bytes);
}

/// Appends a field that holds a number.
pub(super) fn put_varint(message: &mut Vec<u8>, number: u64, value: u64) {
    put_digits(message, number << 3);
    put_digits(message, value);
}

/// Appends a varint.
pub(super) fn put_digits(message: &mut Vec<u8>, mut rest: u64) {
    while rest > 0x7f {
        message.push(u8::try_from(rest & 0x7f).unwrap_or_default() | 0x80);
        rest >>= 7;
    }
    message.push(u8::try_from(rest).unwrap_or_default());
}
