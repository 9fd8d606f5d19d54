//! The layout of the values of a sample, and their Arrow types.

use super::head::word;
use crate::mds::encoding::Encoding;
use crate::mds::{Column, Columns, ENCODING_KEY, Number};
use arrow_schema::{DataType, Field};
use std::collections::BTreeMap;
use std::sync::Arc;

/// By column, the type and number of dimensions of arrays whose encoding does not specify them,
/// from the first sample of a data set.
pub type ArrayTypes = BTreeMap<String, (Number, usize)>;

/// Calls `each` with the value of each column of a sample, in order;
/// returns what is wrong with the sample.
pub(super) fn for_each_value<'a>(
    sizes: &[Option<usize>],
    sample: &'a [u8],
    mut each: impl FnMut(usize, &'a [u8]) -> Result<(), String>,
) -> Result<(), (Option<usize>, String)> {
    let mut position = 4 * sizes.iter().filter(|size| size.is_none()).count();
    let mut length_at = 0;
    for (column, size) in sizes.iter().enumerate() {
        let len = match size {
            Some(size) => Some(*size),
            None => {
                let len = word(sample, length_at).and_then(|len| usize::try_from(len).ok());
                length_at += 4;
                len
            }
        };
        let end = len.and_then(|len| position.checked_add(len));
        let value = end
            .and_then(|end| sample.get(position..end))
            .ok_or_else(|| (Some(column), "it extends past the end of the sample".to_owned()))?;
        each(column, value).map_err(|reason| (Some(column), reason))?;
        position += value.len();
    }
    if position == sample.len() {
        return Ok(());
    }
    Err((None, format!("its columns take `{position}` bytes, the sample has `{}`", sample.len())))
}

/// Splits an array into its type, dimensions and values.
pub(super) fn take_array_apart<'a>(
    encoding: &Encoding,
    value: &'a [u8],
    dimensions: &mut Vec<u64>,
) -> Result<(Number, &'a [u8]), String> {
    let Encoding::NdArray { number, shape } = encoding else {
        return Err("it is not an array".to_owned());
    };
    let (number, rest) = match (number, value) {
        (Some(number), rest) => (*number, rest),
        (None, [code, rest @ ..]) => {
            (Number::of_code(*code).ok_or_else(|| format!("`{code}` is not a number type"))?, rest)
        }
        (None, []) => return Err("it has no type".to_owned()),
    };
    dimensions.clear();
    let values = match (shape, rest) {
        (Some(shape), values) => {
            dimensions.extend(shape.iter().map(|dimension| u64::from(*dimension)));
            values
        }
        (None, [code, rest @ ..]) => {
            let width = 1 << (code & 3);
            let (table, values) = rest
                .split_at_checked(usize::from(code >> 2) * width)
                .ok_or("its dimensions extend past its end")?;
            for dimension in table.chunks_exact(width) {
                let mut wide = [0; 8];
                wide.iter_mut().zip(dimension).for_each(|(to, from)| *to = *from);
                dimensions.push(u64::from_le_bytes(wide));
            }
            values
        }
        (None, []) => return Err("it has no shape".to_owned()),
    };
    if dimensions.is_empty() || dimensions.contains(&0) {
        return Err(format!("{dimensions:?} is not a valid shape"));
    }
    let bytes = dimensions
        .iter()
        .try_fold(number.width() as u64, |bytes, dimension| bytes.checked_mul(*dimension));
    if bytes != Some(values.len() as u64) {
        return Err(format!(
            "its shape is {dimensions:?}, and its values have `{}` bytes",
            values.len()
        ));
    }
    Ok((number, values))
}

/// Types of arrays that only samples specify, from this sample.
pub(super) fn array_types(
    columns: &Columns,
    sample: &[u8],
) -> Result<ArrayTypes, (Option<usize>, String)> {
    let sizes: Vec<_> = columns.iter().map(|column| column.encoding.size()).collect();
    let mut found = ArrayTypes::new();
    let mut dimensions = Vec::new();
    for_each_value(&sizes, sample, |number, value| {
        if let Some(column) = columns.get(number).filter(|column| is_array_of_unknown_shape(column))
        {
            let (number, _values) = take_array_apart(&column.encoding, value, &mut dimensions)?;
            found.insert(column.name.clone(), (number, dimensions.len()));
        }
        Ok(())
    })?;
    Ok(found)
}

pub(super) fn is_array_of_unknown_shape(column: &Column) -> bool {
    matches!(column.encoding, Encoding::NdArray { shape: None, .. })
}

/// The declared Arrow type of a column. In a data set without samples, arrays have one dimension.
pub(super) fn declared_field(column: &Column, types: &ArrayTypes) -> Field {
    let item = |data_type| Arc::new(Field::new_list_field(data_type, true));
    let data_type = match &column.encoding {
        Encoding::Int => DataType::Int64,
        Encoding::Number(number) => number.data_type(),
        Encoding::Str
        | Encoding::Json
        | Encoding::StrInt
        | Encoding::StrFloat
        | Encoding::StrDecimal => DataType::Utf8,
        Encoding::Bytes | Encoding::Pickle | Encoding::Pil | Encoding::Jpeg | Encoding::Png => {
            DataType::Binary
        }
        Encoding::JpegArray | Encoding::ListPil | Encoding::ListJpeg | Encoding::ListPng => {
            DataType::List(item(DataType::Binary))
        }
        Encoding::NdArray { number: Some(number), shape: Some(shape) } => {
            shape.iter().rev().fold(number.data_type(), |inner, dimension| {
                DataType::FixedSizeList(item(inner), i32::try_from(*dimension).unwrap_or(i32::MAX))
            })
        }
        Encoding::NdArray { number, .. } => {
            let (known, dimensions) =
                types.get(&column.name).copied().unwrap_or((Number::Float64, 1));
            (0..dimensions).fold(number.unwrap_or(known).data_type(), |inner, _dimension| {
                DataType::List(item(inner))
            })
        }
    };
    let metadata = [(ENCODING_KEY.to_owned(), column.encoding_name.clone())];
    Field::new(&column.name, data_type, false).with_metadata(metadata.into())
}
