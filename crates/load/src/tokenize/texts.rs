//! The texts of a column.

use super::fault::InvalidBytes;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, BinaryViewArray, StringViewArray};
use arrow_cast::cast;
use arrow_schema::DataType;
use shardmill_plan::schema::value_type;
use std::borrow::Cow;
use std::sync::Arc;

/// Strings, or bytes that should be UTF-8.
pub(super) enum Texts {
    Strings(StringViewArray),
    Bytes(BinaryViewArray, InvalidBytes),
}

impl Texts {
    /// Whether a column of this type has texts.
    pub(super) fn is_text(data_type: &DataType) -> bool {
        match data_type {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
            DataType::Binary
            | DataType::LargeBinary
            | DataType::BinaryView
            | DataType::FixedSizeBinary(_) => true,
            // A column of nulls alone.
            DataType::Null => true,
            DataType::Dictionary(_, value) => Self::is_text(value),
            _ => false,
        }
    }

    /// Texts of an array whose type [`Texts::is_text`]. Dictionaries are unpacked to views
    /// of their values.
    pub(super) fn of(array: &ArrayRef, invalid: InvalidBytes) -> Result<Self, String> {
        let view = |wanted: &DataType| match array.data_type() == wanted {
            true => Ok(Arc::clone(array)),
            false => cast(array, wanted).map_err(|error| error.to_string()),
        };
        match value_type(array.data_type()) {
            DataType::Null => Ok(Self::Strings(StringViewArray::new_null(array.len()))),
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => {
                Ok(Self::Strings(view(&DataType::Utf8View)?.as_string_view().clone()))
            }
            _ => Ok(Self::Bytes(view(&DataType::BinaryView)?.as_binary_view().clone(), invalid)),
        }
    }

    /// The text of a row, `None` if it is null.
    pub(super) fn get(&self, row: usize) -> Result<Option<Cow<'_, str>>, InvalidAt> {
        match self {
            Self::Strings(texts) => {
                Ok(texts.is_valid(row).then(|| Cow::Borrowed(texts.value(row))))
            }
            Self::Bytes(texts, _) if texts.is_null(row) => Ok(None),
            Self::Bytes(texts, InvalidBytes::Replace) => {
                Ok(Some(String::from_utf8_lossy(texts.value(row))))
            }
            Self::Bytes(texts, InvalidBytes::Raise) => {
                match std::str::from_utf8(texts.value(row)) {
                    Ok(text) => Ok(Some(Cow::Borrowed(text))),
                    Err(error) => Err(InvalidAt(error.valid_up_to())),
                }
            }
        }
    }
}

/// Offset of the first byte that is not UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InvalidAt(pub(super) usize);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_not_utf8_are_replaced_or_located() {
        let array: ArrayRef = Arc::new(BinaryViewArray::from(vec![Some(&b"ab\xffc"[..]), None]));
        let replaced = Texts::of(&array, InvalidBytes::Replace).unwrap();
        assert_eq!(replaced.get(0).unwrap().unwrap(), "ab\u{fffd}c");
        assert_eq!(replaced.get(1).unwrap(), None);
        assert_eq!(Texts::of(&array, InvalidBytes::Raise).unwrap().get(0), Err(InvalidAt(2)));
    }

    #[test]
    fn column_of_nulls_alone_has_null_texts() {
        let array: ArrayRef = Arc::new(arrow_array::NullArray::new(2));
        assert!(Texts::is_text(array.data_type()));
        assert_eq!(Texts::of(&array, InvalidBytes::Raise).unwrap().get(1), Ok(None));
    }
}
