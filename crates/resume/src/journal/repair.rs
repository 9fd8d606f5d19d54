//! Finds missing or damaged parts of a checkpoint and of its outputs, and reopens the splits that
//! produced them.
//!
//! A split is reopened by a record that replaces its last one: the next run does it again and
//! replaces its remaining outputs. The invariant: after a repair, no record names a file that is
//! damaged, and no unit counts as done whose rows are missing.

use super::journal_store::JournalStore;
use super::layout::{damaged_directory, id_types, ids_directory};
use super::lease::Lease;
use super::places::Places;
use super::plan::Segment;
use super::record::{OutputRecord, UnitRecord, from_line};
use super::recover::{self, save_pack};
use super::snapshot::{NO_RECORD, Problem, problems_of};
use super::{LEASE_AGE, agreed_results, job, plan, segment_files};
use crate::{Error, Result};
use serde::Serialize;
use shardmill_plan::InputFile;
use shardmill_storage::Disk;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

/// What to repair.
pub struct Repair<'a> {
    /// The directory of the checkpoint; absolute.
    pub path: &'a str,
    /// The directory of the outputs, if it differs from the one in the checkpoint.
    pub output: Option<String>,
    /// Restricts the check to outputs with these names; all if empty.
    pub names: BTreeSet<String>,
    /// Whether an input exists in its planned version.
    pub is_there: &'a dyn Fn(&InputFile) -> bool,
}

impl fmt::Debug for Repair<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Repair")
            .field("path", &self.path)
            .field("output", &self.output)
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}

/// The problems found and the splits reopened.
#[derive(Debug, Default, Serialize)]
pub struct Repaired {
    pub problems: Vec<Problem>,
    /// Splits that the next run does again.
    pub reopened: Vec<String>,
    /// Splits that were reopened although an input is missing or has changed: their results come
    /// from other files, or are lost.
    pub without_input: Vec<String>,
}

/// Directory for files that cannot be rebuilt.
const LOST: &str = "lost";

/// Finds damage, and reopens the affected splits.
///
/// # Errors
/// [`Error::NoJob`], [`Error::LeaseHeld`]; [`Error::Beyond`] when the checkpoint
/// cannot be repaired.
pub fn repair(repair: &Repair<'_>, disk: Arc<dyn Disk>) -> Result<Repaired> {
    let store = JournalStore::new(disk);
    let mut job = job::here(&store, repair.path)?;
    if let Some(output) = &repair.output {
        job.output.clone_from(output);
    }
    let places = job.places(repair.path);
    let root = &places.root;
    let lease = Lease::take(&store, root, LEASE_AGE)?;
    // Reopened splits write outputs even if their directory was removed too.
    store.make_directory(&places.output)?;
    let mut repaired = Repaired::default();
    let mut note = |path: String, problem: &str| {
        repaired.problems.push(Problem { path, unit: String::new(), problem: problem.to_owned() });
    };
    for pack in recover::lost_packs(&store, root)? {
        note(pack.path.clone(), "its records cannot be read");
        pack.remove(&store)?;
    }
    for agreed in agreed_results(&store, root)?.into_iter().rev().chain([id_types(root)]) {
        if store.read(&agreed)?.is_some_and(|content| from_line::<String>(&content).is_none()) {
            note(agreed.clone(), "it cannot be read");
            store.remove(&agreed)?;
        }
    }
    let records = recover::recover(&store, &places, &lease, true)?.records;
    job::save(&store, repair.path, &job)?;
    recover::collect_garbage(&store, &places, &job.job)?;
    let segments = segment_files::load(&store, root, true).map_err(beyond)?;
    let planned: HashMap<&str, &[InputFile]> = segments
        .iter()
        .flat_map(|segment| &segment.splits)
        .map(|split| (split.unit.as_str(), split.files.as_slice()))
        .collect();
    if records.keys().any(|unit| !planned.contains_key(unit.as_str())) {
        return Err(Error::Beyond { path: super::layout::plan_directory(root) });
    }
    let mut opener = Opener {
        store: &store,
        places: &places,
        repair,
        segments: &segments,
        planned,
        opened: BTreeMap::new(),
        repaired,
        broken: Vec::new(),
    };
    for record in records.values() {
        opener.check(record)?;
    }
    opener.open_lost(&records, lease.epoch())?;
    opener.open_false_skips(&records);
    let Opener { opened, mut repaired, broken, .. } = opener;
    if !opened.is_empty() {
        repaired.reopened = opened.keys().cloned().collect();
        let opened: Vec<UnitRecord> = opened
            .into_values()
            .map(|record| UnitRecord { epoch: lease.epoch(), ..record })
            .collect();
        save_pack(
            &store,
            root,
            &format!("{:020}-{}-repair", lease.epoch(), lease.term()),
            &opened,
        )?;
    }
    // Only now are they not named by any record.
    for Broken { path, is_kept } in broken {
        put_away(&store, root, &path, is_kept)?;
    }
    store
        .sync_directory(&places.output)
        .or_else(|error| if store.exists(&places.output)? { Err(error) } else { Ok(()) })?;
    store.sync_directory(&ids_directory(root))?;
    Ok(repaired)
}

fn beyond(error: Error) -> Error {
    match error {
        Error::Damaged { path, .. } => Error::Beyond { path },
        other => other,
    }
}

/// A file that is no longer named by a record.
struct Broken {
    path: String,
    /// It cannot be rebuilt.
    is_kept: bool,
}

fn put_away(store: &JournalStore, root: &str, path: &str, is_kept: bool) -> Result<()> {
    if !is_kept {
        return store.remove(path);
    }
    let directory = format!("{root}/{LOST}");
    store.make_directory(&directory)?;
    let (place, name) = path.rsplit_once('/').unwrap_or((".", path));
    // Outputs may be on another file system than the checkpoint.
    if store.rename(path, &format!("{directory}/{name}")).is_err() {
        store.rename(path, &format!("{place}/.{name}.{LOST}"))?;
    }
    Ok(())
}

struct Opener<'a> {
    store: &'a JournalStore,
    places: &'a Places,
    repair: &'a Repair<'a>,
    segments: &'a [Segment],
    planned: HashMap<&'a str, &'a [InputFile]>,
    opened: BTreeMap<String, UnitRecord>,
    repaired: Repaired,
    broken: Vec<Broken>,
}

impl Opener<'_> {
    fn has_input(&self, unit: &str, missing: &[String]) -> bool {
        let amended = self
            .segments
            .iter()
            .rev()
            .flat_map(|segment| &segment.amended)
            .find(|amended| amended.unit == unit);
        let files = amended
            .map(|amended| amended.files.as_slice())
            .or_else(|| self.planned.get(unit).copied())
            .unwrap_or_default();
        let mut files: Vec<InputFile> =
            files.iter().filter(|file| !missing.contains(&file.path)).cloned().collect();
        self.places.find_files(&mut files);
        files.iter().all(|file| (self.repair.is_there)(file))
    }

    /// Reopens a unit with a damaged file.
    fn check(&mut self, record: &UnitRecord) -> Result<()> {
        let is_asked =
            |name: &str| self.repair.names.is_empty() || self.repair.names.contains(name);
        if !record.files(self.places).any(|(file, ..)| is_asked(&file.name)) {
            return Ok(());
        }
        let problems = problems_of(self.store, self.places, record)?;
        if problems.is_empty() {
            return Ok(());
        }
        let bad: BTreeSet<&str> = problems.iter().map(|(name, _)| name.as_str()).collect();
        let is_whole = |file: &&OutputRecord| !bad.contains(file.name.as_str());
        let has_input = self.has_input(&record.unit, &record.missing);
        let mut outputs: Vec<OutputRecord> =
            record.outputs.iter().filter(is_whole).cloned().collect();
        let mut ids = record.ids.as_ref().filter(is_whole).cloned();
        if !has_input && record.ids.is_some() {
            // The rows come from other files, if they are still in the input: they must neither
            // count as done nor be duplicated.
            let left = outputs.iter().map(|file| self.places.output(&file.name));
            let left: Vec<Broken> = left
                .chain(ids.iter().map(|file| self.places.ids(&file.name)))
                .map(|path| Broken { path, is_kept: true })
                .collect();
            self.broken.extend(left);
            (outputs, ids) = (Vec::new(), None);
        }
        for (_name, problem) in &problems {
            if self.store.exists(&problem.path)? {
                self.broken.push(Broken { path: problem.path.clone(), is_kept: !has_input });
            }
        }
        self.repaired.problems.extend(problems.into_iter().map(|(_, problem)| problem));
        let opened = UnitRecord {
            generation: record.generation + 1,
            outputs,
            ids,
            is_reopened: true,
            ..record.clone()
        };
        self.open(opened, has_input);
        Ok(())
    }

    fn open(&mut self, record: UnitRecord, has_input: bool) {
        if !has_input {
            self.repaired.without_input.push(record.unit.clone());
        }
        self.opened.insert(record.unit.clone(), record);
    }

    /// Finds units with missing records by their ids, the plan or remains of a record.
    fn open_lost(&mut self, records: &BTreeMap<String, UnitRecord>, epoch: u64) -> Result<()> {
        let root = &self.places.root;
        let mut lost: BTreeMap<String, Option<String>> = BTreeMap::new();
        let damaged = recover::damaged_units(self.store, root, records)?;
        let committed = plan::without_record(self.segments, records, &BTreeSet::new())
            .into_iter()
            .map(str::to_owned)
            .chain(damaged);
        lost.extend(committed.map(|unit| (unit, None)));
        let ids = recover::recorded_ids(self.store, root)?
            .into_iter()
            .filter(|(unit, _)| !records.contains_key(unit));
        lost.extend(ids.map(|(unit, name)| (unit, Some(name))));
        for (unit, ids) in lost {
            if !self.planned.contains_key(unit.as_str()) {
                return Err(Error::Beyond { path: super::layout::plan_directory(root) });
            }
            let has_input = self.has_input(&unit, &[]);
            let path = ids.as_ref().map_or_else(|| unit.clone(), |name| self.places.ids(name));
            self.repaired.problems.push(Problem {
                path: path.clone(),
                unit: unit.clone(),
                problem: NO_RECORD.to_owned(),
            });
            let mut record = UnitRecord::lost(&unit, epoch);
            match ids {
                Some(name) if !has_input => {
                    // Ids get their name after the outputs, so outputs with ids are published.
                    let bytes = self.store.size(&path)?.unwrap_or_default();
                    let (sealed, xxh3) = (name.clone(), self.store.hash(&path)?);
                    record.ids = Some(OutputRecord { sealed, name, bytes, rows: 0, xxh3 });
                    record.is_reopened = false;
                }
                Some(_) => self.broken.push(Broken { path, is_kept: false }),
                None => {}
            }
            let is_kept = !record.is_reopened;
            self.open(record, has_input || is_kept);
            self.store.remove(&format!("{}/{unit}", damaged_directory(root)))?;
        }
        Ok(())
    }

    /// Reopens splits with rows that were skipped because another split had done them, but that
    /// split will not do them again.
    fn open_false_skips(&mut self, records: &BTreeMap<String, UnitRecord>) {
        let mut gone: HashSet<String> = self.repaired.without_input.iter().cloned().collect();
        for segment in self.segments {
            if !segment.done_before.iter().any(|unit| gone.contains(unit)) {
                continue;
            }
            let units = segment.splits.iter().filter_map(|split| records.get(&split.unit));
            let skipped: Vec<&UnitRecord> = units
                .filter(|record| record.rows_done > 0 && !self.opened.contains_key(&record.unit))
                .collect();
            for record in skipped {
                let has_input = self.has_input(&record.unit, &record.missing);
                if has_input {
                    let generation = record.generation + 1;
                    self.open(UnitRecord { generation, is_reopened: true, ..record.clone() }, true);
                } else {
                    gone.insert(record.unit.clone());
                }
            }
        }
    }
}
