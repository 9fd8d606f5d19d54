//! A text file as blocks of rows, independent of the format of its records.
//!
//! Combines a [`TextFormat`] and the result of [`index`](super::index) to a [`TableFile`]. The
//! invariant: which rows exist depends only on the bytes and the policy on bad lines, never on the
//! columns that are read.

use super::index::{Index, Run, read_run};
use super::{BadLines, Error, KeptRows, MAX_RECORD_BYTES, Quarantine};
use crate::limit::DecodeLimit;
use crate::table::{Block, NestedColumn, Projection, TableError, TableFile, column_field};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, new_null_array};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder};
use arrow_schema::{ArrowError, Field, FieldRef, Schema, SchemaRef};
use shardmill_storage::RangeRead;
use std::fmt::Debug;
use std::sync::{Arc, OnceLock};

/// The format-specific part: parses the bytes of a block to columns, and reports faults of records.
pub trait TextFormat: Debug + Send + Sync + Sized {
    /// Why a record is bad, without its position in the file.
    type Fault;

    fn bad_lines(&self) -> BadLines;

    fn limit(&self) -> DecodeLimit;

    /// Whether the file contains this column of its schema; otherwise it is null.
    fn is_stored(&self, column: usize) -> bool;

    /// Number of columns over which the bytes of a record are distributed.
    fn width(&self, schema: &Schema) -> usize;

    /// Parses the stored `columns` of the kept records. `judge` receives the faults in the order of
    /// the records; an error from it ends the parsing.
    ///
    /// # Errors
    /// Those of `judge` and `arrow`, which is called for inconsistent columns.
    fn parse(
        &self,
        block: &mut BlockText<'_>,
        judge: &mut Judge<'_, Self::Fault>,
        arrow: &dyn Fn(ArrowError) -> Error,
    ) -> Result<Parsed, Error>;

    /// The physical line at `position` of `bytes`, whose first byte is on `first_line`.
    fn line_of(bytes: &[u8], position: usize, first_line: u64) -> u64;

    fn error(&self, fault: Self::Fault, place: &Place<'_>) -> Error;

    /// Distinguishes options by which the same bytes are other rows. 0 for the default options.
    fn variant(&self) -> u128 {
        0
    }

    /// Whether the records after it are unknown, so that no policy can leave it out.
    fn is_fatal(_fault: &Self::Fault) -> bool {
        false
    }
}

/// Decides about one bad record.
pub(crate) type Judge<'a, F> = dyn FnMut(Located<F>) -> Result<(), Error> + 'a;

/// The records of a block, and which of them and of their columns are selected.
pub struct BlockText<'a> {
    pub(crate) bytes: &'a [u8],
    /// Of the file.
    pub(crate) schema: &'a Schema,
    /// Fields of the selected columns.
    pub(crate) fields: Vec<FieldRef>,
    /// For each selected column, its index in the schema of the file.
    pub(crate) columns: &'a [usize],
    pub(crate) kept: KeptRows<'a>,
    /// How many records are kept.
    pub(crate) rows: usize,
    pub(crate) is_lenient: bool,
}

/// The parsed content of a block.
#[derive(Debug)]
pub struct Parsed {
    /// In the requested order.
    pub(crate) columns: Vec<ArrayRef>,
    pub(crate) rows: usize,
    /// All records of the block, selected or not.
    pub(crate) records: u64,
}

/// A fault with the position of its record.
#[derive(Debug)]
pub struct Located<F> {
    pub(crate) fault: F,
    /// Position of the record in the block.
    pub(crate) position: usize,
    /// Index of the record among the selected ones.
    pub(crate) row: usize,
}

/// Position of a bad record.
#[derive(Debug)]
pub struct Place<'a> {
    pub(crate) path: String,
    pub(crate) line: u64,
    pub(crate) schema: &'a Schema,
    pub(crate) bytes: &'a [u8],
    /// Position of the record in `bytes`.
    pub(crate) position: usize,
    pub(crate) run: &'a Run,
}

/// A scanned file: its records are counted, but not parsed (unless bad lines are skipped).
#[derive(Debug)]
pub struct TextFile<F> {
    object: Arc<dyn RangeRead>,
    format: F,
    schema: SchemaRef,
    /// Filled when a nested column is first asked for.
    nested: OnceLock<Vec<NestedColumn>>,
    runs: Vec<Run>,
    /// For each run, a bit for each record, if some are in quarantine.
    good: Vec<Option<BooleanBuffer>>,
    blocks: Vec<Block>,
    quarantine: Quarantine,
    digest: u128,
}

impl<F> TextFile<F> {
    /// Records that were skipped when the file was opened; empty unless bad lines are skipped.
    #[must_use]
    pub fn quarantine(&self) -> &Quarantine {
        &self.quarantine
    }
}

impl<F: TextFormat> TextFile<F> {
    /// All columns are nullable, regardless of `schema`.
    pub(crate) fn new(
        object: Arc<dyn RangeRead>,
        schema: &Schema,
        format: F,
        index: Index,
    ) -> Result<Self, Error> {
        index.longest.check(object.path(), format.limit())?;
        if let Some(run) = index.runs.iter().find(|run| run.len > MAX_RECORD_BYTES) {
            return Err(Error::RecordTooLong {
                path: object.path().to_owned(),
                line: run.first_line,
                len: run.len,
            });
        }
        let nullable = schema
            .fields()
            .iter()
            .map(|field| Field::clone(field).with_nullable(true))
            .collect::<Vec<_>>();
        let mut file = Self {
            schema: Arc::new(Schema::new_with_metadata(nullable, schema.metadata().clone())),
            nested: OnceLock::new(),
            good: vec![None; index.runs.len()],
            runs: index.runs,
            digest: index.digest ^ format.variant(),
            blocks: Vec::new(),
            quarantine: Quarantine::default(),
            object,
            format,
        };
        if file.format.bad_lines() == BadLines::Skip {
            file.find_bad_lines()?;
        }
        file.blocks = file
            .runs
            .iter()
            .zip(&file.good)
            .map(|(run, good)| file.block(run, good.as_ref()))
            .collect();
        Ok(file)
    }

    fn block(&self, run: &Run, good: Option<&BooleanBuffer>) -> Block {
        let bad = good.map_or(0, |good| (good.len() - good.count_set_bits()) as u64);
        let all: Vec<usize> = (0..self.schema.fields().len()).collect();
        Block {
            rows: run.records - bad,
            decoded_bytes: self.decoded(run, &all),
            stored_bytes: run.len,
        }
    }

    /// Strings and lists take at most their size in the file; the distribution of a record's bytes
    /// over its columns is not known before it is parsed.
    fn decoded(&self, run: &Run, columns: &[usize]) -> u64 {
        let field_bytes = run.len / (self.format.width(&self.schema).max(1) as u64);
        let width = |column| {
            column_field(&self.schema, self.nested_of(columns), column)
                .and_then(|field| field.data_type().primitive_width())
        };
        let column_bytes = |column: &usize| match width(*column) {
            Some(width) => run.records.saturating_mul(width as u64),
            None => field_bytes.saturating_add(run.records.saturating_mul(4)),
        };
        columns.iter().map(column_bytes).fold(0, u64::saturating_add)
    }

    /// Parses all columns of the file: which rows exist must not depend on
    /// the columns that are read.
    fn find_bad_lines(&mut self) -> Result<(), Error> {
        let mut quarantine = Quarantine::default();
        let mut kept = Vec::with_capacity(self.runs.len());
        for run in &self.runs {
            let mut bad: Vec<usize> = Vec::new();
            self.parse_all(run, |bytes, located| {
                if F::is_fatal(&located.fault) {
                    return Err(self.error(located, bytes, run));
                }
                if bad.last() != Some(&located.row) {
                    bad.push(located.row);
                    let line = F::line_of(bytes, located.position, run.first_line);
                    quarantine.add(line, || self.error(located, bytes, run).to_string());
                }
                Ok(())
            })?;
            kept.push((!bad.is_empty()).then(|| {
                let len = usize::try_from(run.records).unwrap_or_default();
                let mut good = BooleanBufferBuilder::new(len);
                good.append_n(len, true);
                bad.iter().for_each(|row| good.set_bit(*row, false));
                good.finish()
            }));
        }
        self.good = kept;
        self.quarantine = quarantine;
        Ok(())
    }

    /// Returns the first bad record of the file as an error.
    pub(crate) fn check_records(&self) -> Result<(), Error> {
        self.runs.iter().try_for_each(|run| {
            self.parse_all(run, |bytes, located| Err(self.error(located, bytes, run)))
        })
    }

    /// Parses all records and columns of a run, to find faults.
    fn parse_all(
        &self,
        run: &Run,
        mut judge: impl FnMut(&[u8], Located<F::Fault>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let bytes = read_run(self.object.as_ref(), run)?;
        let columns: Vec<usize> = (0..self.schema.fields().len())
            .filter(|column| self.format.is_stored(*column))
            .collect();
        let rows = usize::try_from(run.records).unwrap_or_default();
        let (kept, is_lenient) = (KeptRows::new(None, None), false);
        let mut block = BlockText {
            bytes: &bytes,
            schema: &self.schema,
            fields: self.fields(&columns),
            columns: &columns,
            kept,
            rows,
            is_lenient,
        };
        let parsed =
            self.format.parse(&mut block, &mut |located| judge(&bytes, located), &|source| {
                self.arrow(run, source)
            })?;
        self.check_count(run, parsed.records, run.records)
    }

    /// Empty if none of `columns` is nested: most files are never asked for one.
    fn nested_of(&self, columns: &[usize]) -> &[NestedColumn] {
        let is_nested = columns.iter().any(|column| *column >= self.schema.fields().len());
        if is_nested { self.nested.get_or_init(|| NestedColumn::all(&self.schema)) } else { &[] }
    }

    fn fields(&self, columns: &[usize]) -> Vec<FieldRef> {
        columns
            .iter()
            .filter_map(|column| self.schema.fields().get(*column))
            .map(Arc::clone)
            .collect()
    }

    fn check_count(&self, run: &Run, found: u64, expected: u64) -> Result<(), Error> {
        if found == expected {
            return Ok(());
        }
        Err(Error::Changed {
            path: self.object.path().to_owned(),
            offset: run.offset,
            found,
            expected,
        })
    }

    fn arrow(&self, run: &Run, source: ArrowError) -> Error {
        Error::Arrow { path: self.object.path().to_owned(), offset: run.offset, source }
    }

    fn error(&self, located: Located<F::Fault>, bytes: &[u8], run: &Run) -> Error {
        let (position, line) =
            (located.position, F::line_of(bytes, located.position, run.first_line));
        self.format.error(
            located.fault,
            &Place {
                path: self.object.path().to_owned(),
                line,
                schema: &self.schema,
                bytes,
                position,
                run,
            },
        )
    }

    fn read_block(
        &self,
        block: usize,
        columns: &[usize],
        selection: Option<&BooleanBuffer>,
    ) -> Result<RecordBatch, Error> {
        let path = || self.object.path().to_owned();
        let (run, stated) = self
            .runs
            .get(block)
            .zip(self.blocks.get(block))
            .ok_or_else(|| Error::NoSuchBlock { path: path(), index: block })?;
        let nested = self.nested_of(columns);
        if let Some(index) =
            columns.iter().find(|index| **index >= self.schema.fields().len() + nested.len())
        {
            return Err(Error::NoSuchColumn { path: path(), index: *index });
        }
        let arrow = |source| self.arrow(run, source);
        let rows = selection.map_or_else(
            || usize::try_from(stated.rows).unwrap_or_default(),
            BooleanBuffer::count_set_bits,
        );
        // A column that is requested twice is parsed once.
        let projection = Projection::new(&self.schema, nested, columns);
        let roots = projection.roots();
        let distinct: Vec<usize> =
            roots.iter().copied().filter(|column| self.format.is_stored(*column)).collect();
        let mut parsed = Vec::new();
        if !distinct.is_empty() && rows > 0 {
            let bytes = read_run(self.object.as_ref(), run)?;
            let is_lenient = self.format.bad_lines() == BadLines::Null;
            let mut judge =
                |located: Located<F::Fault>| match is_lenient && !F::is_fatal(&located.fault) {
                    true => Ok(()),
                    false => Err(self.error(located, &bytes, run)),
                };
            let kept = KeptRows::new(self.good.get(block).and_then(Option::as_ref), selection);
            let fields = distinct.iter().filter_map(|root| projection.field(*root)).collect();
            let mut block = BlockText {
                bytes: &bytes,
                schema: &self.schema,
                fields,
                columns: &distinct,
                kept,
                rows,
                is_lenient,
            };
            let found = self.format.parse(&mut block, &mut judge, &arrow)?;
            self.check_count(run, found.records, run.records)?;
            self.check_count(run, found.rows as u64, rows as u64)?;
            parsed = found.columns;
        }
        let place = |root: &usize| {
            distinct.binary_search(root).ok().and_then(|place| parsed.get(place)).map(Arc::clone)
        };
        let array = |root: &usize| {
            place(root).or_else(|| {
                projection.field(*root).map(|field| new_null_array(field.data_type(), rows))
            })
        };
        let decoded: Vec<ArrayRef> = roots.iter().filter_map(array).collect();
        let arrays = projection.deliver(&roots, &decoded).map_err(arrow)?;
        let fields = columns
            .iter()
            .filter_map(|column| column_field(&self.schema, nested, *column))
            .cloned()
            .collect::<Vec<_>>();
        let schema = Arc::new(Schema::new_with_metadata(fields, self.schema.metadata().clone()));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(schema, arrays, &options).map_err(arrow)
    }
}

impl<F: TextFormat> TableFile for TextFile<F> {
    fn path(&self) -> &str {
        self.object.path()
    }

    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn nested(&self) -> &[NestedColumn] {
        self.nested.get_or_init(|| NestedColumn::all(&self.schema))
    }

    fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    fn read(
        &self,
        block: usize,
        columns: &[usize],
        selection: Option<&BooleanBuffer>,
    ) -> Result<RecordBatch, TableError> {
        Ok(self.read_block(block, columns, selection)?)
    }

    fn decoded_bytes(&self, block: usize, columns: &[usize]) -> u64 {
        self.runs.get(block).map_or(0, |run| self.decoded(run, columns))
    }

    fn digest(&self) -> u128 {
        self.digest
    }
}
