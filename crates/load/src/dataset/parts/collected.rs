//! Columns of parts, and the parts of documents that are collected from them.

use crate::dataset::encoded::encoded_items;
use crate::dataset::part_sizes::RowImages;
use crate::images::list_items;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, ListArray};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType};
use shardmill_plan::schema::value_type;
use std::ops::Range;
use std::sync::Arc;

/// What a column has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Image,
}

impl Kind {
    fn of_one(data_type: &DataType) -> Option<Self> {
        match value_type(data_type) {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Some(Self::Text),
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Some(Self::Image),
            DataType::Struct(fields) if fields.find("bytes").is_some() => Some(Self::Image),
            _ => None,
        }
    }
}

/// A column of the file that has parts.
#[derive(Debug, Clone, Copy)]
pub(super) struct PartColumn {
    pub(super) number: usize,
    pub(super) kind: Kind,
    /// Whether a row has several parts in it.
    pub(super) is_list: bool,
}

impl PartColumn {
    pub(super) fn of(number: usize, data_type: &DataType) -> Option<Self> {
        let (kind, is_list) = match value_type(data_type) {
            DataType::List(item) => (Kind::of_one(item.data_type())?, true),
            other => (Kind::of_one(other)?, false),
        };
        Some(Self { number, kind, is_list })
    }
}

/// A column of parts: its values if they are read, and which of them belong to a row.
pub(super) struct Part {
    pub(super) kind: Kind,
    pub(super) is_list: bool,
    pub(super) values: Option<ArrayRef>,
    /// Of images, the files that are named in place of bytes.
    paths: Option<ArrayRef>,
    pub(super) lists: Option<ListArray>,
}

impl Part {
    pub(super) fn new(column: PartColumn, array: Option<&ArrayRef>) -> Result<Self, ArrowError> {
        let PartColumn { kind, is_list, .. } = column;
        let lists = array.and_then(|array| array.as_list_opt::<i32>().cloned());
        let items = lists.as_ref().map(ListArray::values).or(array);
        let (values, paths) = match (items, kind) {
            (None, _) => (None, None),
            (Some(items), Kind::Text) => (Some(cast(items, &DataType::Utf8View)?), None),
            (Some(items), Kind::Image) => {
                let images = encoded_items(items)?;
                (Some(Arc::clone(images.column(0))), Some(Arc::clone(images.column(1))))
            }
        };
        Ok(Self { kind, is_list, values, paths, lists })
    }

    /// Why a value is an image without bytes, if that is known.
    pub(super) fn error(&self, value: usize) -> Option<String> {
        let paths = self.paths.as_ref()?.as_string_view_opt()?;
        let is_null = self.values.as_ref().is_some_and(|values| values.is_null(value));
        let path = (is_null && paths.is_valid(value)).then(|| paths.value(value));
        path.map(|path| format!("its bytes are null, and the file {path:?} is not read"))
    }

    /// Places of the values of a row; `None` if they are not read.
    pub(super) fn values(&self, row: usize) -> Option<Range<usize>> {
        self.values.as_ref()?;
        match &self.lists {
            Some(lists) => Some(list_items(lists, row).unwrap_or_default()),
            None => Some(row..row + 1),
        }
    }
}

/// The place of a null among the values of parts.
pub(super) const NULL: (usize, usize) = (0, 0);

/// Parts of documents, in order.
#[derive(Default)]
pub(super) struct Collected {
    pub(super) kinds: Vec<Kind>,
    /// The column of the text or the image, from 1, and its place there, or [`NULL`].
    values: Vec<(usize, usize)>,
    /// Where the widths and heights of images are.
    pub(super) sizes: Vec<Option<[usize; 2]>>,
    pub(super) errors: Vec<Option<String>>,
}

impl Collected {
    pub(super) fn add_text(&mut self, value: (usize, usize)) {
        self.kinds.push(Kind::Text);
        self.values.push(value);
        self.sizes.push(None);
        self.errors.push(None);
    }

    /// Adds image `number` of a row.
    pub(super) fn add_image(
        &mut self,
        value: Option<(usize, usize)>,
        of_row: &RowImages,
        number: usize,
    ) {
        self.kinds.push(Kind::Image);
        self.values.push(value.unwrap_or(NULL));
        self.sizes.push(of_row.place(number));
        self.errors.push(of_row.reason.clone());
    }

    /// The places of the values of a kind.
    pub(super) fn of_kind(&self, kind: Kind) -> Vec<(usize, usize)> {
        let values = self.kinds.iter().zip(&self.values);
        values.map(|(own, value)| if *own == kind { *value } else { NULL }).collect()
    }
}
