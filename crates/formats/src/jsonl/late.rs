//! Finds records after the sample that change the types: with a member that the schema lacks, with
//! a fraction, a number that is not finite or an integer beyond int64 among integers, or with the
//! first value of a field that was null.
//!
//! The pass that finds the records of a file sees all of its bytes. [`Late`] looks there at the
//! names of each record and at the values of those fields whose type may change; everything else is
//! skipped. Only a record that changes a type is parsed. The invariant: the types of a file depend
//! on its bytes and on the sample alone.

use super::cursor::Cursor;
use super::infer::LateMembers;
use super::kind::{Change, Members, Place, Range};
use super::records::{Records, Shape};

/// Objects whose names are data, such as ids, must not become a schema of millions of fields. A
/// name beyond the limit is an error where it is read.
const MAX_LATE_MEMBERS: usize = 1024;

/// Of the largest int64.
const INT64_DIGITS: usize = 19;

/// The types of a file while it is passed.
pub(super) struct Late {
    shape: Shape,
    members: Members,
    /// Whether no field has objects.
    is_flat: bool,
    max_members: usize,
    has_changed: bool,
}

impl Late {
    pub(super) fn new(sample: &Members, shape: Shape) -> Self {
        let max_members = sample.count() + MAX_LATE_MEMBERS;
        Self {
            shape,
            members: sample.clone(),
            is_flat: sample.is_flat(),
            max_members,
            has_changed: false,
        }
    }

    /// Looks at a piece of the file, which holds whole records.
    pub(super) fn look(&mut self, piece: &[u8]) {
        if self.shape == Shape::Array {
            return self.look_at_elements(piece);
        }
        for record in Records::of_run(piece, Shape::Lines) {
            let text = record.text.trim_ascii_start();
            let is_late = || {
                if self.is_flat {
                    is_late_if_flat(text, &self.members)
                } else {
                    scan(text, &self.members).is_late
                }
            };
            if text.first() == Some(&b'{') && is_late() {
                self.observe(text);
            }
        }
    }

    /// Elements that are not objects have no types; strings among them are skipped whole.
    fn look_at_elements(&mut self, piece: &[u8]) {
        let mut rest = piece;
        while let Some(start) = memchr::memchr2(b'{', b'"', rest) {
            let text = rest.get(start..).unwrap_or_default();
            let end = if text.first() == Some(&b'{') {
                let Scanned { end, is_late } = scan(text, &self.members);
                if let Some(object) = end.filter(|_| is_late).and_then(|end| text.get(..end)) {
                    self.observe(object);
                }
                end
            } else {
                end_of_string(text, 1)
            };
            rest = end.and_then(|end| text.get(end..)).unwrap_or_default();
        }
    }

    fn observe(&mut self, record: &[u8]) {
        let mut cursor = Cursor::new(record);
        let mut whole = cursor.clone();
        if whole.skip().and_then(|()| whole.end()).is_err() {
            return;
        }
        // A value without a common type is an error where it is read.
        let _ = self.members.observe(&mut cursor, Place { file: 0, line: 0 });
        self.has_changed = true;
        self.is_flat = self.members.is_flat();
        if self.members.count() > self.max_members {
            self.members.fill();
        }
    }

    /// The types of the file, if a record was found that may have changed them.
    pub(super) fn into_changed(self) -> Option<LateMembers> {
        self.has_changed.then_some(LateMembers(self.members))
    }
}

/// Whether the object at the start of `text` may change the types, where no member has objects.
/// Then each colon after a quote follows a name, and a name does not depend on what is before it;
/// anything unusual is left to [`scan`]. This is several times faster.
fn is_late_if_flat(text: &[u8], members: &Members) -> bool {
    let mut likely = 0;
    for colon in memchr::memchr_iter(b':', text) {
        let (before, value) = text.split_at_checked(colon).unwrap_or((text, &[]));
        let Some(quoted) = before.strip_suffix(b"\"") else {
            if before.trim_ascii_end().ends_with(b"\"") {
                return scan(text, members).is_late;
            }
            continue;
        };
        let is_likely = members.name(likely).is_some_and(|name| {
            quoted.strip_suffix(name.as_bytes()).is_some_and(|before| before.ends_with(b"\""))
        });
        let place = if is_likely { Some(likely) } else { place_at_end(quoted, members) };
        let Some(place) = place else { return scan(text, members).is_late };
        likely = place + 1;
        let value = value.get(1..).unwrap_or_default();
        let is_late = match members.change(place) {
            Change::Value { lists } => begins_value(value, lists),
            Change::Number(known) => begins_other_number(value, known),
            Change::Member(_) | Change::Nothing => false,
        };
        if is_late {
            return true;
        }
    }
    false
}

/// The place of the name at the end of `text`. A name with escapes has none.
fn place_at_end(text: &[u8], members: &Members) -> Option<usize> {
    let name = text.get(memchr::memrchr(b'"', text)? + 1..)?;
    members.place(std::str::from_utf8(name).ok()?)
}

/// Whether a number, or a list with numbers, at the start of `text` is not an integer of the range.
/// In numbers, only names have capital letters.
fn begins_other_number(text: &[u8], known: Range) -> bool {
    let value = text.trim_ascii_start();
    if value.first() == Some(&b'[') {
        let end = memchr::memchr2(b'"', b'}', value).unwrap_or(value.len());
        return has_other_number(value.get(..end).unwrap_or_default(), known);
    }
    let (digits, is_negative) =
        value.strip_prefix(b"-").map_or((value, false), |digits| (digits, true));
    let len = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    match digits.get(len) {
        first if len == 0 => matches!(first, Some(b'N' | b'I')),
        Some(b'.' | b'e' | b'E') => true,
        _ => {
            (is_negative && !known.is_negative)
                || (!known.is_large
                    && is_beyond_int64(digits.get(..len).unwrap_or_default(), is_negative))
        }
    }
}

/// An object that was passed.
struct Scanned {
    /// After its closing brace; `None` if there is none.
    end: Option<usize>,
    is_late: bool,
}

/// The object that is scanned.
#[derive(Clone, Copy)]
struct Level<'a> {
    /// `None` for an object where the sample has other values.
    members: Option<&'a Members>,
    /// Writers keep the order of names, so this is usually the next one.
    likely: usize,
    /// Of the objects in the current field.
    inner: Option<&'a Members>,
}

impl<'a> Level<'a> {
    fn of(members: Option<&'a Members>) -> Self {
        Self { members, likely: 0, inner: None }
    }
}

/// Passes the object at the start of `text`. Its syntax is not checked.
fn scan(text: &[u8], members: &Members) -> Scanned {
    let mut outer = Vec::new();
    let mut level = Level::of(Some(members));
    let (mut at, mut is_late, mut integers) = (1, false, None);
    while let Some(found) = memchr::memchr3(b'"', b'{', b'}', text.get(at..).unwrap_or_default()) {
        if let Some(known) = integers.take() {
            is_late =
                is_late || has_other_number(text.get(at..at + found).unwrap_or_default(), known);
        }
        at += found + 1;
        match text.get(at - 1) {
            Some(b'{') => {
                outer.push(level);
                level = Level::of(level.inner);
            }
            Some(b'}') => match outer.pop() {
                Some(enclosing) => level = enclosing,
                None => return Scanned { end: Some(at), is_late },
            },
            _ => {
                let Some((name, end)) = name(text, at, &level) else {
                    return Scanned { end: None, is_late };
                };
                at = end;
                let Name::Member(place) = name else { continue };
                level.inner = None;
                if let Some(members) = level.members {
                    match place.map(|place| members.change(place)) {
                        None => is_late = is_late || !members.is_full(),
                        Some(Change::Value { lists }) => {
                            is_late =
                                is_late || begins_value(text.get(at..).unwrap_or_default(), lists);
                        }
                        Some(Change::Number(known)) => integers = Some(known),
                        Some(Change::Member(inner)) => level.inner = Some(inner),
                        Some(Change::Nothing) => {}
                    }
                    level.likely = place.map_or(level.likely, |place| place + 1);
                }
                // Most values are strings, which need no search for their start.
                at += text.get(at..).map_or(0, |rest| {
                    rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count()
                });
                if text.get(at) == Some(&b'"') {
                    let Some(end) = end_of_string(text, at + 1) else {
                        return Scanned { end: None, is_late };
                    };
                    at = end;
                }
            }
        }
    }
    Scanned { end: None, is_late }
}

enum Name {
    /// A string that is a value.
    None,
    /// Its place, if the object has one for it.
    Member(Option<usize>),
}

/// The string whose content begins at `at`, and where the text after it, or after the colon of a
/// name, begins.
fn name(text: &[u8], at: usize, level: &Level<'_>) -> Option<(Name, usize)> {
    let rest = text.get(at..)?;
    if let Some(likely) = level.members.and_then(|members| members.name(level.likely))
        && let Some([b'"', b':', ..]) = rest.strip_prefix(likely.as_bytes())
    {
        return Some((Name::Member(Some(level.likely)), at + likely.len() + 2));
    }
    let end = end_of_string(text, at)?;
    let after = text.get(end..)?;
    let space = after.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    if after.get(space) != Some(&b':') {
        return Some((Name::None, end));
    }
    let quoted = text.get(at - 1..end)?;
    let mut unescaped = Vec::new();
    let plain = Cursor::new(quoted)
        .string(&mut unescaped)
        .ok()
        .and_then(|name| std::str::from_utf8(name).ok());
    let place = plain.and_then(|name| level.members?.place(name));
    Some((Name::Member(place), end + space + 1))
}

/// The position after the closing quote of the string whose content begins at `at`.
fn end_of_string(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let found = at + memchr::memchr2(b'"', b'\\', text.get(at..)?)?;
        if text.get(found) == Some(&b'"') {
            return Some(found + 1);
        }
        at = found + 2;
    }
}

/// Whether a number in `text`, which has no strings, is not an integer of the range.
fn has_other_number(text: &[u8], known: Range) -> bool {
    has_fraction(text)
        || memchr::memchr2(b'N', b'I', text).is_some()
        || (!known.is_negative && memchr::memchr(b'-', text).is_some())
        || (!known.is_large && has_beyond_int64(text))
}

/// Whether an integer in `text` is beyond int64. One of that many digits covers a place that is
/// looked at.
fn has_beyond_int64(text: &[u8]) -> bool {
    let is_digit = |byte: &&u8| byte.is_ascii_digit();
    (INT64_DIGITS - 1..text.len()).step_by(INT64_DIGITS).any(|place| {
        let (before, after) = text.split_at_checked(place).unwrap_or((text, &[]));
        let start = place - before.iter().rev().take_while(is_digit).count();
        let end = place + after.iter().take_while(is_digit).count();
        let is_negative = before.get(..start).is_some_and(|before| before.ends_with(b"-"));
        is_beyond_int64(text.get(start..end).unwrap_or_default(), is_negative)
    })
}

fn is_beyond_int64(digits: &[u8], is_negative: bool) -> bool {
    let largest: &[u8; INT64_DIGITS] =
        if is_negative { b"9223372036854775808" } else { b"9223372036854775807" };
    digits.len() > INT64_DIGITS || (digits.len() == INT64_DIGITS && digits > largest.as_slice())
}

/// Whether a number in `text`, which has no strings, has a point or an exponent.
fn has_fraction(text: &[u8]) -> bool {
    let is_in_number = |at: usize| {
        at.checked_sub(1).and_then(|before| text.get(before)).is_some_and(u8::is_ascii_digit)
    };
    memchr::memchr3_iter(b'.', b'e', b'E', text).any(is_in_number)
}

/// Whether the value at the start of `text` is more than nulls in at most `lists` lists.
fn begins_value(text: &[u8], lists: usize) -> bool {
    let mut depth = 0;
    let mut bytes = text.iter().filter(|byte| !byte.is_ascii_whitespace());
    while let Some(byte) = bytes.next() {
        match byte {
            b'[' if depth == lists => return true,
            b'[' => depth += 1,
            b']' => depth = depth.saturating_sub(1),
            b'n' => {
                bytes.nth(2);
            }
            b',' => {}
            _ => return true,
        }
        if depth == 0 {
            return false;
        }
    }
    false
}
