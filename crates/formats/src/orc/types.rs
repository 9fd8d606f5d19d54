//! The type tree, checked before any recursion into it.

use super::decimals::UNSCALED;
use super::wire::{self, NoMessage};

/// Deeper than any real schema, shallow enough for the stack of a thread.
const MAX_DEPTH: usize = 100;

const MAX_TYPES: usize = 1 << 20;

const TIMESTAMP: u64 = 9;
const LIST: u64 = 10;
const MAP: u64 = 11;
const STRUCT: u64 = 12;
const UNION: u64 = 13;
const DECIMAL: u64 = 14;
pub(super) const CHAR: u64 = 17;
const TIMESTAMP_INSTANT: u64 = 18;

/// A type. Its number is that of the column in the streams of a stripe.
#[derive(Debug, Clone, Default)]
pub(super) struct Type {
    pub(super) kind: u64,
    pub(super) children: Vec<usize>,
    /// Of a decimal: precision and scale.
    pub(super) digits: Option<(u32, u32)>,
}

impl Type {
    pub(super) fn is_struct(&self) -> bool {
        self.kind == STRUCT
    }

    pub(super) fn is_timestamp(&self) -> bool {
        matches!(self.kind, TIMESTAMP | TIMESTAMP_INSTANT)
    }

    /// Whether times are stored in UTC, regardless of the zone of the writer.
    pub(super) fn is_instant(&self) -> bool {
        self.kind == TIMESTAMP_INSTANT
    }

    /// Whether the number of child values follows from lengths in the file.
    pub(super) fn is_repeated(&self) -> bool {
        matches!(self.kind, LIST | MAP)
    }
}

/// The types of a footer, the root first. Errors are described in words.
///
/// Every type except the root has exactly one parent, which precedes it, so a walk over the tree
/// ends and visits each type once.
pub(super) fn types(messages: &[&[u8]]) -> Result<Vec<Type>, String> {
    if messages.len() > MAX_TYPES {
        return Err(format!("{} types", messages.len()));
    }
    let types = messages.iter().map(|message| one(message)).collect::<Result<Vec<_>, _>>()?;
    if types.first().is_none_or(|root| root.kind != STRUCT) {
        return Err("the root is not a struct".to_owned());
    }
    let mut depths: Vec<Option<usize>> = vec![None; types.len()];
    if let Some(root) = depths.first_mut() {
        *root = Some(0);
    }
    for (number, parent) in types.iter().enumerate() {
        let depth = depths.get(number).copied().flatten().ok_or("a type has no parent")?;
        if depth > MAX_DEPTH {
            return Err("types are nested too deep".to_owned());
        }
        for child in &parent.children {
            let slot = depths
                .get_mut(*child)
                .filter(|slot| *child > number && slot.is_none())
                .ok_or("types form a cycle")?;
            *slot = Some(depth + 1);
        }
    }
    Ok(types)
}

pub(super) fn one(message: &[u8]) -> Result<Type, String> {
    let no_message = |_: NoMessage| "a type is not a valid message".to_owned();
    let (mut found, mut names, mut precision, mut scale) = (Type::default(), 0, 0, 0);
    for field in wire::fields(message).map_err(no_message)? {
        match field.number {
            1 => found.kind = field.value.number().unwrap_or_default(),
            2 => {
                let numbers = field.value.numbers().map_err(no_message)?;
                found.children.extend(
                    numbers.into_iter().map(|child| usize::try_from(child).unwrap_or(usize::MAX)),
                );
            }
            3 => names += 1,
            5 => precision = field.value.number().unwrap_or_default(),
            6 => scale = field.value.number().unwrap_or_default(),
            _ => {}
        }
    }
    let is_valid = match found.kind {
        LIST => found.children.len() == 1,
        MAP => found.children.len() == 2,
        STRUCT => found.children.len() == names,
        UNION => (1..=127).contains(&found.children.len()),
        DECIMAL => found.children.is_empty() && precision <= 38 && scale <= precision,
        kind => found.children.is_empty() && kind <= 18,
    };
    if found.kind == DECIMAL {
        let digits = u32::try_from(precision).ok().zip(u32::try_from(scale).ok());
        found.digits = if precision == 0 { Some(UNSCALED) } else { digits };
    }
    if is_valid {
        Ok(found)
    } else {
        Err(format!("a type of kind {} is not well formed", found.kind))
    }
}
