//! Prepares a run: collects the records of earlier runs, completes the names of committed files,
//! and removes files that can no longer be committed.
//!
//! The records of each term have a separate directory. A later run packs them and removes the
//! directory, which is never created again. So the removal is the fence: records created before it
//! count, and nothing can be recorded after it, no matter how long a process was suspended. Only
//! packed records are removed from the directory, and only an empty directory is removed; so this
//! also holds if two runs, one of them overtaken, clean up at the same time. Files of a term
//! without a directory that still have a hidden name can never be committed: those are removed, and
//! nothing visible ever is.

use super::commit::{publish, sync_places};
use super::journal_store::JournalStore;
use super::layout::{
    damaged_directory, ids_directory, lease_directory, packs_directory, plan_directory, term_of,
    term_of_directory, units_directory,
};
use super::lease::{self, Lease};
use super::places::Places;
use super::record::{UnitRecord, add_records, from_line};
use super::twice::{self, Twice};
use crate::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};

/// More packs than this are merged into one, so that their number does not grow with the number of
/// runs. Reading them all is as much work.
const MAX_PACKS: usize = 1;

/// All committed units, and irregularities of their records.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    pub(crate) records: BTreeMap<String, UnitRecord>,
    pub(crate) warnings: Vec<String>,
    /// Damaged records, by unit; only [`read_all`] leaves any.
    pub(crate) damaged: BTreeMap<String, String>,
}

/// Reads all records without changing anything.
pub(crate) fn read_all(store: &JournalStore, root: &str) -> Result<Recovered> {
    let mut recovered = Recovered::default();
    let mut last = Vec::new();
    // Before the packs: a run that starts meanwhile moves the records there.
    for term in terms(store, root)? {
        let directory = units_directory(root, &term);
        let found = read_units(store, &directory)?;
        last.extend(found.records);
        recovered.warnings.extend(found.warnings);
        recovered.damaged.extend(
            found.damaged.into_iter().map(|unit| (unit.clone(), format!("{directory}/{unit}"))),
        );
    }
    for pack in read_packs(store, root)? {
        add_records(&mut recovered.records, pack.records);
    }
    add_records(&mut recovered.records, last);
    for unit in damaged_units(store, root, &recovered.records)? {
        let path = format!("{}/{unit}", damaged_directory(root));
        recovered.damaged.insert(unit, path);
    }
    Ok(recovered)
}

/// Units whose damaged record was put away, and that have no other.
pub(crate) fn damaged_units(
    store: &JournalStore,
    root: &str,
    records: &BTreeMap<String, UnitRecord>,
) -> Result<BTreeSet<String>> {
    Ok(store
        .list(&damaged_directory(root))?
        .into_iter()
        .filter(|unit| !records.contains_key(unit))
        .collect())
}

/// Ends all terms except that of the lease. With `is_lenient`, lost files
/// of a record are tolerated.
pub(crate) fn recover(
    store: &JournalStore,
    places: &Places,
    lease: &Lease,
    is_lenient: bool,
) -> Result<Recovered> {
    let root = &places.root;
    let mut recovered = Recovered::default();
    for directory in [ids_directory(root), packs_directory(root), plan_directory(root)] {
        store.make_directory(&directory)?;
        // A run that died may have renamed files without syncing the names; from here on they must
        // be durable.
        store.sync_directory(&directory)?;
    }
    lease::check(store, &lease_directory(root), lease.epoch())?;
    for term in terms(store, root)?.into_iter().filter(|term| term != lease.term()) {
        recovered.warnings.extend(close(store, places, &term, lease.epoch(), is_lenient)?);
    }
    let packs = read_packs(store, root)?;
    for pack in packs.iter().filter(|pack| !pack.is_whole) {
        pack.object.replace(store, &pack.records)?;
    }
    if packs.len() > MAX_PACKS {
        // Bounds the number of files, no matter how often a job is resumed.
        pack_all(store, root, lease, &packs)?;
    }
    for pack in packs {
        add_records(&mut recovered.records, pack.records);
    }
    Ok(recovered)
}

/// Checks that committed outputs exist; otherwise the run stops.
pub(crate) fn check_outputs(
    store: &JournalStore,
    places: &Places,
    records: &BTreeMap<String, UnitRecord>,
) -> Result<()> {
    for record in records.values() {
        for (file, _sealed, path) in record.files(places) {
            if store.size(&path)? != Some(file.bytes) {
                return Err(Error::lost(&path, &record.unit, places.state()));
            }
        }
    }
    Ok(())
}

/// Checks for recorded ids without a record: the record was lost, and its rows would be done a
/// second time.
pub(crate) fn check_ids(
    store: &JournalStore,
    places: &Places,
    records: &BTreeMap<String, UnitRecord>,
    damaged: &BTreeSet<String>,
) -> Result<()> {
    match recorded_ids(store, &places.root)?
        .iter()
        .find(|(unit, _)| !records.contains_key(unit) && !damaged.contains(unit))
    {
        Some((_unit, name)) => Err(Error::damaged(&places.ids(name))),
        None => Ok(()),
    }
}

/// The names of the files of ids, with their units.
pub(crate) fn recorded_ids(store: &JournalStore, root: &str) -> Result<Vec<(String, String)>> {
    let names = store.list(&ids_directory(root))?.into_iter().filter(|name| !name.starts_with('.'));
    Ok(names.filter_map(|name| Some((name.split_once('-')?.0.to_owned(), name))).collect())
}

/// Packs the records of a term and removes its directory; returns irregularities.
fn close(
    store: &JournalStore,
    places: &Places,
    term: &str,
    epoch: u64,
    is_lenient: bool,
) -> Result<Vec<String>> {
    let root = &places.root;
    let directory = units_directory(root, term);
    let mut warnings = Vec::new();
    for round in 0.. {
        let found = read_units(store, &directory)?;
        warnings.extend(found.warnings);
        // The writer of a record may have died before it synced the name: a lost record must not
        // leave renamed files behind.
        if !found.records.is_empty() && !store.sync_directory_if_there(&directory)? {
            continue;
        }
        // The pack no longer tells that a file may still have its hidden name, so the names must be
        // durable first.
        for record in &found.records {
            match publish(store, places, record) {
                Err(Error::OutputChanged { .. }) if is_lenient => {}
                // A run that took over has published the record, and may have replaced it since.
                Err(error @ Error::OutputChanged { .. }) => {
                    lease::check(store, &lease_directory(root), epoch)?;
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
            // The split can only be done again in place while its files are unchanged.
            store.make_directory(&damaged_directory(root))?;
            let _removed_by_another_run = store.rename(
                &format!("{directory}/{name}"),
                &format!("{}/{name}", damaged_directory(root)),
            )?;
        }
        if !found.damaged.is_empty() {
            store.sync_directory(&damaged_directory(root))?;
        }
        for name in found.names {
            store.remove(&format!("{directory}/{name}"))?;
        }
        // A process that started to record before may finish only now: then another
        // round is needed.
        if store.remove_empty_directory(&directory)? {
            break;
        }
    }
    store.sync_directory(root)?;
    Ok(warnings)
}

/// The content of a directory for records.
#[derive(Default)]
struct Found {
    /// Names of all objects that were read.
    names: Vec<String>,
    records: Vec<UnitRecord>,
    damaged: Vec<String>,
    warnings: Vec<String>,
}

fn read_units(store: &JournalStore, directory: &str) -> Result<Found> {
    let names = store.list(directory)?;
    let mut found = Found { names: names.clone(), ..Found::default() };
    for name in names.iter().filter(|name| !JournalStore::is_leftover(name)) {
        let path = format!("{directory}/{name}");
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

/// An object with several records.
pub(crate) struct Pack {
    object: Twice,
    records: Vec<UnitRecord>,
    is_whole: bool,
}

fn read_packs(store: &JournalStore, root: &str) -> Result<Vec<Pack>> {
    let directory = packs_directory(root);
    'again: loop {
        let mut packs = Vec::new();
        for name in twice::names(store, &directory)? {
            let object = Twice::beside(format!("{directory}/{name}"));
            // A process that merges packs removes old ones after the new one exists.
            let Some(read) = object.read(store)? else { continue 'again };
            packs.push(Pack { object, records: read.values, is_whole: read.is_whole });
        }
        return Ok(packs);
    }
}

/// The names of packs without a readable copy.
pub(crate) fn lost_packs(store: &JournalStore, root: &str) -> Result<Vec<Twice>> {
    let directory = packs_directory(root);
    let objects = twice::names(store, &directory)?
        .into_iter()
        .map(|name| Twice::beside(format!("{directory}/{name}")));
    Ok(objects
        .filter(|object| matches!(object.read::<UnitRecord>(store), Err(Error::Damaged { .. })))
        .collect())
}

pub(crate) fn save_pack(
    store: &JournalStore,
    root: &str,
    name: &str,
    records: &[UnitRecord],
) -> Result<()> {
    Twice::beside(format!("{}/{name}", packs_directory(root))).record_own(store, records)
}

fn pack_all(store: &JournalStore, root: &str, lease: &Lease, packs: &[Pack]) -> Result<()> {
    let mut records = BTreeMap::new();
    add_records(&mut records, packs.iter().flat_map(|pack| pack.records.iter().cloned()));
    let records: Vec<UnitRecord> = records.into_values().collect();
    save_pack(store, root, &format!("{:020}-{}-all", lease.epoch(), lease.term()), &records)?;
    packs.iter().try_for_each(|pack| pack.object.remove(store))
}

/// Merges all records into one object; the caller holds the lease and no worker commits.
pub(crate) fn compact(store: &JournalStore, root: &str, lease: &Lease) -> Result<()> {
    let packs = read_packs(store, root)?;
    if packs.len() > 1 { pack_all(store, root, lease, &packs) } else { Ok(()) }
}

fn terms(store: &JournalStore, root: &str) -> Result<Vec<String>> {
    Ok(store
        .list(root)?
        .iter()
        .filter_map(|name| term_of_directory(name).map(str::to_owned))
        .collect())
}

/// Removes files that can no longer be committed, and leftovers of processes that died while they
/// wrote to the journal.
pub(crate) fn collect_garbage(store: &JournalStore, places: &Places, job: &str) -> Result<()> {
    let root = &places.root;
    for directory in [&places.output, &ids_directory(root)] {
        for name in store.list(directory)? {
            if let Some(term) = term_of(job, &name)
                && !store.exists(&units_directory(root, term))?
            {
                store.remove(&format!("{directory}/{name}"))?;
            }
        }
    }
    for directory in [
        places.state(),
        root,
        &packs_directory(root),
        &plan_directory(root),
        &lease_directory(root),
    ] {
        for name in store
            .list(directory)?
            .into_iter()
            .filter(|name| JournalStore::is_leftover(name) || twice::is_unfinished(name))
        {
            store.remove(&format!("{directory}/{name}"))?;
        }
    }
    Ok(())
}
