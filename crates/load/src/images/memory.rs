//! Memory for pixels: owned, or lent by the consumer of batches, such as page-locked memory.
//!
//! The invariant: pixels are written once, into the memory in which they are delivered. They are
//! moved only if their number was not known in advance.

use crate::{Error, Result};
use arrow_array::{ArrayRef, Float32Array, UInt8Array, UInt16Array};
use arrow_buffer::{Buffer, ScalarBuffer};
use bytes::Bytes;
use shardmill_pixels::{Dtype, Parts};
use std::fmt::Debug;
use std::sync::Arc;

/// Where memory of this kind comes from. Threads that render images call it.
pub trait HostMemory: Debug + Send + Sync {
    /// `bytes` bytes, aligned for every number. They may have any values.
    ///
    /// # Errors
    /// Why the memory cannot be provided.
    fn lend(&self, bytes: usize) -> std::result::Result<Box<dyn LentMemory>, String>;
}

/// A piece of it. Dropping it gives it back.
pub trait LentMemory: AsRef<[u8]> + AsMut<[u8]> + Debug + Send {}

/// Pixels of one type.
#[derive(Debug)]
pub(super) enum Pixels {
    U8(Growing<u8>),
    /// The upper halves of floats.
    U16(Growing<u16>),
    F32(Growing<f32>),
    Lent(LentValues, Dtype),
}

impl Pixels {
    /// Memory for this number of values, which grows if there are more.
    pub(super) fn new(dtype: Dtype, values: usize) -> Self {
        match dtype {
            Dtype::U8 => Self::U8(Growing::new(values)),
            Dtype::Bf16 => Self::U16(Growing::new(values)),
            Dtype::F32 => Self::F32(Growing::new(values)),
        }
    }

    /// # Errors
    /// [`Error::HostMemory`].
    pub(super) fn lent(memory: &dyn HostMemory, dtype: Dtype, values: usize) -> Result<Self> {
        let bytes = values.saturating_mul(dtype.bytes());
        let lent = memory
            .lend(bytes)
            .map_err(|reason| Error::HostMemory { bytes, reason: reason.into() })?;
        Ok(Self::Lent(LentValues { memory: lent, len: 0 }, dtype))
    }

    /// Memory for the next `values` values, which [`Self::append`] adds. If there is room, it is a
    /// part of this memory, and `append` does not move the values.
    pub(super) fn split(&mut self, values: usize) -> Self {
        match self {
            Self::U8(own) => Self::U8(own.split(values)),
            Self::U16(own) => Self::U16(own.split(values)),
            Self::F32(own) => Self::F32(own.split(values)),
            Self::Lent(_, dtype) => Self::new(*dtype, values),
        }
    }

    pub(super) fn append(&mut self, more: Self) {
        match (self, more) {
            (Self::U8(own), Self::U8(more)) => own.append(more),
            (Self::U16(own), Self::U16(more)) => own.append(more),
            (Self::F32(own), Self::F32(more)) => own.append(more),
            (Self::Lent(lent, _), more) => {
                let bytes = more.bytes();
                let added = lent.added(bytes.len()).iter_mut();
                added.zip(bytes).for_each(|(byte, value)| *byte = *value);
            }
            _ => debug_assert!(false, "canvases of a column have its type"),
        }
    }

    /// Number of values.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::U8(own) => own.used,
            Self::U16(own) => own.used,
            Self::F32(own) => own.used,
            Self::Lent(lent, dtype) => lent.len / dtype.bytes(),
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::U8(own) => own.values(),
            Self::U16(own) => bytemuck::cast_slice(own.values()),
            Self::F32(own) => bytemuck::cast_slice(own.values()),
            Self::Lent(lent, _) => lent.bytes(),
        }
    }

    pub(super) fn truncate(&mut self, len: usize) {
        match self {
            Self::U8(own) => own.truncate(len),
            Self::U16(own) => own.truncate(len),
            Self::F32(own) => own.truncate(len),
            Self::Lent(lent, dtype) => lent.len = lent.len.min(len * dtype.bytes()),
        }
    }

    /// Adds `count` zeros, and returns their bytes; none if lent memory is full.
    pub(super) fn grow(&mut self, count: usize) -> &mut [u8] {
        match self {
            Self::U8(own) => own.grow(count),
            Self::U16(own) => bytemuck::cast_slice_mut(own.grow(count)),
            Self::F32(own) => bytemuck::cast_slice_mut(own.grow(count)),
            Self::Lent(lent, dtype) => {
                let added = lent.added(count * dtype.bytes());
                added.fill(0);
                added
            }
        }
    }

    pub(super) fn into_array(self) -> ArrayRef {
        match self {
            Self::U8(own) => Arc::new(UInt8Array::from(own.into_vec())),
            Self::U16(own) => Arc::new(UInt16Array::from(own.into_vec())),
            Self::F32(own) => Arc::new(Float32Array::from(own.into_vec())),
            Self::Lent(lent, dtype) => {
                let buffer = lent.into_buffer();
                match dtype {
                    Dtype::U8 => Arc::new(UInt8Array::new(ScalarBuffer::from(buffer), None)),
                    Dtype::Bf16 => Arc::new(UInt16Array::new(ScalarBuffer::from(buffer), None)),
                    Dtype::F32 => Arc::new(Float32Array::new(ScalarBuffer::from(buffer), None)),
                }
            }
        }
    }
}

/// Values, of which the first `used` are in use. The others are zeros.
#[derive(Debug)]
pub(super) struct Growing<T> {
    parts: Parts<T>,
    used: usize,
}

impl<T: Copy + Default> Growing<T> {
    fn new(len: usize) -> Self {
        Self { parts: Parts::from(vec![T::default(); len]), used: 0 }
    }

    fn split(&mut self, len: usize) -> Self {
        if self.used > 0 || len > self.parts.len() {
            return Self::new(len);
        }
        Self { parts: self.parts.split_to(len), used: 0 }
    }

    fn values(&self) -> &[T] {
        self.parts.as_slice().get(..self.used).unwrap_or_default()
    }

    fn truncate(&mut self, len: usize) {
        let dropped = len.min(self.used)..self.used;
        self.used = dropped.start;
        self.parts.as_mut_slice().get_mut(dropped).unwrap_or_default().fill(T::default());
    }

    fn grow(&mut self, count: usize) -> &mut [T] {
        let (before, end) = (self.used, self.used.saturating_add(count));
        if self.parts.len() < end {
            let mut larger = vec![T::default(); end.max(before.saturating_mul(2))];
            larger.iter_mut().zip(self.values()).for_each(|(to, from)| *to = *from);
            self.parts = Parts::from(larger);
        }
        self.used = end;
        self.parts.as_mut_slice().get_mut(before..end).unwrap_or_default()
    }

    fn append(&mut self, mut more: Self) {
        if more.used == 0 {
            return;
        }
        if self.used == 0 {
            *self = more;
            return;
        }
        more.parts.truncate(more.used);
        let is_full = self.used == self.parts.len();
        let moved = if is_full { self.parts.join(more.parts) } else { Some(more.parts) };
        match moved {
            None => self.used += more.used,
            Some(more) => self.grow(more.len()).copy_from_slice(more.as_slice()),
        }
    }

    fn into_vec(mut self) -> Vec<T> {
        self.parts.truncate(self.used);
        self.parts.into_vec()
    }
}

/// Values in lent memory, of which `len` bytes are in use.
#[derive(Debug)]
pub(super) struct LentValues {
    memory: Box<dyn LentMemory>,
    len: usize,
}

impl LentValues {
    fn bytes(&self) -> &[u8] {
        (*self.memory).as_ref().get(..self.len).unwrap_or_default()
    }

    fn added(&mut self, count: usize) -> &mut [u8] {
        let before = self.len;
        let added = (*self.memory)
            .as_mut()
            .get_mut(before..before.saturating_add(count))
            .unwrap_or_default();
        self.len += added.len();
        added
    }

    /// The values, and with them the memory. Without values, the memory is given back: an empty
    /// slice of `Bytes` does not hold its owner.
    fn into_buffer(self) -> Buffer {
        let len = self.len;
        if len == 0 {
            return Buffer::from(Vec::<u8>::new());
        }
        Buffer::from(Bytes::from_owner(Owner(self.memory)).slice(..len))
    }
}

struct Owner(Box<dyn LentMemory>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        (*self.0).as_ref()
    }
}
