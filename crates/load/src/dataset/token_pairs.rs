//! Pairs of files of Megatron-LM: `P.bin` has the tokens of `P.idx`.
//!
//! The extension `.bin` says nothing by itself. The invariant: a file of tokens is read by its
//! index if there is one beside it, and otherwise only with `format=`.

use crate::Result;
use shardmill_engine::{Cancel, run_in_order};
use shardmill_plan::{Error as PlanError, Listing, listing};
use shardmill_storage::{AnyStore, Error as StorageError, Store, is_remote};
use std::ops::ControlFlow;

const TOKENS: &str = ".bin";
const INDEX: &str = ".idx";
const PLAIN: &str = ".npy";
const DOCUMENTS: &str = ".csv.gz";

/// The index of a file of tokens, whether it exists or not.
pub(super) fn index_of(path: &str) -> Option<String> {
    Some(format!("{}{INDEX}", path.strip_suffix(TOKENS)?))
}

/// The documents of tokens of OLMo-core, whether that file exists or not.
pub(super) fn documents_of(path: &str) -> String {
    format!("{}{DOCUMENTS}", path.strip_suffix(PLAIN).unwrap_or(path))
}

/// Whether this is `X.npy` with `X.csv.gz` beside it, or that file beside its tokens.
#[must_use]
pub fn is_plain_pair(path: &str) -> bool {
    match path.strip_suffix(DOCUMENTS) {
        Some(stem) => exists(&format!("{stem}{PLAIN}")),
        None => path.ends_with(PLAIN) && exists(&documents_of(path)),
    }
}

fn exists(path: &str) -> bool {
    AnyStore.open(path).is_ok()
}

/// Whether this is a file of tokens with its index beside it.
#[must_use]
pub fn has_token_index(path: &str) -> bool {
    index_of(path).is_some_and(|index| exists(&index))
}

fn is_cache(relative: &str) -> bool {
    relative.starts_with("cache/")
}

/// As [`listing`], for paths that may mean a pair: its prefix `P`, or its index.
///
/// # Errors
/// As [`listing`].
pub fn listing_of_pair(path: &str) -> shardmill_plan::Result<Listing> {
    let tokens = path.strip_suffix(INDEX).map(|prefix| format!("{prefix}{TOKENS}"));
    if let Some(tokens) = tokens.as_deref().filter(|tokens| exists(tokens)) {
        return listing(tokens);
    }
    let listed = listing(path);
    // A glob of indexes matches no data.
    if let Some(tokens) = tokens.filter(|_| listed.as_ref().is_ok_and(|it| it.files.is_empty())) {
        return listing(&tokens);
    }
    let may_be_prefix = match &listed {
        Err(PlanError::Storage(StorageError::NotFound { .. })) => true,
        // Megatron keeps the order of its samples in a directory of this name.
        Ok(listed) => !listed.is_named && listed.files.iter().all(|file| is_cache(&file.relative)),
        Err(_) => false,
    };
    if may_be_prefix && exists(&format!("{path}{INDEX}")) {
        return listing(&format!("{path}{TOKENS}"));
    }
    listed
}

/// Whether each of `paths` is a file of tokens with an index beside it. Indexes that are not known
/// are looked for, in a store by up to `threads` at a time.
pub(super) fn pairs(
    paths: &[&str],
    is_known: impl Fn(&str) -> bool,
    threads: usize,
) -> Result<Vec<bool>> {
    let mut found = vec![false; paths.len()];
    let (mut places, mut asked) = (Vec::new(), Vec::new());
    for (place, index) in paths.iter().map(|path| index_of(path)).enumerate() {
        let Some(index) = index else { continue };
        if is_known(&index) {
            found.get_mut(place).into_iter().for_each(|is_pair| *is_pair = true);
        } else {
            places.push(place);
            asked.push(index);
        }
    }
    if asked.is_empty() {
        return Ok(found);
    }
    let count = asked.len();
    let threads = if asked.iter().any(|path| is_remote(path)) { threads.min(count) } else { 1 };
    let look =
        move |number: usize| ControlFlow::Continue(asked.get(number).is_some_and(|at| exists(at)));
    for (is_pair, place) in run_in_order(count, threads, &Cancel::default(), look)?.zip(places) {
        let is_pair = is_pair?;
        found.get_mut(place).into_iter().for_each(|slot| *slot = is_pair);
    }
    Ok(found)
}
