//! The plan of a job: splits that never change, no matter how often the job is resumed.
//!
//! A segment is planned as a whole and never changed: later runs add segments for new files, and
//! state which open splits read other versions of their files. Since units keep their names, two
//! attempts at the same rows always compete for the same record. All paths here are stored ones
//! ([`super::Places`]). The invariant: of the splits without a record, only those of the last
//! segment that names a file read it.

use super::record::{UnitRecord, unit_of};
use super::segment_files;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use shardmill_plan::{InputFile, Split, Unit};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// Splits that were planned together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    pub splits: Vec<PlannedSplit>,
    /// Units that were committed when this was planned: rows with their ids are done already, in
    /// whatever file they are now.
    pub done_before: Vec<String>,
    /// Units of any segment that are run again with these files.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub amended: Vec<Amended>,
    /// The segment whose remaining splits these are, planned again because rows with their ids were
    /// done since. Rows of one part of the plan are never compared with each other.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub part: Option<usize>,
    /// The schema of the rows that the job reads, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schema: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedSplit {
    pub unit: String,
    pub files: Vec<InputFile>,
}

/// A unit whose files have changed, and whose outputs are created again from the current files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Amended {
    pub unit: String,
    pub files: Vec<InputFile>,
    /// Generation of the record that read the earlier versions.
    pub after: u64,
}

/// The version of a planned or existing file.
pub(crate) type Version = (u64, i64);

pub(crate) fn version(file: &InputFile) -> Version {
    (file.size, file.modified_ns)
}

/// A unit as defined by all segments together.
#[derive(Debug)]
struct Planned<'a> {
    unit: &'a str,
    segment: usize,
    /// The segment that planned it first, or again with another version of a file.
    part: usize,
    files: &'a [InputFile],
    record: Option<&'a UnitRecord>,
    is_open: bool,
}

impl Planned<'_> {
    fn is_done(&self) -> bool {
        self.record.is_some() && !self.is_open
    }

    /// A file that was missing when its split was committed has not been read.
    fn was_away(&self, path: &str) -> bool {
        self.record.is_some_and(|record| record.missing.iter().any(|missing| missing == path))
    }
}

/// All units in planning order. A version of a file that reappears has its old unit; the last
/// segment counts.
fn planned<'a>(
    segments: &'a [Segment],
    records: &'a BTreeMap<String, UnitRecord>,
) -> Vec<Planned<'a>> {
    let amended: HashMap<&str, &Amended> = segments
        .iter()
        .flat_map(|segment| &segment.amended)
        .map(|amended| (amended.unit.as_str(), amended))
        .collect();
    let splits = || {
        segments
            .iter()
            .enumerate()
            .flat_map(|(number, segment)| segment.splits.iter().map(move |split| (number, split)))
    };
    let last: HashMap<&str, usize> =
        splits().map(|(number, split)| (split.unit.as_str(), number)).collect();
    let units = splits().filter(|(number, split)| last.get(split.unit.as_str()) == Some(number));
    units
        .map(|(segment, split)| {
            let (amended, record) = (amended.get(split.unit.as_str()), records.get(&split.unit));
            let is_open = record.is_some_and(|record| {
                record.is_open()
                    || amended.is_some_and(|amended| amended.after >= record.generation)
            });
            let part = segments.get(segment).and_then(|segment| segment.part).unwrap_or(segment);
            Planned {
                unit: &split.unit,
                segment,
                part,
                files: amended.map_or(&split.files, |amended| &amended.files),
                record,
                is_open,
            }
        })
        .collect()
}

/// The journal compared with the existing files.
#[derive(Debug)]
pub(crate) struct Looks<'a> {
    pub(crate) segments: &'a [Segment],
    pub(crate) records: &'a BTreeMap<String, UnitRecord>,
    /// Existing files.
    pub(crate) found: &'a HashMap<String, Version>,
    /// Units that are done again because their record is damaged.
    pub(crate) damaged: &'a BTreeSet<String>,
    pub(crate) knows_ids: bool,
}

/// Differences between the input and the plan.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    /// Files whose current version is in no segment, by index.
    pub(crate) new: Vec<usize>,
    /// Files with an earlier version that was read by splits that are done and cannot be run again.
    pub(crate) changed: Vec<usize>,
    /// Several splits read blocks of such a file, and there are no ids to tell which rows are done.
    pub(crate) is_cut: bool,
    /// Splits that are run again with the current files.
    pub(crate) amended: Vec<Amended>,
}

/// How a split that is done is handled when one of its files has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Changed {
    Refused,
    /// The file is planned again; ids tell which of its rows are done.
    ReadAgain,
    /// The split is run again, and its outputs are replaced.
    RunAgain,
}

impl Looks<'_> {
    pub(crate) fn compare(&self, found: &[InputFile], policy: Changed) -> Compared {
        let units = planned(self.segments, self.records);
        let mut by_path: HashMap<&str, Vec<(&Planned<'_>, &InputFile)>> = HashMap::new();
        for unit in &units {
            for file in unit.files.iter().filter(|file| !unit.was_away(&file.path)) {
                by_path.entry(&file.path).or_default().push((unit, file));
            }
        }
        let (mut compared, mut amended) = (Compared::default(), BTreeMap::<&str, Amended>::new());
        for (number, file) in found.iter().enumerate() {
            let known = by_path.get(file.path.as_str()).map(Vec::as_slice).unwrap_or_default();
            // The last segment that names a file has its version.
            if known.last().is_some_and(|(_, planned)| version(planned) == version(file)) {
                continue;
            }
            let is_read = known.iter().any(|(unit, _)| unit.is_done());
            // The blocks of another version of a file are different.
            let is_whole = known.iter().all(|(_, planned)| planned.part.is_none());
            let is_open = known.iter().any(|(unit, _)| unit.is_open);
            if is_whole && (if is_read { policy == Changed::RunAgain } else { is_open }) {
                for (unit, record) in
                    known.iter().filter_map(|(unit, _)| Some((unit, unit.record?)))
                {
                    let again = amended.entry(unit.unit).or_insert_with(|| Amended {
                        unit: unit.unit.to_owned(),
                        files: unit.files.to_vec(),
                        after: record.generation,
                    });
                    let same = again.files.iter_mut().filter(|planned| planned.path == file.path);
                    same.for_each(|planned| *planned = file.clone());
                }
                continue;
            }
            if is_read && policy != Changed::ReadAgain {
                compared.changed.push(number);
                compared.is_cut |= !is_whole && !self.knows_ids;
            }
            compared.new.push(number);
        }
        compared.amended = amended.into_values().collect();
        compared
    }

    fn is_there(&self, file: &InputFile) -> bool {
        self.found.get(&file.path) == Some(&version(file))
    }

    /// The splits to run, without files that are missing or have another version now.
    pub(crate) fn pending(&self) -> Vec<(Vec<InputFile>, Unit)> {
        let units = planned(self.segments, self.records);
        let owner = owners(&units);
        let mut first: HashMap<&str, usize> = HashMap::new();
        for unit in &units {
            for file in unit.files {
                let part = first.entry(&file.path).or_insert(unit.part);
                *part = unit.part.min(*part);
            }
        }
        let held: HashSet<usize> = self.held_segments(&units);
        let mut pending = Vec::new();
        for unit in units.iter().filter(|unit| !unit.is_done() && !held.contains(&unit.segment)) {
            let (there, missing) = self.files_of(unit, &owner);
            // Published outputs of a missing file are kept.
            if there.is_empty() || !there.iter().all(|file| self.is_there(file)) {
                continue;
            }
            let is_reread = there
                .iter()
                .any(|file| first.get(file.path.as_str()).is_some_and(|first| *first < unit.part));
            let files: Vec<InputFile> = there.into_iter().cloned().collect();
            let replaces = unit.record.map(|record| record.replaced_by(&files));
            let missing = missing.into_iter().map(|file| file.path.clone()).collect();
            pending.push((
                files,
                Unit {
                    name: unit.unit.to_owned(),
                    segment: unit.segment,
                    missing,
                    is_reread,
                    replaces,
                },
            ));
        }
        pending
    }

    /// The files that a unit reads, and those that it leaves out.
    fn files_of<'u>(
        &self,
        unit: &Planned<'u>,
        owner: &HashMap<&str, usize>,
    ) -> (Vec<&'u InputFile>, Vec<&'u InputFile>) {
        unit.files.iter().partition(|file| match unit.record {
            None => self.is_there(file) && owner.get(file.path.as_str()) == Some(&unit.part),
            Some(_) => !unit.was_away(&file.path),
        })
    }

    /// Segments that plan remaining splits again, to compare their rows with the ids that other
    /// parts of the plan have done since.
    ///
    /// Only splits that were never committed: if a split with a record were compared with more ids
    /// than before, it and another split could each skip a row because the other has done it.
    pub(crate) fn planned_again(&self) -> Vec<Segment> {
        let units = planned(self.segments, self.records);
        let owner = owners(&units);
        let mut remaining: BTreeMap<usize, Vec<PlannedSplit>> = BTreeMap::new();
        for unit in
            units.iter().filter(|unit| unit.record.is_none() && !self.damaged.contains(unit.unit))
        {
            let files: Vec<InputFile> =
                self.files_of(unit, &owner).0.into_iter().cloned().collect();
            if !files.is_empty() {
                remaining
                    .entry(unit.segment)
                    .or_default()
                    .push(PlannedSplit { unit: unit.unit.to_owned(), files });
            }
        }
        let parts: HashMap<&str, usize> = units.iter().map(|unit| (unit.unit, unit.part)).collect();
        let again = remaining.into_iter().filter_map(|(number, splits)| {
            let earlier = self.segments.get(number)?;
            let part = earlier.part.unwrap_or(number);
            let known: HashSet<&String> = earlier.done_before.iter().collect();
            let is_new =
                |unit: &String| parts.get(unit.as_str()) != Some(&part) && !known.contains(unit);
            let since: Vec<String> = self.processed().into_iter().filter(is_new).collect();
            let done_before =
                earlier.done_before.iter().cloned().chain(since.iter().cloned()).collect();
            (!since.is_empty()).then_some(Segment {
                splits,
                done_before,
                part: Some(part),
                ..Segment::default()
            })
        });
        again.collect()
    }

    /// The units that earlier runs have committed.
    pub(crate) fn processed(&self) -> Vec<String> {
        self.records.keys().chain(self.damaged).cloned().collect()
    }

    /// Segments whose rows were compared with ids that were lost with their file or their record:
    /// they wait until those splits have run again.
    fn held_segments(&self, units: &[Planned<'_>]) -> HashSet<usize> {
        let is_unknown = |unit: &&Planned<'_>| {
            let is_lost = unit.record.map_or_else(
                || self.damaged.contains(unit.unit),
                |record| record.is_reopened && record.ids.is_none(),
            );
            is_lost && self.is_runnable(unit)
        };
        let unknown: HashSet<&str> = units
            .iter()
            .filter(|_| self.knows_ids)
            .filter(is_unknown)
            .map(|unit| unit.unit)
            .collect();
        let segments = self.segments.iter().enumerate();
        let held = segments.filter(|(_, segment)| {
            segment.done_before.iter().any(|unit| unknown.contains(unit.as_str()))
        });
        held.map(|(number, _)| number).collect()
    }

    pub(crate) fn holds_back(&self) -> bool {
        let units = planned(self.segments, self.records);
        let held = self.held_segments(&units);
        units.iter().any(|unit| !unit.is_done() && held.contains(&unit.segment))
    }

    fn is_runnable(&self, unit: &Planned<'_>) -> bool {
        unit.files.iter().all(|file| unit.was_away(&file.path) || self.is_there(file))
    }

    /// Whether all files of a unit have their planned version.
    pub(crate) fn is_whole(&self, name: &str) -> bool {
        planned(self.segments, self.records)
            .iter()
            .any(|unit| unit.unit == name && self.is_runnable(unit))
    }

    /// The units that count as done when a run looks up ids: those that are, and those that the run
    /// repeats itself.
    pub(crate) fn counted(&self) -> HashSet<&str> {
        let is_counted = |unit: &Planned<'_>| {
            unit.is_done() || (unit.record.is_some() && self.is_runnable(unit))
        };
        planned(self.segments, self.records)
            .iter()
            .filter(|unit| is_counted(unit))
            .filter_map(|unit| Some(self.records.get_key_value(unit.unit)?.0.as_str()))
            .collect()
    }
}

/// For each file, the last part of the plan that reads it.
fn owners<'a>(units: &[Planned<'a>]) -> HashMap<&'a str, usize> {
    units
        .iter()
        .flat_map(|unit| unit.files.iter().map(move |file| (file.path.as_str(), unit.part)))
        .collect()
}

/// The number of planned units.
pub(crate) fn count(segments: &[Segment]) -> usize {
    segments
        .iter()
        .flat_map(|segment| &segment.splits)
        .map(|split| split.unit.as_str())
        .collect::<HashSet<_>>()
        .len()
}

/// Whether a split with a record is run again.
pub(crate) fn open_units(segments: &[Segment], records: &BTreeMap<String, UnitRecord>) -> usize {
    planned(segments, records).iter().filter(|unit| unit.is_open).count()
}

/// Rejects records of unplanned units, and plans with missing records: then a part of the journal
/// was lost.
pub(crate) fn check_records(
    root: &str,
    segments: &[Segment],
    records: &BTreeMap<String, UnitRecord>,
    damaged: &BTreeSet<String>,
) -> Result<()> {
    if has_unplanned(segments, records) {
        return Err(Error::damaged(&segment_files::path_of(root, segments.len())));
    }
    match without_record(segments, records, damaged).first() {
        Some(_unit) => Err(Error::damaged(&super::layout::packs_directory(root))),
        None => Ok(()),
    }
}

/// Whether a unit has a record, but no segment has planned it.
pub(crate) fn has_unplanned(segments: &[Segment], records: &BTreeMap<String, UnitRecord>) -> bool {
    let planned: HashSet<&str> = segments
        .iter()
        .flat_map(|segment| &segment.splits)
        .map(|split| split.unit.as_str())
        .collect();
    !records.keys().all(|unit| planned.contains(unit.as_str()))
}

/// Units that were committed according to the plan, but have neither a record nor a damaged one.
pub(crate) fn without_record<'a>(
    segments: &'a [Segment],
    records: &BTreeMap<String, UnitRecord>,
    damaged: &BTreeSet<String>,
) -> BTreeSet<&'a str> {
    let committed = segments.iter().flat_map(|segment| &segment.done_before);
    committed
        .filter(|unit| !records.contains_key(*unit) && !damaged.contains(*unit))
        .map(String::as_str)
        .collect()
}

pub(crate) fn new_segment(
    splits: &[Split],
    processed: Vec<String>,
    amended: Vec<Amended>,
) -> Segment {
    let planned = |split: &Split| PlannedSplit { unit: unit_of(split), files: split.files.clone() };
    let splits: Vec<PlannedSplit> = splits.iter().map(planned).collect();
    // A version of a file that reappears has its old unit, which must not skip its own rows.
    let own: HashSet<&str> = splits.iter().map(|split| split.unit.as_str()).collect();
    let done_before = processed.into_iter().filter(|unit| !own.contains(unit.as_str())).collect();
    Segment { splits, done_before, amended, ..Segment::default() }
}
