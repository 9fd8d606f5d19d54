//! Checks a file as a data set reads it: every block with every column.
//!
//! The reader is the one of `Dataset` and `Loader`, so a file passes exactly when these can read all of it. Checksums that the format has are compared
//! on the way. Of text files the types follow from this file alone.

use super::{FileCheck, Problem, Rule};
use crate::Result;
use crate::error::reason;
use shardmill_engine::Cancel;
use shardmill_formats::limit::DecodeLimit;
use shardmill_formats::records::BadLines;
use shardmill_formats::table::TableFile;
use shardmill_load::{Dataset, DatasetOptions, Format};

pub(super) fn verify_table(path: &str, format: Format, cancel: &Cancel, check: &mut FileCheck) -> Result<()> {
    match open_alone(path, format, cancel) {
        Ok(dataset) => dataset.files().iter().try_for_each(|file| read_blocks(&*file.table, None, cancel, check)),
        Err(error) => {
            check.report(Problem::new(Rule::Readable, reason(&error)));
            Ok(())
        }
    }
}

/// A data set of this file alone.
pub(crate) fn open_alone(path: &str, format: Format, cancel: &Cancel) -> shardmill_load::Result<Dataset> {
    let options = DatasetOptions {
        paths: vec![path.to_owned()],
        format: Some(format),
        hive: false,
        filter: None,
        text_schema: None,
        bad_lines: BadLines::Error,
        skip_bad_files: false,
        has_pickle_bytes: true,
        ignores_zeros: false,
        limit: DecodeLimit::default(),
        threads: 1,
    };
    Dataset::open(&options, cancel)
}

/// Every block is read, also after one that cannot be: each problem is one block. `member` is the file where the path of the check is another.
pub(super) fn read_blocks(table: &dyn TableFile, member: Option<&str>, cancel: &Cancel, check: &mut FileCheck) -> Result<()> {
    let columns: Vec<usize> = (0..table.schema().fields().len()).collect();
    let mut row = 0;
    for (number, block) in table.blocks().iter().enumerate() {
        cancel.check()?;
        match table.read(number, &columns, None) {
            Ok(rows) => {
                check.samples += rows.num_rows() as u64;
                check.rows.other += rows.num_rows() as u64;
            }
            Err(error) => {
                let problem = Problem { member: member.map(str::to_owned), ..Problem::new(Rule::Readable, reason(&error)) };
                check.report(problem.at_row(row));
            }
        }
        row += block.rows;
    }
    Ok(())
}
