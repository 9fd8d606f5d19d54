//! Files of rows, as tables whose rows are documents too: columns of texts and images, such as an
//! image and its caption, are the parts of a document in a given order.
//!
//! The columns of [`super::documents`] follow those of the file. The invariant: a row has a part for
//! each value and each null of these columns, and for a list without texts, so that its last text is
//! of the last column of texts.

use super::documents::{item, list_of};
use super::encoded::encoded_items;
use crate::{Error, Result};
use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, BinaryViewArray, ListArray, RecordBatch, RecordBatchOptions, StringArray,
    StringViewArray,
};
use arrow_buffer::{BooleanBuffer, OffsetBuffer};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef};
use arrow_select::interleave::interleave;
use shardmill_documents::Modality;
use shardmill_formats::table::{
    Block, BlockPages, NestedColumn, Statistics, TableError, TableFile,
};
use shardmill_plan::schema::value_type;
use std::ops::Range;
use std::sync::Arc;

/// The columns of parts, each a list.
const LISTS: [(&str, DataType); 4] = [
    ("modality", DataType::Utf8),
    ("text_content", DataType::Utf8View),
    ("binary_content", DataType::BinaryView),
    ("materialize_error", DataType::Utf8View),
];

/// What the lists are made of, if not of all columns of parts.
const KINDS: [Option<Kind>; 4] = [None, Some(Kind::Text), Some(Kind::Image), Some(Kind::Image)];

#[derive(Debug, Clone)]
pub(super) struct PartTable {
    inner: Arc<dyn TableFile>,
    /// Columns of the file, in the order of parts.
    parts: Vec<usize>,
    schema: SchemaRef,
    declared: SchemaRef,
    nested: Vec<NestedColumn>,
}

impl PartTable {
    /// # Errors
    /// When the file lacks a column of `parts`, has a column named as one of parts, or a part is
    /// neither a text nor an image.
    pub(super) fn open(inner: Arc<dyn TableFile>, parts: &[String]) -> Result<Self> {
        let wrong = |column: &str, reason: &'static str| Error::NotParts {
            path: inner.path().to_owned(),
            column: column.to_owned(),
            reason,
        };
        let own = inner.schema();
        if let Some((taken, _)) = LISTS.iter().find(|(name, _)| own.index_of(name).is_ok()) {
            return Err(wrong(taken, "has the name of a column of parts"));
        }
        let mut numbers = Vec::with_capacity(parts.len());
        for name in parts {
            let number = own.index_of(name).map_err(|_missing| wrong(name, "is missing"))?;
            if Kind::of(own.field(number).data_type()).is_none() {
                return Err(wrong(name, "is neither a text nor an image"));
            }
            numbers.push(number);
        }
        let with_lists = |schema: &Schema| {
            let lists = LISTS.map(|(name, data_type)| Arc::new(list_of(name, data_type)));
            let fields: Vec<FieldRef> = schema.fields().iter().cloned().chain(lists).collect();
            Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
        };
        let (schema, declared) = (with_lists(own), with_lists(inner.declared_schema()));
        let nested = inner.nested().to_vec();
        Ok(Self { parts: numbers, schema, declared, nested, inner })
    }

    /// The number of a column in the file, or the number of a list.
    fn place(&self, column: usize) -> std::result::Result<usize, usize> {
        let top = self.schema.fields().len() - LISTS.len();
        match column.checked_sub(top) {
            None => Ok(column),
            Some(list) if list < LISTS.len() => Err(list),
            Some(_) => Ok(column - LISTS.len()),
        }
    }

    /// The columns of the file that are needed, each once.
    fn needed(&self, columns: &[usize]) -> Vec<usize> {
        let mut needed = Vec::with_capacity(columns.len());
        for column in columns {
            let own = self.place(*column).map_or_else(|_list| self.parts.clone(), |own| vec![own]);
            for own in own {
                if !needed.contains(&own) {
                    needed.push(own);
                }
            }
        }
        needed
    }

    fn delivered(
        &self,
        read: &RecordBatch,
        needed: &[usize],
        columns: &[usize],
    ) -> std::result::Result<RecordBatch, TableError> {
        let own = |number: usize| {
            needed.iter().position(|read| *read == number).and_then(|place| {
                Some((read.schema_ref().fields().get(place)?, read.columns().get(place)?))
            })
        };
        let missing = || ArrowError::SchemaError("a column is missing".to_owned());
        let made = || -> std::result::Result<RecordBatch, ArrowError> {
            let mut lists: Option<[ArrayRef; 4]> = None;
            let (mut fields, mut arrays): (Vec<FieldRef>, Vec<ArrayRef>) = Default::default();
            for column in columns {
                match self.place(*column) {
                    Ok(number) => {
                        let (field, array) = own(number).ok_or_else(missing)?;
                        fields.push(Arc::clone(field));
                        arrays.push(Arc::clone(array));
                    }
                    Err(list) => {
                        let parts = self.parts.iter().filter_map(|number| Some(own(*number)?.1));
                        if lists.is_none() {
                            lists = Some(lists_of(&parts.collect::<Vec<_>>(), read.num_rows())?);
                        }
                        let array = lists.as_ref().and_then(|lists| lists.get(list));
                        let array = array.ok_or_else(missing)?;
                        let name = LISTS.get(list).map_or("", |(name, _)| *name);
                        fields.push(Arc::new(Field::new(name, array.data_type().clone(), false)));
                        arrays.push(Arc::clone(array));
                    }
                }
            }
            let options = RecordBatchOptions::new().with_row_count(Some(read.num_rows()));
            RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
        };
        made().map_err(|source| TableError::Join { path: self.path().to_owned(), source })
    }
}

/// What a column has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Image,
}

impl Kind {
    /// Of a column, or of the items of its lists.
    fn of(data_type: &DataType) -> Option<Self> {
        match value_type(data_type) {
            DataType::List(item) => Self::of_one(item.data_type()),
            other => Self::of_one(other),
        }
    }

    fn of_one(data_type: &DataType) -> Option<Self> {
        match value_type(data_type) {
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Some(Self::Text),
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Some(Self::Image),
            DataType::Struct(fields) if fields.find("bytes").is_some() => Some(Self::Image),
            _ => None,
        }
    }
}

/// A column of parts: its values, and which of them belong to a row.
struct Part {
    kind: Kind,
    values: ArrayRef,
    /// Of images, the files that are named in place of bytes.
    paths: Option<ArrayRef>,
    lists: Option<ListArray>,
}

impl Part {
    fn new(column: &ArrayRef) -> std::result::Result<Option<Self>, ArrowError> {
        let lists = column.as_list_opt::<i32>().cloned();
        let items = lists.as_ref().map_or(column, |lists| lists.values());
        let Some(kind) = Kind::of_one(items.data_type()) else { return Ok(None) };
        let (values, paths) = match kind {
            Kind::Text => (cast(items, &DataType::Utf8View)?, None),
            Kind::Image => {
                let images = encoded_items(items)?;
                (Arc::clone(images.column(0)), Some(Arc::clone(images.column(1))))
            }
        };
        Ok(Some(Self { kind, values, paths, lists }))
    }

    /// Why a value is an image without bytes, if that is known.
    fn error(&self, value: usize) -> Option<String> {
        let paths = self.paths.as_ref()?.as_string_view_opt()?;
        let path =
            (self.values.is_null(value) && paths.is_valid(value)).then(|| paths.value(value));
        path.map(|path| format!("its bytes are null, and the file {path:?} is not read"))
    }

    fn values(&self, row: usize) -> Range<usize> {
        let Some(lists) = &self.lists else { return row..row + 1 };
        let bound = |place: usize| {
            let offset = lists.value_offsets().get(place).copied().unwrap_or_default();
            usize::try_from(offset).unwrap_or_default()
        };
        if lists.is_null(row) { 0..0 } else { bound(row)..bound(row + 1) }
    }

    /// The places of the parts of a row in the arrays of [`lists_of`], in which this column is
    /// array `number`, and the first one has a null.
    fn places(&self, row: usize, number: usize) -> impl Iterator<Item = (usize, usize)> {
        let values = self.values(row);
        let missing = (values.is_empty() && self.kind == Kind::Text).then_some(NULL);
        missing.into_iter().chain(values.map(move |value| (number, value)))
    }
}

/// The place of a null in the arrays of [`lists_of`].
const NULL: (usize, usize) = (0, 0);

/// The columns of [`LISTS`].
fn lists_of(columns: &[&ArrayRef], rows: usize) -> std::result::Result<[ArrayRef; 4], ArrowError> {
    let parts = columns.iter().map(|column| Part::new(column));
    let parts: Vec<Part> =
        parts.collect::<std::result::Result<Vec<_>, _>>()?.into_iter().flatten().collect();
    let mut ends = vec![0];
    let (mut modalities, mut texts, mut images) = (Vec::new(), Vec::new(), Vec::new());
    let mut errors = Vec::new();
    for row in 0..rows {
        for (number, part) in (1..).zip(&parts) {
            for place in part.places(row, number) {
                let is_text = part.kind == Kind::Text;
                texts.push(if is_text { place } else { NULL });
                images.push(if is_text { NULL } else { place });
                errors.push(if is_text { None } else { part.error(place.1) });
                modalities.push(part.kind);
            }
        }
        ends.push(i32::try_from(modalities.len()).map_err(|_| {
            ArrowError::ComputeError("a block has 2^31 parts of documents".to_owned())
        })?);
    }
    let names = modalities.iter().map(|kind| match kind {
        Kind::Text => Modality::Text.name().to_owned(),
        Kind::Image => Modality::Image.name().to_owned(),
    });
    let of_kind = |kind: Kind, null: ArrayRef, chosen: &[(usize, usize)]| {
        let values = parts.iter().map(|part| if part.kind == kind { &part.values } else { &null });
        let mut arrays: Vec<&dyn Array> = vec![null.as_ref()];
        arrays.extend(values.map(|values| values.as_ref() as &dyn Array));
        interleave(&arrays, chosen)
    };
    let offsets = OffsetBuffer::new(ends.into());
    let list = |items: ArrayRef| -> std::result::Result<ArrayRef, ArrowError> {
        let item = item(items.data_type().clone());
        Ok(Arc::new(ListArray::try_new(item, offsets.clone(), items, None)?))
    };
    Ok([
        list(Arc::new(StringArray::from_iter_values(names)))?,
        list(of_kind(Kind::Text, Arc::new(StringViewArray::new_null(1)), &texts)?)?,
        list(of_kind(Kind::Image, Arc::new(BinaryViewArray::new_null(1)), &images)?)?,
        list(Arc::new(StringViewArray::from_iter(errors)))?,
    ])
}

impl TableFile for PartTable {
    fn path(&self) -> &str {
        self.inner.path()
    }

    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn declared_schema(&self) -> &SchemaRef {
        &self.declared
    }

    fn nested(&self) -> &[NestedColumn] {
        &self.nested
    }

    fn is_virtual(&self, column: usize) -> bool {
        self.place(column).is_ok_and(|own| self.inner.is_virtual(own))
    }

    fn made_of(&self, column: usize) -> Option<String> {
        let kind = KINDS.get(self.place(column).err()?)?;
        let fields = self.parts.iter().filter_map(|own| self.schema.fields().get(*own));
        let is_own = |field: &&FieldRef| kind.is_none() || Kind::of(field.data_type()) == *kind;
        let names: Vec<&str> = fields.filter(is_own).map(|field| field.name().as_str()).collect();
        Some(names.join("`, `")).filter(|names| !names.is_empty())
    }

    fn blocks(&self) -> &[Block] {
        self.inner.blocks()
    }

    fn read(
        &self,
        block: usize,
        columns: &[usize],
        selection: Option<&BooleanBuffer>,
    ) -> std::result::Result<RecordBatch, TableError> {
        let needed = self.needed(columns);
        self.delivered(&self.inner.read(block, &needed, selection)?, &needed, columns)
    }

    fn heads(&self, bytes: u64) -> Option<Arc<dyn TableFile>> {
        Some(Arc::new(Self { inner: self.inner.heads(bytes)?, ..self.clone() }))
    }

    fn read_run(
        &self,
        blocks: Range<usize>,
        columns: &[usize],
    ) -> std::result::Result<RecordBatch, TableError> {
        let needed = self.needed(columns);
        self.delivered(&self.inner.read_run(blocks, &needed)?, &needed, columns)
    }

    fn runs(&self) -> Vec<Range<usize>> {
        self.inner.runs()
    }

    fn decoded_bytes(&self, block: usize, columns: &[usize]) -> u64 {
        self.inner.decoded_bytes(block, &self.needed(columns))
    }

    fn statistics(&self, column: usize) -> Option<Statistics> {
        self.inner.statistics(self.place(column).ok()?)
    }

    fn list_length(&self, column: usize) -> Option<u64> {
        self.inner.list_length(self.place(column).ok()?)
    }

    fn page_statistics(
        &self,
        block: usize,
        column: usize,
    ) -> std::result::Result<Option<BlockPages>, TableError> {
        self.place(column).map_or(Ok(None), |own| self.inner.page_statistics(block, own))
    }

    fn may_contain(
        &self,
        block: usize,
        column: usize,
        values: &ArrayRef,
    ) -> std::result::Result<bool, TableError> {
        self.place(column).map_or(Ok(true), |own| self.inner.may_contain(block, own, values))
    }

    fn digest(&self) -> u128 {
        self.inner.digest()
    }
}
