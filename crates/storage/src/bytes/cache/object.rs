//! The cached bytes of one version of an object.

use super::Cache;
use super::blocks::{
    BLOCK, BYTES, ENTRY, NAME, TABLE, blocks_of, bytes_of, entry, is_there, missing, regions_of,
};
use super::descriptors::{Descriptors, Files};
use crate::Result;
use crate::bytes::fresh;
use crate::local::file::{read_exact_at, read_new_at};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

#[derive(Debug)]
pub(crate) struct CachedObject {
    cache: Arc<Cache>,
    base: PathBuf,
    path: String,
    size: u64,
}

/// Blocks by block number.
type Blocks = BTreeMap<u64, Bytes>;

impl CachedObject {
    pub(super) fn open(cache: Arc<Cache>, base: &Path, path: &str, size: u64) -> io::Result<Self> {
        let object = Self { cache, base: base.to_owned(), path: path.to_owned(), size };
        object.files()?;
        Ok(object)
    }

    fn files(&self) -> io::Result<Arc<Files>> {
        self.cache
            .descriptors
            .get_or_make(Descriptors::default)
            .get(&self.base, || files(&self.base, &self.path, self.size))
    }

    /// The bytes of each of `spans`. `fetch` is called with runs of whole blocks that are missing,
    /// and returns their bytes in the same order.
    pub(crate) fn read(
        &self,
        spans: &[Range<u64>],
        fetch: impl Fn(Vec<Range<u64>>) -> Result<Vec<Bytes>>,
    ) -> Result<Vec<Bytes>> {
        let is_fresh = fresh::is_wanted();
        let kept = |span: &Range<u64>| if is_fresh { None } else { self.kept(span) };
        let found = spans.iter().map(kept).collect::<Option<Vec<_>>>();
        let counter = if found.is_some() { &self.cache.hits } else { &self.cache.misses };
        counter.fetch_add(spans.len() as u64, Ordering::Relaxed);
        found.map_or_else(|| self.completed(spans, &fetch, kept), Ok)
    }

    /// The bytes of `span` if all of them are cached.
    fn kept(&self, span: &Range<u64>) -> Option<Bytes> {
        if span.is_empty() {
            return Some(Bytes::new());
        }
        let blocks = blocks_of(span);
        let entries = self.entries(&blocks)?;
        if !blocks
            .clone()
            .zip(entries.chunks_exact(ENTRY))
            .all(|(block, entry)| is_there(block, entry))
        {
            return None;
        }
        let whole = bytes_of(&blocks, self.size);
        let bytes = read_new_at(
            &self.files().ok()?.bytes,
            usize::try_from(whole.end - whole.start).ok()?,
            whole.start,
        )
        .ok()?;
        let block_len = usize::try_from(BLOCK).ok()?;
        let is_good = bytes
            .chunks(block_len)
            .zip(blocks)
            .zip(entries.chunks_exact(ENTRY))
            .all(|((bytes, block), known)| entry(block, bytes) == known);
        let from = usize::try_from(span.start - whole.start).ok()?;
        let len = usize::try_from(span.end - span.start).ok()?;
        is_good.then(|| Bytes::from(bytes).slice(from..from + len))
    }

    fn entries(&self, blocks: &Range<u64>) -> Option<Vec<u8>> {
        let mut entries =
            vec![0; usize::try_from(blocks.end - blocks.start).ok()?.checked_mul(ENTRY)?];
        read_exact_at(&self.files().ok()?.table, &mut entries, blocks.start * ENTRY as u64).ok()?;
        Some(entries)
    }

    fn completed(
        &self,
        spans: &[Range<u64>],
        fetch: &impl Fn(Vec<Range<u64>>) -> Result<Vec<Bytes>>,
        kept: impl Fn(&Range<u64>) -> Option<Bytes>,
    ) -> Result<Vec<Bytes>> {
        let regions = || spans.iter().flat_map(|span| regions_of(&blocks_of(span)));
        // Everything works without locks or free space; blocks may then be fetched twice.
        let _held = self.cache.locks.regions(&self.base.to_string_lossy(), regions()).ok();
        let mut known = Blocks::new();
        let mut wanted = Vec::new();
        for span in spans {
            for block in blocks_of(span) {
                if !known.contains_key(&block)
                    && let Some(bytes) = kept(&bytes_of(&(block..block + 1), self.size))
                {
                    known.insert(block, bytes);
                }
            }
            wanted.extend(missing(blocks_of(span), |block| known.contains_key(&block)));
        }
        let runs = joined(wanted);
        let fetched = if runs.is_empty() {
            Vec::new()
        } else {
            fetch(runs.iter().map(|run| bytes_of(run, self.size)).collect())?
        };
        for (run, bytes) in runs.iter().zip(&fetched) {
            self.keep(run, bytes);
            for block in run.clone() {
                let from = usize::try_from((block - run.start) * BLOCK).unwrap_or(usize::MAX);
                known.insert(
                    block,
                    bytes.slice(
                        from.min(bytes.len())
                            ..from
                                .saturating_add(usize::try_from(BLOCK).unwrap_or(usize::MAX))
                                .min(bytes.len()),
                    ),
                );
            }
        }
        Ok(spans.iter().map(|span| self.assembled(span, &runs, &fetched, &known)).collect())
    }

    fn assembled(
        &self,
        span: &Range<u64>,
        runs: &[Range<u64>],
        fetched: &[Bytes],
        known: &Blocks,
    ) -> Bytes {
        let within = |run: &Range<u64>, bytes: &Bytes| {
            let whole = bytes_of(run, self.size);
            let is_inside = whole.start <= span.start && span.end <= whole.end;
            let place = |position: u64| usize::try_from(position - whole.start).unwrap_or_default();
            is_inside.then(|| bytes.slice(place(span.start)..place(span.end)))
        };
        if let Some(bytes) = runs.iter().zip(fetched).find_map(|(run, bytes)| within(run, bytes)) {
            return bytes;
        }
        let mut whole =
            Vec::with_capacity(usize::try_from(span.end - span.start).unwrap_or_default());
        for block in blocks_of(span) {
            let place = bytes_of(&(block..block + 1), self.size);
            let bytes = known.get(&block).cloned().unwrap_or_default();
            let cut = |position: u64| {
                usize::try_from(position.clamp(place.start, place.end) - place.start)
                    .unwrap_or_default()
            };
            whole.extend_from_slice(bytes.get(cut(span.start)..cut(span.end)).unwrap_or_default());
        }
        whole.into()
    }

    /// Writes the bytes first, then their entries.
    fn keep(&self, run: &Range<u64>, bytes: &Bytes) {
        let Some(files) = self.files().ok().filter(|_| self.cache.keeps()) else { return };
        let block_len = usize::try_from(BLOCK).unwrap_or(usize::MAX);
        let entries: Vec<u8> = bytes
            .chunks(block_len)
            .zip(run.clone())
            .flat_map(|(bytes, block)| entry(block, bytes))
            .collect();
        let written = files
            .bytes
            .write_all_at(bytes, run.start * BLOCK)
            .and_then(|()| files.table.write_all_at(&entries, run.start * ENTRY as u64));
        match written {
            Ok(()) => self.cache.grew(bytes.len() as u64),
            Err(error) => self.cache.not_kept(&error),
        }
    }
}

impl Drop for CachedObject {
    fn drop(&mut self) {
        // The modification time records the last use.
        let _only_a_hint = File::options()
            .append(true)
            .open(self.base.with_extension(NAME))
            .and_then(|file| file.set_modified(std::time::SystemTime::now()));
    }
}

fn joined(mut runs: Vec<Range<u64>>) -> Vec<Range<u64>> {
    runs.sort_unstable_by_key(|run| run.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for run in runs {
        match joined.last_mut() {
            Some(last) if run.start <= last.end => last.end = last.end.max(run.end),
            _ => joined.push(run),
        }
    }
    joined
}

fn files(base: &Path, path: &str, size: u64) -> io::Result<Files> {
    if let Some(directory) = base.parent() {
        fs::create_dir_all(directory)?;
    }
    let open = |extension: &str, len: u64| {
        let file = File::options()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(base.with_extension(extension))?;
        // Space is allocated as blocks arrive. A file of the wrong length was changed by another
        // program, and its checksums will not match.
        if file.metadata()?.len() != len {
            file.set_len(len)?;
        }
        Ok::<_, io::Error>(file)
    };
    let bytes = open(BYTES, size)?;
    let table = open(TABLE, size.div_ceil(BLOCK) * ENTRY as u64)?;
    let name = base.with_extension(NAME);
    if !name.exists() {
        fs::write(&name, path)?;
    }
    Ok(Files { bytes, table })
}
