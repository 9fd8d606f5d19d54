//! The files of the segments of a plan.

use super::journal_store::{Created, JournalStore};
use super::layout::plan_directory;
use super::plan::Segment;
use super::twice::{self, Twice};
use crate::{Error, Result};

pub(crate) fn save(
    store: &JournalStore,
    root: &str,
    number: usize,
    segment: &Segment,
) -> Result<()> {
    // Only the holder of the lease plans.
    Twice::beside(path_of(root, number)).record_own(store, std::slice::from_ref(segment))
}

/// All segments, in order. Each has its own object, or is in a merged one with all before it. With
/// `heals`, a damaged copy is restored; only the holder of the lease may do that.
pub(crate) fn load(store: &JournalStore, root: &str, heals: bool) -> Result<Vec<Segment>> {
    loop {
        let merged = last_merged(store, root)?;
        let Some(segments) = load_after(store, root, merged, heals)? else { continue };
        // Another run may have merged more meanwhile, and removed the objects to read.
        let names = twice::names(store, &plan_directory(root))?;
        if last_merged_of(&names) != merged {
            continue;
        }
        let last = names.iter().filter_map(|name| name.parse::<usize>().ok()).max();
        if last.is_some_and(|last| last >= segments.len()) {
            return Err(Error::damaged(&path_of(root, segments.len())));
        }
        return Ok(segments);
    }
}

/// `None` if the merged object is missing.
fn load_after(
    store: &JournalStore,
    root: &str,
    merged: usize,
    heals: bool,
) -> Result<Option<Vec<Segment>>> {
    let read = |path: &str| -> Result<Option<Vec<Segment>>> {
        let object = Twice::beside(path.to_owned());
        let Some(read) = object.read::<Segment>(store)? else { return Ok(None) };
        if heals && !read.is_whole {
            object.replace(store, &read.values)?;
        }
        Ok(Some(read.values))
    };
    let mut segments = Vec::new();
    if merged > 0 {
        let path = merged_path(root, merged);
        let Some(values) = read(&path)? else { return Ok(None) };
        if values.len() != merged {
            return Err(Error::damaged(&path));
        }
        segments = values;
    }
    loop {
        let path = path_of(root, segments.len());
        let Some(values) = read(&path)? else { return Ok(Some(segments)) };
        let [segment] = <[Segment; 1]>::try_from(values).map_err(|_| Error::damaged(&path))?;
        segments.push(segment);
    }
}

/// Merges all segments into one object, then removes the replaced objects, so that their number
/// does not grow with the number of runs. A run that dies in between leaves objects that the next
/// run removes; a run that was overtaken merges data that is still valid.
pub(crate) fn merge(store: &JournalStore, root: &str, segments: &[Segment]) -> Result<()> {
    let directory = plan_directory(root);
    let names = twice::names(store, &directory)?;
    if names.len() < 2 {
        return Ok(());
    }
    let count = segments.len();
    if last_merged_of(&names) < count {
        let object = Twice::beside(merged_path(root, count));
        for path in [&object.copy, &object.path] {
            // An overtaken run may have created the same object.
            match store.record(path, segments)? {
                Created::Made(_) | Created::Taken => {}
                Created::NoDirectory | Created::Collected => {
                    return Err(Error::Fenced { path: directory });
                }
            }
        }
    }
    let is_merged = |name: &str| match name.strip_prefix(MERGED) {
        Some(number) => number.parse().is_ok_and(|number: usize| number < count),
        None => name.parse().is_ok_and(|number: usize| number < count),
    };
    names
        .iter()
        .filter(|name| is_merged(name))
        .try_for_each(|name| Twice::beside(format!("{directory}/{name}")).remove(store))
}

fn last_merged(store: &JournalStore, root: &str) -> Result<usize> {
    Ok(last_merged_of(&twice::names(store, &plan_directory(root))?))
}

/// The number of segments in the last merged object; 0 without one.
fn last_merged_of(names: &[String]) -> usize {
    names
        .iter()
        .filter_map(|name| name.strip_prefix(MERGED)?.parse().ok())
        .max()
        .unwrap_or_default()
}

const MERGED: &str = "until-";

fn merged_path(root: &str, count: usize) -> String {
    format!("{}/{MERGED}{count:06}", plan_directory(root))
}

pub(crate) fn path_of(root: &str, number: usize) -> String {
    format!("{}/{number:06}", plan_directory(root))
}
