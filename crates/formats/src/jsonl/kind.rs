//! The type of a field, merged over lines and files.

use super::cursor::Cursor;
use super::fault::Fault;
use crate::records::Declared;
use crate::records::value::{Integer, Parse};
use arrow_array::types::{Int64Type, UInt64Type};
use arrow_schema::{DataType, Field, Fields};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Where a value was seen: its file and line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    pub(super) file: usize,
    pub(super) line: u64,
}

/// The values seen for one field.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(super) struct Seen {
    kind: Kind,
    first: Option<Place>,
}

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
enum Kind {
    #[default]
    Null,
    Boolean,
    Integer(Range),
    Real,
    Text,
    List(Box<Seen>),
    Object(Members),
    /// Its type is given, whatever its values are.
    Declared,
}

/// The range of integers seen.
#[derive(Debug, Default, Clone, Copy, Serialize, Deserialize)]
pub(super) struct Range {
    pub(super) is_negative: bool,
    /// Beyond int64, but within uint64.
    pub(super) is_large: bool,
}

#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(super) struct Members {
    /// Further names are left out.
    is_full: bool,
    names: Vec<String>,
    members: Vec<Seen>,
    places: HashMap<String, usize>,
    /// Those whose types are not inferred.
    declared: Option<Declared>,
}

/// What may change the type of a field.
#[derive(Debug, Clone, Copy)]
pub(super) enum Change<'a> {
    /// A value in at most `lists` lists, or a list in that number of lists.
    Value {
        lists: usize,
    },
    /// A fraction, a number that is not finite, or an integer outside of the range.
    Number(Range),
    /// A member that the objects of the field lack.
    Member(&'a Members),
    Nothing,
}

/// Two values of one field without a common type.
#[derive(Debug)]
pub(super) struct Conflict {
    pub(super) field: String,
    pub(super) first: (&'static str, Place),
    pub(super) second: &'static str,
}

/// Why a line contributes no types.
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
            Self::Declared => "any value",
        }
    }
}

impl Seen {
    /// Merges the value at the cursor, which is known to be valid JSON and not too deep.
    fn observe(&mut self, cursor: &mut Cursor<'_>, place: Place) -> Result<(), Refusal> {
        if matches!(self.kind, Kind::Declared) {
            return Ok(cursor.skip()?);
        }
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
                    false => {
                        Kind::Integer(Range { is_negative: number.starts_with(b"-"), is_large })
                    }
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
                let conflict = Conflict {
                    field: String::new(),
                    first: (known.name(), first),
                    second: new.name(),
                };
                return Err(Refusal::Conflict(conflict));
            }
        }
        match &mut self.kind {
            Kind::List(items) => {
                items.observe_items(cursor, place).map_err(|refusal| refusal.inside("[]"))
            }
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

    /// What may change the type, which is the same for the items of a list and for the list.
    fn change(&self) -> Change<'_> {
        let (mut kind, mut lists) = (&self.kind, 0);
        while let Kind::List(items) = kind {
            (kind, lists) = (&items.kind, lists + 1);
        }
        match kind {
            Kind::Null => Change::Value { lists },
            Kind::Integer(known) => Change::Number(*known),
            Kind::Object(members) => Change::Member(members),
            _ => Change::Nothing,
        }
    }

    /// Adds the values seen in other files. Of two types without a common one, this one stays.
    fn merge(&mut self, other: &Self) {
        match (&mut self.kind, &other.kind) {
            (known @ Kind::Null, other) => *known = other.clone(),
            (known @ Kind::Integer(_), Kind::Real) => *known = Kind::Real,
            (Kind::Integer(known), Kind::Integer(other)) => {
                known.is_negative |= other.is_negative;
                known.is_large |= other.is_large;
            }
            (Kind::List(known), Kind::List(other)) => known.merge(other),
            (Kind::Object(known), Kind::Object(other)) => known.merge(other),
            _ => {}
        }
    }

    fn count(&self) -> usize {
        match &self.kind {
            Kind::List(items) => items.count(),
            Kind::Object(members) => members.count(),
            _ => 0,
        }
    }

    fn fill(&mut self) {
        match &mut self.kind {
            Kind::List(items) => items.fill(),
            Kind::Object(members) => members.fill(),
            _ => {}
        }
    }

    fn data_type(&self) -> DataType {
        match &self.kind {
            Kind::Null | Kind::Declared => DataType::Null,
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
    /// Of rows: the types of these columns are not inferred.
    pub(super) fn except(declared: &Declared) -> Self {
        // Where all types are given, none is looked for.
        Self { declared: (*declared != Declared::All).then(|| declared.clone()), ..Self::default() }
    }

    /// Merges the object at the cursor.
    pub(super) fn observe(&mut self, cursor: &mut Cursor<'_>, place: Place) -> Result<(), Refusal> {
        let mut unescaped = Vec::new();
        cursor.expect(b'{', "expected an object")?;
        if cursor.take(b'}') {
            return Ok(());
        }
        loop {
            cursor.peek();
            let name =
                std::str::from_utf8(cursor.string(&mut unescaped)?).map_err(|_| Refusal::Fault)?;
            cursor.expect(b':', "expected a colon")?;
            if !self.is_full && !self.places.contains_key(name) {
                let is_declared =
                    self.declared.as_ref().is_some_and(|declared| declared.contains(name));
                self.add(
                    name,
                    Seen {
                        kind: if is_declared { Kind::Declared } else { Kind::Null },
                        first: None,
                    },
                );
            }
            match self.places.get(name).and_then(|index| self.members.get_mut(*index)) {
                Some(member) => {
                    member.observe(cursor, place).map_err(|refusal| refusal.inside(name))?;
                }
                None => cursor.skip()?,
            }
            if cursor.take(b'}') {
                return Ok(());
            }
            cursor.expect(b',', "expected a comma or a closing brace")?;
        }
    }

    fn add(&mut self, name: &str, seen: Seen) {
        self.places.insert(name.to_owned(), self.members.len());
        self.names.push(name.to_owned());
        self.members.push(seen);
    }

    /// Adds the members seen in other files.
    pub(super) fn merge(&mut self, other: &Self) {
        for (name, seen) in other.names.iter().zip(&other.members) {
            match self.places.get(name).and_then(|index| self.members.get_mut(*index)) {
                Some(known) => known.merge(seen),
                None => self.add(name, seen.clone()),
            }
        }
    }

    /// The number of members, at all depths.
    pub(super) fn count(&self) -> usize {
        self.members.len() + self.members.iter().map(Seen::count).sum::<usize>()
    }

    /// Whether no member has objects.
    pub(super) fn is_flat(&self) -> bool {
        self.members.iter().all(|member| !matches!(member.change(), Change::Member(_)))
    }

    /// From now on only the types of known members may change.
    pub(super) fn fill(&mut self) {
        self.is_full = true;
        self.members.iter_mut().for_each(Seen::fill);
    }

    pub(super) fn is_full(&self) -> bool {
        self.is_full
    }

    pub(super) fn name(&self, place: usize) -> Option<&str> {
        self.names.get(place).map(String::as_str)
    }

    pub(super) fn place(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }

    pub(super) fn change(&self, place: usize) -> Change<'_> {
        self.members.get(place).map_or(Change::Nothing, Seen::change)
    }

    /// In order of first appearance.
    pub(super) fn fields(&self) -> Fields {
        self.names
            .iter()
            .zip(&self.members)
            .map(|(name, seen)| Field::new(name, seen.data_type(), true))
            .collect()
    }
}
