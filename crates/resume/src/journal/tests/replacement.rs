//! Outputs that are replaced because their input was repaired, or rebuilt because they were lost:
//! crashed at each step, and overtaken.

use super::simulation::{Crash, Nature, SimulatedDisk};
use super::{CHECKPOINT, FILES, OUT, assert_exact, inputs, natures, options, run, run_over};
use crate::journal::{Journal, JournalOptions, Repair, Repaired, Snapshot, relocate, repair};
use crate::{Error, Result};
use shardmill_plan::{InputFile, Split};
use shardmill_storage::Disk;
use std::collections::BTreeSet;
use std::sync::Arc;

fn repaired(disk: &SimulatedDisk) -> Result<Repaired> {
    repair(
        &Repair { path: CHECKPOINT, output: None, names: BTreeSet::new(), is_there: &|_| true },
        Arc::new(disk.process()),
    )
}

/// What a user sees of the outputs during a replacement: for each, the old one or the new one.
fn assert_old_or_new(disk: &SimulatedDisk, story: &str) {
    let rows = disk.visible(OUT);
    for file in inputs(FILES) {
        let of_file =
            rows.iter().filter(|row| **row == file.path || **row == format!("{}~", file.path));
        assert_eq!(of_file.count(), 1, "{story}: {rows:?}");
    }
}

fn corrupt(numbers: &[usize]) -> Vec<InputFile> {
    let mut files = inputs(FILES);
    numbers.iter().for_each(|number| files[*number].modified_ns = 1);
    files
}

fn mended(numbers: &[usize]) -> Vec<InputFile> {
    let mut files = inputs(FILES);
    numbers.iter().for_each(|number| files[*number].modified_ns = 2);
    files
}

#[test]
fn crash_at_any_step_of_a_replacement_leaves_the_old_output_or_the_new_one() {
    for nature in natures() {
        let disk = SimulatedDisk::new(nature);
        run_over(&disk.process(), &corrupt(&[0, 3]), false).unwrap();
        let undisturbed = disk.process();
        assert_eq!(run_over(&undisturbed, &mended(&[0, 3]), false).unwrap(), 2);
        assert_exact(&disk, FILES, "undisturbed");
        for step in 0..undisturbed.steps() {
            for crash in [Crash::Process, Crash::Power(step), Crash::Power(!step)] {
                let story = format!("{nature:?}, {crash:?} at {step}");
                let disk = SimulatedDisk::new(nature);
                run_over(&disk.process(), &corrupt(&[0, 3]), false).unwrap();
                let first = disk.process().crash_at(step);
                let _crashed = run_over(&first, &mended(&[0, 3]), false);
                first.crashed(crash);
                assert_old_or_new(&disk, &story);
                run_over(&disk.process(), &mended(&[0, 3]), false)
                    .unwrap_or_else(|error| panic!("{story}: {error}"));
                assert_exact(&disk, FILES, &story);
                assert_eq!(
                    run_over(&disk.process(), &mended(&[0, 3]), false).unwrap(),
                    0,
                    "{story}"
                );
            }
        }
    }
}

#[test]
fn sleeper_in_a_replacement_changes_nothing_when_it_wakes() {
    for renames_by_copy in [false, true] {
        let nature = Nature { renames_by_copy, has_locks: false };
        let disk = SimulatedDisk::new(nature);
        run_over(&disk.process(), &corrupt(&[0, 3]), false).unwrap();
        let undisturbed = disk.process();
        run_over(&undisturbed, &mended(&[0, 3]), false).unwrap();
        for step in 1..=undisturbed.steps() {
            let disk = SimulatedDisk::new(nature);
            run_over(&disk.process(), &corrupt(&[0, 3]), false).unwrap();
            let other = disk.process();
            let sleeper = disk.process().sleep_at(step, move || {
                run_over(&other, &mended(&[0, 3]), false).unwrap();
            });
            // Another version, and still corrupt.
            let mut files = mended(&[0, 3]);
            [0, 3].iter().for_each(|number: &usize| files[*number].modified_ns = 3);
            let _fenced = run_over(&sleeper, &files, false);
            let story = format!("{nature:?}, asleep at {step}");
            run_over(&disk.process(), &mended(&[0, 3]), false)
                .unwrap_or_else(|error| panic!("{story}: {error}"));
            assert_exact(&disk, FILES, &story);
        }
    }
}

#[test]
fn split_of_which_something_was_left_out_stays_open() {
    let disk = SimulatedDisk::new(natures()[1]);
    run_over(&disk.process(), &corrupt(&[0]), false).unwrap();
    // The same outcome: published outputs are kept, and the split stays open.
    for _ in 0..2 {
        let rows = disk.visible(OUT);
        assert_eq!(run_over(&disk.process(), &corrupt(&[0]), false).unwrap(), 0);
        assert_eq!(disk.visible(OUT), rows);
        let snapshot = Snapshot::read(CHECKPOINT, Arc::new(disk.process())).unwrap();
        assert_eq!((snapshot.open_units(), snapshot.records.len()), (1, 3));
        let open: Vec<_> = snapshot.records.values().filter(|record| record.is_open()).collect();
        assert_eq!(open[0].read[0].modified_ns, 1);
    }
    assert_eq!(run_over(&disk.process(), &mended(&[0]), false).unwrap(), 1);
    assert_exact(&disk, FILES, "mended");
    assert_eq!(run_over(&disk.process(), &mended(&[0]), false).unwrap(), 0);
}

#[test]
fn output_that_the_repaired_input_no_longer_gives_is_removed_and_its_name_not_used_again() {
    let disk = SimulatedDisk::new(natures()[1]);
    run_over(&disk.process(), &corrupt(&[0]), false).unwrap();
    let mut unreadable = corrupt(&[0]);
    (unreadable[0].size, unreadable[0].modified_ns) = (0, 3);
    run_over(&disk.process(), &unreadable, false).unwrap();
    assert_eq!(disk.visible(OUT).len(), FILES - 1);
    let retired: Vec<String> = Snapshot::read(CHECKPOINT, Arc::new(disk.process()))
        .unwrap()
        .records
        .into_values()
        .flat_map(|record| record.retired)
        .collect();
    let outputs: Vec<&String> = retired.iter().filter(|name| !name.starts_with("ids/")).collect();
    assert_eq!(outputs.len(), 1);
    run_over(&disk.process(), &mended(&[0]), false).unwrap();
    assert_exact(&disk, FILES, "mended");
    assert!(!disk.names().contains(&format!("{OUT}/{}", outputs[0])));
}

#[test]
fn file_that_a_failed_split_read_may_change() {
    let disk = SimulatedDisk::new(natures()[1]);
    let mut journal = Journal::open(&options(), Arc::new(disk.process())).unwrap();
    let new = journal.discover(&corrupt(&[1])).unwrap();
    journal.extend(&[Split::new(0, new)], None).unwrap();
    drop(journal);
    run_over(&disk.process(), &mended(&[1]), false).unwrap();
    assert_exact(&disk, FILES, "nothing of it was committed");
    // Back to the first version, which was never read; this is a change of a file that was.
    assert!(matches!(
        run_over(&disk.process(), &inputs(FILES), false),
        Err(Error::InputChanged { .. })
    ));
}

#[test]
fn one_copy_of_plan_pack_or_job_makes_the_other() {
    for place in ["/packs/", "/plan/", "checkpoint.json"] {
        for (copy, is_removed) in [(0, false), (1, false), (0, true), (1, true)] {
            let disk = SimulatedDisk::new(natures()[1]);
            run(&disk.process(), FILES, false).unwrap();
            run(&disk.process(), FILES, false).unwrap();
            let names: Vec<String> =
                disk.names().into_iter().filter(|name| name.contains(place)).collect();
            assert_eq!(names.len(), 2, "{names:?}");
            if is_removed {
                disk.process().remove(&names[copy]).unwrap();
            } else {
                // The first name is a prefix of the second.
                let content = disk.process().read(&names[copy]).unwrap().unwrap();
                disk.process().remove(&names[copy]).unwrap();
                disk.process().write_new(&names[copy], &content[..9]).unwrap();
            }
            assert_eq!(run(&disk.process(), FILES + 1, false).unwrap(), 1, "{place} {copy}");
            assert_exact(&disk, FILES + 1, place);
            assert_eq!(disk.names().into_iter().filter(|name| names.contains(name)).count(), 2);
        }
    }
}

#[test]
fn lost_outputs_are_opened_by_a_repair_and_made_again() {
    for damage in [
        |content: &mut Vec<u8>| content.push(b'!'),
        |content: &mut Vec<u8>| content[0] ^= 1,
        |content: &mut Vec<u8>| content.clear(),
    ] {
        for (place, opened) in [("/out/", 3), ("/ids/", 3), ("/packs/", 3)] {
            let disk = SimulatedDisk::new(natures()[1]);
            run(&disk.process(), FILES, false).unwrap();
            run(&disk.process(), FILES, false).unwrap();
            assert!(disk.damage(place, damage) > 1);
            let done = repaired(&disk).unwrap();
            assert_eq!(
                (done.reopened.len(), done.without_input.len()),
                (opened, 0),
                "{place}: {done:?}"
            );
            assert_eq!(run(&disk.process(), FILES, false).unwrap(), opened);
            assert_exact(&disk, FILES, place);
            assert!(repaired(&disk).unwrap().problems.is_empty());
            assert_eq!(run(&disk.process(), FILES, false).unwrap(), 0);
        }
    }
}

#[test]
fn repair_that_dies_at_any_step_is_repeated() {
    let nature = natures()[1];
    let damaged = || {
        let disk = SimulatedDisk::new(nature);
        run(&disk.process(), FILES, false).unwrap();
        assert!(disk.damage("-1.x", |content| content.push(b'!')) > 1);
        disk
    };
    let disk = damaged().process();
    let request =
        Repair { path: CHECKPOINT, output: None, names: BTreeSet::new(), is_there: &|_| true };
    repair(&request, Arc::new(disk.clone())).unwrap();
    for step in 0..disk.steps() {
        for crash in [Crash::Process, Crash::Power(step), Crash::Power(!step)] {
            let disk = damaged().process().crash_at(step);
            let _crashed = repair(&request, Arc::new(disk.clone()));
            disk.crashed(crash);
            repaired(&disk).unwrap();
            run(&disk.process(), FILES, false).unwrap();
            assert_exact(&disk, FILES, &format!("{crash:?} at {step}"));
        }
    }
}

#[test]
fn checkpoint_that_was_moved_with_its_outputs_never_leads_back() {
    let disk = SimulatedDisk::new(natures()[1]);
    let at = |tree: &str| JournalOptions {
        path: format!("{tree}/state"),
        output: format!("{tree}/out"),
        inputs: vec![format!("{tree}/in")],
        ..options()
    };
    let journal = Journal::open(&at("/w/a"), Arc::new(disk.process())).unwrap();
    disk.process().make_directory("/w/b").unwrap();
    drop(journal);
    disk.process().rename("/w/a/state/checkpoint.json", "/w/b/checkpoint.json").unwrap();
    disk.process().make_directory("/w/b/state").unwrap();
    disk.process().rename("/w/b/checkpoint.json", "/w/b/state/checkpoint.json").unwrap();
    let moved = Journal::open(&at("/w/b"), Arc::new(disk.process())).unwrap();
    assert_eq!(moved.commit_target().places.output, "/w/b/out");
    let other = JournalOptions { output: "/elsewhere".to_owned(), ..at("/w/b") };
    drop(moved);
    assert!(matches!(Journal::open(&other, Arc::new(disk.process())), Err(Error::OtherJob { .. })));
    relocate("/w/b/state", None, Some("/elsewhere".to_owned()), Arc::new(disk.process())).unwrap();
    Journal::open(&other, Arc::new(disk.process())).unwrap();
}
