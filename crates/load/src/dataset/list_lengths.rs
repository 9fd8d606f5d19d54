//! Which list columns have rows of one length, such as embeddings in lists of variable length.
//!
//! Decided once for a data set, so that the form of a column does not change from batch to batch.
//! Footers tell the mean length in each row group; the first and the last block are read to make
//! sure that it is the length of every row. [`crate::columns`] checks all other rows as they come.

use super::{BlockOf, Dataset, Origin};
use crate::Result;
use crate::columns::is_list_of_numbers;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use shardmill_storage::Error as StorageError;
use std::collections::BTreeMap;

impl Dataset {
    /// The length of the rows of those of `columns` whose rows are all equally long.
    ///
    /// # Errors
    /// When a store does not respond: another rank may get an answer, and the column would have
    /// another form there.
    pub fn list_lengths(&self, columns: &[usize]) -> Result<BTreeMap<String, usize>> {
        let fields =
            columns.iter().filter_map(|column| Some((*column, self.schema.fields().get(*column)?)));
        let mut lengths = BTreeMap::new();
        for (column, field) in fields.filter(|(_, field)| is_list_of_numbers(field.data_type())) {
            if let Some(length) = self.stated_length(column)
                && self.has_length(column, length)?
            {
                lengths.insert(field.name().clone(), length);
            }
        }
        Ok(lengths)
    }

    /// The length that the footers suggest.
    fn stated_length(&self, column: usize) -> Option<usize> {
        let mut known = None;
        for file in self.files.iter().filter(|file| file.num_rows() > 0) {
            let Some(Origin::File(own)) = file.columns.get(column) else { return None };
            let length = file.table.list_length(*own)?;
            if *known.get_or_insert(length) != length {
                return None;
            }
        }
        usize::try_from(known?).ok()
    }

    /// Whether the rows of the first and the last block have this length.
    fn has_length(&self, column: usize, length: usize) -> Result<bool> {
        let mut blocks = self.blocks().filter(|place| self.num_rows_of(*place) > 0);
        let first = blocks.next();
        for place in first.into_iter().chain(blocks.last()) {
            let has_length = match self.read(place, &[column], None) {
                Ok(rows) => rows
                    .columns()
                    .first()
                    .is_some_and(|lists| lengths(lists).all(|found| found == length)),
                Err(error) if error.of_store().is_some_and(StorageError::is_outage) => {
                    return Err(error);
                }
                // A file that cannot be read is reported by the pass that needs it.
                Err(_) => false,
            };
            if !has_length {
                return Ok(false);
            }
        }
        Ok(first.is_some())
    }

    pub(crate) fn num_rows_of(&self, place: BlockOf) -> u64 {
        self.files
            .get(place.file)
            .and_then(|file| file.table.blocks().get(place.block))
            .map_or(0, |block| block.rows)
    }
}

fn lengths(array: &ArrayRef) -> Box<dyn Iterator<Item = usize> + '_> {
    match array.data_type() {
        DataType::List(_) => Box::new(array.as_list::<i32>().offsets().lengths()),
        _ => Box::new(array.as_list::<i64>().offsets().lengths()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::OpenFile;
    use super::*;
    use arrow_array::RecordBatch;
    use arrow_buffer::BooleanBuffer;
    use arrow_schema::{Field, Schema, SchemaRef};
    use shardmill_formats::records::Declared;
    use shardmill_formats::table::{Block, TableError, TableFile};
    use std::collections::BTreeSet;
    use std::io;
    use std::sync::Arc;

    /// Lists of two numbers according to its footer; a read fails.
    #[derive(Debug)]
    struct Unreadable {
        schema: SchemaRef,
        reason: io::ErrorKind,
    }

    impl TableFile for Unreadable {
        fn path(&self) -> &str {
            "x"
        }

        fn schema(&self) -> &SchemaRef {
            &self.schema
        }

        fn blocks(&self) -> &[Block] {
            &[Block { rows: 1, decoded_bytes: 8, stored_bytes: 8 }]
        }

        fn read(
            &self,
            _block: usize,
            _columns: &[usize],
            _selection: Option<&BooleanBuffer>,
        ) -> std::result::Result<RecordBatch, TableError> {
            Err(StorageError::Read {
                path: "x".to_owned(),
                offset: 0,
                len: 8,
                source: self.reason.into(),
            }
            .into())
        }

        fn decoded_bytes(&self, _block: usize, _columns: &[usize]) -> u64 {
            8
        }

        fn list_length(&self, _column: usize) -> Option<u64> {
            Some(2)
        }

        fn digest(&self) -> u128 {
            0
        }
    }

    fn dataset(reason: io::ErrorKind) -> Dataset {
        let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new(
            "x",
            DataType::new_list(DataType::Int32, true),
            true,
        )]));
        let table: Arc<dyn TableFile> =
            Arc::new(Unreadable { schema: Arc::clone(&schema), reason });
        let file = OpenFile {
            path: "x".to_owned(),
            relative: "x".to_owned(),
            size: 8,
            table,
            columns: vec![Origin::File(0)],
            declared: Declared::nothing(),
            live: None,
        };
        Dataset {
            format: None,
            files: vec![file],
            schema,
            top_level: 1,
            hidden: BTreeSet::new(),
            image_columns: BTreeSet::new(),
            left_out: Vec::new(),
            skipped: Vec::new(),
            bytes_read: Vec::new(),
        }
    }

    #[test]
    fn store_that_does_not_respond_decides_about_no_form() {
        assert!(dataset(io::ErrorKind::TimedOut).list_lengths(&[0]).is_err());
        assert_eq!(
            dataset(io::ErrorKind::InvalidData).list_lengths(&[0]).unwrap(),
            BTreeMap::new()
        );
    }
}
