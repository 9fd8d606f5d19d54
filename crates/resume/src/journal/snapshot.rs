//! A read-only view of a journal: nothing is locked, changed or removed.

use super::journal_store::JournalStore;
use super::plan::{self, Segment};
use super::record::{OutputRecord, UnitRecord};
use super::recover::Recovered;
use super::{
    Fingerprint, Holder, JournalOptions, LEASE_AGE, Places, job, layout, lease, recover,
    segment_files,
};
use crate::Result;
use serde::Serialize;
use shardmill_storage::Disk;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The content of a checkpoint.
#[derive(Debug)]
pub struct Snapshot {
    pub job: String,
    /// The parts of the job, including its paths.
    pub fingerprint: Fingerprint,
    /// The options with which the job opens its journal.
    pub options: JournalOptions,
    pub places: Places,
    pub segments: Vec<Segment>,
    pub records: BTreeMap<String, UnitRecord>,
    /// The process that currently runs the job.
    pub holder: Option<Holder>,
    pub warnings: Vec<String>,
    /// Records that are damaged or missing.
    lost: Vec<Problem>,
    store: JournalStore,
}

/// A file that does not match its record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    pub path: String,
    pub unit: String,
    pub problem: String,
}

/// The content of a checkpoint in numbers.
#[derive(Debug, Serialize)]
pub struct Summary<'a> {
    pub path: &'a str,
    pub job: &'a str,
    pub output: &'a str,
    pub fingerprint: &'a Fingerprint,
    pub holder: Option<String>,
    pub splits: usize,
    pub committed_splits: usize,
    pub open_splits: usize,
    pub segments: usize,
    pub rows_in: u64,
    pub rows_done_before: u64,
    pub rows_out: u64,
    pub quarantined: u64,
    pub ids: u64,
    pub output_files: u64,
    pub output_bytes: u64,
    pub warnings: &'a [String],
    pub problems: Vec<Problem>,
}

impl Snapshot {
    /// # Errors
    /// [`Error::NoJob`] for a directory without a checkpoint; [`Error::Damaged`].
    pub fn read(path: &str, disk: Arc<dyn Disk>) -> Result<Self> {
        let store = JournalStore::new(disk);
        let job = job::here(&store, path)?;
        let places = job.places(path);
        // A running job creates parts of the plan before records, which it packs before it plans
        // again, and gives ids their name after the record.
        let ids = recover::recorded_ids(&store, &places.root)?;
        let mut segments = segment_files::load(&store, &places.root, false)?;
        let recovered = recover::read_all(&store, &places.root)?;
        let mut lost = lost_records(&places, &recovered, &segments, ids);
        if plan::has_unplanned(&segments, &recovered.records) {
            segments = segment_files::load(&store, &places.root, false)?;
        }
        if plan::has_unplanned(&segments, &recovered.records) {
            let path = layout::plan_directory(&places.root);
            lost.push(Problem {
                path,
                unit: String::new(),
                problem: "splits with a record are missing in it".to_owned(),
            });
        }
        let options = JournalOptions {
            path: path.to_owned(),
            fingerprint: job.fingerprint.clone(),
            inputs: job.inputs.clone(),
            output: job.output.clone(),
            reprocesses_changed: false,
            knows_ids: recovered.records.values().any(|record| record.ids.is_some()),
            lease_age: LEASE_AGE,
        };
        Ok(Self {
            holder: lease::holder(&store, &layout::lease_directory(&places.root), LEASE_AGE)?,
            segments,
            lost,
            records: recovered.records,
            warnings: recovered.warnings,
            fingerprint: job.told(),
            job: job.job,
            options,
            places,
            store,
        })
    }

    /// Units that a later run does again: some of their input was skipped,
    /// or their outputs were lost.
    #[must_use]
    pub fn open_units(&self) -> usize {
        plan::open_units(&self.segments, &self.records)
    }

    /// Planned units; some may have no work, because their files are missing.
    #[must_use]
    pub fn planned(&self) -> usize {
        plan::count(&self.segments)
    }

    /// Sums over all records. `problems` are those of [`Snapshot::verify`].
    #[must_use]
    pub fn summary(&self, problems: Vec<Problem>) -> Summary<'_> {
        let sum = |count: fn(&UnitRecord) -> u64| self.records.values().map(count).sum::<u64>();
        let open_splits = self.open_units();
        Summary {
            path: &self.options.path,
            job: &self.job,
            output: &self.places.output,
            fingerprint: &self.fingerprint,
            holder: self.holder.as_ref().map(ToString::to_string),
            splits: self.planned(),
            committed_splits: self.records.len() - open_splits,
            open_splits,
            segments: self.segments.len(),
            rows_in: sum(|record| record.rows_in),
            rows_done_before: sum(|record| record.rows_done),
            rows_out: sum(|record| record.rows_out),
            quarantined: sum(|record| record.quarantined),
            ids: sum(|record| record.ids.as_ref().map_or(0, |ids| ids.rows)),
            output_files: sum(|record| record.outputs.len() as u64),
            output_bytes: sum(|record| record.outputs.iter().map(|output| output.bytes).sum()),
            warnings: &self.warnings,
            problems,
        }
    }

    /// Compares each file of each record with the disk. Damaged and missing records
    /// are problems too.
    ///
    /// # Errors
    /// When a file cannot be inspected.
    pub fn verify(&self) -> Result<Vec<Problem>> {
        let mut problems = self.lost.clone();
        for record in self.records.values() {
            problems.extend(
                problems_of(&self.store, &self.places, record)?
                    .into_iter()
                    .map(|(_name, problem)| problem),
            );
        }
        Ok(problems)
    }
}

/// Splits that were committed, but whose record is damaged or missing: the plan and the ids still
/// name them.
fn lost_records(
    places: &Places,
    recovered: &Recovered,
    segments: &[Segment],
    ids: Vec<(String, String)>,
) -> Vec<Problem> {
    let Recovered { records, damaged, .. } = recovered;
    let damaged_units: BTreeSet<String> = damaged.keys().cloned().collect();
    let mut missing: BTreeMap<String, String> =
        plan::without_record(segments, records, &damaged_units)
            .into_iter()
            .map(|unit| (unit.to_owned(), layout::packs_directory(&places.root)))
            .collect();
    let orphaned = ids
        .into_iter()
        .filter(|(unit, _)| !records.contains_key(unit) && !damaged_units.contains(unit));
    missing.extend(orphaned.map(|(unit, name)| (unit, places.ids(&name))));
    let problem = |(unit, path): (String, String), problem: &str| Problem {
        path,
        unit,
        problem: problem.to_owned(),
    };
    let damaged =
        damaged.clone().into_iter().map(|lost| problem(lost, "the record of its split is damaged"));
    damaged.chain(missing.into_iter().map(|lost| problem(lost, NO_RECORD))).collect()
}

pub(crate) const NO_RECORD: &str = "the record of its split is missing";

/// The files of a record that do not match it, by name.
pub(crate) fn problems_of(
    store: &JournalStore,
    places: &Places,
    record: &UnitRecord,
) -> Result<Vec<(String, Problem)>> {
    let mut problems = Vec::new();
    for (file, sealed, path) in record.files(places) {
        if let Some(problem) = problem_of(store, file, &sealed, &path)? {
            problems
                .push((file.name.clone(), Problem { path, unit: record.unit.clone(), problem }));
        }
    }
    Ok(problems)
}

fn problem_of(
    store: &JournalStore,
    file: &OutputRecord,
    sealed: &str,
    path: &str,
) -> Result<Option<String>> {
    let size = match store.size(path)? {
        Some(size) => size,
        // A run has just created the record, and renames the file next.
        None if store.size(sealed)? == Some(file.bytes) => return Ok(None),
        None => return Ok(Some("it is missing".to_owned())),
    };
    if size != file.bytes {
        return Ok(Some(format!("it has {size} bytes, its record says {}", file.bytes)));
    }
    if file.xxh3.is_empty() {
        return Ok(None);
    }
    let hash = store.hash(path)?;
    Ok((hash != file.xxh3).then(|| "its content changed".to_owned()))
}
