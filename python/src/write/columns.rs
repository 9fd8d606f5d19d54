//! Collects the values of one column.

use crate::arrow_data::ArrowArray;
use arrow_array::builder::{BooleanBuilder, GenericByteBuilder, NullBuilder, PrimitiveBuilder};
use arrow_array::types::{
    ArrowPrimitiveType, BinaryType, ByteArrayType, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, LargeBinaryType, LargeUtf8Type, UInt8Type, UInt16Type, UInt32Type,
    UInt64Type, Utf8Type,
};
use arrow_array::{Array, ArrayRef, ListArray, StructArray};
use arrow_buffer::{NullBufferBuilder, OffsetBuffer};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields};
use arrow_select::concat::concat;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyInt, PyList, PyString};
use std::sync::Arc;

/// Limit of 32-bit offsets, with room for one more value.
const MAX_TEXT_BYTES: usize = 1 << 30;

/// Doubles hold all integers up to this one.
const MAX_EXACT: u64 = 1 << 53;

/// Values collected so far.
pub(super) struct Column {
    plain: Option<Box<dyn Plain>>,
    /// Values from the first one on that is not plain.
    objects: Option<Vec<Py<PyAny>>>,
}

/// Values of one type that are copied without conversion.
trait Plain: Send {
    /// Appends the value and returns its approximate size. `None` if it is not plain: parts of it
    /// may have been appended, so only `finish` may follow.
    fn append(&mut self, value: &Bound<'_, PyAny>) -> Option<usize>;

    fn append_null(&mut self);

    /// The values that were appended as a whole. There may be more if the last one was part of a
    /// list or a struct.
    fn finish(&mut self) -> Result<ArrayRef, ArrowError>;

    /// Appends a value or `None`.
    fn push(&mut self, value: &Bound<'_, PyAny>) -> Option<usize> {
        if value.is_none() {
            self.append_null();
            return Some(1);
        }
        self.append(value)
    }
}

/// An integer of Python that 64 bits hold.
pub(super) fn whole(value: &Bound<'_, PyAny>) -> Option<i64> {
    value.cast_exact::<PyInt>().ok()?.extract().ok()
}

impl Column {
    pub(super) fn new(data_type: &DataType) -> Self {
        let plain = plain_of(data_type);
        Self { objects: plain.is_none().then(Vec::new), plain }
    }

    /// Appends a value; returns its approximate size. A value that is kept as an object is added to
    /// `objects` instead, to be weighed.
    pub(super) fn append<'py>(
        &mut self,
        py: Python<'py>,
        value: Option<Bound<'py, PyAny>>,
        objects: &mut Vec<Bound<'py, PyAny>>,
    ) -> usize {
        let value = value.unwrap_or_else(|| py.None().into_bound(py));
        if self.objects.is_none()
            && let Some(plain) = &mut self.plain
            && let Some(bytes) = plain.push(&value)
        {
            return bytes;
        }
        objects.push(value.clone());
        self.objects.get_or_insert_default().push(value.unbind());
        0
    }

    /// All values as one array.
    pub(super) fn finish(
        self,
        field: &Field,
        first_row: u64,
        convert: &Bound<'_, PyAny>,
    ) -> PyResult<ArrayRef> {
        let plain = self.plain.map(|mut plain| plain.finish()).transpose().map_err(invalid)?;
        let Some(objects) = self.objects else {
            return plain.ok_or_else(|| invalid("a column has no values"));
        };
        let before = plain.as_ref().map_or(0, Array::len);
        let values = PyList::new(convert.py(), objects)?;
        let converted = convert
            .call1((field.name(), values, first_row + before as u64))?
            .extract::<ArrowArray>()?
            .array;
        match plain.filter(|plain| !plain.is_empty()) {
            Some(plain) => concat(&[plain.as_ref(), converted.as_ref()]).map_err(invalid),
            None => Ok(converted),
        }
    }
}

fn plain_of(data_type: &DataType) -> Option<Box<dyn Plain>> {
    Some(match data_type {
        DataType::Null => Box::new(Nulls(NullBuilder::new())),
        DataType::Boolean => Box::new(Booleans(BooleanBuilder::new())),
        DataType::Int8 => Integers::<Int8Type>::boxed(),
        DataType::Int16 => Integers::<Int16Type>::boxed(),
        DataType::Int32 => Integers::<Int32Type>::boxed(),
        DataType::Int64 => Integers::<Int64Type>::boxed(),
        DataType::UInt8 => Integers::<UInt8Type>::boxed(),
        DataType::UInt16 => Integers::<UInt16Type>::boxed(),
        DataType::UInt32 => Integers::<UInt32Type>::boxed(),
        DataType::UInt64 => Integers::<UInt64Type>::boxed(),
        DataType::Float32 => Box::new(Singles(PrimitiveBuilder::new())),
        DataType::Float64 => Box::new(Doubles(PrimitiveBuilder::new())),
        DataType::Utf8 => Box::new(Texts::<Utf8Type>::default()),
        DataType::LargeUtf8 => Box::new(Texts::<LargeUtf8Type>::default()),
        DataType::Binary => Box::new(Binaries::<BinaryType>::default()),
        DataType::LargeBinary => Box::new(Binaries::<LargeBinaryType>::default()),
        DataType::List(item) if item.is_nullable() => Box::new(Lists {
            items: plain_of(item.data_type())?,
            item: Arc::clone(item),
            offsets: vec![0],
            valid: NullBufferBuilder::new(0),
        }),
        DataType::Struct(fields) if are_plain(fields) => Box::new(Structs {
            names: Python::attach(|py| {
                fields.iter().map(|field| PyString::intern(py, field.name()).unbind()).collect()
            }),
            columns: fields
                .iter()
                .map(|field| plain_of(field.data_type()))
                .collect::<Option<_>>()?,
            fields: fields.clone(),
            valid: NullBufferBuilder::new(0),
        }),
        _ => return None,
    })
}

/// Whether the fields may be null, as those of a row that lacks them, and have names of their own.
fn are_plain(fields: &Fields) -> bool {
    fields.iter().enumerate().all(|(index, field)| {
        field.is_nullable() && fields.find(field.name()).is_some_and(|(first, _)| first == index)
    })
}

struct Nulls(NullBuilder);

struct Booleans(BooleanBuilder);
struct Integers<T: ArrowPrimitiveType>(PrimitiveBuilder<T>);
struct Singles(PrimitiveBuilder<Float32Type>);
struct Doubles(PrimitiveBuilder<Float64Type>);
struct Texts<T: ByteArrayType> {
    builder: GenericByteBuilder<T>,
    bytes: usize,
    /// Whether a text was not ASCII. Python caches the UTF-8 of such a text in the text itself,
    /// which takes as much memory again.
    is_encoded: bool,
}
struct Binaries<T: ByteArrayType>(GenericByteBuilder<T>, usize);
struct Lists {
    item: FieldRef,
    items: Box<dyn Plain>,
    offsets: Vec<i32>,
    valid: NullBufferBuilder,
}
struct Structs {
    fields: Fields,
    names: Vec<Py<PyString>>,
    columns: Vec<Box<dyn Plain>>,
    valid: NullBufferBuilder,
}

impl<T: ByteArrayType> Default for Texts<T> {
    fn default() -> Self {
        Self { builder: GenericByteBuilder::new(), bytes: 0, is_encoded: false }
    }
}

impl<T: ByteArrayType> Default for Binaries<T> {
    fn default() -> Self {
        Self(GenericByteBuilder::new(), 0)
    }
}

impl<T: ArrowPrimitiveType<Native: TryFrom<i64>>> Integers<T> {
    fn boxed() -> Box<dyn Plain>
    where
        T: Send,
    {
        Box::new(Self(PrimitiveBuilder::new()))
    }
}

/// The common part of all builders.
macro_rules! builder {
    ($builder:tt) => {
        fn append_null(&mut self) {
            self.$builder.append_null();
        }

        fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
            Ok(Arc::new(self.$builder.finish()))
        }
    };
}

impl Plain for Nulls {
    fn append(&mut self, _value: &Bound<'_, PyAny>) -> Option<usize> {
        None
    }

    builder!(0);
}

impl Plain for Booleans {
    fn append(&mut self, value: &Bound<'_, PyAny>) -> Option<usize> {
        self.0.append_value(value.cast_exact::<PyBool>().ok()?.is_true());
        Some(1)
    }

    builder!(0);
}

impl<T: ArrowPrimitiveType<Native: TryFrom<i64>>> Plain for Integers<T> {
    fn append(&mut self, value: &Bound<'_, PyAny>) -> Option<usize> {
        self.0.append_value(<T::Native as TryFrom<i64>>::try_from(whole(value)?).ok()?);
        Some(8)
    }

    builder!(0);
}

impl Plain for Singles {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a column of single precision rounds, as it does everywhere"
    )]
    fn append(&mut self, value: &Bound<'_, PyAny>) -> Option<usize> {
        let value = value.cast_exact::<PyFloat>().ok()?.value();
        let single = value as f32;
        // A finite value must not become infinite.
        if single.is_infinite() && value.is_finite() {
            return None;
        }
        self.0.append_value(single);
        Some(4)
    }

    builder!(0);
}

impl Plain for Doubles {
    #[expect(clippy::cast_precision_loss, reason = "integers up to the limit are exact")]
    fn append(&mut self, value: &Bound<'_, PyAny>) -> Option<usize> {
        let number = match value.cast_exact::<PyFloat>() {
            Ok(float) => float.value(),
            Err(_) => whole(value).filter(|whole| whole.unsigned_abs() <= MAX_EXACT)? as f64,
        };
        self.0.append_value(number);
        Some(8)
    }

    builder!(0);
}

impl<T: ByteArrayType<Native = str>> Plain for Texts<T> {
    fn append(&mut self, value: &Bound<'_, PyAny>) -> Option<usize> {
        let text = value.cast_exact::<PyString>().ok()?;
        let encoded;
        let text = if self.is_encoded {
            encoded = text.encode_utf8().ok()?;
            std::str::from_utf8(encoded.as_bytes()).ok()?
        } else {
            let plain = text.to_str().ok()?;
            self.is_encoded = !plain.is_ascii();
            plain
        };
        self.bytes = self.bytes.checked_add(text.len()).filter(|bytes| *bytes < MAX_TEXT_BYTES)?;
        self.builder.append_value(text);
        Some(text.len() + 4)
    }

    builder!(builder);
}

impl<T: ByteArrayType<Native = [u8]>> Plain for Binaries<T> {
    fn append(&mut self, value: &Bound<'_, PyAny>) -> Option<usize> {
        let bytes = value.cast_exact::<PyBytes>().ok()?.as_bytes();
        self.1 = self.1.checked_add(bytes.len()).filter(|all| *all < MAX_TEXT_BYTES)?;
        self.0.append_value(bytes);
        Some(bytes.len() + 4)
    }

    builder!(0);
}

impl Plain for Lists {
    fn append(&mut self, value: &Bound<'_, PyAny>) -> Option<usize> {
        let list = value.cast_exact::<PyList>().ok()?;
        let bytes = list.iter().map(|item| self.items.push(&item)).sum::<Option<usize>>()?;
        let end = self.end().checked_add(i32::try_from(list.len()).ok()?)?;
        self.offsets.push(end);
        self.valid.append_non_null();
        Some(bytes + 4)
    }

    fn append_null(&mut self) {
        self.offsets.push(self.end());
        self.valid.append_null();
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let items = self.items.finish()?.slice(0, usize::try_from(self.end()).unwrap_or_default());
        let offsets = OffsetBuffer::new(std::mem::take(&mut self.offsets).into());
        Ok(Arc::new(ListArray::try_new(
            Arc::clone(&self.item),
            offsets,
            items,
            self.valid.finish(),
        )?))
    }
}

impl Lists {
    fn end(&self) -> i32 {
        self.offsets.last().copied().unwrap_or_default()
    }
}

impl Plain for Structs {
    fn append(&mut self, value: &Bound<'_, PyAny>) -> Option<usize> {
        let row = value.cast_exact::<PyDict>().ok()?;
        let (mut found, mut bytes) = (0, 1);
        for (name, column) in self.names.iter().zip(&mut self.columns) {
            match row.get_item(name.bind(row.py())).ok()? {
                Some(value) => {
                    found += 1;
                    bytes += column.push(&value)?;
                }
                None => column.append_null(),
            }
        }
        if found < row.len() {
            return None;
        }
        self.valid.append_non_null();
        Some(bytes)
    }

    fn append_null(&mut self) {
        self.columns.iter_mut().for_each(|column| column.append_null());
        self.valid.append_null();
    }

    fn finish(&mut self) -> Result<ArrayRef, ArrowError> {
        let len = self.valid.len();
        let columns = self
            .columns
            .iter_mut()
            .map(|column| Ok(column.finish()?.slice(0, len)))
            .collect::<Result<_, ArrowError>>()?;
        Ok(Arc::new(StructArray::try_new_with_length(
            self.fields.clone(),
            columns,
            self.valid.finish(),
            len,
        )?))
    }
}

/// An error for invalid data.
pub(super) fn invalid(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}
