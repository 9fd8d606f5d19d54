//! Values that are parsed from a column of texts.

use super::columns::Values;
use super::value::{Parse, UseParser, is_beyond, with_parser};
use arrow_array::ArrayRef;
use arrow_schema::{ArrowError, DataType};

/// The values that `texts` spell; `None` when values of `data_type` are not parsed one by one.
///
/// # Errors
/// `misfit` of the first row that the type cannot hold exactly.
pub fn parsed<'a, E: From<ArrowError>>(
    texts: impl ExactSizeIterator<Item = Option<&'a str>>,
    data_type: &DataType,
    misfit: impl FnOnce(usize) -> E,
) -> Option<Result<ArrayRef, E>> {
    with_parser(data_type, Texts { texts, data_type, misfit })
}

struct Texts<'t, I, M> {
    texts: I,
    data_type: &'t DataType,
    misfit: M,
}

impl<'a, I, M, E> UseParser for Texts<'_, I, M>
where
    I: ExactSizeIterator<Item = Option<&'a str>>,
    M: FnOnce(usize) -> E,
    E: From<ArrowError>,
{
    type Made = Result<ArrayRef, E>;

    fn with<P: Parse + 'static>(self, parser: P) -> Result<ArrayRef, E> {
        let mut values = Values::new(parser, self.data_type, self.texts.len());
        for (row, text) in self.texts.enumerate() {
            let Some(text) = text.map(str::as_bytes) else {
                values.push_null();
                continue;
            };
            if is_beyond(text, self.data_type) || !values.push_text(text) {
                return Err((self.misfit)(row));
            }
        }
        Ok(values.finish()?)
    }
}
