//! Reads Arrow arrays as one of three kinds of values: 64-bit numbers, 128-bit numbers, bytes.

use super::text::mask;
use crate::{Error, Result};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    BinaryViewType, ByteArrayType, ByteViewType, Decimal32Type, Decimal64Type, Decimal128Type,
    DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType,
    StringViewType,
};
use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType, BooleanArray, FixedSizeBinaryArray, GenericByteArray,
    GenericByteViewArray, PrimitiveArray, downcast_integer, downcast_temporal,
};
use arrow_buffer::ArrowNativeType;
use arrow_schema::{DataType, TimeUnit};
use shardmill_formats::parquet::as_stored;

/// The bytes of a value: up to 16 of them as a number, all of them as a slice.
#[derive(Debug, Clone, Copy)]
pub(super) struct Value<'a> {
    /// The first bytes, little-endian, padded with zeros.
    pub head: u128,
    pub len: usize,
    /// All bytes; may be empty if the head contains them.
    pub bytes: &'a [u8],
}

/// 64-bit values in their natural order.
pub(super) trait Narrow {
    fn at(&self, row: usize) -> Option<u64>;
}

/// Values as bytes.
pub(super) trait Bytes {
    fn at(&self, row: usize) -> Option<Value<'_>>;
}

pub(super) struct Integers<'a, T: ArrowPrimitiveType>(&'a PrimitiveArray<T>);

/// A number that can be converted to an unsigned one with the same order.
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

impl<T: ByteArrayType> Bytes for GenericByteArray<T> {
    fn at(&self, row: usize) -> Option<Value<'_>> {
        let offsets = self.value_offsets();
        let (start, end) = (offsets.get(row)?.as_usize(), offsets.get(row + 1)?.as_usize());
        value_within(self.value_data(), start, end.checked_sub(start)?)
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
    // One load if the buffer is long enough, which it usually is.
    let head = match buffer.get(start..).and_then(|rest| rest.first_chunk::<16>()) {
        Some(chunk) => u128::from_le_bytes(*chunk) & mask(len),
        None => bytes.iter().take(16).rev().fold(0, |head, byte| head << 8 | u128::from(*byte)),
    };
    Some(Value { head, len, bytes })
}

/// Called with the array in its own type, so that loops over it are monomorphized.
pub(super) trait Visit {
    fn narrow<N: Narrow>(&mut self, values: &N);
    fn wide(&mut self, value: &dyn Fn(usize) -> Option<i128>);
    fn bytes<B: Bytes>(&mut self, values: &B);
}

macro_rules! narrow {
    ($type:ty, $array:expr, $visit:expr) => {
        $visit.narrow(&Integers($array.as_primitive_opt::<$type>()?))
    };
}

/// `None` if the array does not match its type, or the type has no keys.
pub(super) fn visit(array: &ArrayRef, visit: &mut impl Visit) -> Option<()> {
    downcast_integer! {
        array.data_type() => (narrow, array, visit),
        DataType::Boolean => visit.narrow(array.as_boolean_opt()?),
        DataType::Decimal32(..) => wide(array.as_primitive_opt::<Decimal32Type>()?, visit),
        DataType::Decimal64(..) => wide(array.as_primitive_opt::<Decimal64Type>()?, visit),
        DataType::Decimal128(..) => wide(array.as_primitive_opt::<Decimal128Type>()?, visit),
        DataType::Utf8 => visit.bytes(array.as_string_opt::<i32>()?),
        DataType::LargeUtf8 => visit.bytes(array.as_string_opt::<i64>()?),
        DataType::Binary => visit.bytes(array.as_binary_opt::<i32>()?),
        DataType::LargeBinary => visit.bytes(array.as_binary_opt::<i64>()?),
        DataType::Utf8View => visit.bytes(array.as_byte_view_opt::<StringViewType>()?),
        DataType::BinaryView => visit.bytes(array.as_byte_view_opt::<BinaryViewType>()?),
        DataType::FixedSizeBinary(_) => visit.bytes(array.as_fixed_size_binary_opt()?),
        DataType::Duration(TimeUnit::Second) => narrow!(DurationSecondType, array, visit),
        DataType::Duration(TimeUnit::Millisecond) => narrow!(DurationMillisecondType, array, visit),
        DataType::Duration(TimeUnit::Microsecond) => narrow!(DurationMicrosecondType, array, visit),
        DataType::Duration(TimeUnit::Nanosecond) => narrow!(DurationNanosecondType, array, visit),
        other => downcast_temporal! { other => (narrow, array, visit), _ => return None },
    }
    Some(())
}

fn wide<T: ArrowPrimitiveType<Native: Into<i128>>>(
    array: &PrimitiveArray<T>,
    visit: &mut impl Visit,
) {
    let values = array.values();
    visit.wide(&|row| values.get(row).map(|value| (*value).into()));
}

/// Decodes dictionaries to plain arrays, with the units of time that a file of Parquet has: ids
/// must be the same ones there.
///
/// # Errors
/// [`Error::Arrow`] for keys past the end of the dictionary, and for values
/// that Parquet cannot store.
pub(super) fn plain(array: &ArrayRef) -> Result<ArrayRef> {
    let values = match array.data_type() {
        DataType::Dictionary(_, values) => arrow_cast::cast(array, values),
        _ => Ok(ArrayRef::clone(array)),
    };
    values.and_then(|values| as_stored(&values)).map_err(|source| Error::Arrow { source })
}
