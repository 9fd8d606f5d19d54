//! One CSV file as blocks of rows.

use super::borders::CsvBorders;
use super::column::column;
use super::header::{Header, read_header};
use super::kind::NullValues;
use super::parse::{Located, Parser, Wanted};
use super::rows::Reason;
use super::{CsvOptions, Error};
use crate::records::{BLOCK_BYTES, BadLines, KeptRows, MAX_RECORD_BYTES, Quarantine, Run, index, line_of, read_run};
use crate::table::{Block, TableError, TableFile};
use arrow_array::{RecordBatch, RecordBatchOptions, new_null_array};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder};
use arrow_schema::{Field, Schema, SchemaRef};
use shardmill_storage::RangeRead;
use std::collections::HashMap;
use std::sync::Arc;

/// Enough for nearly every header.
const HEADER_BYTES: u64 = 64 << 10;

/// A scanned file: its records are counted, none is parsed (unless bad lines are skipped).
#[derive(Debug)]
pub struct CsvFile {
    object: Arc<dyn RangeRead>,
    options: CsvOptions,
    nulls: NullValues,
    schema: SchemaRef,
    /// Of each column of the schema: its place in the records of this file.
    fields: Vec<Option<usize>>,
    width: usize,
    runs: Vec<Run>,
    /// Of each run: a bit for each record, where some are in quarantine.
    good: Vec<Option<BooleanBuffer>>,
    blocks: Vec<Block>,
    quarantine: Quarantine,
    digest: u128,
}

impl CsvFile {
    /// Scans `object` once. `schema` is that of the data set: a column that this file lacks is null, one that the schema lacks is not read. All columns
    /// may hold nulls, whatever the schema says.
    ///
    /// # Errors
    /// When the file cannot be read, its header is damaged, or `schema` has a column that CSV cannot hold.
    pub fn open(object: Arc<dyn RangeRead>, schema: &SchemaRef, options: CsvOptions) -> Result<Self, Error> {
        Self::open_with_blocks(object, schema, options, BLOCK_BYTES)
    }

    pub(super) fn open_with_blocks(object: Arc<dyn RangeRead>, schema: &SchemaRef, options: CsvOptions, block_bytes: u64) -> Result<Self, Error> {
        options.check()?;
        let nulls = NullValues::new(&options);
        for field in schema.fields() {
            if column(field.data_type(), &nulls, options.strings_can_be_null, 0).is_none() {
                return Err(Error::UnsupportedType { column: field.name().clone(), data_type: field.data_type().clone() });
            }
        }
        let header = read_header(object.as_ref(), &options, HEADER_BYTES)?.map(|(header, _)| header);
        let header = header.unwrap_or_else(|| Header { names: Vec::new(), data_start: object.size(), data_line: 1 });
        let places: HashMap<&str, usize> = header.names.iter().enumerate().map(|(place, name)| (name.as_str(), place)).collect();
        let fields: Vec<Option<usize>> = if options.header {
            schema.fields().iter().map(|field| places.get(field.name().as_str()).copied()).collect()
        } else {
            (0..schema.fields().len()).map(|place| (place < header.names.len()).then_some(place)).collect()
        };
        if !options.header && !header.names.is_empty() && header.names.len() != schema.fields().len() {
            let (path, found) = (object.path().to_owned(), header.names.len());
            return Err(Error::ColumnCount { path, found, expected: schema.fields().len() });
        }
        let mut borders = CsvBorders::new(&options, header.data_start, header.data_line);
        let index = index(object.as_ref(), header.data_start, &mut borders, block_bytes)?;
        index.longest.check(object.path(), options.limit)?;
        if let Some(run) = index.runs.iter().find(|run| run.len > MAX_RECORD_BYTES) {
            return Err(Error::RecordTooLong { path: object.path().to_owned(), line: run.first_line, len: run.len });
        }
        let nullable = schema.fields().iter().map(|field| Field::clone(field).with_nullable(true)).collect::<Vec<_>>();
        let mut file = Self {
            schema: Arc::new(Schema::new_with_metadata(nullable, schema.metadata().clone())),
            good: vec![None; index.runs.len()],
            width: header.names.len(),
            runs: index.runs,
            digest: index.digest,
            blocks: Vec::new(),
            quarantine: Quarantine::default(),
            object,
            options,
            nulls,
            fields,
        };
        if file.options.bad_lines == BadLines::Skip {
            file.find_bad_lines()?;
        }
        file.blocks = (0..file.runs.len()).filter_map(|block| file.block(block)).collect();
        Ok(file)
    }

    /// Records that were left out when the file was opened; empty unless bad lines are skipped.
    #[must_use]
    pub fn quarantine(&self) -> &Quarantine {
        &self.quarantine
    }

    fn block(&self, block: usize) -> Option<Block> {
        let run = self.runs.get(block)?;
        let bad = self.good.get(block)?.as_ref().map_or(0, |good| (good.len() - good.count_set_bits()) as u64);
        let all: Vec<usize> = (0..self.fields.len()).collect();
        Some(Block { rows: run.records - bad, decoded_bytes: self.decoded(run, &all), stored_bytes: run.len })
    }

    /// Strings take what they take in the file; what is quoted or short is of no account.
    fn decoded(&self, run: &Run, columns: &[usize]) -> u64 {
        let field_bytes = run.len / (self.width.max(1) as u64);
        let column_bytes = |column: &usize| match self.schema.fields().get(*column).and_then(|field| field.data_type().primitive_width()) {
            Some(width) => run.records.saturating_mul(width as u64),
            None => field_bytes.saturating_add(run.records.saturating_mul(4)),
        };
        columns.iter().map(column_bytes).fold(0, u64::saturating_add)
    }

    fn parser(&self) -> Parser<'_> {
        Parser { options: &self.options, nulls: &self.nulls, width: self.width }
    }

    /// Parses all of the file, all columns: which rows exist must not depend on the columns that are read.
    fn find_bad_lines(&mut self) -> Result<(), Error> {
        let schema = Arc::clone(&self.schema);
        let wanted = |(field, place): (&Arc<Field>, &Option<usize>)| place.map(|place| (place, field.data_type().clone()));
        let columns: Vec<_> = schema.fields().iter().zip(&self.fields).filter_map(wanted).collect();
        let mut quarantine = Quarantine::default();
        let mut kept = Vec::with_capacity(self.runs.len());
        for run in &self.runs {
            let bytes = read_run(self.object.as_ref(), run)?;
            let wanted: Vec<_> = columns.iter().map(|(field, data_type)| Wanted { field: *field, data_type }).collect();
            let mut bad: Vec<usize> = Vec::new();
            let mut judge = |located: Located<'_>| {
                if bad.last() != Some(&located.row) {
                    bad.push(located.row);
                    quarantine.add(line_of(&bytes, located.position, run.first_line), || {
                        self.error(located.fault.reason.clone(), &bytes, located.position, run).to_string()
                    });
                }
                Ok(())
            };
            let capacity = usize::try_from(run.records).unwrap_or_default();
            let parsed =
                self.parser().parse(&bytes, &wanted, capacity, &mut KeptRows::new(None, None), &mut judge, &|source| self.arrow(run, source))?;
            self.check_count(run, parsed.records)?;
            kept.push((!bad.is_empty()).then(|| {
                let mut good = BooleanBufferBuilder::new(capacity);
                good.append_n(capacity, true);
                bad.iter().for_each(|row| good.set_bit(*row, false));
                good.finish()
            }));
        }
        self.good = kept;
        self.quarantine = quarantine;
        Ok(())
    }

    fn check_count(&self, run: &Run, found: u64) -> Result<(), Error> {
        if found == run.records {
            return Ok(());
        }
        Err(Error::Changed { path: self.object.path().to_owned(), offset: run.offset, found, expected: run.records })
    }

    fn arrow(&self, run: &Run, source: arrow_schema::ArrowError) -> Error {
        Error::Arrow { path: self.object.path().to_owned(), offset: run.offset, source }
    }

    fn error(&self, reason: Reason, bytes: &[u8], position: usize, run: &Run) -> Error {
        let (path, line) = (self.object.path().to_owned(), line_of(bytes, position, run.first_line));
        let column = |place: usize| {
            let index = self.fields.iter().position(|field| *field == Some(place));
            index.and_then(|index| self.schema.fields().get(index)).map(|field| (field.name().clone(), field.data_type().clone()))
        };
        match reason {
            Reason::FieldCount { found } => Error::FieldCount { path, line, found, expected: self.width },
            Reason::UnclosedQuote => Error::UnclosedQuote { path, line },
            Reason::Value { field, text } => {
                let (column, data_type) = column(field).unwrap_or((String::new(), arrow_schema::DataType::Null));
                Error::Value { path, line, column, value: text, data_type }
            }
            Reason::InvalidUtf8 { field } => Error::InvalidUtf8 { path, line, column: column(field).map(|(name, _)| name).unwrap_or_default() },
        }
    }

    fn read_block(&self, block: usize, columns: &[usize], selection: Option<&BooleanBuffer>) -> Result<RecordBatch, Error> {
        let path = || self.object.path().to_owned();
        let (run, stated) = self.runs.get(block).zip(self.blocks.get(block)).ok_or_else(|| Error::NoSuchBlock { path: path(), index: block })?;
        let mut wanted = Vec::with_capacity(columns.len());
        for index in columns {
            let field = self.schema.fields().get(*index).ok_or_else(|| Error::NoSuchColumn { path: path(), index: *index })?;
            wanted.extend(self.fields.get(*index).copied().flatten().map(|place| Wanted { field: place, data_type: field.data_type() }));
        }
        let all = usize::try_from(stated.rows).unwrap_or_default();
        let rows = selection.map_or(all, BooleanBuffer::count_set_bits);
        let mut parsed = Vec::new().into_iter();
        if !wanted.is_empty() && rows > 0 {
            let bytes = read_run(self.object.as_ref(), run)?;
            let is_strict = self.options.bad_lines != BadLines::Null;
            let mut judge = |located: Located<'_>| {
                if is_strict { Err(self.error(located.fault.reason.clone(), &bytes, located.position, run)) } else { Ok(()) }
            };
            let mut kept = KeptRows::new(self.good.get(block).and_then(Option::as_ref), selection);
            let block = self.parser().parse(&bytes, &wanted, rows, &mut kept, &mut judge, &|source| self.arrow(run, source))?;
            self.check_count(run, block.records)?;
            self.check_rows(run, block.rows, rows)?;
            parsed = block.columns.into_iter();
        }
        let mut arrays = Vec::with_capacity(columns.len());
        for index in columns {
            let is_here = self.fields.get(*index).copied().flatten().is_some();
            let missing = || self.schema.fields().get(*index).map(|field| new_null_array(field.data_type(), rows));
            let array = if is_here { parsed.next().or_else(missing) } else { missing() };
            arrays.extend(array);
        }
        let schema = Arc::new(self.schema.project(columns).map_err(|source| self.arrow(run, source))?);
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(schema, arrays, &options).map_err(|source| self.arrow(run, source))
    }

    fn check_rows(&self, run: &Run, found: usize, expected: usize) -> Result<(), Error> {
        if found == expected {
            return Ok(());
        }
        let (found, expected) = (found as u64, expected as u64);
        Err(Error::Changed { path: self.object.path().to_owned(), offset: run.offset, found, expected })
    }
}

impl TableFile for CsvFile {
    fn path(&self) -> &str {
        self.object.path()
    }

    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    fn read(&self, block: usize, columns: &[usize], selection: Option<&BooleanBuffer>) -> Result<RecordBatch, TableError> {
        Ok(self.read_block(block, columns, selection)?)
    }

    fn decoded_bytes(&self, block: usize, columns: &[usize]) -> u64 {
        self.runs.get(block).map_or(0, |run| self.decoded(run, columns))
    }

    fn digest(&self) -> u128 {
        self.digest
    }
}
