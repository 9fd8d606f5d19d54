//! Bytes of a block to columns.

use super::CsvOptions;
use super::column::{Column, column};
use super::kind::NullValues;
use super::rows::{Fault, Rows};
use super::tokenize::Tokenizer;
use crate::records::KeptRows;
use arrow_array::ArrayRef;
use arrow_schema::{ArrowError, DataType};

/// Fields that are split before they are parsed: as much text as stays in the cache.
const BATCH_FIELDS: usize = 1 << 17;

/// A field of the file that is wanted, and its type.
pub(super) struct Wanted<'a> {
    pub(super) field: usize,
    pub(super) data_type: &'a DataType,
}

/// What a block holds.
#[derive(Debug)]
pub(super) struct Parsed {
    /// In the order asked for.
    pub(super) columns: Vec<ArrayRef>,
    pub(super) rows: usize,
    /// All records of the block, wanted or not.
    pub(super) records: u64,
}

/// A fault, and where its record is.
pub(super) struct Located<'a> {
    pub(super) fault: &'a Fault,
    /// Position of the record in the block.
    pub(super) position: usize,
    /// Number of the record among the wanted ones.
    pub(super) row: usize,
}

/// How a block is parsed.
pub(super) struct Parser<'a> {
    pub(super) options: &'a CsvOptions,
    pub(super) nulls: &'a NullValues,
    /// Fields that a good record has.
    pub(super) width: usize,
}

impl Parser<'_> {
    /// Parses the wanted fields of the kept records. `judge` sees each fault once, in the order of the records; an error from it ends the parsing.
    ///
    /// # Errors
    /// Those of `judge`, and `arrow` for columns that do not hold together.
    pub(super) fn parse<E>(
        &self,
        bytes: &[u8],
        wanted: &[Wanted<'_>],
        capacity: usize,
        kept: &mut KeptRows<'_>,
        judge: &mut dyn FnMut(Located<'_>) -> Result<(), E>,
        arrow: &dyn Fn(ArrowError) -> E,
    ) -> Result<Parsed, E> {
        let unsupported = |data_type: &DataType| arrow(ArrowError::NotYetImplemented(data_type.to_string()));
        let column_of = |wanted: &Wanted<'_>| {
            column(wanted.data_type, self.nulls, self.options.strings_can_be_null, capacity).ok_or_else(|| unsupported(wanted.data_type))
        };
        let mut columns = wanted.iter().map(column_of).collect::<Result<Vec<Box<dyn Column>>, E>>()?;
        let batch_rows = (BATCH_FIELDS / self.width.max(1)).clamp(1, 4096);
        let mut tokenizer = Tokenizer::new(bytes, self.options, true);
        let mut rows = Rows::new(bytes, self.width, self.options.quote);
        let mut faults = Vec::new();
        let mut total = 0;
        loop {
            let is_more = tokenizer.fill(&mut rows, batch_rows, &mut || kept.next());
            faults.append(&mut rows.faults);
            for (column, wanted) in columns.iter_mut().zip(wanted) {
                column.append(&rows, wanted.field, self.nulls, &mut faults);
            }
            // A record with a wrong number of fields says so before its values do.
            faults.sort_by_key(|fault| fault.row);
            for fault in &faults {
                let position = rows.starts.get(fault.row).copied().unwrap_or_default() as usize;
                judge(Located { fault, position, row: total + fault.row })?;
            }
            total += rows.len();
            rows.clear();
            faults.clear();
            if !is_more {
                break;
            }
        }
        let columns = columns.into_iter().map(Column::finish).collect::<Result<Vec<_>, _>>().map_err(arrow)?;
        Ok(Parsed { columns, rows: total, records: tokenizer.records() })
    }
}
