//! Ids as keys: lossless where possible, else a keyed hash of 128 bits.
//!
//! Arrow arrays enter, keys of 64 and of 128 bits leave, each with its row and its class ([`KeyEncoder`]). Called by the builder and the prober of the index.
//! The invariant: two ids of one schema have the same class and key only if they are the same id, but for the hashed class, where two ids that are not
//! collide with odds of 2^-128 under a key that nobody knew when the ids were made.
//!
//! The value decides the class, not the column: "7" is a number of 64 bits, "007" the three bytes it is written with, and both may stand in one column.

mod columns;
mod compound;
mod encode;
mod id_type;
mod text;

pub use encode::{KeyEncoder, WINDOW};
pub use id_type::{IdColumn, IdSchema, IdType};

use serde::{Deserialize, Serialize};

/// What kind of lossless or hashed key of 128 bits an id has.
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

/// Keys with the numbers of their rows; the two lists have one length.
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

/// The keys of a run of rows, by class. Kept from run to run, so that nothing is allocated for a value.
#[derive(Debug, Default)]
pub struct Keys {
    /// Numbers of 64 bits: integers in their order, and strings that are canonical decimals.
    pub narrow: Rows<u64>,
    wide: [Rows<u128>; WideClass::ALL.len()],
    pub nulls: u64,
    /// Where the ids of several columns are put together.
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
