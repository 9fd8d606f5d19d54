//! Arrow arrays that are built from the values of records.

use super::value::Parse;
use arrow_array::builder::NullBufferBuilder;
use arrow_array::{
    ArrayRef, ArrowNativeTypeOp, ArrowPrimitiveType, GenericStringArray, OffsetSizeTrait,
    PrimitiveArray,
};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType};
use std::sync::Arc;

type Native<P> = <<P as Parse>::Arrow as ArrowPrimitiveType>::Native;

/// Values of the same width.
pub(crate) struct Values<P: Parse> {
    parser: P,
    data_type: DataType,
    values: Vec<Native<P>>,
    valid: NullBufferBuilder,
}

impl<P: Parse> Values<P> {
    pub(crate) fn new(parser: P, data_type: &DataType, capacity: usize) -> Self {
        Self {
            parser,
            data_type: data_type.clone(),
            values: Vec::with_capacity(capacity),
            valid: NullBufferBuilder::new(capacity),
        }
    }

    pub(crate) fn parser(&self) -> &P {
        &self.parser
    }

    pub(crate) fn data_type(&self) -> &DataType {
        &self.data_type
    }

    pub(crate) fn push(&mut self, value: Native<P>) {
        self.values.push(value);
        self.valid.append_non_null();
    }

    pub(crate) fn push_null(&mut self) {
        self.values.push(Native::<P>::ZERO);
        self.valid.append_null();
    }

    /// Returns false, and appends nothing, when the type cannot hold `text`.
    pub(crate) fn push_text(&mut self, text: &[u8]) -> bool {
        let value = self.parser.parse_plain(text).or_else(|| self.parser.parse(text));
        value.is_some_and(|value| {
            self.push(value);
            true
        })
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        self.values.truncate(len);
        self.valid.truncate(len);
    }

    pub(crate) fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let values = ScalarBuffer::from(std::mem::take(&mut self.values));
        let array = PrimitiveArray::<P::Arrow>::try_new(values, self.valid.finish())?;
        Ok(Arc::new(array.with_data_type(self.data_type.clone())))
    }
}

/// Strings; UTF-8 is validated separately.
pub(crate) struct Strings<O> {
    values: Vec<u8>,
    offsets: Vec<O>,
    valid: NullBufferBuilder,
}

impl<O: OffsetSizeTrait> Strings<O> {
    pub(crate) fn new(capacity: usize) -> Self {
        let mut offsets = Vec::with_capacity(capacity + 1);
        offsets.push(O::zero());
        Self { values: Vec::new(), offsets, valid: NullBufferBuilder::new(capacity) }
    }

    pub(crate) fn push(&mut self, text: Option<&[u8]>) {
        self.values.extend_from_slice(text.unwrap_or_default());
        // A block is shorter than 2 GiB, and so are its texts.
        self.offsets.push(O::from_usize(self.values.len()).unwrap_or_default());
        self.valid.append(text.is_some());
    }

    /// Whether the strings after the first `len` are UTF-8, and no character spans two of them.
    pub(crate) fn is_valid_from(&self, len: usize) -> bool {
        let offsets = self.offsets.get(len..).unwrap_or_default();
        let start = offsets.first().map_or(0, |start| start.as_usize());
        let Some(Ok(text)) = self.values.get(start..).map(std::str::from_utf8) else {
            return false;
        };
        offsets.iter().all(|offset| text.is_char_boundary(offset.as_usize().saturating_sub(start)))
    }

    pub(crate) fn len(&self) -> usize {
        self.valid.len()
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        self.offsets.truncate(len + 1);
        self.values.truncate(self.offsets.last().map_or(0, |end| end.as_usize()));
        self.valid.truncate(len);
    }

    pub(crate) fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let offsets = OffsetBuffer::new(ScalarBuffer::from(std::mem::take(&mut self.offsets)));
        let values = Buffer::from_vec(std::mem::take(&mut self.values));
        Ok(Arc::new(GenericStringArray::<O>::try_new(offsets, values, self.valid.finish())?))
    }
}
