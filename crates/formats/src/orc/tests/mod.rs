mod hostile;
mod oracle;
mod pyarrow;

use super::*;
use crate::records::memory::memory;
use crate::table::{TableError, TableFile};
use arrow_array::RecordBatch;
use arrow_buffer::BooleanBuffer;

fn read_all(file: &OrcFile) -> Result<RecordBatch, TableError> {
    let columns: Vec<usize> = (0..file.schema().fields().len()).collect();
    let batches = (0..file.blocks().len()).map(|block| {
        let batch = file.read(block, &columns, None)?;
        assert_eq!(batch.num_rows() as u64, file.blocks()[block].rows);
        Ok(batch)
    });
    let batches = batches.collect::<Result<Vec<_>, TableError>>()?;
    Ok(together(file, &batches))
}

fn together(file: &OrcFile, batches: &[RecordBatch]) -> RecordBatch {
    arrow_select::concat::concat_batches(file.schema(), batches).expect("one schema")
}
