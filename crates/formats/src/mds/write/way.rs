//! Which types each encoding can hold, and how their values become its bytes.

use super::arrays::Arrays;
use crate::json::Dialect;
use crate::mds::Number;
use crate::mds::encoding::Encoding;
use arrow_cast::can_cast_types;
use arrow_schema::DataType;

/// Conversion of values of a type to bytes of an encoding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Way {
    /// Bytes or text that are passed through.
    Blobs,
    Numbers(Number),
    /// As written by `json.dumps`.
    Json,
    /// As `str` formats a float.
    FloatText,
    /// As formatted by the cast to text.
    CastText,
    /// Lists of numbers with this many levels.
    Arrays,
    BlobLists {
        has_placeholder: bool,
    },
}

/// Whether values of this type can be written with the encoding.
pub(in crate::mds) fn can_encode(encoding: &Encoding, data_type: &DataType) -> bool {
    way(encoding, unpacked(data_type)).is_some()
}

/// The value type of a dictionary.
pub(super) fn unpacked(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}

pub(super) fn is_blob(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_)
    )
}

pub(super) fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// Whether numbers of a type can be written as `wanted`: every value is checked, and fractions are
/// never lost.
pub(super) fn becomes(data_type: &DataType, wanted: Number) -> bool {
    let is_number = data_type.is_integer()
        || *data_type == DataType::Boolean
        || (data_type.is_floating() && wanted.is_float());
    is_number && can_cast_types(data_type, &wanted.data_type())
}

pub(super) fn way(encoding: &Encoding, data_type: &DataType) -> Option<Way> {
    if is_blob(data_type) {
        return Some(Way::Blobs);
    }
    let of_text = is_text(data_type);
    match encoding {
        Encoding::Str
        | Encoding::Json
        | Encoding::StrInt
        | Encoding::StrFloat
        | Encoding::StrDecimal
            if of_text =>
        {
            Some(Way::Blobs)
        }
        Encoding::Json => Dialect::Python.holds(data_type).then_some(Way::Json),
        Encoding::StrInt | Encoding::StrDecimal if data_type.is_integer() => Some(Way::Json),
        Encoding::StrFloat if data_type.is_floating() => Some(Way::FloatText),
        Encoding::StrDecimal if data_type.is_decimal() => Some(Way::CastText),
        Encoding::Int => (data_type.is_integer() || *data_type == DataType::Boolean)
            .then_some(Way::Numbers(Number::Int64)),
        Encoding::Number(number) => becomes(data_type, *number).then_some(Way::Numbers(*number)),
        Encoding::NdArray { number, shape } => {
            Arrays::fits(data_type, *number, shape.as_deref()).then_some(Way::Arrays)
        }
        Encoding::JpegArray => {
            is_blob(item_of(data_type)?).then_some(Way::BlobLists { has_placeholder: false })
        }
        Encoding::ListPil | Encoding::ListJpeg | Encoding::ListPng => {
            is_blob(item_of(data_type)?).then_some(Way::BlobLists { has_placeholder: true })
        }
        _ => None,
    }
}

fn item_of(data_type: &DataType) -> Option<&DataType> {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            Some(item.data_type())
        }
        _ => None,
    }
}
