//! Writes ArrayRecord files: rows of one column are records.

use crate::arrayrecord::ArrayRecordWriter;
use crate::columns::for_each_record;
use crate::file_set::FileSet;
use crate::pending_files::PendingFiles;
use crate::{Gather, Result};
use arrow_array::RecordBatch;
use shardmill_formats::arrayrecord::WriterOptions;

#[derive(Debug)]
pub(crate) struct RecordFiles {
    options: WriterOptions,
    open: Option<OpenFile>,
}

#[derive(Debug)]
struct OpenFile {
    writer: ArrayRecordWriter,
    /// Size of the records before compression.
    bytes: u64,
}

impl RecordFiles {
    pub(crate) fn new(options: WriterOptions) -> Self {
        Self { options, open: None }
    }

    fn open(&mut self, pending: &mut PendingFiles) -> Result<&mut OpenFile> {
        let open = match self.open.take() {
            Some(open) => open,
            None => {
                let path = pending.next_path();
                OpenFile {
                    writer: ArrayRecordWriter::create(
                        &path,
                        self.options.clone(),
                        pending.threads,
                    )?,
                    bytes: 0,
                }
            }
        };
        Ok(self.open.insert(open))
    }

    fn end_file(&mut self, pending: &mut PendingFiles) -> Result<()> {
        match self.open.take() {
            Some(mut open) => pending.keep_whole(open.writer.finish()?),
            None => Ok(()),
        }
    }
}

impl FileSet for RecordFiles {
    fn write(
        &mut self,
        rows: &RecordBatch,
        first_row: u64,
        pending: &mut PendingFiles,
    ) -> Result<()> {
        for_each_record(rows, first_row, |record| match self.gather(record, pending)? {
            true => self.flush(pending),
            false => Ok(()),
        })
    }

    fn gather(&mut self, record: &[u8], pending: &mut PendingFiles) -> Result<bool> {
        let size_limit = pending.size_limit();
        let open = self.open(pending)?;
        let is_due = open.writer.gather(record)?;
        open.bytes = open.bytes.saturating_add(record.len() as u64);
        Ok(is_due || open.bytes >= size_limit)
    }

    fn flush(&mut self, pending: &mut PendingFiles) -> Result<()> {
        let size_limit = pending.size_limit();
        match &mut self.open {
            Some(open) if open.bytes < size_limit => open.writer.flush(),
            _ => self.end_file(pending),
        }
    }

    fn end(&mut self, pending: &mut PendingFiles) -> Result<()> {
        if pending.made() == 0 {
            self.open(pending)?;
        }
        self.end_file(pending)
    }

    fn forget(&mut self) {
        std::mem::forget(self.open.take());
    }
}
