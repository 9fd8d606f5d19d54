//! Walks a file as a data set, block by block.
//!
//! The reader is that of `Dataset` and `Loader`, so `verify` passes a file exactly if these can
//! read all of it. Checksums of the format are verified on the way. The types of text files are
//! inferred from this file alone.

use super::Walk;
use crate::problem::{Problem, Rule};
use crate::visitor::Visitor;
use arrow_buffer::BooleanBuffer;
use shardmill_documents::{Result, counted};
use shardmill_engine::Cancel;
use shardmill_formats::mds::check_file_hashes;
use shardmill_formats::table::TableFile;
use shardmill_load::{Dataset, DatasetOptions, Format, text_files};
use shardmill_storage::{AnyStore, Store};

impl<'a, V: Visitor<'a>> Walk<'a, V> {
    /// `member` is the file, if it differs from the checked path.
    pub(super) fn table(&mut self, path: &str, format: Format, member: Option<&str>) -> Result<()> {
        let alone = DatasetOptions::new(vec![path.to_owned()], Some(format));
        let options = DatasetOptions {
            has_pickle_bytes: true,
            ignores_zeros: self.options.ignore_zeros,
            tokens: self.options.token_files(path),
            ..alone
        };
        match Dataset::open(&options, self.cancel) {
            Ok(dataset) => {
                dataset.files().iter().try_for_each(|file| self.blocks(&*file.table, member))
            }
            Err(error) => {
                let problem = Problem::unreadable(&error);
                self.visitor.problem(match member {
                    Some(name) => problem.at_member(name, 0),
                    None => problem,
                });
                Ok(())
            }
        }
    }

    /// All JSON Lines shards that an index lists: their rows, numbers of rows and hashes.
    pub(super) fn text_index(&mut self, directory: &str) -> Result<()> {
        for shard in self.readable(text_files(directory)).flatten().unwrap_or_default() {
            self.cancel.check()?;
            let place = &shard.file.relative;
            self.visitor.shard(&[&shard.entry], place);
            let before = self.visitor.file().samples;
            self.table(&shard.file.path, Format::Jsonl, Some(place))?;
            let samples = self.visitor.file().samples - before;
            if samples != shard.samples {
                let what = format!(
                    "it has {}, and the index lists {}",
                    counted(samples, "row"),
                    shard.samples
                );
                self.visitor.problem(Problem::new(Rule::Structure, what).at_member(place, 0));
            }
            if V::IS_THOROUGH
                // Files that cannot be opened are reported above.
                && let Ok(object) = AnyStore.open(&shard.file.path)
                && let Err(error) = check_file_hashes(&*object, &shard.entry)
            {
                self.visitor.problem(
                    Problem { rule: Rule::Structure, ..Problem::unreadable(&error) }
                        .at_member(place, 0),
                );
            }
        }
        Ok(())
    }

    /// Reads every block, including those after a damaged one: each problem is one block.
    pub(super) fn blocks(&mut self, table: &dyn TableFile, member: Option<&str>) -> Result<()> {
        self.visitor.columns(table.declared_schema());
        let columns: Vec<usize> = (0..table.schema().fields().len()).collect();
        let mut row = 0;
        for (number, block) in table.blocks().iter().enumerate() {
            self.cancel.check()?;
            let read = if V::IS_THOROUGH {
                table.read(number, &columns, None).map(|rows| rows.num_rows() as u64)
            } else {
                Ok(block.rows)
            };
            match read {
                Ok(rows) => self.visitor.file().add_rows(rows),
                Err(error) => {
                    let first = if error.of_store().is_some() {
                        0
                    } else {
                        first_bad_row(table, number, block.rows, &columns, self.cancel)?
                    };
                    let problem = Problem {
                        member: member.map(str::to_owned),
                        ..Problem::unreadable(&error)
                    };
                    self.visitor.problem(problem.at_row(row + first));
                }
            }
            row += block.rows;
        }
        // What cannot be read is reported above.
        let notes = if V::IS_THOROUGH { table.notes().unwrap_or_default() } else { Vec::new() };
        notes.into_iter().for_each(|note| self.visitor.note(note));
        Ok(())
    }
}

/// The first row of a damaged block that cannot be read. Rows that are decoded together are damaged
/// together.
fn first_bad_row(
    table: &dyn TableFile,
    block: usize,
    rows: u64,
    columns: &[usize],
    cancel: &Cancel,
) -> Result<u64> {
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
