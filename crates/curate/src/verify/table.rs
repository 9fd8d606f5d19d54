//! Checks a file as a data set: reads every block with every column.
//!
//! The reader is that of `Dataset` and `Loader`, so a file passes exactly if these can read all of it. Checksums of the format are verified on the
//! way. The types of text files are inferred from this file alone.

use super::{FileCheck, Problem, Rule};
use crate::Result;
use crate::error::{counted, reason};
use crate::file_format::directory_of;
use crate::verify::mds::report_unknown_hashes;
use arrow_buffer::BooleanBuffer;
use shardmill_engine::Cancel;
use shardmill_formats::mds::check_file_hashes;
use shardmill_formats::table::TableFile;
use shardmill_load::{Dataset, DatasetOptions, Format, text_files};
use shardmill_storage::store_of;

pub(super) fn verify_table(path: &str, format: Format, cancel: &Cancel, check: &mut FileCheck) -> Result<()> {
    let Some(dataset) = check.readable(open_alone(path, format, cancel)) else { return Ok(()) };
    dataset.files().iter().try_for_each(|file| read_blocks(&*file.table, None, cancel, check))
}

/// Checks all JSON Lines shards that the index at `path` lists: their rows, numbers of rows and hashes.
pub(super) fn verify_text_index(path: &str, cancel: &Cancel, check: &mut FileCheck) -> Result<()> {
    for shard in check.readable(text_files(directory_of(path))).flatten().unwrap_or_default() {
        cancel.check()?;
        let place = &shard.file.relative;
        report_unknown_hashes([&shard.entry], place, check);
        let before = check.samples;
        match open_alone(&shard.file.path, Format::Jsonl, cancel) {
            Ok(dataset) => dataset.files().iter().try_for_each(|file| read_blocks(&*file.table, Some(place), cancel, check))?,
            Err(error) => check.report(Problem::new(Rule::Readable, reason(&error)).at_member(place, 0)),
        }
        let samples = check.samples - before;
        if samples != shard.samples {
            let what = format!("it has {}, and the index lists {}", counted(samples, "row"), shard.samples);
            check.report(Problem::new(Rule::Structure, what).at_member(place, 0));
        }
        let hashed = store_of(&shard.file.path).and_then(|store| store.open(&shard.file.path));
        // Files that cannot be opened are reported above.
        if let Ok(Err(error)) = hashed.map(|object| check_file_hashes(&*object, &shard.entry)) {
            check.report(Problem::new(Rule::Structure, reason(&error)).at_member(place, 0));
        }
    }
    Ok(())
}

/// Opens a data set of this file alone.
pub(crate) fn open_alone(path: &str, format: Format, cancel: &Cancel) -> shardmill_load::Result<Dataset> {
    let options = DatasetOptions { has_pickle_bytes: true, ..DatasetOptions::new(vec![path.to_owned()], Some(format)) };
    Dataset::open(&options, cancel)
}

/// Reads every block, including those after a damaged one: each problem is one block. `member` is the file, if it differs from the checked path.
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
                let first = if error.of_store().is_some() { 0 } else { first_bad_row(table, number, block.rows, &columns, cancel)? };
                check.report(problem.at_row(row + first));
            }
        }
        row += block.rows;
    }
    Ok(())
}

/// The first row of a damaged block that cannot be read. Rows that are decoded together are damaged together.
fn first_bad_row(table: &dyn TableFile, block: usize, rows: u64, columns: &[usize], cancel: &Cancel) -> Result<u64> {
    let Ok(len) = usize::try_from(rows) else { return Ok(0) };
    // Rows before `good` can be read; one of those from there to `bad` cannot.
    let (mut good, mut bad) = (0, len);
    while bad - good > 1 {
        cancel.check()?;
        let middle = good.midpoint(bad);
        let half = BooleanBuffer::collect_bool(len, |row| (good..middle).contains(&row));
        match table.read(block, columns, Some(&half)) {
            Ok(_) => good = middle,
            Err(_) => bad = middle,
        }
    }
    Ok(good as u64)
}
