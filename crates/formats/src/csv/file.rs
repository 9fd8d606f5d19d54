//! The CSV specifics of a text file: the header names the columns, and a record with too few or too
//! many fields is bad.

use super::borders::CsvBorders;
use super::column::{Column, column};
use super::header::{Header, read_header};
use super::infer::Inferred;
use super::kind::NullValues;
use super::late::Late;
use super::rows::{Reason, Rows};
use super::tokenize::Tokenizer;
use super::{CsvOptions, Error};
use crate::limit::DecodeLimit;
use crate::records::{
    BLOCK_BYTES, BadLines, BlockText, Encoding, Judge, Located, Parsed, Pieces, Place, TextFile,
    TextFormat, Unpacker, index, line_of,
};
use crate::table::type_name;
use arrow_schema::{ArrowError, DataType, FieldRef, Schema, SchemaRef};
use shardmill_storage::RangeRead;
use std::collections::HashMap;
use std::sync::Arc;

/// Enough for nearly all headers.
const HEADER_BYTES: u64 = 64 << 10;

/// Fields that are split before they are parsed: as much text as fits into the cache.
const BATCH_FIELDS: usize = 1 << 17;

/// A scanned CSV file.
pub type CsvFile = TextFile<CsvFormat>;

/// Maps the records of a CSV file to columns.
#[derive(Debug)]
pub struct CsvFormat {
    options: CsvOptions,
    nulls: NullValues,
    /// For each column of the schema, its position in the records of this file.
    fields: Vec<Option<usize>>,
    width: usize,
}

impl CsvFile {
    /// Scans `object` once. `schema` is that of the data set: a column that this file
    /// lacks is null, one that the schema lacks is not read. All columns are nullable,
    /// regardless of the schema.
    ///
    /// # Errors
    /// When the file cannot be read, its header is damaged, or `schema` has a column that CSV
    /// cannot hold.
    pub fn open(
        object: Arc<dyn RangeRead>,
        schema: &SchemaRef,
        options: CsvOptions,
    ) -> Result<Self, Error> {
        Self::open_with_blocks(object, schema, options, BLOCK_BYTES)
    }

    /// As [`CsvFile::open`] with the types of a sample. What changes them is added to `inferred`.
    ///
    /// # Errors
    /// As [`CsvFile::open`].
    pub fn open_inferred(
        object: Arc<dyn RangeRead>,
        inferred: &Inferred,
        options: CsvOptions,
    ) -> Result<Self, Error> {
        Self::scan(object, inferred.schema(), options, BLOCK_BYTES, Some(inferred))
    }

    pub(super) fn open_with_blocks(
        object: Arc<dyn RangeRead>,
        schema: &SchemaRef,
        options: CsvOptions,
        block_bytes: u64,
    ) -> Result<Self, Error> {
        Self::scan(object, schema, options, block_bytes, None)
    }

    fn scan(
        object: Arc<dyn RangeRead>,
        schema: &SchemaRef,
        options: CsvOptions,
        block_bytes: u64,
        inferred: Option<&Inferred>,
    ) -> Result<Self, Error> {
        options.check()?;
        let nulls = NullValues::new(&options);
        for field in schema.fields() {
            if column(field, &nulls, &options, 0).is_none() {
                return Err(Error::UnsupportedType {
                    column: field.name().clone(),
                    data_type: field.data_type().clone(),
                    format: "CSV",
                });
            }
        }
        let header = read_header(
            object.as_ref(),
            &Unpacker::new(Encoding::Utf8, options.limit),
            &options,
            HEADER_BYTES,
        )?
        .map(|(header, _)| header);
        let header = header.unwrap_or_else(|| Header {
            names: Vec::new(),
            data_start: object.size(),
            data_line: 1,
        });
        let places: HashMap<&str, usize> =
            header.names.iter().enumerate().map(|(place, name)| (name.as_str(), place)).collect();
        let fields: Vec<Option<usize>> = if options.header {
            schema.fields().iter().map(|field| places.get(field.name().as_str()).copied()).collect()
        } else {
            (0..schema.fields().len())
                .map(|place| (place < header.names.len()).then_some(place))
                .collect()
        };
        if !options.header
            && !header.names.is_empty()
            && header.names.len() != schema.fields().len()
        {
            let (path, found) = (object.path().to_owned(), header.names.len());
            return Err(Error::ColumnCount { path, found, expected: schema.fields().len() });
        }
        let mut borders = CsvBorders::new(&options, header.data_start, header.data_line);
        // The sample holds all of a short file.
        let inferred = inferred.filter(|inferred| object.size() > inferred.sample().bytes);
        let late = inferred
            .map(|inferred| Late::new(inferred, &header.names, &options, &nulls))
            .filter(|late| !late.is_empty());
        let index = match inferred.zip(late) {
            None => index(object.as_ref(), header.data_start, &mut borders, block_bytes)?,
            Some((inferred, mut late)) => {
                let mut look = |piece: &[u8]| late.look(piece);
                let mut pieces = Pieces::new(&mut borders, options.limit, &mut look);
                let index = index(object.as_ref(), header.data_start, &mut pieces, block_bytes)?;
                inferred.add(object.path(), late.into_changed());
                index
            }
        };
        Self::new(
            object,
            schema,
            CsvFormat { options, nulls, fields, width: header.names.len() },
            index,
        )
    }
}

impl TextFormat for CsvFormat {
    type Fault = Reason;

    fn bad_lines(&self) -> BadLines {
        self.options.bad_lines
    }

    fn limit(&self) -> DecodeLimit {
        self.options.limit
    }

    fn is_stored(&self, column: usize) -> bool {
        self.fields.get(column).is_some_and(Option::is_some)
    }

    fn width(&self, _schema: &Schema) -> usize {
        self.width
    }

    fn parse(
        &self,
        block: &mut BlockText<'_>,
        judge: &mut Judge<'_, Reason>,
        arrow: &dyn Fn(ArrowError) -> Error,
    ) -> Result<Parsed, Error> {
        let column_of = |field: &FieldRef| {
            let column = column(field, &self.nulls, &self.options, block.rows);
            column.ok_or_else(|| arrow(ArrowError::NotYetImplemented(type_name(field.data_type()))))
        };
        let mut columns =
            block.fields.iter().map(column_of).collect::<Result<Vec<Box<dyn Column>>, Error>>()?;
        let places: Vec<usize> = block
            .columns
            .iter()
            .filter_map(|column| self.fields.get(*column).copied().flatten())
            .collect();
        let batch_rows = (BATCH_FIELDS / self.width.max(1)).clamp(1, 4096);
        let mut tokenizer = Tokenizer::new(block.bytes, &self.options, true);
        let mut rows = Rows::new(block.bytes, self.width, self.options.quote);
        let mut faults = Vec::new();
        let (mut total, mut is_more) = (0, true);
        while is_more {
            is_more = tokenizer.fill(&mut rows, batch_rows, &mut || block.kept.next());
            faults.append(&mut rows.faults);
            for (column, place) in columns.iter_mut().zip(&places) {
                column.append(&rows, *place, &self.nulls, &mut faults);
            }
            // A wrong number of fields is reported before faults of values.
            faults.sort_by_key(|fault| fault.row);
            for fault in faults.drain(..) {
                let position = rows.starts.get(fault.row).copied().unwrap_or_default() as usize;
                judge(Located { fault: fault.reason, position, row: total + fault.row })?;
            }
            total += rows.len();
            rows.clear();
        }
        let columns = columns
            .into_iter()
            .map(Column::finish)
            .collect::<Result<Vec<_>, _>>()
            .map_err(arrow)?;
        Ok(Parsed { columns, rows: total, records: tokenizer.records() })
    }

    fn line_of(bytes: &[u8], position: usize, first_line: u64) -> u64 {
        line_of(bytes, position, first_line)
    }

    fn variant(&self) -> u128 {
        let (delimiter, quote) = (self.options.delimiter, self.options.quote.unwrap_or_default());
        u128::from(delimiter ^ b',') << 8 | u128::from(quote ^ b'"')
    }

    fn is_fatal(fault: &Reason) -> bool {
        *fault == Reason::UnclosedQuote
    }

    fn error(&self, fault: Reason, place: &Place<'_>) -> Error {
        let (path, line) = (place.path.clone(), place.line);
        let column = |field: usize| {
            let index = self.fields.iter().position(|place| *place == Some(field));
            let field = index.and_then(|index| place.schema.fields().get(index));
            field.map_or((String::new(), DataType::Null), |field| {
                (field.name().clone(), field.data_type().clone())
            })
        };
        match fault {
            Reason::FieldCount { found } => {
                Error::FieldCount { path, line, found, expected: self.width }
            }
            Reason::UnclosedQuote => Error::UnclosedQuote { path, line },
            Reason::Value { field, text } => {
                let (column, data_type) = column(field);
                let is_inferred = !self.options.declared.contains(&column);
                Error::of_value((path, line), column, text, data_type, is_inferred)
            }
            Reason::InvalidUtf8 { field } => {
                Error::InvalidUtf8 { path, line, column: column(field).0 }
            }
        }
    }
}
