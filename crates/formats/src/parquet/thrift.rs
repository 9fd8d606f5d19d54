//! Validates a Thrift structure before it is decoded, and rejects one that would keep the decoder
//! busy for hours.
//!
//! The input is a footer or a page header, the output a verdict. When the decoder (parquet 59.3.2)
//! skips a list of booleans it consumes no byte per element: six bytes make it count to two
//! thousand million, and a file of some kilobytes can repeat that hundreds of times. No structure
//! read here has collections of booleans, except the list of empty pages in an index, which is
//! decoded. The decoder also does not compare the type of a known field with that in the file, so
//! it can be led to bytes that this walk took for text. Such fields are rejected as well, and so
//! are pages with more values than any writer puts into one, and dictionaries with more entries
//! than bytes. The invariant: everything else consumes at least one byte, so this walk takes no
//! more steps than there are bytes, and the decoder takes the same ones.

use super::thrift_fields::{FILE, Fields, Kind, PAGE};

/// Much deeper than any structure of Parquet.
const MAX_DEPTH: usize = 64;

/// Entries are distinct, so no compression fits more of them into a byte.
const MAX_ENTRIES_A_BYTE: u64 = 64;

/// Lengths and counts are signed 32-bit numbers.
const MAX_NUMBER: u64 = (1 << 31) - 1;

/// Field numbers are signed 16-bit numbers.
const MAX_ID: u64 = (1 << 15) - 1;

const STOP: u8 = 0;
const STRUCTURE: u8 = 12;
const BOOLEANS: [u8; 2] = [1, 2];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Complete, or damaged in a way that stops the decoder.
    Harmless,
    /// The bytes end before the structure does.
    Unfinished,
    /// A collection of booleans, a known field of another type, or too deeply nested.
    UnsupportedField,
}

/// The parts of a footer, as bytes. The footers of one data set have the same schema
/// and key-value metadata.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct FooterParts<'a> {
    pub(super) schema: &'a [u8],
    pub(super) pairs: &'a [u8],
    pub(super) before_row_groups: &'a [u8],
    /// The list of row groups, with its header.
    pub(super) row_groups: &'a [u8],
    pub(super) after_row_groups: &'a [u8],
    /// Whether it states how columns are encrypted.
    pub(super) has_encryption: bool,
}

/// Judges a whole footer. Returns its parts if it is complete and has exactly one schema.
pub(super) fn judge_footer(bytes: &[u8]) -> (Verdict, Option<FooterParts<'_>>) {
    let mut walk = Walk::new(bytes, false);
    let (mut parts, mut schemas, mut is_plain) = (FooterParts::default(), 0, true);
    let mut id = 0;
    let result = loop {
        match walk.field(id) {
            Ok(None) => break Ok(()),
            Err(stop) => break Err(stop),
            Ok(Some((wire, next))) => {
                id = next;
                let before = walk.bytes;
                if let Err(stop) =
                    walk.value(wire, kind_of(FILE, id), Place::default().inside(id), MAX_DEPTH)
                {
                    break Err(stop);
                }
                let value = before.get(..before.len() - walk.bytes.len()).unwrap_or_default();
                match id {
                    2 => (parts.schema, schemas) = (value, schemas + 1),
                    5 => parts.pairs = value,
                    4 => {
                        // Otherwise, the decoder rejects the footer: it needs the schema first.
                        is_plain &= schemas == 1 && parts.row_groups.is_empty();
                        parts.before_row_groups =
                            bytes.get(..bytes.len() - before.len()).unwrap_or_default();
                        (parts.row_groups, parts.after_row_groups) = (value, walk.bytes);
                    }
                    8 => parts.has_encryption = true,
                    _ => {}
                }
            }
        }
    };
    let is_known = is_plain && result.is_ok() && schemas == 1;
    (verdict(result), is_known.then_some(parts))
}

/// The elements of a list of structures, if it has more than `most` of them.
pub(super) fn long_list(list: &[u8], most: usize) -> Option<Vec<&[u8]>> {
    let mut walk = Walk::new(list, false);
    let header = walk.byte().ok()?;
    let count = if header >> 4 == 15 { walk.varint().ok()? } else { u64::from(header >> 4) };
    if count <= most as u64 || header & 0x0f != STRUCTURE {
        return None;
    }
    let mut elements = Vec::new();
    for _ in 0..count {
        let before = walk.bytes;
        walk.structure(&[], Place::default(), MAX_DEPTH).ok()?;
        elements.push(before.get(..before.len() - walk.bytes.len())?);
    }
    Some(elements)
}

/// The beginning of a list of `count` structures.
pub(super) fn list_header(count: usize) -> Vec<u8> {
    let mut header = vec![0xf0 | STRUCTURE];
    let mut rest = count;
    while rest > 0x7f {
        header.push(rest.to_le_bytes().first().copied().unwrap_or_default() | 0x80);
        rest >>= 7;
    }
    header.extend(rest.to_le_bytes().first());
    header
}

fn kind_of(fields: Fields, id: u64) -> Kind {
    let is_of = |(known, _): &&(u8, Kind)| u64::from(*known) == id;
    // Most structures number their fields without gaps.
    let guess =
        usize::try_from(id).ok().and_then(|id| fields.get(id.checked_sub(1)?)).filter(is_of);
    guess.or_else(|| fields.iter().find(is_of)).map_or(Kind::Any, |(_, kind)| *kind)
}

/// Judges a structure with these fields, such as the index of a column's pages.
pub(super) fn judge(bytes: &[u8], fields: Fields) -> Verdict {
    verdict(Walk::new(bytes, false).structure(fields, Place::default(), MAX_DEPTH))
}

/// The description of a page in its header.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PageFacts {
    pub(super) header_len: u64,
    /// Decompressed.
    pub(super) page_len: u64,
    /// Including nulls; zero for a dictionary.
    pub(super) values: u64,
    /// Bytes at the start of the page that are not compressed: the levels of version 2, or all.
    pub(super) plain_len: u64,
    /// Of the stored bytes.
    pub(super) checksum: Option<u32>,
}

/// Judges the page header at the start of `bytes`.
pub(super) fn judge_page_header(bytes: &[u8]) -> (Verdict, PageFacts) {
    let mut walk = Walk::new(bytes, true);
    let result = walk.structure(PAGE, Place::default(), MAX_DEPTH);
    let header_len = (bytes.len() - walk.bytes.len()) as u64;
    let plain_len = if walk.is_plain {
        u64::MAX
    } else {
        walk.definitions_len.saturating_add(walk.repetitions_len)
    };
    let facts = PageFacts {
        header_len,
        page_len: walk.page_len,
        values: walk.values,
        plain_len,
        checksum: walk.checksum,
    };
    // The decoder allocates memory for the claimed number of dictionary entries before it reads any
    // of them.
    if result.is_ok()
        && walk.dictionary_entries
            > walk.page_len.min(walk.stored_len.saturating_mul(MAX_ENTRIES_A_BYTE))
    {
        return (Verdict::UnsupportedField, facts);
    }
    (verdict(result), facts)
}

fn verdict(result: Step<()>) -> Verdict {
    result.err().unwrap_or(Verdict::Harmless)
}

struct Walk<'a> {
    bytes: &'a [u8],
    page_len: u64,
    stored_len: u64,
    dictionary_entries: u64,
    values: u64,
    definitions_len: u64,
    repetitions_len: u64,
    is_plain: bool,
    checksum: Option<u32>,
    is_page: bool,
}

/// Position of a value: its depth, its field, and the field of its parent.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    level: usize,
    parent: u64,
    id: u64,
}

impl Place {
    fn inside(self, id: u64) -> Self {
        Self { level: self.level + 1, parent: self.id, id }
    }
}

type Step<T> = Result<T, Verdict>;

impl<'a> Walk<'a> {
    fn new(bytes: &'a [u8], is_page: bool) -> Self {
        Self {
            bytes,
            page_len: 0,
            stored_len: 0,
            dictionary_entries: 0,
            values: 0,
            definitions_len: 0,
            repetitions_len: 0,
            is_plain: false,
            checksum: None,
            is_page,
        }
    }

    fn structure(&mut self, fields: Fields, place: Place, depth: usize) -> Step<()> {
        let mut id = 0u64;
        while let Some((wire, next)) = self.field(id)? {
            id = next;
            self.value(wire, kind_of(fields, id), place.inside(id), depth)?;
        }
        Ok(())
    }

    /// Type and id of the field after the field `last`; `None` at the end of the structure.
    fn field(&mut self, last: u64) -> Step<Option<(u8, u64)>> {
        let header = self.byte()?;
        if header & 0x0f == STOP {
            return Ok(None);
        }
        let id = match header >> 4 {
            // An explicit id, as a zigzag number. The decoder truncates it to 16 bits and continues
            // from negative ids, so it could mean another field there.
            0 => Some(self.varint()?)
                .filter(|id| id & 1 == 0 && id >> 1 <= MAX_ID)
                .map(|id| id >> 1)
                .ok_or(Verdict::UnsupportedField)?,
            delta => last.saturating_add(u64::from(delta)),
        };
        Ok(Some((header & 0x0f, id)))
    }

    /// Reads the value of a field; a boolean is part of the field's header.
    fn value(&mut self, wire: u8, expected: Kind, place: Place, depth: usize) -> Step<()> {
        let depth = depth.checked_sub(1).ok_or(Verdict::UnsupportedField)?;
        if !expected.allows(wire) {
            return Err(Verdict::UnsupportedField);
        }
        match wire {
            1 | 2 => {
                // Whether a page of version 2 is compressed.
                if (place.level, place.parent, place.id) == (2, 8, 7) {
                    self.is_plain = wire == 2;
                }
                Ok(())
            }
            3 => self.skip(1),
            4..=6 => match self.varint()? {
                number if expected.allows_number(number) => self.note(place, number),
                _ => Err(Verdict::UnsupportedField),
            },
            7 => self.skip(8),
            8 => {
                let len = self.varint()?;
                self.skip(len)
            }
            9 | 10 => self.list(expected, place, depth),
            11 => self.map(place, depth),
            12 => {
                // Of two descriptions of a page, the decoder takes the last.
                if (place.level, place.id) == (1, 8) {
                    (self.definitions_len, self.repetitions_len, self.is_plain) = (0, 0, false);
                }
                self.structure(expected.fields(), place, depth)
            }
            13 => self.skip(16),
            _ => Err(Verdict::Harmless),
        }
    }

    fn list(&mut self, expected: Kind, place: Place, depth: usize) -> Step<()> {
        let header = self.byte()?;
        let count = if header >> 4 == 15 { self.varint()? } else { u64::from(header >> 4) };
        self.elements(&[header & 0x0f], (expected.element(), place), count, depth)
    }

    fn map(&mut self, place: Place, depth: usize) -> Step<()> {
        let count = self.varint()?;
        if count == 0 {
            return Ok(());
        }
        let kinds = self.byte()?;
        self.elements(&[kinds >> 4, kinds & 0x0f], (Kind::Any, place), count, depth)
    }

    fn elements(
        &mut self,
        wires: &[u8],
        (expected, place): (Kind, Place),
        count: u64,
        depth: usize,
    ) -> Step<()> {
        if count > 0 && wires.iter().any(|wire| BOOLEANS.contains(wire)) {
            // Where booleans are expected, the decoder reads one byte each and does not skip.
            return if matches!(expected, Kind::Boolean) {
                self.skip(count)
            } else {
                Err(Verdict::UnsupportedField)
            };
        }
        for _ in 0..count {
            for wire in wires {
                self.value(*wire, expected, place.inside(u64::MAX), depth)?;
            }
        }
        Ok(())
    }

    /// Records the numbers by which a page header is judged.
    fn note(&mut self, place: Place, zigzag: u64) -> Step<()> {
        if !self.is_page {
            return Ok(());
        }
        let kept = match (place.level, place.parent, place.id) {
            (1, _, 4) => {
                let number = zigzag >> 1 ^ (zigzag & 1).wrapping_neg();
                self.checksum = u32::try_from(number & u64::from(u32::MAX)).ok();
                return Ok(());
            }
            (1, _, 2) => &mut self.page_len,
            (1, _, 3) => &mut self.stored_len,
            (2, 7, 1) => &mut self.dictionary_entries,
            (2, 5 | 8, 1) => &mut self.values,
            (2, 8, 5) => &mut self.definitions_len,
            (2, 8, 6) => &mut self.repetitions_len,
            _ => return Ok(()),
        };
        // The decoder truncates numbers to 32 bits.
        let is_cut = zigzag & 1 == 1 || zigzag >> 1 > MAX_NUMBER;
        *kept = zigzag >> 1;
        if is_cut { Err(Verdict::UnsupportedField) } else { Ok(()) }
    }

    fn byte(&mut self) -> Step<u8> {
        let (first, rest) = self.bytes.split_first().ok_or(Verdict::Unfinished)?;
        self.bytes = rest;
        Ok(*first)
    }

    fn varint(&mut self) -> Step<u64> {
        let (mut value, mut shift) = (0u64, 0u32);
        loop {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift).unwrap_or_default();
            if byte & 0x80 == 0 {
                return Ok(value);
            }
            // Excess digits are truncated by one reader and wrapped by another.
            shift = Some(shift + 7).filter(|shift| *shift < 64).ok_or(Verdict::UnsupportedField)?;
        }
    }

    fn skip(&mut self, len: u64) -> Step<()> {
        let rest = usize::try_from(len).ok().and_then(|len| self.bytes.get(len..));
        self.bytes = rest.ok_or(Verdict::Unfinished)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
