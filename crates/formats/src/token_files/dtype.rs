//! How a token id is stored, and the numbers that it becomes.
//!
//! Ids become int32, the type that models and other tokens of a mixture have; only stored int64
//! stays int64. The invariant: a stored id that is not in the vocabulary, or not an int32, is
//! found, never wrapped.

use arrow_array::{ArrayRef, Int32Array, Int64Array};
use arrow_schema::DataType;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

/// Largest number of ids of a vocabulary of int32.
const INT32_IDS: u64 = 1 << 31;

/// The stored type of an id, little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dtype {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    I64,
}

impl Dtype {
    pub const ALL: [Self; 7] =
        [Self::U8, Self::I8, Self::U16, Self::I16, Self::U32, Self::I32, Self::I64];

    /// From its name in NumPy.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dtype| dtype.name() == name)
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::U8 => "uint8",
            Self::I8 => "int8",
            Self::U16 => "uint16",
            Self::I16 => "int16",
            Self::U32 => "uint32",
            Self::I32 => "int32",
            Self::I64 => "int64",
        }
    }

    /// Bytes of an id.
    #[must_use]
    pub fn width(self) -> u64 {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::U16 | Self::I16 => 2,
            Self::U32 | Self::I32 => 4,
            Self::I64 => 8,
        }
    }

    /// The ids that it holds.
    #[must_use]
    pub fn range(self) -> RangeInclusive<i64> {
        match self {
            Self::U8 => 0..=i64::from(u8::MAX),
            Self::I8 => i64::from(i8::MIN)..=i64::from(i8::MAX),
            Self::U16 => 0..=i64::from(u16::MAX),
            Self::I16 => i64::from(i16::MIN)..=i64::from(i16::MAX),
            Self::U32 => 0..=i64::from(u32::MAX),
            Self::I32 => i64::from(i32::MIN)..=i64::from(i32::MAX),
            Self::I64 => i64::MIN..=i64::MAX,
        }
    }

    pub(super) fn delivered(self) -> DataType {
        if self == Self::I64 { DataType::Int64 } else { DataType::Int32 }
    }

    /// What ids must be below, if it has to be checked.
    pub(super) fn limit(self, vocab_size: Option<u64>) -> Option<u64> {
        match self {
            Self::I64 => vocab_size,
            Self::U32 => Some(vocab_size.unwrap_or(INT32_IDS).min(INT32_IDS)),
            // Every id of these is below a larger limit.
            _ => vocab_size.map(|limit| limit.min(INT32_IDS)),
        }
    }
}

/// Ids that were read.
#[derive(Debug)]
pub(super) enum Ids {
    Int(Vec<i32>),
    Long(Vec<i64>),
}

impl Ids {
    pub(super) fn with_capacity(dtype: Dtype, len: usize) -> Self {
        if dtype == Dtype::I64 {
            Self::Long(Vec::with_capacity(len))
        } else {
            Self::Int(Vec::with_capacity(len))
        }
    }

    /// Adds the ids of `bytes`, a whole number of them.
    pub(super) fn extend(&mut self, dtype: Dtype, bytes: &[u8]) {
        macro_rules! add {
            ($ids:expr, $stored:ty, $id:expr) => {
                $ids.extend(
                    bytes
                        .as_chunks::<{ size_of::<$stored>() }>()
                        .0
                        .iter()
                        .map(|id| $id(<$stored>::from_le_bytes(*id))),
                )
            };
        }
        match self {
            Self::Long(ids) => add!(ids, i64, i64::from),
            Self::Int(ids) => match dtype {
                Dtype::U8 => add!(ids, u8, i32::from),
                Dtype::I8 => add!(ids, i8, i32::from),
                Dtype::U16 => add!(ids, u16, i32::from),
                Dtype::I16 => add!(ids, i16, i32::from),
                // Those above int32 become negative, which the check of the limit finds.
                Dtype::U32 => add!(ids, u32, u32::cast_signed),
                Dtype::I32 | Dtype::I64 => add!(ids, i32, i32::from),
            },
        }
    }

    /// The place of the first id that is negative or not below `limit`, and the stored id.
    pub(super) fn above(&self, dtype: Dtype, limit: u64) -> Option<(usize, i64)> {
        match self {
            Self::Int(ids) => {
                let largest = ids.iter().fold(0, |max, id| id.cast_unsigned().max(max));
                let is_above = |id: &i32| u64::from(id.cast_unsigned()) >= limit;
                let place =
                    (u64::from(largest) >= limit).then(|| ids.iter().position(is_above))??;
                let id = *ids.get(place)?;
                let stored =
                    if dtype == Dtype::U32 { i64::from(id.cast_unsigned()) } else { id.into() };
                Some((place, stored))
            }
            Self::Long(ids) => {
                let place = ids.iter().position(|id| id.cast_unsigned() >= limit)?;
                Some((place, *ids.get(place)?))
            }
        }
    }

    pub(super) fn at(&self, place: usize) -> Option<i64> {
        match self {
            Self::Int(ids) => ids.get(place).map(|id| i64::from(*id)),
            Self::Long(ids) => ids.get(place).copied(),
        }
    }

    /// Whether one of these places has the id `wanted`.
    pub(super) fn has(&self, wanted: i64, places: Range<usize>) -> bool {
        match self {
            Self::Int(ids) => i32::try_from(wanted)
                .is_ok_and(|wanted| ids.get(places).unwrap_or_default().contains(&wanted)),
            Self::Long(ids) => ids.get(places).unwrap_or_default().contains(&wanted),
        }
    }

    /// Calls `each` with the places of the id `wanted`, in order.
    pub(super) fn each(&self, wanted: i64, mut each: impl FnMut(usize)) {
        let mut found = |place: usize, is_wanted: bool| {
            if is_wanted {
                each(place);
            }
        };
        match self {
            Self::Int(ids) => {
                let Ok(wanted) = i32::try_from(wanted) else { return };
                ids.iter().enumerate().for_each(|(place, id)| found(place, *id == wanted));
            }
            Self::Long(ids) => {
                ids.iter().enumerate().for_each(|(place, id)| found(place, *id == wanted));
            }
        }
    }

    pub(super) fn finish(self) -> ArrayRef {
        match self {
            Self::Int(ids) => Arc::new(Int32Array::from(ids)),
            Self::Long(ids) => Arc::new(Int64Array::from(ids)),
        }
    }
}
