//! Several parts of a plan: which ids the splits of one part are compared with when another part is
//! committed first, or has lost a record.

use super::simulation::{Crash, SimulatedDisk};
use super::{CHECKPOINT, FILES, OUT, assert_exact, commit, inputs, natures, options, run};
use crate::Result;
use crate::journal::{Committer, Journal, Outcome, Snapshot};
use arrow_schema::{DataType, Field, Schema};
use shardmill_plan::{InputFile, Split};
use shardmill_storage::Disk;
use std::sync::Arc;

/// Plans each new file as one split.
fn planned(disk: &SimulatedDisk, files: &[InputFile]) -> Result<Journal> {
    let mut journal = Journal::open(&options(), Arc::new(disk.clone()))?;
    let new = journal.discover(files)?;
    let splits: Vec<Split> =
        new.into_iter().enumerate().map(|(index, file)| Split::new(index, vec![file])).collect();
    journal.extend(&splits, None)?;
    Ok(journal)
}

/// Commits the pending split of a file.
fn commit_file(disk: &SimulatedDisk, journal: &Journal, path: &str) -> Outcome {
    disk.make_directory(OUT).unwrap();
    let committer = Committer::new(journal.commit_target(), Arc::new(disk.clone()));
    let pending = journal.pending();
    let split = pending.iter().find(|split| split.files[0].path == path).unwrap();
    commit(disk, &committer, split).unwrap()
}

/// The pending files, with the number of files of ids that their rows are compared with.
fn compared(journal: &Journal) -> Vec<(String, usize)> {
    let compared = |split: Split| {
        (split.files[0].path.clone(), journal.done_ids(split.unit.unwrap().segment).len())
    };
    let mut compared: Vec<_> = journal.pending().into_iter().map(compared).collect();
    compared.sort_unstable();
    compared
}

fn sizes(expected: &[(&str, usize)]) -> Vec<(String, usize)> {
    expected.iter().map(|(path, count)| ((*path).to_owned(), *count)).collect()
}

#[test]
fn new_files_may_change_the_types_of_planned_ones_until_a_split_is_committed() {
    let disk = SimulatedDisk::new(natures()[1]).process();
    let journal = planned(&disk, &inputs(2)).unwrap();
    let agreed = |has_new| {
        journal.agreed_types(has_new).map(|(schema, files)| (schema, files.len())).unwrap()
    };
    assert_eq!(agreed(true), (None, 2));
    assert_eq!(agreed(false), (None, 0), "the planned files are not asked again");
    assert_eq!(commit_file(&disk, &journal, "x"), Outcome::Committed);
    drop(journal);
    let schema = Schema::new(vec![Field::new("text", DataType::Utf8, true)]);
    let mut journal = planned(&disk, &inputs(2)).unwrap();
    let new = journal.discover(&inputs(3)).unwrap();
    journal.extend(&[Split::new(0, new)], Some(&schema)).unwrap();
    assert_eq!(journal.agreed_types(true).unwrap(), (Some(Arc::new(schema)), Vec::new()));
    let snapshot = Snapshot::read(CHECKPOINT, Arc::new(disk.process())).unwrap();
    let summary = snapshot.summary(Vec::new());
    assert_eq!((summary.splits, summary.committed_splits, summary.open_splits), (3, 1, 0));
}

#[test]
fn split_that_was_never_committed_is_compared_with_ids_that_later_parts_have_done() {
    let disk = SimulatedDisk::new(natures()[1]).process();
    drop(planned(&disk, &inputs(3)).unwrap());
    let journal = planned(&disk, &inputs(5)).unwrap();
    // Splits of one part are not compared with each other: `x` is committed,
    // and `xx` and `xxx` are not.
    for path in ["x", "xxxx"] {
        assert_eq!(commit_file(&disk, &journal, path), Outcome::Committed);
    }
    drop(journal);
    for _ in 0..3 {
        let journal = planned(&disk, &inputs(5)).unwrap();
        assert_eq!(compared(&journal), sizes(&[("xx", 1), ("xxx", 1), ("xxxxx", 1)]));
        assert_eq!(journal.committed(), 2);
    }
    let snapshot = Snapshot::read(CHECKPOINT, Arc::new(disk.process())).unwrap();
    assert_eq!((snapshot.planned(), snapshot.segments.len()), (5, 4));
    assert_eq!(run(&disk.process(), 5, false).unwrap(), 3);
    assert_exact(&disk, 5, "planned again");
}

#[test]
fn split_of_a_part_that_was_planned_again_takes_only_new_ids_into_account() {
    let disk = SimulatedDisk::new(natures()[1]).process();
    drop(planned(&disk, &inputs(2)).unwrap());
    for count in 3..5 {
        let journal = planned(&disk, &inputs(count)).unwrap();
        commit_file(&disk, &journal, &"x".repeat(count));
    }
    let journal = planned(&disk, &inputs(4)).unwrap();
    assert_eq!(compared(&journal), sizes(&[("x", 2), ("xx", 2)]));
    commit_file(&disk, &journal, "x");
    drop(journal);
    // The other split of its part is not compared with it.
    assert_eq!(compared(&planned(&disk, &inputs(4)).unwrap()), sizes(&[("xx", 2)]));
}

fn with_damaged_records() -> SimulatedDisk {
    let disk = SimulatedDisk::new(natures()[1]);
    run(&disk.process(), 3, false).unwrap();
    assert_eq!(disk.damage("/units-", |content| content.truncate(content.len() - 5)), 2);
    disk
}

#[test]
fn splits_that_skip_ids_of_a_damaged_record_wait_until_its_split_is_done_again() {
    let disk = with_damaged_records();
    let journal = planned(&disk.process(), &inputs(FILES)).unwrap();
    assert!(journal.holds_back());
    assert_eq!(compared(&journal), sizes(&[("x", 0), ("xxx", 0)]));
    drop(journal);
    assert_eq!(run(&disk.process(), FILES, false).unwrap(), 2);
    let journal = planned(&disk.process(), &inputs(FILES)).unwrap();
    assert!(!journal.holds_back());
    assert_eq!(compared(&journal), sizes(&[("xxxx", 2), ("xxxxx", 2)]));
}

#[test]
fn crash_while_a_split_with_a_damaged_record_is_done_again_loses_and_repeats_nothing() {
    let undisturbed = with_damaged_records().process();
    run(&undisturbed, FILES, false).unwrap();
    for step in 0..undisturbed.steps() {
        let disk = with_damaged_records();
        let first = disk.process().crash_at(step);
        let _crashed = run(&first, FILES, false);
        first.crashed(Crash::Power(step));
        for _pass in 0..2 {
            run(&disk.process(), FILES, false)
                .unwrap_or_else(|error| panic!("step {step}: {error}"));
        }
        assert_exact(&disk, FILES, &format!("step {step}"));
    }
}

#[test]
fn verification_reports_damaged_records_before_and_after_they_are_put_away() {
    let disk = with_damaged_records();
    let problems =
        || Snapshot::read(CHECKPOINT, Arc::new(disk.process())).unwrap().verify().unwrap();
    assert_eq!(problems().len(), 2);
    drop(planned(&disk.process(), &inputs(FILES)).unwrap());
    assert_eq!(problems().len(), 2);
    run(&disk.process(), FILES, false).unwrap();
    assert_eq!(problems(), []);
}
