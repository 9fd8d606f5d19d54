//! Whole documents in batches, which become files, by the size of their rows.

use super::{Emit, SplitContext, split_sources};
use crate::{Chunk, Lineage, Result, Row};
use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use shardmill_plan::Split;
use std::ops::Range;
use std::sync::Arc;

/// Builds batches of whole documents by the size of their rows.
pub(super) struct Batcher<'a> {
    split: &'a Split,
    /// `None` builds a single batch, whose chunks are passed on immediately.
    limit: Option<u64>,
    /// Chunks of the current batch, with the files they come from.
    open: Vec<(usize, Chunk)>,
    open_bytes: u64,
    batch: usize,
    is_empty: bool,
}

impl<'a> Batcher<'a> {
    pub(super) fn new(split: &'a Split, limit: Option<u64>) -> Self {
        Self { split, limit, open: Vec::new(), open_bytes: 0, batch: 0, is_empty: true }
    }

    pub(super) fn push(
        &mut self,
        file: usize,
        mut chunk: Chunk,
        context: &mut SplitContext<'_>,
        emit: Emit<'_>,
    ) -> Result<()> {
        let Some(limit) = self.limit else {
            self.is_empty = false;
            chunk.lineage = Lineage { batch: 0, sources: split_sources(self.split, &[], None) };
            return emit(chunk, context);
        };
        let sizes = document_sizes(&chunk);
        let mut start = 0;
        for (document, size) in sizes.iter().enumerate() {
            let is_begun = document > start || !self.open.is_empty();
            if is_begun && self.open_bytes.saturating_add(*size) > limit {
                self.keep(file, documents(&chunk, start..document));
                self.close(Some(self.batch), context, emit)?;
                start = document;
            }
            self.open_bytes = self.open_bytes.saturating_add(*size);
        }
        self.keep(file, documents(&chunk, start..sizes.len()));
        Ok(())
    }

    fn keep(&mut self, file: usize, chunk: Chunk) {
        if !chunk.documents.is_empty() {
            self.open.push((file, chunk));
        }
    }

    /// `number` is appended to the names of the sources.
    fn close(
        &mut self,
        number: Option<usize>,
        context: &mut SplitContext<'_>,
        emit: Emit<'_>,
    ) -> Result<()> {
        let chunks = std::mem::take(&mut self.open);
        let files: Vec<usize> = chunks.iter().map(|(file, _)| *file).collect();
        let sources = split_sources(self.split, &files, number);
        for (_, mut chunk) in chunks {
            chunk.lineage = Lineage { batch: self.batch, sources: sources.clone() };
            emit(chunk, context)?;
        }
        self.open_bytes = 0;
        self.batch += 1;
        self.is_empty = false;
        Ok(())
    }

    pub(super) fn finish(
        mut self,
        mut empty: Chunk,
        context: &mut SplitContext<'_>,
        emit: Emit<'_>,
    ) -> Result<()> {
        if !self.open.is_empty() {
            return self.close((self.batch > 0).then_some(self.batch), context, emit);
        }
        if self.is_empty {
            empty.lineage = Lineage { batch: 0, sources: split_sources(self.split, &[], None) };
            return emit(empty, context);
        }
        Ok(())
    }
}

/// Some of the documents of a chunk. Values are shared, not copied.
pub(super) fn documents(chunk: &Chunk, range: Range<usize>) -> Chunk {
    let rows = chunk.rows.iter().filter(|row| range.contains(&row.document));
    Chunk {
        documents: chunk.documents.get(range.clone()).unwrap_or_default().to_vec(),
        rows: rows.map(|row| Row { document: row.document - range.start, ..row.clone() }).collect(),
        extras: chunk.extras.clone(),
        schema: Arc::clone(&chunk.schema),
        lineage: chunk.lineage.clone(),
    }
}

fn document_sizes(chunk: &Chunk) -> Vec<u64> {
    let mut sizes = vec![0u64; chunk.documents.len()];
    for row in &chunk.rows {
        let values = row.extra.map_or(0, |extra| {
            chunk.extras.columns().iter().map(|column| value_bytes(column, extra as usize)).sum()
        });
        if let Some(size) = sizes.get_mut(row.document) {
            *size += row.byte_size() + values;
        }
    }
    sizes
}

fn value_bytes(column: &ArrayRef, row: usize) -> u64 {
    if column.is_null(row) {
        return 0;
    }
    match column.data_type() {
        DataType::Utf8 => column.as_string::<i32>().value_length(row).unsigned_abs().into(),
        DataType::LargeUtf8 => column.as_string::<i64>().value_length(row).unsigned_abs(),
        DataType::Binary => column.as_binary::<i32>().value_length(row).unsigned_abs().into(),
        DataType::LargeBinary => column.as_binary::<i64>().value_length(row).unsigned_abs(),
        data_type => match data_type.primitive_width() {
            Some(width) => width as u64,
            None => {
                column.to_data().slice(row, 1).get_slice_memory_size().unwrap_or_default() as u64
            }
        },
    }
}
