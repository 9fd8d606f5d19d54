//! Rows by number.

use crate::images::{Rendering, RowPlace, Seeds};
use crate::offsets::{Cuts, declared};
use crate::{Dataset, Error, Result, RowSet};
use arrow_array::{RecordBatch, UInt64Array};
use arrow_buffer::BooleanBufferBuilder;
use arrow_schema::Schema;
use arrow_select::concat::concat_batches;
use arrow_select::take::take_record_batch;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The rows `ids` of a row set in this order, with declared types. Each block with one of them is
/// read once, and only for these rows.
///
/// # Errors
/// When a block cannot be read; [`Error::NoSuchRow`].
pub fn take(
    dataset: &Dataset,
    rows: &RowSet,
    ids: &[u64],
    columns: &[usize],
) -> Result<RecordBatch> {
    let mut wanted: BTreeMap<usize, BTreeMap<usize, usize>> = BTreeMap::new();
    for id in ids {
        let (block, row) =
            rows.locate(*id).ok_or(Error::NoSuchRow { row: *id, rows: rows.num_rows() })?;
        wanted.entry(block).or_default().insert(row, 0);
    }
    let mut read = Vec::with_capacity(wanted.len());
    let mut first = 0;
    for (number, of_block) in &mut wanted {
        let Some(block) = rows.blocks().get(*number) else { continue };
        let len = block.selection.as_ref().map_or(block.rows, |selection| selection.len() as u64);
        let mut selection = BooleanBufferBuilder::new(0);
        selection.append_n(usize::try_from(len).unwrap_or(usize::MAX), false);
        for (place, (row, position)) in of_block.iter_mut().enumerate() {
            selection.set_bit(*row, true);
            *position = first + place;
        }
        let batch = dataset.read(block.place, columns, Some(&selection.finish()))?;
        first += batch.num_rows();
        read.push(batch);
    }
    if columns.is_empty() {
        let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(ids.len()));
        let taken =
            RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &options);
        return taken.map_err(Error::assemble);
    }
    let all = concat_batches(&dataset.view_schema(columns), &read).map_err(Error::assemble)?;
    let places = ids.iter().filter_map(|id| {
        let (block, row) = rows.locate(*id)?;
        wanted.get(&block)?.get(&row).map(|place| *place as u64)
    });
    let taken =
        take_record_batch(&all, &UInt64Array::from_iter_values(places)).map_err(Error::assemble)?;
    let taken = rendered(dataset, rows, ids, columns, taken)?;
    let schema = Arc::new(Schema::new(
        columns
            .iter()
            .filter_map(|column| dataset.schema().fields().get(*column).cloned())
            .collect::<Vec<_>>(),
    ));
    let one = [taken.num_rows()];
    let rows = declared(&taken, &schema, Cuts::Batches(&one)).map_err(Error::assemble)?;
    rows.into_iter().next().ok_or(Error::NoSuchRow { row: 0, rows: 0 })
}

/// `taken` with pixels in place of encoded images: those of seed 0 and epoch 0.
fn rendered(
    dataset: &Dataset,
    rows: &RowSet,
    ids: &[u64],
    columns: &[usize],
    taken: RecordBatch,
) -> Result<RecordBatch> {
    let Some(mut rendering) = Rendering::new(dataset, columns, &taken, Seeds::default(), None)?
    else {
        return Ok(taken);
    };
    for (number, id) in ids.iter().enumerate() {
        let place = rows
            .locate(*id)
            .and_then(|(block, row)| rows.whole_row_of_file(dataset, block, row as u64));
        let (file, row) = place.ok_or(Error::NoSuchRow { row: *id, rows: rows.num_rows() })?;
        let path = || dataset.files().get(file).map(|file| file.path.clone()).unwrap_or_default();
        rendering
            .add(dataset, &taken, number, RowPlace { file, row, round: 0 })
            .map_err(|bad| bad.into_error(path(), row))?;
    }
    rendering.finish(taken)
}
