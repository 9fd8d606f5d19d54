//! Files of interleaved rows, as tables whose rows are documents.
//!
//! A document belongs to the block in which it begins, and is read to its end. Its `sample_id` and
//! its passthrough values are columns; the other reserved columns are lists with one item for each
//! row of content, in the order of positions, and so are those that state sizes of images. The invariant: which rows are a document follows from
//! `sample_id` and `modality` alone, as in curation.

use crate::{Error, Result};
use arrow_array::cast::AsArray;
use arrow_array::types::Int32Type;
use arrow_array::{
    Array, ArrayRef, ListArray, RecordBatch, RecordBatchOptions, StringViewArray, UInt64Array,
    new_null_array,
};
use arrow_buffer::{BooleanBuffer, OffsetBuffer};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef};
use arrow_select::take::take;
use shardmill_documents::schema::{RESERVED, is_reserved, reserved_field};
use shardmill_documents::{Boundaries, Modality};
use shardmill_formats::table::{Block, NestedColumn, TableError, TableFile, values};
use shardmill_plan::schema::value_type;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_128;

/// What rows need to be parts of documents.
const NEEDED: [&str; 3] = ["sample_id", "position", "modality"];

/// The documents of a file.
#[derive(Debug)]
pub(super) struct DocumentTable {
    inner: Arc<dyn TableFile>,
    schema: SchemaRef,
    declared: SchemaRef,
    nested: Vec<NestedColumn>,
    sources: Vec<Source>,
    position: usize,
    modality: usize,
    blocks: Vec<Block>,
    /// First row of each block of the file, and the number of all rows.
    block_starts: Vec<u64>,
    /// First row of each document, ascending.
    starts: Vec<u64>,
}

/// How a column is made of those of the file.
#[derive(Debug, Clone)]
enum Source {
    /// The value in the first row of the document.
    First(usize),
    /// The value in its metadata row.
    Metadata(usize),
    /// The values in its rows of content.
    Content(usize),
    /// The same, null unless the row is an image: a side that the file states.
    Side(usize),
    /// Nulls for its rows of content: the file lacks the reserved column of this name.
    Missing(&'static str),
}

impl Source {
    fn own(&self) -> Option<usize> {
        match self {
            Self::First(own) | Self::Metadata(own) | Self::Content(own) | Self::Side(own) => {
                Some(*own)
            }
            Self::Missing(_) => None,
        }
    }
}

impl DocumentTable {
    /// Finds the documents of a file, for which two of its columns are read. The columns `sizes`
    /// state the widths and heights of images.
    ///
    /// # Errors
    /// When it lacks a column that documents have, a row has no id or modality, a column of `sizes`
    /// has no integers, and when it cannot be read.
    pub(super) fn open(inner: Arc<dyn TableFile>, sizes: &[String]) -> Result<Self> {
        let own = Arc::clone(inner.schema());
        let [id, position, modality] = NEEDED.map(|name| {
            own.index_of(name).map_err(|_missing| Error::NotDocuments {
                path: inner.path().to_owned(),
                column: name,
            })
        });
        let (id, position, modality) = (id?, position?, modality?);
        for name in sizes {
            let field = own.field_with_name(name).ok();
            check_side(inner.path(), name, field.map(|field| value_type(field.data_type())))?;
        }
        let mut sources = vec![Source::First(id)];
        let is_passthrough = |(_, field): &(usize, &FieldRef)| !is_reserved(field.name());
        let others = own.fields().iter().enumerate().filter(is_passthrough);
        sources.extend(others.map(|(number, field)| match sizes.contains(field.name()) {
            true => Source::Side(number),
            false => Source::Metadata(number),
        }));
        let lists = RESERVED.iter().filter(|name| **name != "sample_id" && **name != "position");
        sources.extend(
            lists.map(|name| own.index_of(name).map_or(Source::Missing(name), Source::Content)),
        );
        let of = |schema: &Schema| -> SchemaRef {
            let field = |source: &Source| match source {
                Source::First(number) => schema.field(*number).clone().with_nullable(false),
                Source::Metadata(number) => schema.field(*number).clone().with_nullable(true),
                // Lists are delivered as they are read.
                Source::Content(number) | Source::Side(number) => {
                    let own = own.field(*number);
                    list_of(own.name(), own.data_type().clone())
                }
                Source::Missing(name) => list_of(name, reserved_field(name).data_type().clone()),
            };
            let fields = sources.iter().map(field).collect::<Vec<_>>();
            Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
        };
        let (schema, declared) = (of(&own), of(inner.declared_schema()));
        let mut block_starts = vec![0];
        let mut rows = 0;
        for block in inner.blocks() {
            rows += block.rows;
            block_starts.push(rows);
        }
        let starts = starts_in(&*inner, id, modality)?;
        let nested = NestedColumn::all(&declared);
        let blocks = Vec::new();
        let mut table = Self {
            inner,
            schema,
            declared,
            nested,
            sources,
            position,
            modality,
            blocks,
            block_starts,
            starts,
        };
        let own = (0..).zip(table.inner.blocks());
        table.blocks = own
            .map(|(number, block)| match table.documents(number..number + 1).len() as u64 {
                0 => Block { rows: 0, decoded_bytes: 0, stored_bytes: 0 },
                rows => Block { rows, ..*block },
            })
            .collect();
        Ok(table)
    }

    /// The documents that begin in these blocks.
    fn documents(&self, blocks: Range<usize>) -> Range<usize> {
        let place = |block: usize| {
            let bound = self.block_starts.get(block).copied().unwrap_or(u64::MAX);
            self.starts.partition_point(|start| *start < bound)
        };
        place(blocks.start)..place(blocks.end)
    }

    /// The blocks of the file that rows are in.
    fn blocks_of(&self, rows: &Range<u64>) -> Range<usize> {
        let of_row = |row: u64| self.block_starts.partition_point(|start| *start <= row);
        of_row(rows.start).saturating_sub(1)..of_row(rows.end.saturating_sub(1))
    }

    fn rows(&self, documents: &Range<usize>) -> Range<u64> {
        let end = || self.block_starts.last().copied().unwrap_or_default();
        let start = |document: usize| self.starts.get(document).copied().unwrap_or_else(end);
        if documents.is_empty() { 0..0 } else { start(documents.start)..start(documents.end) }
    }

    /// The source of a column, and the fields inside of it that lead to the column.
    fn source(&self, column: usize) -> Option<(usize, &Source, Option<&NestedColumn>)> {
        let nested = column.checked_sub(self.sources.len()).map(|place| self.nested.get(place));
        let nested = match nested {
            Some(nested) => Some(nested?),
            None => None,
        };
        let root = nested.map_or(column, |nested| nested.root);
        Some((root, self.sources.get(root)?, nested))
    }

    fn read_documents(
        &self,
        documents: Range<usize>,
        columns: &[usize],
        selection: Option<&BooleanBuffer>,
    ) -> std::result::Result<RecordBatch, TableError> {
        let joined = |source| TableError::Join { path: self.path().to_owned(), source };
        let mut needed = vec![self.modality, self.position];
        let sources = columns.iter().filter_map(|column| self.source(*column));
        for own in sources.filter_map(|(_, source, _)| source.own()) {
            if !needed.contains(&own) {
                needed.push(own);
            }
        }
        let rows = self.rows(&documents);
        let blocks = self.blocks_of(&rows);
        let read = match blocks.len() {
            _ if rows.is_empty() => RecordBatch::new_empty(Arc::new(
                self.inner.schema().project(&needed).map_err(joined)?,
            )),
            1 => self.inner.read(blocks.start, &needed, None)?,
            _ => self.inner.read_run(blocks.clone(), &needed)?,
        };
        let first = self.block_starts.get(blocks.start).copied().unwrap_or_default();
        let read =
            read.slice(small(rows.start.saturating_sub(first)), small(rows.end - rows.start));
        let parts = self.parts(&read, &documents, selection)?;
        let count = parts.first.len();
        let mut fields: Vec<FieldRef> = Vec::with_capacity(columns.len());
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(columns.len());
        for (root, source, nested) in columns.iter().filter_map(|column| self.source(*column)) {
            let own = source.own().and_then(|own| needed.iter().position(|read| *read == own));
            let own = own.and_then(|place| read.columns().get(place));
            let array = parts.column(source, own).map_err(joined)?;
            let (array, field) = match nested {
                Some(nested) => (values(&array, &nested.steps).map_err(joined)?, &nested.field),
                None => match self.schema.fields().get(root) {
                    Some(field) => (array, field),
                    None => continue,
                },
            };
            let data_type = array.data_type().clone();
            fields.push(Arc::new(field.as_ref().clone().with_data_type(data_type)));
            arrays.push(array);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        RecordBatch::try_new_with_options(Arc::new(Schema::new(fields)), arrays, &options)
            .map_err(joined)
    }

    /// Which rows the selected documents consist of.
    fn parts(
        &self,
        read: &RecordBatch,
        documents: &Range<usize>,
        selection: Option<&BooleanBuffer>,
    ) -> std::result::Result<Parts, TableError> {
        let joined = |source| TableError::Join { path: self.path().to_owned(), source };
        let column = |place: usize, data_type: &DataType| match read.columns().get(place) {
            Some(array) => cast(array, data_type).map_err(joined),
            None => Ok(new_null_array(data_type, read.num_rows())),
        };
        let (modalities, positions) =
            (column(0, &DataType::Utf8View)?, column(1, &DataType::Int32)?);
        let (modalities, positions) =
            (modalities.as_string_view(), positions.as_primitive::<Int32Type>());
        let base = self.rows(documents).start;
        if let Some(row) = (0..positions.len()).find(|row| positions.is_null(*row)) {
            return Err(self.wrong_row(base + row as u64, "position"));
        }
        let (mut first, mut metadata) = (Vec::new(), Vec::new());
        let (mut content, mut ends) = (Vec::new(), vec![0]);
        for (number, document) in documents.clone().enumerate() {
            if selection.is_some_and(|selection| !selection.value(number)) {
                continue;
            }
            let rows = self.rows(&(document..document + 1));
            let start = small(rows.start - base);
            let is_content = |row: &usize| !is_metadata(modalities, *row);
            first.push(start as u64);
            metadata.push(Some(start as u64).filter(|_| !is_content(&start)));
            let before = content.len();
            content
                .extend((start..small(rows.end - base)).filter(is_content).map(|row| row as u64));
            // Of equal positions, the text comes first in the file.
            let of_document = content.get_mut(before..).unwrap_or_default();
            of_document.sort_by_key(|row| positions.value(small(*row)));
            let end = i32::try_from(content.len()).map_err(|_| {
                joined(ArrowError::ComputeError("a block has 2^31 rows of content".to_owned()))
            })?;
            ends.push(end);
        }
        let has_sides = self.sources.iter().any(|source| matches!(source, Source::Side(_)));
        let is_image = |row: &u64| is_of(modalities, small(*row), &Modality::Image);
        let images = content.iter().filter(|_| has_sides).map(|row| Some(*row).filter(is_image));
        let images = images.collect();
        Ok(Parts {
            first: first.into(),
            metadata: metadata.into(),
            content: content.into(),
            images,
            ends: OffsetBuffer::new(ends.into()),
        })
    }

    fn wrong_row(&self, row: u64, column: &'static str) -> TableError {
        wrong_row(&*self.inner, row, column)
    }
}

fn wrong_row(file: &dyn TableFile, row: u64, column: &'static str) -> TableError {
    TableError::NullPart { path: file.path().to_owned(), row, column }
}

/// # Errors
/// When a column that is to state a side of images has no integers; `None` if it is missing.
pub(super) fn check_side(path: &str, column: &str, data_type: Option<&DataType>) -> Result<()> {
    let reason = match data_type {
        None => "is missing",
        Some(data_type) if !data_type.is_integer() => "has no integers",
        Some(_) => return Ok(()),
    };
    Err(Error::NotSizes { path: path.to_owned(), column: column.to_owned(), reason })
}

fn is_metadata(modalities: &StringViewArray, row: usize) -> bool {
    is_of(modalities, row, &Modality::Metadata)
}

fn is_of(modalities: &StringViewArray, row: usize, modality: &Modality) -> bool {
    modalities.is_valid(row) && modalities.value(row) == modality.name()
}

/// First rows of all documents.
fn starts_in(inner: &dyn TableFile, id: usize, modality: usize) -> Result<Vec<u64>> {
    let mut boundaries = Boundaries::default();
    let (mut starts, mut row, mut failure) = (Vec::new(), 0, None);
    for run in inner.runs() {
        inner.scan(run, &[id, modality], &mut |batch| {
            let texts = batch.columns().iter().map(|array| cast(array, &DataType::Utf8View));
            let texts = match texts.collect::<std::result::Result<Vec<_>, _>>() {
                Ok(texts) => texts,
                Err(source) => {
                    let path = inner.path().to_owned();
                    failure = Some(TableError::Join { path, source });
                    return ControlFlow::Break(());
                }
            };
            let [ids, modalities] = texts.as_slice() else { return ControlFlow::Break(()) };
            let (ids, modalities) = (ids.as_string_view(), modalities.as_string_view());
            for place in 0..batch.num_rows() {
                for (texts, column) in [(ids, "sample_id"), (modalities, "modality")] {
                    if texts.is_null(place) {
                        failure = Some(wrong_row(inner, row, column));
                        return ControlFlow::Break(());
                    }
                }
                if boundaries.begins(Some(ids.value(place)), is_metadata(modalities, place)) {
                    starts.push(row);
                }
                row += 1;
            }
            ControlFlow::Continue(())
        })?;
        if let Some(failure) = failure {
            return Err(failure.into());
        }
    }
    starts.shrink_to_fit();
    Ok(starts)
}

/// Rows of documents, by their place in a batch.
#[derive(Debug)]
struct Parts {
    first: UInt64Array,
    metadata: UInt64Array,
    content: UInt64Array,
    /// The same, null unless the row is an image.
    images: UInt64Array,
    /// Rows of content up to the end of each document, after a zero.
    ends: OffsetBuffer<i32>,
}

impl Parts {
    fn column(
        &self,
        source: &Source,
        own: Option<&ArrayRef>,
    ) -> std::result::Result<ArrayRef, ArrowError> {
        let missing = || ArrowError::SchemaError("a column is missing".to_owned());
        let own = own.ok_or_else(missing);
        let items = match source {
            Source::First(_) => return take(own?, &self.first, None),
            Source::Metadata(_) => return take(own?, &self.metadata, None),
            Source::Content(_) => take(own?, &self.content, None)?,
            Source::Side(_) => take(own?, &self.images, None)?,
            Source::Missing(name) => {
                new_null_array(reserved_field(name).data_type(), self.content.len())
            }
        };
        let item = item(items.data_type().clone());
        Ok(Arc::new(ListArray::try_new(item, self.ends.clone(), items, None)?))
    }
}

/// Lists with an item for each part of a document.
pub(super) fn list_of(name: &str, data_type: DataType) -> Field {
    Field::new(name, DataType::List(item(data_type)), false)
}

pub(super) fn item(data_type: DataType) -> FieldRef {
    Arc::new(Field::new("item", data_type, true))
}

fn small(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

impl TableFile for DocumentTable {
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

    fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    fn read(
        &self,
        block: usize,
        columns: &[usize],
        selection: Option<&BooleanBuffer>,
    ) -> std::result::Result<RecordBatch, TableError> {
        self.read_documents(self.documents(block..block + 1), columns, selection)
    }

    fn read_run(
        &self,
        blocks: Range<usize>,
        columns: &[usize],
    ) -> std::result::Result<RecordBatch, TableError> {
        self.read_documents(self.documents(blocks), columns, None)
    }

    fn decoded_bytes(&self, block: usize, columns: &[usize]) -> u64 {
        let own: Vec<usize> =
            columns.iter().filter_map(|column| self.source(*column)?.1.own()).collect();
        let blocks = self.blocks_of(&self.rows(&self.documents(block..block + 1)));
        blocks.map(|block| self.inner.decoded_bytes(block, &own)).sum()
    }

    fn digest(&self) -> u128 {
        xxh3_128(&[&self.inner.digest().to_le_bytes()[..], b"documents"].concat())
    }
}
