//! Exclusively owned numbers, from which a tensor or an array is made.
//!
//! The buffers of an Arrow array become a `Vec`, without a copy if they are not shared. Dates and
//! times become 64-bit integers in their own unit. The invariant: the variant depends only on the
//! type of the column, never on its values.

use super::layout::Run;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_buffer::{ArrowNativeType, BooleanBuffer, NullBuffer, ScalarBuffer};
use arrow_schema::DataType;
use half::f16;
use std::collections::TryReserveError;

macro_rules! numbers {
    ($($variant:ident($native:ty),)*) => {
        #[derive(Debug, Clone, PartialEq)]
        pub enum Numbers {
            $($variant(Vec<$native>),)*
        }

        impl Numbers {
            #[must_use]
            pub fn len(&self) -> usize {
                match self {
                    $(Self::$variant(values) => values.len(),)*
                }
            }

            #[must_use]
            pub fn bytes(&self) -> usize {
                match self {
                    $(Self::$variant(values) => size_of_val(values.as_slice()),)*
                }
            }

            /// Writes the number in `with` wherever `nulls` is null,
            /// overwriting any value from the file.
            pub(super) fn overwrite(&mut self, nulls: &NullBuffer, with: &Self) {
                match (self, with) {
                    $((Self::$variant(values), Self::$variant(with)) => {
                        overwrite(values, nulls, with);
                    })*
                    _ => debug_assert!(false, "a replacement has the type of its column"),
                }
            }

            /// `len` numbers: those of `runs`, which ascend, at their places, and the number in
            /// `pad` everywhere else.
            pub(super) fn placed(
                &self,
                runs: &[Run],
                len: usize,
                pad: &Self,
            ) -> Result<Self, TryReserveError> {
                match (self, pad) {
                    $((Self::$variant(values), Self::$variant(pad)) => {
                        Ok(Self::$variant(placed(values, runs, len, pad)?))
                    })*
                    _ => {
                        debug_assert!(false, "padding has the type of its column");
                        Ok(self.clone())
                    }
                }
            }
        }
    };
}

numbers! {
    Bool(bool),
    Int8(i8),
    Int16(i16),
    Int32(i32),
    Int64(i64),
    UInt8(u8),
    UInt16(u16),
    UInt32(u32),
    UInt64(u64),
    Float16(f16),
    Float32(f32),
    Float64(f64),
}

impl Numbers {
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The numbers of an array, and its nulls; the array itself if it does not consist of numbers.
    pub(super) fn take(array: ArrayRef) -> Result<(Self, Option<NullBuffer>), ArrayRef> {
        let nulls = array.nulls().cloned().filter(|nulls| nulls.null_count() > 0);
        let numbers = match array.data_type() {
            DataType::Boolean => Self::Bool(bools(array.as_boolean().values())),
            DataType::Int8 => Self::Int8(values(array)),
            DataType::Int16 => Self::Int16(values(array)),
            DataType::Int32 => Self::Int32(values(array)),
            DataType::UInt8 => Self::UInt8(values(array)),
            DataType::UInt16 => Self::UInt16(values(array)),
            DataType::UInt32 => Self::UInt32(values(array)),
            DataType::UInt64 => Self::UInt64(values(array)),
            DataType::Float16 => Self::Float16(values(array)),
            DataType::Float32 => Self::Float32(values(array)),
            DataType::Float64 => Self::Float64(values(array)),
            DataType::Date32 | DataType::Time32(_) => {
                Self::Int64(values::<i32>(array).into_iter().map(i64::from).collect())
            }
            DataType::Int64
            | DataType::Date64
            | DataType::Time64(_)
            | DataType::Timestamp(..)
            | DataType::Duration(_) => Self::Int64(values(array)),
            _ => return Err(array),
        };
        Ok((numbers, nulls))
    }

    /// The default replacement for a null of this type.
    pub(super) fn nan(element: &DataType) -> Option<Self> {
        match element {
            DataType::Float16 => Some(Self::Float16(vec![f16::NAN])),
            DataType::Float32 => Some(Self::Float32(vec![f32::NAN])),
            DataType::Float64 => Some(Self::Float64(vec![f64::NAN])),
            _ => None,
        }
    }
}

/// Whether [`Numbers::take`] accepts arrays of this type.
pub(super) fn is_number(data_type: &DataType) -> bool {
    use DataType::{Boolean, Date32, Date64, Duration, Time32, Time64, Timestamp};
    let temporal =
        matches!(data_type, Date32 | Date64 | Time32(_) | Time64(_) | Timestamp(..) | Duration(_));
    data_type.is_integer() || data_type.is_floating() || temporal || *data_type == Boolean
}

/// One byte per bit.
pub(super) fn bools(bits: &BooleanBuffer) -> Vec<bool> {
    let mut bools = Vec::with_capacity(bits.len() + 64);
    for chunk in bits.bit_chunks().iter_padded() {
        bools.extend((0..64).map(|bit| chunk >> bit & 1 == 1));
    }
    bools.truncate(bits.len());
    bools
}

fn overwrite<T: Copy>(values: &mut [T], nulls: &NullBuffer, with: &[T]) {
    let &[with] = with else { return };
    for row in (!nulls.inner()).set_indices() {
        if let Some(value) = values.get_mut(row) {
            *value = with;
        }
    }
}

fn placed<T: Copy + Default>(
    values: &[T],
    runs: &[Run],
    len: usize,
    pad: &[T],
) -> Result<Vec<T>, TryReserveError> {
    let pad = pad.first().copied().unwrap_or_default();
    let mut all = Vec::new();
    all.try_reserve_exact(len)?;
    for run in runs {
        all.resize(run.to, pad);
        all.extend_from_slice(values.get(run.from..run.from + run.count).unwrap_or_default());
    }
    all.resize(len, pad);
    Ok(all)
}

/// The first buffer of an array of `T`. It is moved if this array is its only owner and starts at
/// its start.
fn values<T: ArrowNativeType>(array: ArrayRef) -> Vec<T> {
    let data = array.to_data();
    // It references the buffer as well.
    drop(array);
    let (_, len, _, offset, mut buffers, _) = data.into_parts();
    buffers.truncate(1);
    let Some(buffer) = buffers.pop() else { return Vec::new() };
    to_vec(ScalarBuffer::new(buffer, offset, len))
}

fn to_vec<T: ArrowNativeType>(values: ScalarBuffer<T>) -> Vec<T> {
    values.into_inner().into_vec().unwrap_or_else(|shared| shared.typed_data().to_vec())
}
