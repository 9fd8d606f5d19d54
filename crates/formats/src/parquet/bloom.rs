//! Tests with bloom filters whether a row group can contain one of some values.
//!
//! A value is hashed as stored in the file. The invariant: in case of doubt (an unsupported type, a
//! damaged or missing filter) the value may be contained.

use super::object_reader::ObjectReader;
use super::thrift::{Verdict, judge};
use super::thrift_fields::BLOOM_FILTER;
use super::{Error, ParquetFile};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type,
    UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef};
use arrow_cast::cast;
use arrow_schema::DataType;
use parquet::basic::Type;
use parquet::bloom_filter::Sbbf;
use parquet::errors::ParquetError;
use parquet::file::reader::ChunkReader;
use std::sync::Arc;

/// Real headers have some tens of bytes.
const MAX_HEADER_LEN: u64 = 256;

impl ParquetFile {
    /// False if the row group certainly contains none of `values`, an array of the column's type
    /// (or a dictionary's value type) without nulls. `column` is the number of a column, which may
    /// be nested.
    ///
    /// # Errors
    /// [`Error::Index`] when the storage fails.
    pub fn bloom_may_contain(
        &self,
        row_group: usize,
        column: usize,
        values: &ArrayRef,
    ) -> Result<bool, Error> {
        Ok(self.told(row_group, || self.look_up(row_group, column, values))?.unwrap_or(true))
    }

    fn look_up(
        &self,
        row_group: usize,
        column: usize,
        values: &ArrayRef,
    ) -> Result<bool, ParquetError> {
        let Some(leaf) = self.leaf(column) else { return Ok(true) };
        let chunk = self
            .footer
            .row_groups()
            .get(row_group)
            .and_then(|group| group.columns().get(leaf.index));
        let Some((chunk, offset)) = chunk
            .and_then(|chunk| Some((chunk, u64::try_from(chunk.bloom_filter_offset()?).ok()?)))
        else {
            return Ok(true);
        };
        let reader = ObjectReader::new(Arc::clone(&self.object));
        let header_len = self.object.size().saturating_sub(offset).min(MAX_HEADER_LEN);
        if judge(&reader.get_bytes(offset, usize::try_from(header_len)?)?, BLOOM_FILTER)
            != Verdict::Harmless
        {
            return Ok(true);
        }
        let Some(filter) = Sbbf::read_from_column_chunk(chunk, &reader)? else { return Ok(true) };
        Ok(is_any_in(&filter, chunk.column_type(), values).unwrap_or(true))
    }
}

/// `None` for stored types that are not supported.
fn is_any_in(filter: &Sbbf, stored: Type, values: &ArrayRef) -> Option<bool> {
    macro_rules! any {
        ($array:expr, $as:expr) => {{
            let array = $array;
            (0..array.len()).any(|row| filter.check(&$as(array.value(row))))
        }};
    }
    Some(match (stored, values.data_type()) {
        (Type::INT32, DataType::Int8) => any!(values.as_primitive::<Int8Type>(), i32::from),
        (Type::INT32, DataType::Int16) => any!(values.as_primitive::<Int16Type>(), i32::from),
        (Type::INT32, DataType::Int32) => any!(values.as_primitive::<Int32Type>(), i32::from),
        (Type::INT32, DataType::UInt8) => any!(values.as_primitive::<UInt8Type>(), i32::from),
        (Type::INT32, DataType::UInt16) => any!(values.as_primitive::<UInt16Type>(), i32::from),
        (Type::INT32, DataType::UInt32) => {
            any!(values.as_primitive::<UInt32Type>(), u32::cast_signed)
        }
        (Type::INT32, DataType::Date32 | DataType::Time32(_)) => {
            return is_any_in(filter, stored, &cast(values, &DataType::Int32).ok()?);
        }
        (Type::INT64, DataType::Int64) => any!(values.as_primitive::<Int64Type>(), i64::from),
        (Type::INT64, DataType::UInt64) => {
            any!(values.as_primitive::<UInt64Type>(), u64::cast_signed)
        }
        (Type::INT64, DataType::Timestamp(..) | DataType::Time64(_)) => {
            return is_any_in(filter, stored, &cast(values, &DataType::Int64).ok()?);
        }
        (Type::FLOAT, DataType::Float32) => any!(values.as_primitive::<Float32Type>(), f32::from),
        (Type::DOUBLE, DataType::Float64) => any!(values.as_primitive::<Float64Type>(), f64::from),
        (
            Type::BYTE_ARRAY,
            DataType::Utf8
            | DataType::LargeUtf8
            | DataType::Utf8View
            | DataType::Binary
            | DataType::LargeBinary,
        )
        | (Type::FIXED_LEN_BYTE_ARRAY, DataType::FixedSizeBinary(_)) => {
            return is_any_in(filter, Type::BYTE_ARRAY, &cast(values, &DataType::BinaryView).ok()?);
        }
        (Type::BYTE_ARRAY, DataType::BinaryView) => {
            let array = values.as_binary_view();
            (0..array.len()).any(|row| filter.check(array.value(row)))
        }
        _ => return None,
    })
}
