//! Columns of samples: the type of an extension, and its arrays.

use super::Error;
use super::content::{Content, integer};
use super::index::{Index, Part};
use super::key::KEY;
use super::payload::{Payload, Place};
use crate::json::json_fault;
use arrow_array::builder::make_view;
use arrow_array::{ArrayRef, BinaryViewArray, Int64Array, StringViewArray};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use std::ops::Range;
use std::sync::Arc;

/// Field metadata that names the decoding of a text for Python objects.
pub const DECODING: &str = "shardmill.decoding";

impl Content {
    fn field(self, name: &str, is_nullable: bool, has_views: bool) -> Field {
        let data_type = match (self, has_views) {
            (Self::Text | Self::Json, true) => DataType::Utf8View,
            (Self::Text | Self::Json, false) => DataType::Utf8,
            (Self::Integer, _) => DataType::Int64,
            (Self::Bytes, true) => DataType::BinaryView,
            (Self::Bytes, false) => DataType::Binary,
        };
        let field = Field::new(name, data_type, is_nullable);
        if self == Self::Json {
            field.with_metadata([(DECODING.to_owned(), "json".to_owned())].into())
        } else {
            field
        }
    }
}

/// The key, then extensions. `is_everywhere` states for each extension whether all samples have it.
pub(super) fn schema(extensions: &[String], is_everywhere: &[bool], has_views: bool) -> SchemaRef {
    let parts = extensions.iter().zip(is_everywhere).map(|(extension, everywhere)| {
        Content::of(extension).field(extension, !everywhere, has_views)
    });
    Arc::new(Schema::new(
        std::iter::once(Content::Text.field(KEY, false, has_views))
            .chain(parts)
            .collect::<Vec<_>>(),
    ))
}

/// A value to read, with its sample.
pub(super) type Cell = Option<(usize, Part, Place)>;

/// Builds arrays from the bytes read from a file.
pub(super) struct Arrays<'a> {
    pub(super) path: &'a str,
    pub(super) index: &'a Index,
    pub(super) payload: &'a Payload,
    pub(super) refuses_nan: bool,
}

impl Arrays<'_> {
    /// Keys of `samples`, which lie in `block`.
    pub(super) fn keys(&self, block: Range<usize>, samples: &[usize]) -> Result<ArrayRef, Error> {
        let start = self.index.key_range(block.start).start;
        let end = block
            .end
            .checked_sub(1)
            .map_or(start, |last| self.index.key_range(last).end)
            .max(start);
        let keys = self.index.keys().slice_with_length(start, end - start);
        let view = |sample: &usize| {
            let range = self.index.key_range(*sample);
            let text =
                keys.as_slice().get(range.start - start..range.end - start).unwrap_or_default();
            make_view(text, 0, u32::try_from(range.start - start).unwrap_or(u32::MAX))
        };
        let views: Vec<u128> = samples.iter().map(view).collect();
        Ok(Arc::new(
            StringViewArray::try_new(ScalarBuffer::from(views), vec![keys.clone()], None)
                .map_err(|source| self.arrow(source))?,
        ))
    }

    /// A column of one extension.
    pub(super) fn values(&self, content: Content, cells: &[Cell]) -> Result<ArrayRef, Error> {
        let nulls = NullBuffer::new(BooleanBuffer::from_iter(cells.iter().map(Option::is_some)));
        let nulls = (nulls.null_count() > 0).then_some(nulls);
        if content == Content::Integer {
            let values = cells
                .iter()
                .map(|cell| cell.as_ref().map_or(Ok(0), |cell| self.integer(cell)))
                .collect::<Result<Vec<i64>, Error>>()?;
            return Ok(Arc::new(
                Int64Array::try_new(ScalarBuffer::from(values), nulls)
                    .map_err(|source| self.arrow(source))?,
            ));
        }
        let is_text = matches!(content, Content::Text | Content::Json);
        let views = cells
            .iter()
            .map(|cell| cell.as_ref().map_or(Ok(0), |cell| self.view(cell, content)))
            .collect::<Result<Vec<u128>, Error>>()?;
        let (views, buffers): (_, Vec<Buffer>) =
            (ScalarBuffer::from(views), self.payload.buffers.clone());
        Ok(if is_text {
            Arc::new(
                StringViewArray::try_new(views, buffers, nulls)
                    .map_err(|source| self.arrow(source))?,
            )
        } else {
            Arc::new(
                BinaryViewArray::try_new(views, buffers, nulls)
                    .map_err(|source| self.arrow(source))?,
            )
        })
    }

    fn view(&self, cell: &(usize, Part, Place), content: Content) -> Result<u128, Error> {
        let (sample, part, place) = cell;
        let (bytes, buffer, start) = self.bytes(part, *place)?;
        if matches!(content, Content::Text | Content::Json) {
            let (path, member) = (|| self.path.to_owned(), || self.index.name(*sample, part));
            let text = std::str::from_utf8(bytes).map_err(|_other| Error::NotText {
                path: path(),
                member: member(),
                offset: part.offset,
            })?;
            if let Some(source) =
                (content == Content::Json).then(|| json_fault(text, !self.refuses_nan)).flatten()
            {
                return Err(Error::NotJson {
                    path: path(),
                    member: member(),
                    offset: part.offset,
                    source,
                });
            }
        }
        Ok(make_view(bytes, buffer, start))
    }

    fn integer(&self, cell: &(usize, Part, Place)) -> Result<i64, Error> {
        let (sample, part, place) = cell;
        let (bytes, _, _) = self.bytes(part, *place)?;
        integer(bytes).ok_or_else(|| Error::NotInteger {
            path: self.path.to_owned(),
            member: self.index.name(*sample, part),
            offset: part.offset,
            value: String::from_utf8_lossy(bytes.get(..bytes.len().min(40)).unwrap_or_default())
                .into_owned(),
        })
    }

    fn bytes(&self, part: &Part, place: Place) -> Result<(&[u8], u32, u32), Error> {
        let changed = || Error::Changed {
            path: self.path.to_owned(),
            offset: part.offset.saturating_add(part.size),
        };
        self.payload.get(place).ok_or_else(changed)
    }

    pub(super) fn arrow(&self, source: ArrowError) -> Error {
        Error::Arrow { path: self.path.to_owned(), source }
    }
}
