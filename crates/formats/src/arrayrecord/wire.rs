//! The protocol buffer messages of the footer.

use super::{Fault, varint};

/// A field of a message: its number and its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// A wire type that these messages do not use.
    Other,
}

/// Calls `field` for each field of `message`, in order.
pub(super) fn fields<'a>(
    message: &'a [u8],
    mut field: impl FnMut(u64, Value<'a>) -> Result<(), Fault>,
) -> Result<(), Fault> {
    const MALFORMED: Fault = Fault::Malformed("index record is not a valid message");
    let mut rest = message;
    while !rest.is_empty() {
        let (tag, behind) = varint::read(rest).ok_or(MALFORMED)?;
        let (value, behind) = match tag & 7 {
            0 => varint::read(behind)
                .map(|(number, behind)| (Value::Number(number), behind))
                .ok_or(MALFORMED)?,
            1 => (Value::Other, behind.get(8..).ok_or(MALFORMED)?),
            5 => (Value::Other, behind.get(4..).ok_or(MALFORMED)?),
            2 => {
                let (len, behind) = varint::read(behind).ok_or(MALFORMED)?;
                let (bytes, behind) = usize::try_from(len)
                    .ok()
                    .and_then(|len| behind.split_at_checked(len))
                    .ok_or(MALFORMED)?;
                (Value::Bytes(bytes), behind)
            }
            _ => return Err(MALFORMED),
        };
        if tag >> 3 == 0 {
            return Err(MALFORMED);
        }
        field(tag >> 3, value)?;
        rest = behind;
    }
    Ok(())
}

pub(super) fn put_number(number: u8, value: u64, out: &mut Vec<u8>) {
    out.push(number << 3);
    varint::write(value, out);
}

pub(super) fn put_bytes(number: u8, bytes: &[u8], out: &mut Vec<u8>) {
    out.push(number << 3 | 2);
    varint::write(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}
