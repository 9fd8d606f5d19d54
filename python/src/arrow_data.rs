//! Arrow data of Python objects, imported by the C data interface.
//!
//! Not by `pyo3_arrow::input`: where a sliced array has a struct inside of a struct or of a list of
//! fixed size, `make_array` cuts the inner fields twice, because `ArrayData::slice` leaves the
//! offset of a struct in place whose children it has cut. That is a panic, or other rows.
//!
//! The invariant: `make_array` gets no data that it would have to cut. No value is copied.

#![expect(
    unsafe_code,
    reason = "pointers in capsules, whose names say what they are; and data \
        that was valid before it was cut"
)]

use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi_and_data_type};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, StructArray, make_array};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef, UnionMode};
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};
use std::ffi::CStr;
use std::ptr::NonNull;
use std::sync::Arc;

/// Arrays of one type, in turn: those of a stream, or a single one.
pub(crate) struct ArrowArrays {
    field: FieldRef,
    source: Source,
}

enum Source {
    Array(Option<FFI_ArrowArray>),
    Stream(FFI_ArrowArrayStream),
}

/// As [`ArrowArrays`], of an object with `__arrow_c_array__`.
pub(crate) struct ArrowArray {
    pub(crate) array: ArrayRef,
    pub(crate) field: FieldRef,
}

/// One batch of rows.
pub(crate) struct ArrowBatch(pub(crate) RecordBatch);

impl ArrowArrays {
    pub(crate) fn field(&self) -> &FieldRef {
        &self.field
    }

    /// The schema, if the arrays are batches of rows.
    pub(crate) fn schema(&self) -> PyResult<SchemaRef> {
        match self.field.data_type() {
            DataType::Struct(fields) => Ok(Arc::new(Schema::new_with_metadata(
                fields.clone(),
                self.field.metadata().clone(),
            ))),
            other => {
                Err(PyValueError::new_err(format!("rows are a struct of columns, not {other}")))
            }
        }
    }

    /// The arrays as batches of rows.
    pub(crate) fn into_batches(
        self,
    ) -> PyResult<impl Iterator<Item = Result<RecordBatch, ArrowError>>> {
        let schema = self.schema()?;
        Ok(self.map(move |rows| rows_of(&rows?, &schema)))
    }

    /// `None` at the end.
    fn take(&mut self) -> Result<Option<FFI_ArrowArray>, ArrowError> {
        let stream = match &mut self.source {
            Source::Array(array) => return Ok(array.take()),
            Source::Stream(stream) => stream,
        };
        let Some(get_next) = stream.get_next else { return Ok(None) };
        let mut array = FFI_ArrowArray::empty();
        // The producer may wait for threads that need the interpreter, such as those of a file
        // system that is written in Python. SAFETY: the stream is not released, and it may be
        // called by one thread at a time.
        let code = Python::attach(|py| py.detach(|| unsafe { get_next(stream, &raw mut array) }));
        if code != 0 {
            return Err(ArrowError::CDataInterface(last_error(stream, code)));
        }
        Ok((!array.is_released()).then_some(array))
    }
}

impl Iterator for ArrowArrays {
    type Item = Result<ArrayRef, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let array = match self.take() {
            Ok(array) => array?,
            Err(error) => return Some(Err(error)),
        };
        // SAFETY: the producer filled the array with data of this type; it goes back to the
        // producer when the last reference is dropped.
        let data = unsafe { from_ffi_and_data_type(array, self.field.data_type().clone()) };
        Some(data.map(|data| make_array(cut(data))))
    }
}

impl<'py> FromPyObject<'_, 'py> for ArrowArrays {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let py = object.py();
        if object.hasattr(intern!(py, "__arrow_c_array__"))? {
            let capsules =
                object.call_method0(intern!(py, "__arrow_c_array__"))?.cast_into::<PyTuple>()?;
            let schema = pointer::<FFI_ArrowSchema>(&capsules.get_item(0)?, c"arrow_schema")?;
            let array = pointer::<FFI_ArrowArray>(&capsules.get_item(1)?, c"arrow_array")?;
            // SAFETY: the capsules live to the end of this block, and an array of theirs may be
            // taken once.
            let (field, array) = unsafe {
                (Field::try_from(schema.as_ref()), FFI_ArrowArray::from_raw(array.as_ptr()))
            };
            return Ok(Self {
                field: Arc::new(field.map_err(invalid)?),
                source: Source::Array(Some(array)),
            });
        }
        if !object.hasattr(intern!(py, "__arrow_c_stream__"))? {
            let kind = object.get_type().name()?;
            return Err(PyTypeError::new_err(format!(
                "{kind} holds no Arrow data: it has neither __arrow_c_stream__ \
                 nor __arrow_c_array__"
            )));
        }
        let capsule = object.call_method0(intern!(py, "__arrow_c_stream__"))?;
        // SAFETY: as above.
        let mut stream = unsafe {
            FFI_ArrowArrayStream::from_raw(pointer(&capsule, c"arrow_array_stream")?.as_ptr())
        };
        let Some(get_schema) = stream.get_schema else {
            return Err(PyValueError::new_err("the Arrow stream was read before"));
        };
        let mut schema = FFI_ArrowSchema::empty();
        // SAFETY: the stream is not released.
        let code = unsafe { get_schema(&raw mut stream, &raw mut schema) };
        if code != 0 {
            return Err(PyValueError::new_err(last_error(&mut stream, code)));
        }
        Ok(Self {
            field: Arc::new(Field::try_from(&schema).map_err(invalid)?),
            source: Source::Stream(stream),
        })
    }
}

impl<'py> FromPyObject<'_, 'py> for ArrowArray {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let mut arrays: ArrowArrays = object.extract()?;
        match (arrays.next(), &arrays.source) {
            (Some(array), Source::Array(_)) => {
                Ok(Self { array: array.map_err(invalid)?, field: arrays.field })
            }
            _ => Err(PyTypeError::new_err(
                "an Arrow array is one object with __arrow_c_array__, not a stream",
            )),
        }
    }
}

impl<'py> FromPyObject<'_, 'py> for ArrowBatch {
    type Error = PyErr;

    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let arrays: ArrowArrays = object.extract()?;
        let schema = arrays.schema()?;
        let batches = arrays.into_batches()?.collect::<Result<Vec<_>, _>>().map_err(invalid)?;
        match batches.as_slice() {
            [only] => Ok(Self(only.clone())),
            batches => {
                arrow_select::concat::concat_batches(&schema, batches).map(Self).map_err(invalid)
            }
        }
    }
}

fn rows_of(rows: &dyn Array, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let rows = whole_rows(rows)?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    RecordBatch::try_new_with_options(Arc::clone(schema), rows.columns().to_vec(), &options)
}

/// Rows as a struct of columns, none of which is null as a whole.
pub(crate) fn whole_rows(rows: &dyn Array) -> Result<&StructArray, ArrowError> {
    let rows = rows.as_struct_opt().filter(|rows| rows.null_count() == 0);
    rows.ok_or_else(|| ArrowError::InvalidArgumentError("a row is null as a whole".to_owned()))
}

fn pointer<T>(capsule: &Bound<'_, PyAny>, name: &CStr) -> PyResult<NonNull<T>> {
    Ok(capsule.cast::<PyCapsule>()?.pointer_checked(Some(name))?.cast())
}

fn last_error(stream: &mut FFI_ArrowArrayStream, code: i32) -> String {
    // SAFETY: the stream is not released, and its text is valid up to the next call.
    let text = stream
        .get_last_error
        .map(|get_last_error| unsafe { get_last_error(stream) })
        .filter(|text| !text.is_null());
    // SAFETY: as above.
    text.map_or_else(
        || format!("the Arrow stream failed with code {code}"),
        |text| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned(),
    )
}

fn invalid(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// The same values, where children begin and end with the parent that would cut them.
fn cut(data: ArrayData) -> ArrayData {
    if data.child_data().is_empty() {
        return data;
    }
    let (offset, len) = (data.offset(), data.len());
    let window = match data.data_type() {
        DataType::Struct(_) | DataType::Union(_, UnionMode::Sparse) => Some((offset, len)),
        DataType::FixedSizeList(_, size) => {
            usize::try_from(*size).ok().map(|size| (offset * size, len * size))
        }
        _ => None,
    };
    let child = |child: &ArrayData| {
        cut(window.map_or_else(|| child.clone(), |(offset, len)| part(child.clone(), offset, len)))
    };
    let children = data.child_data().iter().map(child).collect();
    let is_cut = window.is_some();
    // Only sparse unions have a buffer beside children that are cut: a byte for each value.
    let buffers = data
        .buffers()
        .iter()
        .map(|buffer| if is_cut { buffer.slice_with_length(offset, len) } else { buffer.clone() })
        .collect();
    let builder = data
        .into_builder()
        .offset(if is_cut { 0 } else { offset })
        .buffers(buffers)
        .child_data(children);
    // SAFETY: the values are those of valid data.
    unsafe { builder.build_unchecked() }
}

/// Unlike `ArrayData::slice`, leaves the children of a struct as they are.
fn part(data: ArrayData, offset: usize, len: usize) -> ArrayData {
    let nulls = data.nulls().map(|nulls| nulls.slice(offset, len));
    let offset = data.offset() + offset;
    // SAFETY: a window into valid data is valid.
    unsafe { data.into_builder().offset(offset).len(len).nulls(nulls).build_unchecked() }
}
