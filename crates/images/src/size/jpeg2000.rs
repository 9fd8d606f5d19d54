//! Sizes of JPEG 2000: from the header box of a file, or from the segment after the start
//! of a bare codestream.
//!
//! Called by the probe once the format is known. Invariant: each step of the walk over boxes
//! advances by at least eight bytes.

use crate::endian::Endian;

/// Length and kind of a box.
const BOX_HEADER: usize = 8;

/// Width and height in `prefix`; `None` if they are damaged or beyond its end.
pub(crate) fn size(prefix: &[u8]) -> Option<(u32, u32)> {
    let number = |bytes: &[u8], offset: usize| Endian::Big.u32(bytes.get(offset..)?);
    if prefix.starts_with(b"\xff\x4f") {
        // The image lies between its offset and the end of the reference grid.
        let side =
            |end: usize, start: usize| number(prefix, end)?.checked_sub(number(prefix, start)?);
        return Some((side(8, 16)?, side(12, 20)?));
    }
    let mut rest = prefix;
    while rest.get(4..BOX_HEADER)? != b"jp2h" {
        let len = usize::try_from(number(rest, 0)?).ok().filter(|len| *len >= BOX_HEADER)?;
        rest = rest.get(len..)?;
    }
    // `ihdr` is the first box in it, and states the height first.
    let header = rest.get(BOX_HEADER..)?;
    (header.get(4..BOX_HEADER)? == b"ihdr").then_some((number(header, 12)?, number(header, 8)?))
}
