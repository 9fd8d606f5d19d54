//! Files of rows, as tables whose rows are documents too: columns of texts and images, such as an
//! image and its caption, are the parts of a document in a given order.
//!
//! The columns of [`super::documents`] follow those of the file. The invariant: a row has a part for
//! each value and each null of these columns, and for a list without texts, so that its last text is
//! of the last column of texts. If columns state the sizes of images, images are read for their bytes
//! alone; see [`super::part_sizes`].

mod collected;

use super::documents::{item, list_of};
use super::part_sizes::{RowImages, RowSizes, check_sides, list_name};
use crate::{Error, Result};
use arrow_array::{
    Array, ArrayRef, BinaryViewArray, ListArray, RecordBatch, RecordBatchOptions, StringArray,
    StringViewArray,
};
use arrow_buffer::{BooleanBuffer, OffsetBuffer};
use arrow_schema::{ArrowError, DataType, FieldRef, Schema, SchemaRef};
use arrow_select::interleave::interleave;
use collected::{Collected, Kind, NULL, Part, PartColumn};
use shardmill_documents::Modality;
use shardmill_formats::table::{
    Block, BlockPages, NestedColumn, Statistics, TableError, TableFile, type_name,
};
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

/// The place of the bytes of images among them.
const IMAGES: usize = 2;

#[derive(Debug, Clone)]
pub(super) struct PartTable {
    inner: Arc<dyn TableFile>,
    /// Columns of the file, in the order of parts.
    parts: Vec<PartColumn>,
    /// The columns of the file that state the widths and heights of images, if any do.
    sizes: Vec<usize>,
    schema: SchemaRef,
    declared: SchemaRef,
    nested: Vec<NestedColumn>,
}

impl PartTable {
    /// # Errors
    /// When the file lacks a column of `parts` or `sizes`, has a column named as one of parts, a
    /// part is neither a text nor an image, or a size is not an integer.
    pub(super) fn open(
        inner: Arc<dyn TableFile>,
        parts: &[String],
        sizes: &[String],
    ) -> Result<Self> {
        let wrong = |column: &str, reason: &'static str| Error::NotParts {
            path: inner.path().to_owned(),
            column: column.to_owned(),
            reason,
        };
        let own = inner.schema();
        if let Some((taken, _)) = LISTS.iter().find(|(name, _)| own.index_of(name).is_ok()) {
            return Err(wrong(taken, "has the name of a column of parts"));
        }
        let mut columns: Vec<PartColumn> = Vec::with_capacity(parts.len());
        for name in parts {
            let number = own.index_of(name).map_err(|_missing| wrong(name, "is missing"))?;
            let column = PartColumn::of(number, own.field(number).data_type());
            columns.push(column.ok_or_else(|| wrong(name, "is neither a text nor an image"))?);
        }
        let mut stated = Vec::with_capacity(sizes.len());
        for name in sizes {
            let found = own.index_of(name).ok();
            let data_type = found.map(|number| own.field(number).data_type());
            check_sides(inner.path(), name, data_type)?;
            stated.extend(found);
        }
        let mut lists = columns.iter().filter(|part| part.kind == Kind::Image && part.is_list);
        if let Some(second) = lists.nth(1).filter(|_| !sizes.is_empty()) {
            return Err(Error::NotSizes {
                path: inner.path().to_owned(),
                column: own.field(second.number).name().clone(),
                reason: "has lists of images, as another column of parts does",
            });
        }
        let with_lists = |schema: &Schema| {
            let lists = LISTS.map(|(name, data_type)| Arc::new(list_of(name, data_type)));
            let sizes =
                sizes.iter().map(|name| Arc::new(list_of(&list_name(name), DataType::Int64)));
            let fields = schema.fields().iter().cloned().chain(lists).chain(sizes);
            let fields: Vec<FieldRef> = fields.collect();
            Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
        };
        let (schema, declared) = (with_lists(own), with_lists(inner.declared_schema()));
        let nested = inner.nested().to_vec();
        Ok(Self { parts: columns, sizes: stated, schema, declared, nested, inner })
    }

    /// The images of messages.
    ///
    /// # Errors
    /// As [`Self::open`], and when the column has no images.
    pub(super) fn of_images(
        inner: Arc<dyn TableFile>,
        column: &str,
        sizes: &[String],
    ) -> Result<Self> {
        if let Ok(field) = inner.declared_schema().field_with_name(column)
            && PartColumn::of(0, field.data_type()).is_none_or(|part| part.kind != Kind::Image)
        {
            return Err(Error::NotImages {
                path: inner.path().to_owned(),
                column: column.to_owned(),
                data_type: type_name(field.data_type()),
            });
        }
        Self::open(inner, &[column.to_owned()], sizes)
    }

    /// The number of a column in the file, or the number of a list.
    fn place(&self, column: usize) -> std::result::Result<usize, usize> {
        let lists = LISTS.len() + self.sizes.len();
        let top = self.schema.fields().len() - lists;
        match column.checked_sub(top) {
            None => Ok(column),
            Some(list) if list < lists => Err(list),
            Some(_) => Ok(column - lists),
        }
    }

    /// The columns of the file that a list is made of.
    fn sources(&self, list: usize) -> Vec<usize> {
        let needs_images = list == IMAGES || self.sizes.is_empty();
        let is_needed = |part: &&PartColumn| part.kind == Kind::Text || needs_images;
        let parts = self.parts.iter().filter(is_needed).map(|part| part.number);
        parts.chain(self.sizes.iter().copied()).collect()
    }

    /// The columns of the file that are needed, each once.
    fn needed(&self, columns: &[usize]) -> Vec<usize> {
        let mut needed = Vec::with_capacity(columns.len());
        for column in columns {
            let own = self.place(*column).map_or_else(|list| self.sources(list), |own| vec![own]);
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
            let mut lists: Option<Vec<ArrayRef>> = None;
            let (mut fields, mut arrays): (Vec<FieldRef>, Vec<ArrayRef>) = Default::default();
            for column in columns {
                match self.place(*column) {
                    Ok(number) => {
                        let (field, array) = own(number).ok_or_else(missing)?;
                        fields.push(Arc::clone(field));
                        arrays.push(Arc::clone(array));
                    }
                    Err(list) => {
                        if lists.is_none() {
                            let array = |number: usize| own(number).map(|(_, array)| array);
                            lists = Some(self.lists(read.num_rows(), array)?);
                        }
                        let array = lists.as_ref().and_then(|lists| lists.get(list));
                        let array = array.ok_or_else(missing)?;
                        let field = self.schema.fields().get(*column).ok_or_else(missing)?;
                        let data_type = array.data_type().clone();
                        fields.push(Arc::new(field.as_ref().clone().with_data_type(data_type)));
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

impl PartTable {
    /// The columns of [`LISTS`], followed by those of sizes. `array` returns the columns of the file
    /// that are read.
    fn lists<'a>(
        &self,
        rows: usize,
        array: impl Fn(usize) -> Option<&'a ArrayRef>,
    ) -> std::result::Result<Vec<ArrayRef>, ArrowError> {
        let parts = self.parts.iter().map(|part| Part::new(*part, array(part.number)));
        let parts: Vec<Part> = parts.collect::<std::result::Result<_, _>>()?;
        let images = || parts.iter().filter(|part| part.kind == Kind::Image);
        let has_lists = images().any(|part| part.is_list);
        let single = images().filter(|part| !part.is_list).count();
        let sizes = match self.sizes.as_slice() {
            [width, height] => array(*width).zip(array(*height)),
            _ => None,
        };
        let sizes =
            sizes.map(|(width, height)| RowSizes::new([width, height], single)).transpose()?;
        let (mut all, mut ends) = (Collected::default(), vec![0]);
        for row in 0..rows {
            let stated = sizes.as_ref().map(|sizes| sizes.images(row, has_lists));
            let mut images = 0;
            for (number, part) in (1..).zip(&parts) {
                let own = part.values(row);
                match (part.kind, &stated) {
                    (Kind::Text, _) => {
                        let values = own.unwrap_or_default();
                        let missing = values.is_empty().then_some(NULL);
                        let values = values.map(|value| (number, value));
                        missing.into_iter().chain(values).for_each(|value| all.add_text(value));
                    }
                    (Kind::Image, None) => {
                        for at in own.unwrap_or_default() {
                            let unstated = RowImages::unknown(part.error(at));
                            all.add_image(Some((number, at)), &unstated, 0);
                        }
                    }
                    (Kind::Image, Some(stated)) => {
                        let count = if part.is_list { stated.listed } else { 1 };
                        let own_count = own.as_ref().map_or(count, Range::len);
                        let of_column = stated.of_column(own_count, count);
                        let found = own.as_ref().filter(|_| own_count == count);
                        for image in 0..count {
                            let at = found.map(|found| (number, found.start + image));
                            all.add_image(at, &of_column, images + image);
                        }
                        images += count;
                        // Images without a size are not passed over in silence.
                        let unstated = RowImages::unknown(of_column.reason);
                        let left = own.unwrap_or_default().skip(count);
                        left.for_each(|at| all.add_image(Some((number, at)), &unstated, 0));
                    }
                }
            }
            ends.push(i32::try_from(all.kinds.len()).map_err(|_| {
                ArrowError::ComputeError("a block has 2^31 parts of documents".to_owned())
            })?);
        }
        let names = all.kinds.iter().map(|kind| match kind {
            Kind::Text => Modality::Text.name().to_owned(),
            Kind::Image => Modality::Image.name().to_owned(),
        });
        let of_kind = |kind: Kind, null: ArrayRef| {
            let values = parts.iter().map(|part| match &part.values {
                Some(values) if part.kind == kind => values,
                _ => &null,
            });
            let mut arrays: Vec<&dyn Array> = vec![null.as_ref()];
            arrays.extend(values.map(|values| values.as_ref() as &dyn Array));
            interleave(&arrays, &all.of_kind(kind))
        };
        let mut items: Vec<ArrayRef> = vec![
            Arc::new(StringArray::from_iter_values(names)),
            of_kind(Kind::Text, Arc::new(StringViewArray::new_null(1)))?,
            of_kind(Kind::Image, Arc::new(BinaryViewArray::new_null(1)))?,
            Arc::new(StringViewArray::from_iter(&all.errors)),
        ];
        items.extend(sizes.map(|sizes| sizes.at(&all.sizes)).transpose()?.into_iter().flatten());
        let offsets = OffsetBuffer::new(ends.into());
        let list = |items: ArrayRef| -> std::result::Result<ArrayRef, ArrowError> {
            let item = item(items.data_type().clone());
            Ok(Arc::new(ListArray::try_new(item, offsets.clone(), items, None)?))
        };
        items.into_iter().map(list).collect()
    }
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
        let list = self.place(column).err()?;
        let own: Vec<usize> = match KINDS.get(list) {
            Some(kind) => {
                let has_kind = |part: &&PartColumn| kind.is_none_or(|own| own == part.kind);
                let is_any = !self.parts.iter().any(|part| has_kind(&part));
                let parts = self.parts.iter().filter(|part| is_any || has_kind(part));
                parts.map(|part| part.number).collect()
            }
            None => self.sizes.get(list - KINDS.len()).copied().into_iter().collect(),
        };
        let fields = own.iter().filter_map(|own| self.schema.fields().get(*own));
        let names: Vec<&str> = fields.map(|field| field.name().as_str()).collect();
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
