//! Whether a row group can hold one of some values, by its bloom filter.
//!
//! A value is hashed as the bytes that the file stores for it. The invariant: what cannot be told, for a type, a damaged filter or none at all, may be there.

use super::object::ObjectReader;
use super::thrift::{Verdict, judge_bloom_filter};
use super::{Error, ParquetFile};
use crate::caught::caught;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef};
use arrow_cast::cast;
use arrow_schema::DataType;
use parquet::basic::Type;
use parquet::bloom_filter::Sbbf;
use parquet::errors::ParquetError;
use parquet::file::reader::ChunkReader;
use std::sync::Arc;

/// Some tens of bytes; a longer one is nobody's.
const MAX_HEADER_LEN: u64 = 256;

impl ParquetFile {
    /// False when the row group certainly holds none of `values`, an array of the column's type (a dictionary's values) without nulls. `column` counts the
    /// top-level columns of the Arrow schema.
    ///
    /// # Errors
    /// [`Error::Index`] when the storage fails.
    pub fn bloom_may_contain(&self, row_group: usize, column: usize, values: &ArrayRef) -> Result<bool, Error> {
        let told = caught(|| self.look_up(row_group, column, values));
        match told {
            Ok(Err(source @ ParquetError::External(_))) => Err(Error::Index { path: self.object.path().to_owned(), row_group, source }),
            Ok(Ok(may_contain)) => Ok(may_contain),
            Ok(Err(_)) | Err(_) => Ok(true),
        }
    }

    fn look_up(&self, row_group: usize, column: usize, values: &ArrayRef) -> Result<bool, ParquetError> {
        let Some(leaf) = self.leaf(column) else { return Ok(true) };
        let chunk = self.footer.row_groups().get(row_group).and_then(|group| group.columns().get(leaf.index));
        let Some((chunk, offset)) = chunk.and_then(|chunk| Some((chunk, u64::try_from(chunk.bloom_filter_offset()?).ok()?))) else {
            return Ok(true);
        };
        let reader = ObjectReader::new(Arc::clone(&self.object));
        let header_len = self.object.size().saturating_sub(offset).min(MAX_HEADER_LEN);
        if judge_bloom_filter(&reader.get_bytes(offset, usize::try_from(header_len)?)?) != Verdict::Harmless {
            return Ok(true);
        }
        let Some(filter) = Sbbf::read_from_column_chunk(chunk, &reader)? else { return Ok(true) };
        Ok(is_any_in(&filter, chunk.column_type(), values).unwrap_or(true))
    }
}

/// `None` for values that are stored in a form that is not looked up.
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
        (Type::INT32, DataType::UInt32) => any!(values.as_primitive::<UInt32Type>(), u32::cast_signed),
        (Type::INT32, DataType::Date32 | DataType::Time32(_)) => return is_any_in(filter, stored, &cast(values, &DataType::Int32).ok()?),
        (Type::INT64, DataType::Int64) => any!(values.as_primitive::<Int64Type>(), i64::from),
        (Type::INT64, DataType::UInt64) => any!(values.as_primitive::<UInt64Type>(), u64::cast_signed),
        (Type::INT64, DataType::Timestamp(..) | DataType::Time64(_)) => return is_any_in(filter, stored, &cast(values, &DataType::Int64).ok()?),
        (Type::FLOAT, DataType::Float32) => any!(values.as_primitive::<Float32Type>(), f32::from),
        (Type::DOUBLE, DataType::Float64) => any!(values.as_primitive::<Float64Type>(), f64::from),
        (Type::BYTE_ARRAY, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Binary | DataType::LargeBinary)
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
