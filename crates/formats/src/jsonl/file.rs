//! The JSON specifics of a text file: objects are lines or elements of one array, and fields are
//! looked up by name.

use super::borders::{ElementBorders, LineBorders};
use super::column::Column;
use super::cursor::Cursor;
use super::fault::Fault;
use super::growth::Growth;
use super::infer::Inferred;
use super::late::Late;
use super::nested::Structs;
use super::records::{Broken, Records, Shape};
use super::{Error, JsonlOptions};
use crate::limit::DecodeLimit;
use crate::records::{
    BLOCK_BYTES, BYTE_ORDER_MARK, BadLines, BlockText, Borders, Declared, Index, Judge, Located,
    Parsed, Pieces, Place, TextFile, TextFormat, index, read_start,
};
use arrow_schema::{ArrowError, Fields, Schema, SchemaRef};
use shardmill_storage::RangeRead;
use std::sync::Arc;

/// The first bytes of a file show how its objects are written, unless they are blank.
const SHAPE_BYTES: u64 = 256;
/// Of a piece of such blanks.
const MAX_SHAPE_BYTES: u64 = 1 << 20;

/// A scanned file of JSON Lines, or of one array of objects.
pub type JsonlFile = TextFile<JsonlFormat>;

/// Maps the objects of a file to columns.
#[derive(Debug)]
pub struct JsonlFormat {
    options: JsonlOptions,
    shape: Shape,
}

impl JsonlFile {
    /// Scans `object` once. `schema` is that of the data set; all of its columns are nullable,
    /// regardless of the schema.
    ///
    /// # Errors
    /// When the file cannot be read, or `schema` has a column that JSON Lines does not support.
    pub fn open(
        object: Arc<dyn RangeRead>,
        schema: &SchemaRef,
        options: JsonlOptions,
    ) -> Result<Self, Error> {
        Self::open_with_blocks(object, schema, options, BLOCK_BYTES)
    }

    /// As [`JsonlFile::open`] with the types of a sample. What changes them is added to `inferred`.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn open_inferred(
        object: Arc<dyn RangeRead>,
        inferred: &Inferred,
        options: JsonlOptions,
    ) -> Result<Self, Error> {
        Self::scan(object, inferred.schema(), options, BLOCK_BYTES, Some(inferred))
    }

    pub(super) fn open_with_blocks(
        object: Arc<dyn RangeRead>,
        schema: &SchemaRef,
        options: JsonlOptions,
        block_bytes: u64,
    ) -> Result<Self, Error> {
        Self::scan(object, schema, options, block_bytes, None)
    }

    fn scan(
        object: Arc<dyn RangeRead>,
        schema: &SchemaRef,
        options: JsonlOptions,
        block_bytes: u64,
        inferred: Option<&Inferred>,
    ) -> Result<Self, Error> {
        if let Some(field) = schema
            .fields()
            .iter()
            .find(|field| Column::new(field.data_type(), field.data_type()).is_none())
        {
            return Err(Error::UnsupportedType {
                column: field.name().clone(),
                data_type: field.data_type().clone(),
                format: "JSON Lines",
            });
        }
        let start = read_start(object.as_ref(), BYTE_ORDER_MARK.len() as u64)?.mark_len;
        let shape = shape_of(object.as_ref(), start)?;
        // The sample holds all of a short file.
        let inferred = inferred.filter(|inferred| object.size() > inferred.sample().bytes);
        let watched = |borders: &mut dyn Borders| -> Result<Index, Error> {
            let Some(inferred) = inferred else {
                return Ok(index(object.as_ref(), start, borders, block_bytes)?);
            };
            let mut late = Late::new(&inferred.sample().row, shape);
            let mut look = |piece: &[u8]| late.look(piece);
            let index = index(
                object.as_ref(),
                start,
                &mut Pieces::new(borders, options.limit, &mut look),
                block_bytes,
            )?;
            if let Some(members) = late.into_changed() {
                inferred.add(object.path(), members);
            }
            Ok(index)
        };
        let index = match shape {
            Shape::Lines => watched(&mut LineBorders::new(start))?,
            Shape::Array => {
                let mut borders = ElementBorders::new();
                let index = watched(&mut borders)?;
                if let Some(Broken { offset, line, expected }) = borders.broken {
                    return Err(Error::Array {
                        path: object.path().to_owned(),
                        line,
                        offset,
                        expected,
                    });
                }
                index
            }
        };
        // Without columns nothing is parsed later, so only a full check can detect records that are
        // not objects.
        let has_columns = || {
            let late = inferred.and_then(|inferred| inferred.late(object.path()));
            late.is_some_and(|late| !late.0.fields().is_empty())
        };
        // A file whose columns appear only after the sample is opened again, with these columns.
        let is_unread =
            schema.fields().is_empty() && options.bad_lines != BadLines::Skip && !has_columns();
        let file = Self::new(object, schema, JsonlFormat { options, shape }, index)?;
        if is_unread {
            file.check_records()?;
        }
        Ok(file)
    }
}

impl TextFormat for JsonlFormat {
    type Fault = Fault;

    fn bad_lines(&self) -> BadLines {
        self.options.bad_lines
    }

    fn limit(&self) -> DecodeLimit {
        self.options.limit
    }

    fn is_stored(&self, _column: usize) -> bool {
        true
    }

    fn width(&self, schema: &Schema) -> usize {
        schema.fields().len()
    }

    /// If `judge` accepts a bad record, it becomes a row of nulls.
    fn parse(
        &self,
        block: &mut BlockText<'_>,
        judge: &mut Judge<'_, Fault>,
        arrow: &dyn Fn(ArrowError) -> Error,
    ) -> Result<Parsed, Error> {
        let fields = Fields::from(std::mem::take(&mut block.fields));
        let mut rows = Structs::rows(&fields, block.schema.fields(), &self.options)
            .ok_or_else(|| arrow(ArrowError::NotYetImplemented(format!("{fields:?}"))))?;
        let mut growth = Growth {
            is_lenient: block.is_lenient,
            is_inferred: self.options.declared != Declared::All,
            refuses_nan: self.options.refuses_nan,
            ..Growth::default()
        };
        let (mut records, mut row) = (0, 0);
        for record in Records::of_run(block.bytes, self.shape) {
            records += 1;
            if !block.kept.next() {
                continue;
            }
            if let Err(fault) = parse_record(record.text, &mut rows, &mut growth) {
                judge(Located { fault, position: record.position, row })?;
                rows.truncate(row);
                rows.append_null();
            }
            row += 1;
        }
        Ok(Parsed { columns: rows.finish_children().map_err(arrow)?, rows: row, records })
    }

    /// Unlike in CSV, a lone carriage return does not end a line.
    fn line_of(bytes: &[u8], position: usize, first_line: u64) -> u64 {
        first_line
            + memchr::memchr_iter(b'\n', bytes.get(..position).unwrap_or(bytes)).count() as u64
    }

    fn error(&self, fault: Fault, place: &Place<'_>) -> Error {
        let (path, line, offset) =
            (place.path.clone(), place.line, place.run.offset + place.position as u64);
        match fault {
            Fault::Syntax { position, expected } if self.shape == Shape::Array => {
                let line =
                    Self::line_of(place.bytes, place.position + position, place.run.first_line);
                Error::Array { path, line, offset: offset + position as u64, expected }
            }
            Fault::NotAnObject if self.shape == Shape::Array => {
                Error::ElementNotAnObject { path, line, offset }
            }
            Fault::Syntax { position, expected } => {
                Error::Syntax { path, line, position: position + 1, expected }
            }
            Fault::NotAnObject => Error::NotAnObject { path, line },
            Fault::Value { field, value, data_type } => {
                let root = field.split(['.', '[']).next().unwrap_or_default();
                let is_inferred = !self.options.declared.contains(&field)
                    && !self.options.declared.contains(root);
                Error::of_value((path, line), field, value, data_type, is_inferred)
            }
            Fault::InvalidUtf8 { field } => Error::InvalidUtf8 { path, line, column: field },
            Fault::Duplicate { field } => Error::DuplicateField { path, line, field },
            Fault::Unknown { field } => Error::UnknownField { path, line, field },
        }
    }
}

fn parse_record(text: &[u8], rows: &mut Structs, growth: &mut Growth) -> Result<(), Fault> {
    let mut cursor = Cursor::new(text);
    if cursor.peek() != Some(b'{') {
        cursor.skip()?;
        cursor.end()?;
        return Err(Fault::NotAnObject);
    }
    rows.append(&mut cursor, growth).map_err(|fault| cause_of(fault, text))?;
    cursor.end()
}

/// The types are inferred from valid lines alone, so an invalid line may have fields that no other
/// line has.
fn cause_of(fault: Fault, text: &[u8]) -> Fault {
    let mut cursor = Cursor::new(text);
    match fault {
        Fault::Unknown { .. } => cursor.skip().and_then(|()| cursor.end()).err().unwrap_or(fault),
        fault => fault,
    }
}

/// Reads as many bytes from `start` on as needed to decide, and holds only a piece of them: a file
/// may begin with any number of blanks.
fn shape_of(object: &dyn RangeRead, start: u64) -> Result<Shape, Error> {
    let size = object.size();
    let (mut text, mut offset, mut len) = (Vec::<u8>::new(), start, SHAPE_BYTES);
    loop {
        let (before, read) = (text.len(), size.saturating_sub(offset).min(len));
        text.resize(before.saturating_add(usize::try_from(read).unwrap_or(usize::MAX)), 0);
        object.read_at(offset, text.get_mut(before..).unwrap_or_default())?;
        offset = offset.saturating_add(read);
        if let Some(shape) = Shape::of(&text, offset >= size) {
            return Ok(shape);
        }
        // There are only blanks and at most one bracket. Where they are does not matter, but for a
        // line end after the bracket.
        text.retain(|byte| matches!(byte, b'[' | b'\n'));
        text.dedup();
        len = len.saturating_mul(2).min(MAX_SHAPE_BYTES);
    }
}
