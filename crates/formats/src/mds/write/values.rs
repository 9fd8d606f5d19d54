//! The values of one column of a batch, ready to be written to samples.

use super::arrays::{Arrays, number_bytes};
use super::way::{Way, is_text, unpacked, way};
use crate::json::{Dialect, Unwritable, ValueEncoder, write_float};
use crate::mds::encoding::Encoding;
use crate::mds::{Column, Error, json};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, LargeBinaryArray, types};
use arrow_buffer::Buffer;
use arrow_cast::{CastOptions, cast_with_options};
use arrow_schema::DataType;

#[derive(Debug)]
pub(super) struct Values<'a> {
    column: &'a Column,
    /// For nulls. Without a dictionary, whose values may be null as well.
    array: ArrayRef,
    form: Form,
}

#[derive(Debug)]
enum Form {
    Blobs { values: LargeBinaryArray, is_checked: bool },
    Numbers { bytes: Buffer, width: usize },
    Json(ValueEncoder),
    FloatText(ArrayRef),
    Arrays(Arrays),
    BlobLists { lists: ArrayRef, values: LargeBinaryArray, has_placeholder: bool },
}

impl<'a> Values<'a> {
    pub(super) fn new(column: &'a Column, array: &ArrayRef, first_row: u64) -> Result<Self, Error> {
        let unsupported = || Error::UnsupportedType {
            column: column.name.clone(),
            encoding: column.encoding_name.clone(),
            data_type: array.data_type().clone(),
        };
        let data_type = unpacked(array.data_type());
        let cast = |array: &ArrayRef, data_type: &DataType| {
            cast(array, data_type)
                .map_err(|(at, source)| failed(column, first_row + at as u64, source))
        };
        let flat = cast(array, data_type)?;
        let form = match way(&column.encoding, data_type).ok_or_else(unsupported)? {
            Way::Blobs => {
                // Text from a text column is known to be valid UTF-8.
                let is_checked = !(is_text(data_type) && column.encoding == Encoding::Str);
                Form::Blobs { values: blobs(&flat, &cast)?, is_checked }
            }
            Way::Numbers(number) => {
                let numbers = cast(&flat, &number.data_type())?;
                Form::Numbers {
                    bytes: number_bytes(numbers.as_ref(), number),
                    width: number.width(),
                }
            }
            Way::Json => Form::Json(
                ValueEncoder::new(&column.name, &flat, Dialect::Python)
                    .map_err(|_type| unsupported())?,
            ),
            Way::FloatText => Form::FloatText(cast(&flat, &DataType::Float64)?),
            Way::CastText => Form::Blobs {
                values: blobs(&cast(&flat, &DataType::LargeUtf8)?, &cast)?,
                is_checked: false,
            },
            Way::Arrays => {
                Form::Arrays(Arrays::new(&column.encoding, &flat, &cast)?.ok_or_else(unsupported)?)
            }
            Way::BlobLists { has_placeholder } => {
                let values = match data_type {
                    DataType::LargeList(_) => flat.as_list::<i64>().values(),
                    DataType::FixedSizeList(..) => flat.as_fixed_size_list().values(),
                    _ => flat.as_list::<i32>().values(),
                };
                Form::BlobLists {
                    values: blobs(values, &cast)?,
                    lists: ArrayRef::clone(&flat),
                    has_placeholder,
                }
            }
        };
        Ok(Self { column, array: flat, form })
    }

    /// `row` counts within the batch, `number` from the first row of the data set.
    pub(super) fn append(
        &self,
        row: usize,
        number: u64,
        samples: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let null = || Error::Null { column: self.column.name.clone(), row: number };
        let refused = |reason: String| Error::Value {
            column: self.column.name.clone(),
            row: number,
            encoding: self.column.encoding_name.clone(),
            reason,
        };
        if self.array.is_null(row) {
            return Err(null());
        }
        match &self.form {
            Form::Blobs { values, is_checked } => {
                let value = values.value(row);
                if *is_checked {
                    check(&self.column.encoding, value)
                        .map_err(|reason| refused(reason.to_owned()))?;
                }
                samples.extend_from_slice(value);
            }
            Form::Numbers { bytes, width } => samples
                .extend_from_slice(bytes.get(row * width..(row + 1) * width).unwrap_or_default()),
            Form::Json(values) => {
                values.write(row, number - row as u64, samples).map_err(|error| match error {
                    Unwritable::Value { reason, .. } => refused(reason),
                    other => refused(other.to_string()),
                })?;
            }
            Form::FloatText(array) => write_float(
                array.as_primitive::<types::Float64Type>().value(row),
                ["nan", "inf"],
                samples,
            ),
            Form::Arrays(arrays) => {
                if arrays.holds_null(row) {
                    return Err(null());
                }
                arrays.append(row, samples).map_err(refused)?;
            }
            Form::BlobLists { lists, values, has_placeholder } => {
                let (start, len) = list_range(lists.as_ref(), row);
                let word = |number: usize| {
                    u32::try_from(number).map_err(|_above| Error::ShardTooLarge {
                        row: number as u64,
                        bytes: number as u64,
                    })
                };
                if *has_placeholder {
                    samples.extend_from_slice(&[0; 4]);
                }
                samples.extend_from_slice(&word(len)?.to_le_bytes());
                for item in start..start + len {
                    if values.is_null(item) {
                        return Err(null());
                    }
                    samples.extend_from_slice(&word(values.value(item).len())?.to_le_bytes());
                }
                for item in start..start + len {
                    samples.extend_from_slice(values.value(item));
                }
            }
        }
        Ok(())
    }
}

fn list_range(lists: &dyn Array, row: usize) -> (usize, usize) {
    let range = |start: i64, len: i64| {
        (usize::try_from(start).unwrap_or(0), usize::try_from(len).unwrap_or(0))
    };
    match lists.data_type() {
        DataType::LargeList(_) => {
            let lists = lists.as_list::<i64>();
            range(lists.value_offsets().get(row).copied().unwrap_or(0), lists.value_length(row))
        }
        DataType::FixedSizeList(..) => {
            let lists = lists.as_fixed_size_list();
            range(i64::from(lists.value_offset(row)), i64::from(lists.value_length()))
        }
        _ => {
            let lists = lists.as_list::<i32>();
            range(
                i64::from(lists.value_offsets().get(row).copied().unwrap_or(0)),
                i64::from(lists.value_length(row)),
            )
        }
    }
}

fn failed(column: &Column, row: u64, source: arrow_schema::ArrowError) -> Error {
    Error::Cast { column: column.name.clone(), row, encoding: column.encoding_name.clone(), source }
}

/// Casts without changing a value, except for the precision of floats; otherwise returns the
/// position of the first that would change.
pub(super) fn cast(
    array: &ArrayRef,
    data_type: &DataType,
) -> Result<ArrayRef, (usize, arrow_schema::ArrowError)> {
    if array.data_type() == data_type {
        return Ok(std::sync::Arc::clone(array));
    }
    let options = |safe| CastOptions { safe, ..CastOptions::default() };
    cast_with_options(array, data_type, &options(false)).map_err(|source| {
        let lost = cast_with_options(array, data_type, &options(true));
        let first = lost.ok().and_then(|lost| {
            (0..array.len()).find(|row| lost.is_null(*row) && !array.is_null(*row))
        });
        (first.unwrap_or(0), source)
    })
}

fn blobs(
    array: &ArrayRef,
    cast: &dyn Fn(&ArrayRef, &DataType) -> Result<ArrayRef, Error>,
) -> Result<LargeBinaryArray, Error> {
    let array = match array.data_type() {
        DataType::FixedSizeBinary(_) => {
            cast(&cast(array, &DataType::Binary)?, &DataType::LargeBinary)?
        }
        DataType::Utf8View => cast(&cast(array, &DataType::LargeUtf8)?, &DataType::LargeBinary)?,
        DataType::BinaryView => {
            cast(&cast(array, &DataType::LargeBinary)?, &DataType::LargeBinary)?
        }
        _ => cast(array, &DataType::LargeBinary)?,
    };
    Ok(array.as_binary::<i64>().clone())
}

/// Whether bytes that are passed through can be a value of this encoding, as far as its readers
/// rely on it.
fn check(encoding: &Encoding, value: &[u8]) -> Result<(), &'static str> {
    let text = || std::str::from_utf8(value).map_err(|_invalid| "it is not UTF-8");
    let holds = |is_good: bool, reason| if is_good { Ok(()) } else { Err(reason) };
    match encoding {
        Encoding::Str => text().map(|_| ()),
        Encoding::Json => holds(json::is_json(text()?), "it is not JSON text"),
        Encoding::StrInt => {
            let text = text()?;
            let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
            holds(
                !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()),
                "it is not an integer",
            )
        }
        Encoding::StrFloat => holds(text()?.parse::<f64>().is_ok(), "it is not a number"),
        // Decimals have signalling NaNs as well.
        Encoding::StrDecimal => holds(
            text()?.trim_start_matches(['-', 's']).parse::<f64>().is_ok(),
            "it is not a number",
        ),
        _ => match encoding.size() {
            Some(size) => holds(value.len() == size, "its length is not that of the encoding"),
            None => Ok(()),
        },
    }
}
