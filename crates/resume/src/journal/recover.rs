//! What a run does before it works: collects the records of earlier runs, gives committed files their names, removes what nobody can commit any more.
//!
//! The records of a term lie in a folder of its own. A later run packs them and removes the folder, and nobody makes it again. So the removal is the
//! fence: whatever was recorded before it counts, and nothing can be recorded after it, however long somebody slept. Only what was packed is removed from
//! the folder, and a folder goes only when it is empty; so this holds also when two runs, one of them overtaken, clean up at the same time. Files of a term
//! whose folder is gone, and which still have a hidden name, can never be committed: those are removed, and nothing visible ever is.

use super::attempt::{publish, sync_places};
use super::journal_store::JournalStore;
use super::layout::{damaged_folder, ids_folder, lease_folder, packs_folder, plan_folder, term_of, term_of_folder, units_folder};
use super::lease::{self, Lease};
use super::places::Places;
use super::record::{UnitRecord, add_records, from_line};
use super::twice::{self, Twice};
use crate::{Error, Result};
use std::collections::BTreeMap;

/// More packs than this are put together into one, so their number does not grow with the number of runs. Reading them all is as much work.
const MAX_PACKS: usize = 1;

/// All committed units, and what was strange about their records.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    pub(crate) records: BTreeMap<String, UnitRecord>,
    pub(crate) warnings: Vec<String>,
}

/// Reads all records without changing anything.
pub(crate) fn read_all(store: &JournalStore, root: &str) -> Result<Recovered> {
    let mut recovered = Recovered::default();
    for pack in read_packs(store, root)? {
        add_records(&mut recovered.records, pack.records);
    }
    for term in terms(store, root)? {
        let found = read_units(store, &units_folder(root, &term))?;
        add_records(&mut recovered.records, found.records);
        recovered.warnings.extend(found.warnings);
    }
    Ok(recovered)
}

/// Ends all terms but that of the lease. With `is_lenient`, files that a record names and that were lost stop nothing.
pub(crate) fn recover(store: &JournalStore, places: &Places, lease: &Lease, is_lenient: bool) -> Result<Recovered> {
    let root = &places.root;
    let mut recovered = Recovered::default();
    for folder in [ids_folder(root), packs_folder(root), plan_folder(root)] {
        store.make_folder(&folder)?;
        // A run that died may have given names without syncing them; from here on they are relied upon.
        store.sync_folder(&folder)?;
    }
    lease::check(store, &lease_folder(root), lease.epoch())?;
    for term in terms(store, root)?.into_iter().filter(|term| term != lease.term()) {
        recovered.warnings.extend(close(store, places, &term, lease.epoch(), is_lenient)?);
    }
    let packs = read_packs(store, root)?;
    for pack in packs.iter().filter(|pack| !pack.is_whole) {
        pack.object.replace(store, &pack.records)?;
    }
    if packs.len() > MAX_PACKS {
        // The number of files stays bounded, however often a job is resumed.
        pack_all(store, root, lease, &packs)?;
    }
    for pack in packs {
        add_records(&mut recovered.records, pack.records);
    }
    Ok(recovered)
}

/// What is committed is there, or nothing more is done: outputs are the truth.
pub(crate) fn check_outputs(store: &JournalStore, places: &Places, records: &BTreeMap<String, UnitRecord>) -> Result<()> {
    for record in records.values() {
        for (file, _sealed, path) in record.files(places) {
            if store.size(&path)? != Some(file.bytes) {
                return Err(Error::lost(&path, &record.unit, places.state()));
            }
        }
    }
    Ok(())
}

/// Recorded ids without their record: the record was lost, and its rows would be done a second time.
pub(crate) fn check_ids(store: &JournalStore, places: &Places, records: &BTreeMap<String, UnitRecord>) -> Result<()> {
    match orphaned_ids(store, places, records)?.first() {
        Some((_unit, name)) => Err(Error::damaged(&places.ids(name))),
        None => Ok(()),
    }
}

/// Units without a record of which there are ids, with the names of those.
pub(crate) fn orphaned_ids(store: &JournalStore, places: &Places, records: &BTreeMap<String, UnitRecord>) -> Result<Vec<(String, String)>> {
    let damaged = store.list(&damaged_folder(&places.root))?;
    let names = store.list(&ids_folder(&places.root))?.into_iter().filter(|name| !name.starts_with('.'));
    let units = names.filter_map(|name| Some((name.split_once('-')?.0.to_owned(), name)));
    Ok(units.filter(|(unit, _)| !records.contains_key(unit) && !damaged.contains(unit)).collect())
}

/// Packs the records of a term and removes its folder; returns what was strange.
fn close(store: &JournalStore, places: &Places, term: &str, epoch: u64, is_lenient: bool) -> Result<Vec<String>> {
    let root = &places.root;
    let folder = units_folder(root, term);
    let mut warnings = Vec::new();
    for round in 0.. {
        let found = read_units(store, &folder)?;
        warnings.extend(found.warnings);
        // The writer of a record may have died before it synced the name: a record that is lost must not leave names that it gave.
        if !found.records.is_empty() && !store.sync_folder_if_there(&folder)? {
            continue;
        }
        // The pack says no more that a file may still have its hidden name: so the names come first, and durably.
        for record in &found.records {
            match publish(store, places, record) {
                Err(Error::OutputChanged { .. }) if is_lenient => {}
                // Whoever has taken over published the record, and may have replaced it since.
                Err(error @ Error::OutputChanged { .. }) => {
                    lease::check(store, &lease_folder(root), epoch)?;
                    return Err(error);
                }
                published => published?,
            }
        }
        for record in &found.records {
            sync_places(store, places, record)?;
        }
        if !found.records.is_empty() {
            save_pack(store, root, &format!("{epoch:020}-{term}-{round}"), &found.records)?;
        }
        for name in &found.damaged {
            // The split can only be done again in its place while its files are what they were.
            store.make_folder(&damaged_folder(root))?;
            let _removed_by_another_run = store.rename(&format!("{folder}/{name}"), &format!("{}/{name}", damaged_folder(root)))?;
        }
        if !found.damaged.is_empty() {
            store.sync_folder(&damaged_folder(root))?;
        }
        for name in found.names {
            store.remove(&format!("{folder}/{name}"))?;
        }
        // Somebody who began to record before may be done only now: then there is another round.
        if store.remove_empty_folder(&folder)? {
            break;
        }
    }
    store.sync_folder(root)?;
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

fn read_units(store: &JournalStore, folder: &str) -> Result<Found> {
    let names = store.list(folder)?;
    let mut found = Found { names: names.clone(), ..Found::default() };
    for name in names.iter().filter(|name| !JournalStore::is_leftover(name)) {
        let path = format!("{folder}/{name}");
        let Some(content) = store.read(&path)? else { continue };
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

/// One object of records.
pub(crate) struct Pack {
    object: Twice,
    records: Vec<UnitRecord>,
    is_whole: bool,
}

fn read_packs(store: &JournalStore, root: &str) -> Result<Vec<Pack>> {
    let folder = packs_folder(root);
    'again: loop {
        let mut packs = Vec::new();
        for name in twice::names(store, &folder)? {
            let object = Twice::beside(format!("{folder}/{name}"));
            // Who packs anew removes old packs, after the new one is there.
            let Some(read) = object.read(store)? else { continue 'again };
            packs.push(Pack { object, records: read.values, is_whole: read.is_whole });
        }
        return Ok(packs);
    }
}

/// The names of packs of which no copy can be read.
pub(crate) fn lost_packs(store: &JournalStore, root: &str) -> Result<Vec<Twice>> {
    let folder = packs_folder(root);
    let objects = twice::names(store, &folder)?.into_iter().map(|name| Twice::beside(format!("{folder}/{name}")));
    Ok(objects.filter(|object| matches!(object.read::<UnitRecord>(store), Err(Error::Damaged { .. }))).collect())
}

pub(crate) fn save_pack(store: &JournalStore, root: &str, name: &str, records: &[UnitRecord]) -> Result<()> {
    Twice::beside(format!("{}/{name}", packs_folder(root))).record_own(store, records)
}

fn pack_all(store: &JournalStore, root: &str, lease: &Lease, packs: &[Pack]) -> Result<()> {
    let mut records = BTreeMap::new();
    add_records(&mut records, packs.iter().flat_map(|pack| pack.records.iter().cloned()));
    let records: Vec<UnitRecord> = records.into_values().collect();
    save_pack(store, root, &format!("{:020}-{}-all", lease.epoch(), lease.term()), &records)?;
    packs.iter().try_for_each(|pack| pack.object.remove(store))
}

/// Puts all records into one object; the caller holds the lease and nobody commits.
pub(crate) fn compact(store: &JournalStore, root: &str, lease: &Lease) -> Result<()> {
    let packs = read_packs(store, root)?;
    if packs.len() > 1 { pack_all(store, root, lease, &packs) } else { Ok(()) }
}

fn terms(store: &JournalStore, root: &str) -> Result<Vec<String>> {
    Ok(store.list(root)?.iter().filter_map(|name| term_of_folder(name).map(str::to_owned)).collect())
}

/// Removes the files that nobody can commit any more, and what was left by those who died while they wrote to the journal.
pub(crate) fn collect_garbage(store: &JournalStore, places: &Places, job: &str) -> Result<()> {
    let root = &places.root;
    for folder in [&places.output, &ids_folder(root)] {
        for name in store.list(folder)? {
            if let Some(term) = term_of(job, &name)
                && !store.exists(&units_folder(root, term))?
            {
                store.remove(&format!("{folder}/{name}"))?;
            }
        }
    }
    for folder in [places.state(), root, &packs_folder(root), &plan_folder(root), &lease_folder(root)] {
        for name in store.list(folder)?.into_iter().filter(|name| JournalStore::is_leftover(name) || twice::is_unfinished(name)) {
            store.remove(&format!("{folder}/{name}"))?;
        }
    }
    Ok(())
}
