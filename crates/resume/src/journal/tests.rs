//! A job on a simulated disk: crashed at each step, with and without power loss, and overtaken at
//! each step; afterwards every row exists once.

use super::{
    Committer, Fingerprint, Journal, JournalOptions, LEASE_AGE, Outcome, Snapshot, UnitCounts,
};
use crate::{Error, Result};
use proptest::prelude::*;
use serde_json::json;
use shardmill_plan::{InputFile, Split};
use shardmill_storage::{Disk, Sealed};
use simulation::{Crash, Nature, SimulatedDisk};
use std::sync::Arc;

mod parts;
mod replacement;
mod simulation;

const OUT: &str = "/out";
const CHECKPOINT: &str = "/checkpoint";
/// Few files, but with splits of several files and of several outputs.
const FILES: usize = 5;

fn natures() -> [Nature; 4] {
    [(false, false), (false, true), (true, false), (true, true)]
        .map(|(renames_by_copy, has_locks)| Nature { renames_by_copy, has_locks })
}

fn inputs(count: usize) -> Vec<InputFile> {
    // Names that are prefixes of one another.
    (0..count)
        .map(|number| InputFile {
            path: "x".repeat(number + 1),
            size: 1,
            modified_ns: 0,
            part: None,
        })
        .collect()
}

fn options() -> JournalOptions {
    let fingerprint = Fingerprint(json!({"version": "1"}).as_object().unwrap().clone());
    JournalOptions {
        path: CHECKPOINT.to_owned(),
        fingerprint,
        inputs: vec!["/in".to_owned()],
        output: OUT.to_owned(),
        reprocesses_changed: false,
        knows_ids: true,
        lease_age: LEASE_AGE,
    }
}

/// Runs the job to its end, as a driver does.
fn run(disk: &SimulatedDisk, files: usize, deletes: bool) -> Result<usize> {
    run_over(disk, &inputs(files), deletes)
}

/// In an odd version, a file is corrupt: half of its row can be read.
fn run_over(disk: &SimulatedDisk, files: &[InputFile], deletes: bool) -> Result<usize> {
    let failed = |source| Error::Journal { path: OUT.to_owned(), source };
    let mut journal = Journal::open(&options(), Arc::new(disk.clone()))?;
    let new = journal.discover(files)?;
    let splits: Vec<Split> =
        new.chunks(2).enumerate().map(|(index, files)| Split::new(index, files.to_vec())).collect();
    journal.extend(&splits, None)?;
    let committer = Committer::new(journal.commit_target(), Arc::new(disk.clone()));
    let pending = journal.pending();
    disk.make_directory(OUT).map_err(failed)?;
    let mut committed = 0;
    for split in &pending {
        committed += usize::from(commit(disk, &committer, split)? == Outcome::Committed);
    }
    journal.finish(deletes)?;
    Ok(committed)
}

fn commit(disk: &SimulatedDisk, committer: &Committer, split: &Split) -> Result<Outcome> {
    let failed = |source| Error::Journal { path: OUT.to_owned(), source };
    let unit = split.unit.as_ref().unwrap();
    let mut attempt = committer.attempt(unit, &split.files);
    let mut counts = UnitCounts { rows_in: 2, ..UnitCounts::default() };
    for (number, file) in split.files.iter().enumerate() {
        let is_corrupt = file.modified_ns % 2 == 1;
        // A file that cannot be read at all gives no output.
        if is_corrupt && file.size == 0 {
            counts.quarantined += 1;
            continue;
        }
        let content = if is_corrupt { format!("{}~", file.path) } else { file.path.clone() };
        counts.quarantined += u64::from(is_corrupt);
        counts.rows_out += 2 - u64::from(is_corrupt);
        let hidden = format!("{OUT}/{}", attempt.hidden_name());
        disk.write_new(&hidden, content.as_bytes()).map_err(failed)?;
        disk.sync(&hidden).map_err(failed)?;
        let target = format!("{OUT}/{}-{number}.x", unit.name);
        attempt.add_output(
            Sealed { path: hidden, target, bytes: content.len() as u64 },
            1,
            hash_of(content.as_bytes()),
        );
    }
    let target = attempt.ids_path();
    let hidden =
        format!("{}/{}", super::journal_store::directory_of(&target), attempt.hidden_name());
    disk.write_new(&hidden, b"ids").map_err(failed)?;
    disk.sync(&hidden).map_err(failed)?;
    attempt.set_ids(&Sealed { path: hidden, target, bytes: 3 }, 1, hash_of(b"ids"));
    attempt.commit(counts)
}

fn hash_of(content: &[u8]) -> String {
    format!("{:016x}", xxhash_rust::xxh3::xxh3_64(content))
}

fn assert_exact(disk: &SimulatedDisk, files: usize, story: &str) {
    let mut rows = disk.visible(OUT);
    rows.sort_unstable_by_key(String::len);
    let wanted: Vec<String> = inputs(files).into_iter().map(|file| file.path).collect();
    assert_eq!(rows, wanted, "{story}");
    let hidden: Vec<String> = disk.names().into_iter().filter(|name| name.contains("/.")).collect();
    assert!(hidden.is_empty(), "{story}: {hidden:?} is left over");
}

fn steps_of_a_run(nature: Nature) -> u64 {
    let disk = SimulatedDisk::new(nature).process();
    run(&disk, FILES, false).unwrap();
    assert_exact(&disk, FILES, "undisturbed");
    disk.steps()
}

#[test]
fn crash_at_any_step_loses_and_repeats_nothing() {
    for nature in natures() {
        for step in 0..steps_of_a_run(nature) {
            for crash in [
                Crash::Process,
                Crash::Power(step),
                Crash::Power(!step),
                Crash::Power(step * 7 + 1),
            ] {
                let first = SimulatedDisk::new(nature).process().crash_at(step);
                let story = format!("{nature:?}, {crash:?} at {step}");
                let _crashed = run(&first, FILES, false);
                first.crashed(crash);
                run(&first.process(), FILES, false)
                    .unwrap_or_else(|error| panic!("{story}: {error}"));
                assert_exact(&first, FILES, &story);
            }
        }
    }
}

#[test]
fn crash_while_resuming_loses_and_repeats_nothing() {
    for nature in natures() {
        let steps = steps_of_a_run(nature);
        for step in (0..steps).step_by(3) {
            for second in (0..steps).step_by(5) {
                let first = SimulatedDisk::new(nature).process().crash_at(step);
                let _crashed = run(&first, FILES, false);
                first.crashed(Crash::Power(step));
                let resumed = first.process().crash_at(second);
                let _may_be_done = run(&resumed, FILES, false);
                resumed.crashed(Crash::Power(second));
                let story = format!("{nature:?}, {step}, then {second}");
                run(&first.process(), FILES, false)
                    .unwrap_or_else(|error| panic!("{story}: {error}"));
                assert_exact(&first, FILES, &story);
            }
        }
    }
}

/// The suspended machine looks dead to the one that takes over; it continues after
/// that one is done.
#[test]
fn sleeper_who_wakes_after_the_resume_changes_nothing() {
    for renames_by_copy in [false, true] {
        let nature = Nature { renames_by_copy, has_locks: false };
        for step in 1..=steps_of_a_run(nature) {
            let disk = SimulatedDisk::new(nature);
            let other = disk.process();
            let sleeper = disk.process().sleep_at(step, move || {
                run(&other, FILES, false).unwrap();
            });
            let _fenced = run(&sleeper, FILES, false);
            let story = format!("{nature:?}, asleep at {step}");
            let before = disk.visible(OUT).len();
            assert_eq!(before, FILES, "{story}: rows appeared twice or went");
            run(&disk.process(), FILES, false).unwrap_or_else(|error| panic!("{story}: {error}"));
            assert_exact(&disk, FILES, &story);
        }
    }
}

/// As above, but the run that takes over dies at its own step, and a third one finishes after the
/// first continued.
#[test]
fn sleeper_between_two_crashed_runs_changes_nothing() {
    let nature = Nature { renames_by_copy: false, has_locks: false };
    let steps = steps_of_a_run(nature);
    for step in (1..=steps).step_by(2) {
        for second in (0..steps).step_by(7) {
            let disk = SimulatedDisk::new(nature);
            let other = disk.process().crash_at(second);
            let sleeper = disk.process().sleep_at(step, move || {
                let _crashed = run(&other, FILES, false);
            });
            let _fenced = run(&sleeper, FILES, false);
            let story = format!("asleep at {step}, the other dead at {second}");
            run(&disk.process(), FILES, false).unwrap_or_else(|error| panic!("{story}: {error}"));
            assert_exact(&disk, FILES, &story);
        }
    }
}

#[test]
fn second_run_has_nothing_to_do() {
    let disk = SimulatedDisk::new(natures()[1]);
    assert_eq!(run(&disk.process(), FILES, false).unwrap(), 3);
    let names = disk.visible(OUT);
    assert_eq!(run(&disk.process(), FILES, false).unwrap(), 0);
    assert_eq!(disk.visible(OUT), names);
}

#[test]
fn new_files_are_planned_and_the_old_ones_left_alone() {
    let disk = SimulatedDisk::new(natures()[1]);
    run(&disk.process(), FILES, false).unwrap();
    assert_eq!(run(&disk.process(), FILES + 3, false).unwrap(), 2);
    assert_exact(&disk, FILES + 3, "three more files");
}

#[test]
fn deleting_on_success_leaves_the_outputs_alone() {
    let disk = SimulatedDisk::new(natures()[1]);
    run(&disk.process(), FILES, true).unwrap();
    assert_exact(&disk, FILES, "deleted");
    assert!(
        !disk.names().iter().any(|name| name.starts_with("/checkpoint/")),
        "{:?}",
        disk.names()
    );
}

#[test]
fn crash_while_deleting_leaves_the_job_done_or_deleted() {
    let nature = natures()[1];
    let disk = SimulatedDisk::new(nature).process();
    run(&disk, FILES, true).unwrap();
    let kept = steps_of_a_run(nature);
    for step in kept..disk.steps() {
        let first = SimulatedDisk::new(nature).process().crash_at(step);
        let _late_failures_are_warnings = run(&first, FILES, true);
        first.crashed(Crash::Power(step));
        // Whether it is done or starts again, the same names have the same rows.
        run(&first.process(), FILES, false).unwrap();
        let mut rows = first.visible(OUT);
        rows.sort_unstable();
        rows.dedup();
        assert_eq!(rows.len(), FILES);
    }
}

#[test]
fn living_job_refuses_a_second_one_and_is_named() {
    let disk = SimulatedDisk::new(natures()[1]);
    let first = Journal::open(&options(), Arc::new(disk.process())).unwrap();
    let second = Journal::open(&options(), Arc::new(disk.process())).unwrap_err();
    assert!(
        matches!(&second, Error::LeaseHeld { holder, .. } if holder.contains("process")),
        "{second}"
    );
    drop(first);
    Journal::open(&options(), Arc::new(disk.process())).unwrap();
}

#[test]
fn other_job_is_refused_and_the_difference_named() {
    let disk = SimulatedDisk::new(natures()[1]);
    run(&disk.process(), FILES, false).unwrap();
    let mut other = options();
    other.fingerprint.0.insert("version".to_owned(), json!("2"));
    let error = Journal::open(&other, Arc::new(disk.process())).unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"The checkpoint `/checkpoint` belongs to another job: `version` was "1" and is "2""#
    );
}

#[test]
fn rewritten_input_is_refused_unless_ids_tell_its_rows() {
    let disk = SimulatedDisk::new(natures()[1]);
    run(&disk.process(), FILES, false).unwrap();
    let mut files = inputs(FILES);
    files[2].size = 9;
    let mut journal = Journal::open(&options(), Arc::new(disk.process())).unwrap();
    assert!(matches!(journal.discover(&files), Err(Error::InputChanged { others: 0, .. })));
    drop(journal);
    let mut journal = Journal::open(
        &JournalOptions { reprocesses_changed: true, ..options() },
        Arc::new(disk.process()),
    )
    .unwrap();
    let new = journal.discover(&files).unwrap();
    assert_eq!(new, [files[2].clone()]);
    journal.extend(&[Split::new(0, new)], None).unwrap();
    let pending = journal.pending();
    assert_eq!(pending.len(), 1);
    assert_eq!(journal.done_ids(pending[0].unit.as_ref().unwrap().segment).len(), 3);
}

#[test]
fn file_that_was_away_when_its_split_was_committed_is_new_when_it_is_back() {
    let disk = SimulatedDisk::new(natures()[1]);
    let all = inputs(2);
    let mut journal = Journal::open(&options(), Arc::new(disk.process())).unwrap();
    let new = journal.discover(&all).unwrap();
    journal.extend(&[Split::new(0, new)], None).unwrap();
    drop(journal);
    assert_eq!(run(&disk.process(), 1, false).unwrap(), 1);
    assert_eq!(run(&disk.process(), 2, false).unwrap(), 1);
    assert_exact(&disk, 2, "back again");
}

#[test]
fn damaged_record_is_done_again() {
    for cut in [0, 1, 7] {
        let disk = SimulatedDisk::new(natures()[1]);
        run(&disk.process(), FILES, false).unwrap();
        assert_eq!(disk.damage("/units-", |content| content.truncate(content.len() * cut / 8)), 3);
        assert_eq!(run(&disk.process(), FILES, false).unwrap(), 3);
        assert_exact(&disk, FILES, "damaged");
    }
}

#[test]
fn pack_or_plan_of_which_both_copies_are_damaged_is_refused() {
    for place in ["/packs/", "/plan/", "checkpoint.json"] {
        let disk = SimulatedDisk::new(natures()[1]);
        run(&disk.process(), FILES, false).unwrap();
        run(&disk.process(), FILES, false).unwrap();
        assert_eq!(disk.damage(place, |content| content[8] ^= 1), 2);
        assert!(
            matches!(
                run(&disk.process(), FILES, false),
                Err(Error::Damaged { .. } | Error::Beyond { .. })
            ),
            "{place}"
        );
    }
}

#[test]
fn checkpoint_of_another_format_is_refused() {
    let disk = SimulatedDisk::new(natures()[1]);
    run(&disk.process(), FILES, false).unwrap();
    let old = super::record::to_lines([
        json!({"format": 1, "job": "x", "fingerprint": {}, "output": OUT}),
    ])
    .unwrap();
    assert_eq!(disk.damage("/checkpoint/checkpoint.json", |content| content.clone_from(&old)), 1);
    assert!(matches!(
        run(&disk.process(), FILES, false),
        Err(Error::OtherFormat { format: 1, .. })
    ));
}

#[test]
fn removed_output_is_reported_before_anything_is_done() {
    let disk = SimulatedDisk::new(natures()[1]);
    run(&disk.process(), FILES, false).unwrap();
    disk.damage("/out/", |content| content.push(b'!'));
    assert!(matches!(run(&disk.process(), FILES, false), Err(Error::OutputChanged { .. })));
    let snapshot = Snapshot::read(CHECKPOINT, Arc::new(disk.process())).unwrap();
    assert_eq!(snapshot.verify().unwrap().len(), FILES);
}

#[test]
fn number_of_files_does_not_grow_with_the_number_of_resumes() {
    let disk = SimulatedDisk::new(natures()[1]);
    let mut counts = Vec::new();
    for files in 1..60 {
        run(&disk.process(), files, false).unwrap();
        let count =
            |directory: &str| disk.names().iter().filter(|name| name.contains(directory)).count();
        counts.push(["/lease/", "/plan/", "/packs/", "/units-"].map(count));
    }
    // From the third run on: a lease and its end; a merged plan and a new part, each twice; a pack,
    // twice; the directory of a term and its record.
    assert!(counts[2..].iter().all(|count| *count == [2, 4, 2, 2]), "{counts:?}");
    let journal = Journal::open(&options(), Arc::new(disk.process())).unwrap();
    assert_eq!(journal.committed(), 59);
    journal.compact().unwrap();
    assert_eq!(disk.names().iter().filter(|name| name.contains("/packs/")).count(), 2);
    drop(journal);
    assert_eq!(run(&disk.process(), 59, false).unwrap(), 0);
}

#[test]
fn leftovers_of_a_merge_that_died_change_nothing_and_are_removed() {
    for step in 0..200 {
        let disk = SimulatedDisk::new(natures()[1]);
        for files in 1..4 {
            run(&disk.process(), files, false).unwrap();
        }
        let process = disk.process().crash_at(step);
        let is_over = run(&process, 4, false).is_ok();
        process.crashed(Crash::Process);
        run(&disk.process(), 4, false).unwrap();
        assert_exact(&disk, 4, &format!("step {step}"));
        let plans: Vec<_> =
            disk.names().into_iter().filter(|name| name.contains("/plan/")).collect();
        assert!(plans.len() <= 4, "{plans:?}");
        if is_over {
            return;
        }
    }
    panic!("the job has more steps than that");
}

/// It was suspended between finding the last lease and taking the next, while two other runs
/// started and finished.
#[test]
fn run_that_makes_a_lease_whose_successors_are_gone_gives_it_back() {
    for has_locks in [false, true] {
        for step in 0..60 {
            let disk = SimulatedDisk::new(Nature { renames_by_copy: false, has_locks });
            run(&disk.process(), 1, false).unwrap();
            let other = disk.clone();
            let sleeper = disk.process().sleep_at(step, move || {
                for files in 2..5 {
                    let _refused_while_the_sleeper_has_a_lock = run(&other.process(), files, false);
                }
            });
            let _ended = run(&sleeper, 5, false);
            run(&disk.process(), 5, false).unwrap();
            assert_exact(&disk, 5, &format!("step {step}"));
            let leases = disk.names().iter().filter(|name| name.contains("/lease/0")).count();
            assert_eq!(leases, 2, "step {step}");
        }
    }
}

/// Its writer died between the rename and the sync of the directory; the next run sees the record,
/// renames its files, and loses power.
#[test]
fn record_whose_name_was_not_synced_is_not_lost_after_its_files_have_names() {
    for step in 0..steps_of_a_run(natures()[0]) {
        for takeover in 0..60 {
            let disk = SimulatedDisk::new(natures()[0]);
            let process = disk.process().crash_at(step);
            let _ended = run(&process, FILES, false);
            process.crashed(Crash::Process);
            let process = disk.process().crash_at(takeover);
            if run(&process, FILES, false).is_ok() {
                break;
            }
            process.crashed(Crash::Power(0));
            run(&disk.process(), FILES, false).unwrap();
            assert_exact(&disk, FILES, &format!("step {step}, takeover {takeover}"));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn any_series_of_crashes_and_sleeps_ends_exact(
        events in prop::collection::vec((0u64..120, 0u64..120, any::<u64>(), 0u8..3), 1..6),
        renames_by_copy: bool,
    ) {
        let disk = SimulatedDisk::new(Nature { renames_by_copy, has_locks: false });
        for (step, second, seed, kind) in &events {
            match kind {
                0 => {
                    let process = disk.process().crash_at(*step);
                    let _ended = run(&process, FILES, false);
                    process.crashed(Crash::Power(*seed));
                }
                1 => {
                    let process = disk.process().crash_at(*step);
                    let _ended = run(&process, FILES, false);
                    process.crashed(Crash::Process);
                }
                _ => {
                    let other = disk.process().crash_at(*second);
                    let sleeper = disk.process().sleep_at(*step, move || {
                        let _ended = run(&other, FILES, false);
                    });
                    let _ended = run(&sleeper, FILES, false);
                }
            }
        }
        run(&disk.process(), FILES, false).unwrap();
        assert_exact(&disk, FILES, &format!("{events:?}"));
    }
}
