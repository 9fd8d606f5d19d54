//! Checks a file as a data set reads it: every block with every column.
//!
//! The reader is the one of `Dataset` and `Loader`, so a file passes exactly when these can read all of it. Checksums that the format has are compared
//! on the way. Of text files the types follow from this file alone.

use super::{FileCheck, Problem, Rule};
use crate::Result;
use crate::error::reason;
use crate::verify::mds::unknown_hashes;
use shardmill_engine::Cancel;
use shardmill_formats::limit::DecodeLimit;
use shardmill_formats::mds::check_file_hashes;
use shardmill_formats::records::BadLines;
use shardmill_formats::table::TableFile;
use shardmill_load::{Dataset, DatasetOptions, Format, text_files};
use shardmill_storage::store_of;

pub(super) fn verify_table(path: &str, format: Format, cancel: &Cancel, check: &mut FileCheck) -> Result<()> {
    match open_alone(path, format, cancel) {
        Ok(dataset) => dataset.files().iter().try_for_each(|file| read_blocks(&*file.table, None, cancel, check)),
        Err(error) => {
            check.report(Problem::new(Rule::Readable, reason(&error)));
            Ok(())
        }
    }
}

/// All shards of JSON Lines that the index at `path` lists: their rows, numbers of rows and hashes.
pub(super) fn verify_text_index(path: &str, cancel: &Cancel, check: &mut FileCheck) -> Result<()> {
    let folder = path.rsplit_once('/').map_or(".", |(folder, _name)| folder);
    let shards = match text_files(folder) {
        Ok(shards) => shards.unwrap_or_default(),
        Err(error) => {
            check.report(Problem::new(Rule::Readable, reason(&error)));
            return Ok(());
        }
    };
    for shard in shards {
        cancel.check()?;
        let place = &shard.file.relative;
        for algorithm in unknown_hashes([&shard.entry]) {
            check.report(Problem::new(Rule::Structure, format!("hash `{algorithm}` cannot be computed here")).at_member(place, 0));
        }
        let before = check.samples;
        match open_alone(&shard.file.path, Format::Jsonl, cancel) {
            Ok(dataset) => dataset.files().iter().try_for_each(|file| read_blocks(&*file.table, Some(place), cancel, check))?,
            Err(error) => check.report(Problem::new(Rule::Readable, reason(&error)).at_member(place, 0)),
        }
        let samples = check.samples - before;
        if samples != shard.samples {
            let what = format!("it has {samples} rows, and the index lists {}", shard.samples);
            check.report(Problem::new(Rule::Structure, what).at_member(place, 0));
        }
        let hashed = store_of(&shard.file.path).and_then(|store| store.open(&shard.file.path));
        // What cannot be opened is reported above.
        if let Ok(Err(error)) = hashed.map(|object| check_file_hashes(&*object, &shard.entry)) {
            check.report(Problem::new(Rule::Structure, reason(&error)).at_member(place, 0));
        }
    }
    Ok(())
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
