//! Converts ids to keys: lossless if possible, otherwise a keyed 128-bit hash.
//!
//! A [`KeyEncoder`] converts Arrow arrays to keys of 64 and 128 bits, each with its row and its
//! class. Used to build and to probe the index. The invariant: two ids of one schema have the same
//! class and key only if they are the same id, except for the hashed class, where two different ids
//! collide with a probability of 2^-128 under a key that was unknown when the ids were created.
//!
//! The value determines the class, not the column: "7" is a 64-bit number, "007" is its three
//! bytes, and both may occur in one column.

mod columns;
mod compound;
mod encode;
mod id_type;
mod text;

pub use encode::{KeyEncoder, WINDOW};
pub use id_type::{IdColumn, IdSchema, IdType};

use serde::{Deserialize, Serialize};

/// The kind of a lossless or hashed 128-bit key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WideClass {
    /// A UUID in its canonical text, lower case with dashes.
    Uuid,
    /// 32 lower-case hexadecimal digits.
    Hex,
    /// Up to 15 bytes, and their number.
    Short,
    /// 16 bytes, or a scaled decimal.
    Fixed,
    /// Anything longer.
    Hashed,
}

impl WideClass {
    pub const ALL: [Self; 5] = [Self::Uuid, Self::Hex, Self::Short, Self::Fixed, Self::Hashed];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Uuid => "uuid",
            Self::Hex => "hex",
            Self::Short => "short",
            Self::Fixed => "fixed",
            Self::Hashed => "hashed",
        }
    }
}

/// Keys with their row numbers; the two lists have the same length.
#[derive(Debug)]
pub struct Rows<T> {
    pub rows: Vec<u32>,
    pub keys: Vec<T>,
}

impl<T> Default for Rows<T> {
    fn default() -> Self {
        Self { rows: Vec::new(), keys: Vec::new() }
    }
}

impl<T> Rows<T> {
    fn clear(&mut self) {
        self.rows.clear();
        self.keys.clear();
    }

    fn push(&mut self, row: u32, key: T) {
        self.rows.push(row);
        self.keys.push(key);
    }
}

/// The keys of a run of rows, by class. Reused from run to run,
/// so that nothing is allocated per value.
#[derive(Debug, Default)]
pub struct Keys {
    /// 64-bit numbers: integers in order, and strings that are canonical decimals.
    pub narrow: Rows<u64>,
    wide: [Rows<u128>; WideClass::ALL.len()],
    pub nulls: u64,
    /// Buffer for compound ids.
    bytes: Vec<u8>,
}

impl Keys {
    pub fn wide(&self) -> impl Iterator<Item = (WideClass, &Rows<u128>)> {
        WideClass::ALL.into_iter().zip(&self.wide)
    }

    fn clear(&mut self) {
        self.narrow.clear();
        self.wide.iter_mut().for_each(Rows::clear);
        self.nulls = 0;
    }

    fn push_wide(&mut self, class: WideClass, row: u32, key: u128) {
        if let Some(rows) = self.wide.get_mut(class as usize) {
            rows.push(row, key);
        }
    }
}
