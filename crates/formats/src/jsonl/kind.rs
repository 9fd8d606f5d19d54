//! Which type a field gets, joined over lines and files.

use super::cursor::Cursor;
use super::fault::Fault;
use crate::records::value::{Integer, Parse};
use arrow_array::types::{Int64Type, UInt64Type};
use arrow_schema::{DataType, Field, Fields};
use std::collections::HashMap;

/// Where a value was seen: which file, which line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) file: usize,
    pub(super) line: u64,
}

/// What is known of one field.
#[derive(Debug, Default)]
pub(super) struct Seen {
    kind: Kind,
    first: Option<Place>,
}

#[derive(Debug, Default)]
enum Kind {
    #[default]
    Null,
    Boolean,
    Integer(Range),
    Real,
    Text,
    List(Box<Seen>),
    Object(Members),
}

/// Which integers were seen.
#[derive(Debug, Default, Clone, Copy)]
struct Range {
    is_negative: bool,
    /// Beyond int64, and within uint64.
    is_large: bool,
}

#[derive(Debug, Default)]
pub(super) struct Members {
    names: Vec<String>,
    members: Vec<Seen>,
    places: HashMap<String, usize>,
}

/// Two values of one field that have no type in common.
#[derive(Debug)]
pub(super) struct Conflict {
    pub(super) field: String,
    pub(super) first: (&'static str, Place),
    pub(super) second: &'static str,
}

/// Why a line says nothing about types.
#[derive(Debug)]
pub(super) enum Refusal {
    Fault,
    Conflict(Conflict),
}

impl From<Fault> for Refusal {
    fn from(_: Fault) -> Self {
        Self::Fault
    }
}

impl Refusal {
    fn inside(mut self, outer: &str) -> Self {
        if let Self::Conflict(conflict) = &mut self {
            let inner = std::mem::take(&mut conflict.field);
            let dot = if inner.is_empty() || inner.starts_with('[') { "" } else { "." };
            conflict.field = format!("{outer}{dot}{inner}");
        }
        self
    }
}

impl Kind {
    fn name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Boolean => "a boolean",
            Self::Integer(_) => "an integer",
            Self::Real => "a number",
            Self::Text => "a string",
            Self::List(_) => "an array",
            Self::Object(_) => "an object",
        }
    }
}

impl Seen {
    /// Joins the value at the cursor, which is known to be JSON and not too deep.
    fn observe(&mut self, cursor: &mut Cursor<'_>, place: Place) -> Result<(), Refusal> {
        let new = match cursor.peek() {
            Some(b'n') => return Ok(cursor.literal("null")?),
            Some(b't' | b'f') => {
                cursor.skip()?;
                Kind::Boolean
            }
            Some(b'"') => {
                cursor.skip()?;
                Kind::Text
            }
            Some(b'[') => Kind::List(Box::default()),
            Some(b'{') => Kind::Object(Members::default()),
            _ => {
                let number = cursor.number()?;
                let is_large = Integer::<Int64Type>::new().parse(number).is_none();
                match is_large && Integer::<UInt64Type>::new().parse(number).is_none() {
                    true => Kind::Real,
                    false => Kind::Integer(Range { is_negative: number.starts_with(b"-"), is_large }),
                }
            }
        };
        let first = *self.first.get_or_insert(place);
        match (&mut self.kind, new) {
            (known @ Kind::Null, new) => *known = new,
            (known @ (Kind::Integer(_) | Kind::Real), Kind::Real) => *known = Kind::Real,
            (Kind::Real, Kind::Integer(_)) => {}
            (Kind::Integer(known), Kind::Integer(new)) => {
                known.is_negative |= new.is_negative;
                known.is_large |= new.is_large;
            }
            (known, new) if std::mem::discriminant(known) == std::mem::discriminant(&new) => {}
            (known, new) => {
                let conflict = Conflict { field: String::new(), first: (known.name(), first), second: new.name() };
                return Err(Refusal::Conflict(conflict));
            }
        }
        match &mut self.kind {
            Kind::List(items) => items.observe_items(cursor, place).map_err(|refusal| refusal.inside("[]")),
            Kind::Object(members) => members.observe(cursor, place),
            _ => Ok(()),
        }
    }

    fn observe_items(&mut self, cursor: &mut Cursor<'_>, place: Place) -> Result<(), Refusal> {
        cursor.expect(b'[', "expected an array")?;
        if cursor.take(b']') {
            return Ok(());
        }
        loop {
            self.observe(cursor, place)?;
            if cursor.take(b']') {
                return Ok(());
            }
            cursor.expect(b',', "expected a comma or a closing bracket")?;
        }
    }

    fn data_type(&self) -> DataType {
        match &self.kind {
            Kind::Null => DataType::Null,
            Kind::Boolean => DataType::Boolean,
            Kind::Integer(Range { is_large: false, .. }) => DataType::Int64,
            Kind::Integer(Range { is_negative: false, .. }) => DataType::UInt64,
            Kind::Integer(_) | Kind::Real => DataType::Float64,
            Kind::Text => DataType::Utf8,
            Kind::List(items) => DataType::new_list(items.data_type(), true),
            Kind::Object(members) => DataType::Struct(members.fields()),
        }
    }
}

impl Members {
    /// Joins the object at the cursor.
    pub(super) fn observe(&mut self, cursor: &mut Cursor<'_>, place: Place) -> Result<(), Refusal> {
        let mut unescaped = Vec::new();
        cursor.expect(b'{', "expected an object")?;
        if cursor.take(b'}') {
            return Ok(());
        }
        loop {
            cursor.peek();
            let name = std::str::from_utf8(cursor.string(&mut unescaped)?).map_err(|_| Refusal::Fault)?;
            cursor.expect(b':', "expected a colon")?;
            let index = self.places.get(name).copied().unwrap_or_else(|| {
                self.places.insert(name.to_owned(), self.members.len());
                self.names.push(name.to_owned());
                self.members.push(Seen::default());
                self.members.len() - 1
            });
            if let Some(member) = self.members.get_mut(index) {
                member.observe(cursor, place).map_err(|refusal| refusal.inside(name))?;
            }
            if cursor.take(b'}') {
                return Ok(());
            }
            cursor.expect(b',', "expected a comma or a closing brace")?;
        }
    }

    /// In the order in which they appeared first.
    pub(super) fn fields(&self) -> Fields {
        self.names.iter().zip(&self.members).map(|(name, seen)| Field::new(name, seen.data_type(), true)).collect()
    }
}
