//! What a run does before it works: collects the records of earlier runs, gives committed files their names, removes what nobody can commit any more.
//!
//! The records of an epoch lie in a folder of its own. A later run packs them and removes the folder, and committers never make one. So the removal is the
//! fence: whatever was recorded before it counts, and nothing can be recorded after it, however long somebody slept. Only then files that no record names
//! are removed; they have hidden names, so nothing visible ever goes.

use super::attempt::{ids_folder, is_attempt_of, promote, units_folder};
use super::record::{UnitRecord, from_line, from_lines, to_lines};
use super::vault::{Created, Vault, folder_of};
use crate::{Error, Result};
use std::collections::{BTreeMap, BTreeSet, HashSet};

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
        recovered.records.extend(records.into_iter().map(|record| (record.unit.clone(), record)));
    }
    for epoch in open_epochs(vault, root)? {
        for record in read_units(vault, &units_folder(root, epoch), &mut recovered.warnings)? {
            recovered.records.insert(record.unit.clone(), record);
        }
    }
    Ok(recovered)
}

/// Ends all epochs before `epoch` and begins that one. The caller holds the lease.
pub(crate) fn recover(vault: &Vault, root: &str, epoch: u64) -> Result<Recovered> {
    let mut recovered = Recovered::default();
    for old in open_epochs(vault, root)?.into_iter().filter(|old| *old < epoch) {
        for record in close(vault, root, old, epoch, &mut recovered.warnings)? {
            recovered.records.insert(record.unit.clone(), record);
        }
    }
    let packs = read_packs(vault, root)?;
    merge(vault, root, epoch, &packs)?;
    for (_path, records) in packs {
        recovered.records.extend(records.into_iter().map(|record| (record.unit.clone(), record)));
    }
    for folder in [ids_folder(root), packs_folder(root), units_folder(root, epoch)] {
        vault.make_folder(&folder)?;
    }
    Ok(recovered)
}

/// Packs the records of an epoch and removes its folder.
fn close(vault: &Vault, root: &str, old: u64, epoch: u64, warnings: &mut Vec<String>) -> Result<Vec<UnitRecord>> {
    let folder = units_folder(root, old);
    let mut all = Vec::new();
    vault.make_folder(&packs_folder(root))?;
    for round in 0.. {
        let records = read_units(vault, &folder, warnings)?;
        // The pack says no more that a file may still have its hidden name: so the names come first, and durably.
        for record in &records {
            promote(vault, record)?;
        }
        let folders: BTreeSet<&str> = records.iter().flat_map(UnitRecord::files).map(|file| folder_of(&file.path)).collect();
        for folder in folders {
            vault.sync_folder(folder)?;
        }
        if !records.is_empty() {
            save_pack(vault, root, &format!("{epoch:020}-{old}-{round}"), &records)?;
            all.extend(records);
        }
        for name in vault.list(&folder)? {
            vault.remove(&format!("{folder}/{name}"))?;
        }
        // Somebody who began to record before may be done only now: then there is another round.
        if vault.remove_empty_folder(&folder)? {
            break;
        }
    }
    vault.sync_folder(root)?;
    Ok(all)
}

fn read_units(vault: &Vault, folder: &str, warnings: &mut Vec<String>) -> Result<Vec<UnitRecord>> {
    let mut records = Vec::new();
    for name in vault.list(folder)?.into_iter().filter(|name| !Vault::is_leftover(name)) {
        let path = format!("{folder}/{name}");
        let Some(content) = vault.read(&path)? else { continue };
        match from_line::<UnitRecord>(&content) {
            Some(record) if record.unit == name => records.push(record),
            _damaged => warnings.push(format!("`{path}` is damaged; its split is done again")),
        }
    }
    Ok(records)
}

fn read_packs(vault: &Vault, root: &str) -> Result<Vec<(String, Vec<UnitRecord>)>> {
    let folder = packs_folder(root);
    let names = vault.list(&folder)?.into_iter().filter(|name| !Vault::is_leftover(name));
    let read = |name: String| {
        let path = format!("{folder}/{name}");
        let content = vault.read(&path)?.unwrap_or_default();
        // What it holds cannot be known from anywhere else.
        let records = from_lines(&content).ok_or_else(|| Error::Damaged { path: path.clone() })?;
        Ok((path, records))
    };
    names.map(read).collect()
}

fn save_pack(vault: &Vault, root: &str, name: &str, records: &[UnitRecord]) -> Result<()> {
    let path = format!("{}/{name}", packs_folder(root));
    let content = to_lines(records).map_err(|source| Error::Encode { path: path.clone(), source })?;
    match vault.create(&path, &content, false)? {
        Created::Made(_) => Ok(()),
        Created::Taken | Created::NoFolder => Err(Error::Fenced { path }),
    }
}

/// The number of files stays bounded, however often a job is resumed.
fn merge(vault: &Vault, root: &str, epoch: u64, packs: &[(String, Vec<UnitRecord>)]) -> Result<()> {
    if packs.len() > MAX_PACKS { pack_all(vault, root, epoch, packs) } else { Ok(()) }
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

fn open_epochs(vault: &Vault, root: &str) -> Result<Vec<u64>> {
    let mut epochs: Vec<u64> = vault.list(root)?.iter().filter_map(|name| name.strip_prefix("units-")?.parse().ok()).collect();
    epochs.sort_unstable();
    Ok(epochs)
}

/// Removes the files of attempts that no record names. Only after [`recover`]: then none can be named any more.
pub(crate) fn collect_garbage(vault: &Vault, root: &str, job: &str, output: &str, records: &BTreeMap<String, UnitRecord>) -> Result<usize> {
    let mut removed = 0;
    let ids = ids_folder(root);
    for folder in [output, &ids] {
        for name in vault.list(folder)?.into_iter().filter(|name| is_attempt_of(job, name)) {
            vault.remove(&format!("{folder}/{name}"))?;
            removed += 1;
        }
    }
    let known: HashSet<&str> = records.values().filter_map(|record| record.ids.as_ref()).map(|ids| ids.path.as_str()).collect();
    for name in vault.list(&ids)? {
        let path = format!("{ids}/{name}");
        if !known.contains(path.as_str()) {
            vault.remove(&path)?;
            removed += 1;
        }
    }
    Ok(removed)
}
