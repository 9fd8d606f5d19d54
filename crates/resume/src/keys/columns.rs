//! Arrow arrays by what their values are: numbers of 64 bits, numbers of 128 bits, bytes.

use super::text::mask;
use crate::{Error, Result};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    BinaryViewType, ByteViewType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, DurationMicrosecondType,
    DurationMillisecondType, DurationNanosecondType, DurationSecondType, Int8Type, Int16Type, Int32Type, Int64Type, StringViewType,
    Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, BooleanArray, FixedSizeBinaryArray, GenericByteViewArray, OffsetSizeTrait, PrimitiveArray};
use arrow_schema::{DataType, TimeUnit};

/// Bytes of one value: at most 16 of them as a number, the rest behind a slice.
#[derive(Debug, Clone, Copy)]
pub(super) struct Value<'a> {
    /// The first bytes, little-endian, zero behind the end.
    pub head: u128,
    pub len: usize,
    /// All bytes; may be left empty where the head holds them.
    pub bytes: &'a [u8],
}

/// Values of 64 bits, in an order that is theirs.
pub(super) trait Narrow {
    fn at(&self, row: usize) -> Option<u64>;
}

/// Values as bytes.
pub(super) trait Bytes {
    fn at(&self, row: usize) -> Option<Value<'_>>;
}

pub(super) struct Integers<'a, T: ArrowPrimitiveType>(&'a PrimitiveArray<T>);

/// A number that keeps its order as one without a sign.
pub(super) trait Ordered: Copy {
    fn ordered(self) -> u64;
}

macro_rules! ordered {
    (signed $($native:ty),*) => {$(impl Ordered for $native {
        fn ordered(self) -> u64 { i64::from(self).cast_unsigned() ^ (1 << 63) }
    })*};
    (unsigned $($native:ty),*) => {$(impl Ordered for $native {
        fn ordered(self) -> u64 { u64::from(self) }
    })*};
}
ordered!(signed i8, i16, i32, i64);
ordered!(unsigned u8, u16, u32, u64);

impl<T: ArrowPrimitiveType<Native: Ordered>> Narrow for Integers<'_, T> {
    fn at(&self, row: usize) -> Option<u64> {
        self.0.values().get(row).map(|value| value.ordered())
    }
}

impl Narrow for BooleanArray {
    fn at(&self, row: usize) -> Option<u64> {
        (row < self.len()).then(|| u64::from(self.value(row)))
    }
}

pub(super) struct Offsets<'a, O: OffsetSizeTrait> {
    offsets: &'a [O],
    values: &'a [u8],
}

impl<O: OffsetSizeTrait> Bytes for Offsets<'_, O> {
    fn at(&self, row: usize) -> Option<Value<'_>> {
        let (start, end) = (self.offsets.get(row)?.as_usize(), self.offsets.get(row + 1)?.as_usize());
        value_within(self.values, start, end.checked_sub(start)?)
    }
}

impl<T: ByteViewType + ?Sized> Bytes for GenericByteViewArray<T> {
    fn at(&self, row: usize) -> Option<Value<'_>> {
        let view = *self.views().get(row)?;
        let len = usize::try_from(view & 0xffff_ffff).ok()?;
        if len <= 12 {
            return Some(Value { head: (view >> 32) & mask(len), len, bytes: &[] });
        }
        let buffer = self.data_buffers().get(usize::try_from(view >> 64 & 0xffff_ffff).ok()?)?;
        value_within(buffer, usize::try_from(view >> 96).ok()?, len)
    }
}

impl Bytes for FixedSizeBinaryArray {
    fn at(&self, row: usize) -> Option<Value<'_>> {
        let bytes = (row < self.len()).then(|| self.value(row))?;
        value_within(bytes, 0, bytes.len())
    }
}

fn value_within(buffer: &[u8], start: usize, len: usize) -> Option<Value<'_>> {
    let bytes = buffer.get(start..start.checked_add(len)?)?;
    // One load where the buffer goes on for as long, which it mostly does.
    let head = match buffer.get(start..).and_then(|rest| rest.first_chunk::<16>()) {
        Some(chunk) => u128::from_le_bytes(*chunk) & mask(len),
        None => bytes.iter().take(16).rev().fold(0, |head, byte| head << 8 | u128::from(*byte)),
    };
    Some(Value { head, len, bytes })
}

/// Called back with the array in its own type, so that loops over it are compiled for it.
pub(super) trait Visit {
    fn narrow<N: Narrow>(&mut self, values: &N);
    fn wide(&mut self, value: &dyn Fn(usize) -> Option<i128>);
    fn bytes<B: Bytes>(&mut self, values: &B);
}

macro_rules! narrow {
    ($array:expr, $visit:expr, $type:ty) => {
        $visit.narrow(&Integers($array.as_primitive_opt::<$type>()?))
    };
}

/// `None` when the array is not what its type says, or of a type without keys.
pub(super) fn visit(array: &ArrayRef, visit: &mut impl Visit) -> Option<()> {
    match array.data_type() {
        DataType::Int8 => narrow!(array, visit, Int8Type),
        DataType::Int16 => narrow!(array, visit, Int16Type),
        DataType::Int32 => narrow!(array, visit, Int32Type),
        DataType::Int64 => narrow!(array, visit, Int64Type),
        DataType::UInt8 => narrow!(array, visit, UInt8Type),
        DataType::UInt16 => narrow!(array, visit, UInt16Type),
        DataType::UInt32 => narrow!(array, visit, UInt32Type),
        DataType::UInt64 => narrow!(array, visit, UInt64Type),
        DataType::Boolean => visit.narrow(array.as_boolean_opt()?),
        DataType::Date32 => narrow!(array, visit, Date32Type),
        DataType::Date64 => narrow!(array, visit, Date64Type),
        DataType::Time32(TimeUnit::Second) => narrow!(array, visit, Time32SecondType),
        DataType::Time32(_) => narrow!(array, visit, Time32MillisecondType),
        DataType::Time64(TimeUnit::Microsecond) => narrow!(array, visit, Time64MicrosecondType),
        DataType::Time64(_) => narrow!(array, visit, Time64NanosecondType),
        DataType::Timestamp(TimeUnit::Second, _) => narrow!(array, visit, TimestampSecondType),
        DataType::Timestamp(TimeUnit::Millisecond, _) => narrow!(array, visit, TimestampMillisecondType),
        DataType::Timestamp(TimeUnit::Microsecond, _) => narrow!(array, visit, TimestampMicrosecondType),
        DataType::Timestamp(TimeUnit::Nanosecond, _) => narrow!(array, visit, TimestampNanosecondType),
        DataType::Duration(TimeUnit::Second) => narrow!(array, visit, DurationSecondType),
        DataType::Duration(TimeUnit::Millisecond) => narrow!(array, visit, DurationMillisecondType),
        DataType::Duration(TimeUnit::Microsecond) => narrow!(array, visit, DurationMicrosecondType),
        DataType::Duration(TimeUnit::Nanosecond) => narrow!(array, visit, DurationNanosecondType),
        DataType::Decimal32(..) => {
            let values = array.as_primitive_opt::<Decimal32Type>()?.values();
            visit.wide(&|row| values.get(row).map(|value| i128::from(*value)));
        }
        DataType::Decimal64(..) => {
            let values = array.as_primitive_opt::<Decimal64Type>()?.values();
            visit.wide(&|row| values.get(row).map(|value| i128::from(*value)));
        }
        DataType::Decimal128(..) => {
            let values = array.as_primitive_opt::<Decimal128Type>()?.values();
            visit.wide(&|row| values.get(row).copied());
        }
        DataType::Utf8 => {
            let array = array.as_string_opt::<i32>()?;
            visit.bytes(&Offsets { offsets: array.value_offsets(), values: array.value_data() });
        }
        DataType::LargeUtf8 => {
            let array = array.as_string_opt::<i64>()?;
            visit.bytes(&Offsets { offsets: array.value_offsets(), values: array.value_data() });
        }
        DataType::Binary => {
            let array = array.as_binary_opt::<i32>()?;
            visit.bytes(&Offsets { offsets: array.value_offsets(), values: array.value_data() });
        }
        DataType::LargeBinary => {
            let array = array.as_binary_opt::<i64>()?;
            visit.bytes(&Offsets { offsets: array.value_offsets(), values: array.value_data() });
        }
        DataType::Utf8View => visit.bytes(array.as_byte_view_opt::<StringViewType>()?),
        DataType::BinaryView => visit.bytes(array.as_byte_view_opt::<BinaryViewType>()?),
        DataType::FixedSizeBinary(_) => visit.bytes(array.as_fixed_size_binary_opt()?),
        _ => return None,
    }
    Some(())
}

/// Arrays as plain ones: dictionaries are written out.
///
/// # Errors
/// [`Error::Arrow`] for keys that point behind the dictionary.
pub(super) fn plain(array: &ArrayRef) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::Dictionary(_, values) => arrow_cast::cast(array, values).map_err(|source| Error::Arrow { source }),
        _ => Ok(ArrayRef::clone(array)),
    }
}
