//! What a job has to do: splits that stay as they were planned, however often the job is resumed.
//!
//! A segment is planned at once and never changed: later runs add segments for files that are new. Since units keep their names, two attempts at the same
//! rows always meet at the same record. The invariant: a version of a file belongs to the units of one segment.

use super::attempt::plan_folder;
use super::record::{UnitRecord, from_line, unit_of};
use super::vault::Vault;
use crate::{Error, Result};
use serde::{Deserialize, Serialize};
use shardmill_plan::{InputFile, Split, Unit};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Splits that were planned together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    pub splits: Vec<PlannedSplit>,
    /// Units that were committed when this was planned: rows with their ids are done already, whatever file they lie in now.
    pub done_before: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedSplit {
    pub unit: String,
    pub files: Vec<InputFile>,
}

/// Which version of a file was planned or found.
pub(crate) type Version = (u64, i64);

pub(crate) fn version(file: &InputFile) -> Version {
    (file.size, file.modified_ns)
}

/// The files that no segment knows as they are now, and the paths of those among them that have changed since one did.
pub(crate) fn compare<'a>(segments: &[Segment], records: &BTreeMap<String, UnitRecord>, found: &'a [InputFile]) -> (Vec<InputFile>, Vec<&'a str>) {
    // A file that was away when its split was committed has not been read.
    let is_missing = |split: &PlannedSplit, file: &InputFile| records.get(&split.unit).is_some_and(|record| record.missing.contains(&file.path));
    let splits = segments.iter().flat_map(|segment| &segment.splits);
    let files = splits.flat_map(|split| split.files.iter().filter(move |file| !is_missing(split, file)));
    // The last segment that names a file knows its version.
    let planned: HashMap<&str, Version> = files.map(|file| (file.path.as_str(), version(file))).collect();
    let (mut new, mut changed) = (Vec::new(), Vec::new());
    for file in found {
        let known = planned.get(file.path.as_str());
        if known == Some(&version(file)) {
            continue;
        }
        if known.is_some() {
            changed.push(file.path.as_str());
        }
        new.push(file.clone());
    }
    (new, changed)
}

/// Whether a file exists in the version that was planned.
pub(crate) fn is_there(found: &HashMap<String, Version>, file: &InputFile) -> bool {
    found.get(&file.path) == Some(&version(file))
}

/// What a segment is held against.
pub(crate) struct Looks<'a> {
    pub(crate) committed: &'a BTreeMap<String, UnitRecord>,
    /// Files that exist now.
    pub(crate) found: &'a HashMap<String, Version>,
    /// Files that an earlier segment has planned, in whatever version.
    pub(crate) known: &'a HashSet<&'a str>,
}

/// The splits of a segment that are to be run, without files that are gone or have another version now.
pub(crate) fn pending(number: usize, segment: &Segment, looks: &Looks<'_>) -> Vec<(Vec<InputFile>, Unit)> {
    let open = segment.splits.iter().filter(|split| !looks.committed.contains_key(&split.unit));
    let parted = open.map(|split| {
        let (there, missing): (Vec<&InputFile>, Vec<&InputFile>) = split.files.iter().partition(|file| is_there(looks.found, file));
        let missing = missing.into_iter().map(|file| file.path.clone()).collect();
        let is_reread = there.iter().any(|file| looks.known.contains(file.path.as_str()));
        (there.into_iter().cloned().collect::<Vec<_>>(), Unit { name: split.unit.clone(), segment: number, missing, is_reread })
    });
    parted.filter(|(files, _)| !files.is_empty()).collect()
}

/// Refuses records of units that nobody planned: then a part of the plan is gone, and its files would be planned anew.
pub(crate) fn check_records(root: &str, segments: &[Segment], records: &BTreeMap<String, UnitRecord>) -> Result<()> {
    let planned: HashSet<&str> = segments.iter().flat_map(|segment| &segment.splits).map(|split| split.unit.as_str()).collect();
    if records.keys().all(|unit| planned.contains(unit.as_str())) {
        return Ok(());
    }
    Err(Error::Damaged { path: path_of(root, segments.len()) })
}

pub(crate) fn new_segment(splits: &[Split], done_before: Vec<String>) -> Segment {
    let planned = |split: &Split| PlannedSplit { unit: unit_of(split), files: split.files.clone() };
    Segment { splits: splits.iter().map(planned).collect(), done_before }
}

pub(crate) fn save(vault: &Vault, root: &str, number: usize, segment: &Segment) -> Result<()> {
    // Only the holder of the lease plans.
    vault.record_own(&path_of(root, number), [segment])
}

pub(crate) fn load(vault: &Vault, root: &str) -> Result<Vec<Segment>> {
    let mut segments = Vec::new();
    loop {
        let path = path_of(root, segments.len());
        let Some(content) = vault.read(&path)? else { return Ok(segments) };
        segments.push(from_line(&content).ok_or(Error::Damaged { path })?);
    }
}

fn path_of(root: &str, number: usize) -> String {
    format!("{}/{number:06}", plan_folder(root))
}
