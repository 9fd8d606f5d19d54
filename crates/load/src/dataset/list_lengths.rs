//! Which list columns have rows of one length, such as embeddings in lists of variable length.
//!
//! Decided once for a data set, so that the form of a column does not change from batch to batch. Footers tell the mean length in each row group; the
//! first and the last block are read to make sure that it is the length of every row. [`crate::columns`] checks all other rows as they come.

use super::{BlockOf, Dataset, Origin};
use crate::columns::is_list_of_numbers;
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use std::collections::BTreeMap;

impl Dataset {
    /// The length of the rows of those of `columns` whose rows are all equally long.
    #[must_use]
    pub fn list_lengths(&self, columns: &[usize]) -> BTreeMap<String, usize> {
        let fields = columns.iter().filter_map(|column| Some((*column, self.schema.fields().get(*column)?)));
        let lists = fields.filter(|(_, field)| is_list_of_numbers(field.data_type()));
        lists.filter_map(|(column, field)| Some((field.name().clone(), self.list_length(column)?))).collect()
    }

    fn list_length(&self, column: usize) -> Option<usize> {
        let mut known = None;
        for file in self.files.iter().filter(|file| file.num_rows() > 0) {
            let Some(Origin::File(own)) = file.columns.get(column) else { return None };
            let length = file.table.list_length(*own)?;
            if *known.get_or_insert(length) != length {
                return None;
            }
        }
        let length = usize::try_from(known?).ok()?;
        let mut blocks = self.blocks().filter(|place| self.num_rows_of(*place) > 0);
        let first = blocks.next()?;
        let last = blocks.last();
        let is_equal = |place: BlockOf| {
            // A file that cannot be read is reported by the pass that needs it.
            let rows = self.read(place, &[column], None).ok()?;
            lengths(rows.columns().first()?).all(|found| found == length).then_some(())
        };
        is_equal(first)?;
        last.map_or(Some(()), is_equal)?;
        Some(length)
    }

    pub(crate) fn num_rows_of(&self, place: BlockOf) -> u64 {
        self.files.get(place.file).and_then(|file| file.table.blocks().get(place.block)).map_or(0, |block| block.rows)
    }
}

fn lengths(array: &ArrayRef) -> Box<dyn Iterator<Item = usize> + '_> {
    match array.data_type() {
        DataType::List(_) => Box::new(array.as_list::<i32>().offsets().lengths()),
        _ => Box::new(array.as_list::<i64>().offsets().lengths()),
    }
}
