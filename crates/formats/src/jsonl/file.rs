//! One file of JSON Lines, or of one array of objects, as blocks of rows.

use super::borders::{ElementBorders, LineBorders};
use super::column::Column;
use super::fault::Fault;
use super::nested::Structs;
use super::parse::{Located, parse};
use super::records::{Broken, Shape};
use super::{Error, JsonlOptions};
use crate::records::{BLOCK_BYTES, BYTE_ORDER_MARK, BadLines, KeptRows, MAX_RECORD_BYTES, Quarantine, Run, index, read_run, read_start};
use crate::table::{Block, TableError, TableFile};
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_buffer::{BooleanBuffer, BooleanBufferBuilder};
use arrow_schema::{ArrowError, Field, Schema, SchemaRef};
use shardmill_storage::RangeRead;
use std::sync::Arc;

/// The first bytes of a file tell how its objects are written, unless they are blank.
const SHAPE_BYTES: u64 = 256;

/// A scanned file: its lines are counted, none is parsed (unless bad lines are skipped).
#[derive(Debug)]
pub struct JsonlFile {
    object: Arc<dyn RangeRead>,
    options: JsonlOptions,
    shape: Shape,
    schema: SchemaRef,
    runs: Vec<Run>,
    /// Of each run: a bit for each line that is not blank, where some are in quarantine.
    good: Vec<Option<BooleanBuffer>>,
    blocks: Vec<Block>,
    quarantine: Quarantine,
    digest: u128,
}

impl JsonlFile {
    /// Scans `object` once. `schema` is that of the data set; all of its columns may hold nulls, whatever it says.
    ///
    /// # Errors
    /// When the file cannot be read, or `schema` has a column that JSON Lines cannot hold.
    pub fn open(object: Arc<dyn RangeRead>, schema: &SchemaRef, options: JsonlOptions) -> Result<Self, Error> {
        Self::open_with_blocks(object, schema, options, BLOCK_BYTES)
    }

    pub(super) fn open_with_blocks(object: Arc<dyn RangeRead>, schema: &SchemaRef, options: JsonlOptions, block_bytes: u64) -> Result<Self, Error> {
        for field in schema.fields() {
            if Column::new(field.data_type()).is_none() {
                return Err(Error::UnsupportedType { field: field.name().clone(), data_type: field.data_type().clone() });
            }
        }
        let start = read_start(object.as_ref(), BYTE_ORDER_MARK.len() as u64)?.mark_len;
        let shape = shape_of(object.as_ref())?;
        let index = match shape {
            Shape::Lines => index(object.as_ref(), start, &mut LineBorders::new(start), block_bytes)?,
            Shape::Array => {
                let mut borders = ElementBorders::new();
                let index = index(object.as_ref(), start, &mut borders, block_bytes)?;
                if let Some(Broken { offset, line, expected }) = borders.broken {
                    return Err(Error::Array { path: object.path().to_owned(), line, offset, expected });
                }
                index
            }
        };
        index.longest.check(object.path(), options.limit)?;
        if let Some(run) = index.runs.iter().find(|run| run.len > MAX_RECORD_BYTES) {
            return Err(Error::LineTooLong { path: object.path().to_owned(), line: run.first_line, len: run.len });
        }
        let nullable = schema.fields().iter().map(|field| Field::clone(field).with_nullable(true)).collect::<Vec<_>>();
        let mut file = Self {
            schema: Arc::new(Schema::new_with_metadata(nullable, schema.metadata().clone())),
            good: vec![None; index.runs.len()],
            runs: index.runs,
            digest: index.digest,
            blocks: Vec::new(),
            quarantine: Quarantine::default(),
            object,
            options,
            shape,
        };
        if file.options.bad_lines == BadLines::Skip {
            file.find_bad_lines()?;
        } else if file.schema.fields().is_empty() {
            file.check_objects()?;
        }
        file.blocks = file.runs.iter().zip(&file.good).map(|(run, good)| file.block(run, good.as_ref())).collect();
        Ok(file)
    }

    /// Lines that were left out when the file was opened; empty unless bad lines are skipped.
    #[must_use]
    pub fn quarantine(&self) -> &Quarantine {
        &self.quarantine
    }

    fn block(&self, run: &Run, good: Option<&BooleanBuffer>) -> Block {
        let bad = good.map_or(0, |good| (good.len() - good.count_set_bits()) as u64);
        let all: Vec<usize> = (0..self.schema.fields().len()).collect();
        Block { rows: run.records - bad, decoded_bytes: self.decoded(run, &all), stored_bytes: run.len }
    }

    /// Texts and lists take at most what they take in the file; how the bytes of a line fall to its fields is not known before it is parsed.
    fn decoded(&self, run: &Run, columns: &[usize]) -> u64 {
        let field_bytes = run.len / (self.schema.fields().len().max(1) as u64);
        let column_bytes = |column: &usize| match self.schema.fields().get(*column).and_then(|field| field.data_type().primitive_width()) {
            Some(width) => run.records.saturating_mul(width as u64),
            None => field_bytes.saturating_add(run.records.saturating_mul(4)),
        };
        columns.iter().map(column_bytes).fold(0, u64::saturating_add)
    }

    /// Parses all of the file, all columns: which rows exist must not depend on the columns that are read.
    fn find_bad_lines(&mut self) -> Result<(), Error> {
        let mut quarantine = Quarantine::default();
        let mut kept = Vec::with_capacity(self.runs.len());
        for run in &self.runs {
            let bytes = read_run(self.object.as_ref(), run)?;
            let mut rows = self.rows(&self.schema)?;
            let mut bad: Vec<usize> = Vec::new();
            let mut judge = |located: Located| {
                bad.push(located.row);
                let line = line_of_newlines(&bytes, located.position, run.first_line);
                quarantine.add(line, || self.error(located, &bytes, run).to_string());
                Ok::<_, Error>(())
            };
            let lines = parse(&bytes, self.shape, &mut rows, false, &mut KeptRows::new(None, None), &mut judge)?;
            self.check_count(run, lines, run.records)?;
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

    /// No column says that the objects have no fields, or that there are no objects: only the bytes tell.
    fn check_objects(&self) -> Result<(), Error> {
        for run in &self.runs {
            let bytes = read_run(self.object.as_ref(), run)?;
            let mut judge = |located: Located| Err(self.error(located, &bytes, run));
            let found = parse(&bytes, self.shape, &mut self.rows(&self.schema)?, false, &mut KeptRows::new(None, None), &mut judge)?;
            self.check_count(run, found, run.records)?;
        }
        Ok(())
    }

    fn rows(&self, schema: &Schema) -> Result<Structs, Error> {
        Structs::new(schema.fields()).ok_or_else(|| {
            let field = schema.fields().iter().find(|field| Column::new(field.data_type()).is_none());
            let (name, data_type) =
                field.map_or((String::new(), arrow_schema::DataType::Null), |field| (field.name().clone(), field.data_type().clone()));
            Error::UnsupportedType { field: name, data_type }
        })
    }

    fn check_count(&self, run: &Run, found: u64, expected: u64) -> Result<(), Error> {
        if found == expected {
            return Ok(());
        }
        Err(Error::Changed { path: self.object.path().to_owned(), offset: run.offset, found, expected })
    }

    fn error(&self, located: Located, bytes: &[u8], run: &Run) -> Error {
        let path = self.object.path().to_owned();
        let line_at = |position| line_of_newlines(bytes, position, run.first_line);
        let (line, offset) = (line_at(located.position), run.offset + located.position as u64);
        match located.fault {
            Fault::Syntax { position, expected } if self.shape == Shape::Array => {
                Error::Array { path, line: line_at(located.position + position), offset: offset + position as u64, expected }
            }
            Fault::NotAnObject if self.shape == Shape::Array => Error::ElementNotAnObject { path, line, offset },
            Fault::Syntax { position, expected } => Error::Syntax { path, line, column: position + 1, expected },
            Fault::NotAnObject => Error::NotAnObject { path, line },
            Fault::Value { field, value, data_type } => Error::Value { path, line, field, value, data_type },
            Fault::InvalidUtf8 { field } => Error::InvalidUtf8 { path, line, field },
            Fault::Duplicate { field } => Error::DuplicateField { path, line, field },
        }
    }

    fn read_block(&self, block: usize, columns: &[usize], selection: Option<&BooleanBuffer>) -> Result<RecordBatch, Error> {
        let path = || self.object.path().to_owned();
        let (run, stated) = self.runs.get(block).zip(self.blocks.get(block)).ok_or_else(|| Error::NoSuchBlock { path: path(), index: block })?;
        if let Some(index) = columns.iter().find(|index| **index >= self.schema.fields().len()) {
            return Err(Error::NoSuchColumn { path: path(), index: *index });
        }
        let arrow = |source: ArrowError| Error::Arrow { path: path(), offset: run.offset, source };
        // A column that is asked for twice is parsed once.
        let mut distinct = columns.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        let parsed_schema = self.schema.project(&distinct).map_err(arrow)?;
        let mut rows = self.rows(&parsed_schema)?;
        let all = usize::try_from(stated.rows).unwrap_or_default();
        let expected = selection.map_or(all, BooleanBuffer::count_set_bits);
        if !columns.is_empty() && expected > 0 {
            let bytes = read_run(self.object.as_ref(), run)?;
            let is_lenient = self.options.bad_lines == BadLines::Null;
            let mut judge = |located: Located| {
                if is_lenient { Ok(()) } else { Err(self.error(located, &bytes, run)) }
            };
            let mut kept = KeptRows::new(self.good.get(block).and_then(Option::as_ref), selection);
            let lines = parse(&bytes, self.shape, &mut rows, is_lenient, &mut kept, &mut judge)?;
            self.check_count(run, lines, run.records)?;
            self.check_count(run, rows.len() as u64, expected as u64)?;
        }
        let parsed = rows.finish_children().map_err(arrow)?;
        let place = |index: &usize| distinct.binary_search(index).ok().and_then(|place| parsed.get(place)).map(Arc::clone);
        let arrays = columns.iter().filter_map(place).collect();
        let schema = Arc::new(self.schema.project(columns).map_err(arrow)?);
        let options = RecordBatchOptions::new().with_row_count(Some(expected));
        RecordBatch::try_new_with_options(schema, arrays, &options).map_err(arrow)
    }
}

/// Looks at as many bytes as it takes to tell.
fn shape_of(object: &dyn RangeRead) -> Result<Shape, Error> {
    let mut len = SHAPE_BYTES;
    loop {
        let start = read_start(object, len)?;
        if let Some(shape) = Shape::of(&start.bytes, start.is_whole) {
            return Ok(shape);
        }
        len = len.saturating_mul(2);
    }
}

/// A carriage return alone ends no line here.
fn line_of_newlines(bytes: &[u8], position: usize, first_line: u64) -> u64 {
    first_line + memchr::memchr_iter(b'\n', bytes.get(..position).unwrap_or(bytes)).count() as u64
}

impl TableFile for JsonlFile {
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
