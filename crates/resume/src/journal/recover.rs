//! What a run does before it works: collects the records of earlier runs, gives committed files their names, removes what nobody can commit any more.
//!
//! The records of a term lie in a folder of its own. A later run packs them and removes the folder, and nobody makes it again. So the removal is the
//! fence: whatever was recorded before it counts, and nothing can be recorded after it, however long somebody slept. Only what was packed is removed from
//! the folder, and a folder goes only when it is empty; so this holds also when two runs, one of them overtaken, clean up at the same time. Files of a term
//! whose folder is gone, and which still have a hidden name, can never be committed: those are removed, and nothing visible ever is.

use super::Job;
use super::attempt::{damaged_folder, ids_folder, lease_folder, plan_folder, promote, term_of, term_of_folder, units_folder};
use super::lease::{self, Lease};
use super::record::{UnitRecord, from_line, from_lines};
use super::vault::{Vault, folder_of};
use crate::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};

/// More packs than this are put together into one.
const MAX_PACKS: usize = 16;

/// All committed units, and what was strange about their records.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    pub(crate) records: BTreeMap<String, UnitRecord>,
    pub(crate) warnings: Vec<String>,
}

fn packs_folder(root: &str) -> String {
    format!("{root}/packs")
}

/// Reads all records without changing anything.
pub(crate) fn read_all(vault: &Vault, root: &str) -> Result<Recovered> {
    let mut recovered = Recovered::default();
    for (_path, records) in read_packs(vault, root)? {
        recovered.add(records);
    }
    for term in terms(vault, root)? {
        let found = read_units(vault, &units_folder(root, &term))?;
        recovered.add(found.records);
        recovered.warnings.extend(found.warnings);
    }
    Ok(recovered)
}

impl Recovered {
    fn add(&mut self, records: Vec<UnitRecord>) {
        self.records.extend(records.into_iter().map(|record| (record.unit.clone(), record)));
    }
}

/// Ends all terms but that of the lease.
pub(crate) fn recover(vault: &Vault, root: &str, lease: &Lease) -> Result<Recovered> {
    let mut recovered = Recovered::default();
    for folder in [ids_folder(root), packs_folder(root), plan_folder(root)] {
        vault.make_folder(&folder)?;
        // A run that died may have given names without syncing them; from here on they are relied upon.
        vault.sync_folder(&folder)?;
    }
    lease::check(vault, &lease_folder(root), lease.epoch())?;
    for term in terms(vault, root)?.into_iter().filter(|term| term != lease.term()) {
        recovered.warnings.extend(close(vault, root, &term, lease.epoch())?);
    }
    let packs = read_packs(vault, root)?;
    if packs.len() > MAX_PACKS {
        // The number of files stays bounded, however often a job is resumed.
        pack_all(vault, root, lease.epoch(), &packs)?;
    }
    for (_path, records) in packs {
        recovered.add(records);
    }
    check_outputs(vault, &recovered.records)?;
    Ok(recovered)
}

/// What is committed is there, or nothing more is done: outputs are the truth.
fn check_outputs(vault: &Vault, records: &BTreeMap<String, UnitRecord>) -> Result<()> {
    for record in records.values() {
        for file in record.files() {
            if vault.size(&file.path)? != Some(file.bytes) {
                return Err(Error::OutputChanged { path: file.path.clone(), unit: record.unit.clone() });
            }
        }
    }
    Ok(())
}

/// Packs the records of a term and removes its folder; returns what was strange.
fn close(vault: &Vault, root: &str, term: &str, epoch: u64) -> Result<Vec<String>> {
    let folder = units_folder(root, term);
    let mut warnings = Vec::new();
    for round in 0.. {
        let found = read_units(vault, &folder)?;
        warnings.extend(found.warnings);
        // The pack says no more that a file may still have its hidden name: so the names come first, and durably.
        for record in &found.records {
            promote(vault, record)?;
        }
        let folders: BTreeSet<&str> = found.records.iter().flat_map(UnitRecord::files).map(|file| folder_of(&file.path)).collect();
        for folder in folders {
            vault.sync_folder(folder)?;
        }
        if !found.records.is_empty() {
            save_pack(vault, root, &format!("{epoch:020}-{term}-{round}"), &found.records)?;
        }
        for name in &found.damaged {
            // The split can only be done again in its place while its files are what they were.
            vault.make_folder(&damaged_folder(root))?;
            let _removed_by_another_run = vault.rename(&format!("{folder}/{name}"), &format!("{}/{name}", damaged_folder(root)))?;
        }
        if !found.damaged.is_empty() {
            vault.sync_folder(&damaged_folder(root))?;
        }
        for name in found.names {
            vault.remove(&format!("{folder}/{name}"))?;
        }
        // Somebody who began to record before may be done only now: then there is another round.
        if vault.remove_empty_folder(&folder)? {
            break;
        }
    }
    vault.sync_folder(root)?;
    Ok(warnings)
}

/// What lies in a folder for records.
#[derive(Default)]
struct Found {
    /// Everything that was looked at.
    names: Vec<String>,
    records: Vec<UnitRecord>,
    damaged: Vec<String>,
    warnings: Vec<String>,
}

fn read_units(vault: &Vault, folder: &str) -> Result<Found> {
    let names = vault.list(folder)?;
    let mut found = Found { names: names.clone(), ..Found::default() };
    for name in names.iter().filter(|name| !Vault::is_leftover(name)) {
        let path = format!("{folder}/{name}");
        let Some(content) = vault.read(&path)? else { continue };
        match from_line::<UnitRecord>(&content) {
            Some(record) if record.unit == *name => found.records.push(record),
            _damaged => {
                found.damaged.push(name.clone());
                found.warnings.push(format!("`{path}` is damaged; its split is done again"));
            }
        }
    }
    Ok(found)
}

type Pack = (String, Vec<UnitRecord>);

fn read_packs(vault: &Vault, root: &str) -> Result<Vec<Pack>> {
    let folder = packs_folder(root);
    'again: loop {
        let mut packs = Vec::new();
        for name in vault.list(&folder)?.into_iter().filter(|name| !Vault::is_leftover(name)) {
            let path = format!("{folder}/{name}");
            // Who packs anew removes old packs, after the new one is there.
            let Some(content) = vault.read(&path)? else { continue 'again };
            // What it holds cannot be known from anywhere else.
            let records = from_lines(&content).ok_or_else(|| Error::Damaged { path: path.clone() })?;
            packs.push((path, records));
        }
        return Ok(packs);
    }
}

fn save_pack(vault: &Vault, root: &str, name: &str, records: &[UnitRecord]) -> Result<()> {
    vault.record_own(&format!("{}/{name}", packs_folder(root)), records)
}

fn pack_all(vault: &Vault, root: &str, epoch: u64, packs: &[(String, Vec<UnitRecord>)]) -> Result<()> {
    let records: BTreeMap<&str, &UnitRecord> = packs.iter().flat_map(|(_, records)| records).map(|record| (record.unit.as_str(), record)).collect();
    let records: Vec<UnitRecord> = records.into_values().cloned().collect();
    save_pack(vault, root, &format!("{epoch:020}-all"), &records)?;
    for (path, _records) in packs {
        vault.remove(path)?;
    }
    Ok(())
}

/// Puts all records into one file; the caller holds the lease and nobody commits.
pub(crate) fn compact(vault: &Vault, root: &str, epoch: u64) -> Result<()> {
    let packs = read_packs(vault, root)?;
    if packs.len() > 1 { pack_all(vault, root, epoch, &packs) } else { Ok(()) }
}

fn terms(vault: &Vault, root: &str) -> Result<Vec<String>> {
    Ok(vault.list(root)?.iter().filter_map(|name| term_of_folder(name).map(str::to_owned)).collect())
}

/// Removes the files that nobody can commit any more, and what was left by those who died while they wrote to the journal.
pub(crate) fn collect_garbage(vault: &Vault, path: &str, root: &str, job: &Job) -> Result<()> {
    for folder in [&job.output, &ids_folder(root)] {
        for name in vault.list(folder)? {
            if let Some(term) = term_of(&job.job, &name)
                && !vault.exists(&units_folder(root, term))?
            {
                vault.remove(&format!("{folder}/{name}"))?;
            }
        }
    }
    for folder in [path, &packs_folder(root), &plan_folder(root), &lease_folder(root)] {
        for name in vault.list(folder)?.into_iter().filter(|name| Vault::is_leftover(name)) {
            vault.remove(&format!("{folder}/{name}"))?;
        }
    }
    Ok(())
}
