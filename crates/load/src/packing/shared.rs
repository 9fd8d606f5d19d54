//! Counts the tokens of all blocks of a row set, together with other processes that keep counts in
//! the same directory.
//!
//! ```text
//! blocks without counts --by content--> groups
//!     --claim--> look again, count the rest, publish, give the claim up
//!     --busy---> wait for what another process publishes, or take over what it leaves
//! ```
//!
//! Processes need not know of each other, and their data sets need not be equal.
//! The invariant: with claims, a block that can be counted is counted once; without them,
//! or if the process that holds one stops, it is counted again. No process waits for one
//! that waits: claims are given up first.

use super::LengthsSource;
use super::amounts::Amounts;
use super::lengths::of_whole_block;
use crate::dataset::BlockOf;
use crate::tokenize::TokenCounts;
use crate::{Dataset, Result, RowSet};
use shardmill_engine::{Cancel, run_in_order};
use shardmill_storage::Claimed;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use uuid::Uuid;

/// After this time without new counts, claims of other processes are ignored.
const PATIENCE: Duration = Duration::from_secs(60);

const FIRST_LOOK: Duration = Duration::from_millis(5);
const LONGEST_LOOK: Duration = Duration::from_millis(500);

/// Without claims, what others have published is looked for this often.
const LOOKS_EACH: Duration = Duration::from_secs(5);

/// Blocks that are counted under one claim.
#[derive(Debug, Clone)]
struct Group {
    counts: Arc<TokenCounts>,
    number: u64,
    blocks: Vec<BlockOf>,
}

/// Counts what is not known in the `stores` of files, as far as it can be counted. Others may do a
/// part of it.
pub(super) fn count_together(
    dataset: &Arc<Dataset>,
    rows: &RowSet,
    stores: &[Option<Arc<TokenCounts>>],
    source: LengthsSource,
    threads: usize,
    cancel: &Cancel,
) -> Result<()> {
    let mut distinct: Vec<Arc<TokenCounts>> = Vec::new();
    for counts in stores.iter().flatten() {
        if !distinct.iter().any(|known| Arc::ptr_eq(known, counts)) {
            counts.refresh(cancel)?;
            distinct.push(Arc::clone(counts));
        }
    }
    let mut left = groups(dataset, rows, stores, source);
    let (mut pause, mut since, mut is_patient) = (FIRST_LOOK, Instant::now(), true);
    while !left.is_empty() {
        let before = left.len();
        let work = Counting {
            dataset: Arc::clone(dataset),
            source,
            is_patient,
            cancel: Cancel::default(),
            looked: Arc::default(),
        };
        let counted = work.run(left, threads, cancel);
        // Also after a failure: other processes must not wait for one that counts no more.
        distinct.iter().for_each(|counts| counts.publish());
        left = counted?;
        for counts in &distinct {
            counts.refresh(cancel)?;
        }
        left.retain(|group| {
            group.blocks.iter().any(|place| is_missing(dataset, &group.counts, source, *place))
        });
        if left.len() < before {
            (pause, since) = (FIRST_LOOK, Instant::now());
        } else if since.elapsed() > PATIENCE {
            tracing::warn!(
                target: "shardmill.tokens",
                "no new token counts for {} seconds, so blocks that another process has claimed \
                 are counted here as well",
                PATIENCE.as_secs()
            );
            is_patient = false;
        }
        if !left.is_empty() && is_patient {
            cancel.check()?;
            if pause == FIRST_LOOK {
                let blocks: usize = left.iter().map(|group| group.blocks.len()).sum();
                tracing::info!(
                    target: "shardmill.tokens",
                    "{blocks} blocks are being counted by other processes"
                );
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST_LOOK);
        }
    }
    Ok(())
}

/// The blocks without counts, in an order that begins elsewhere in each process.
fn groups(
    dataset: &Dataset,
    rows: &RowSet,
    stores: &[Option<Arc<TokenCounts>>],
    source: LengthsSource,
) -> Vec<Group> {
    let mut groups: BTreeMap<(u64, usize), Group> = BTreeMap::new();
    for block in rows.blocks() {
        let (Some(file), Some(Some(counts))) =
            (dataset.files().get(block.place.file), stores.get(block.place.file))
        else {
            continue;
        };
        for place in (0..block.count)
            .map(|offset| BlockOf { block: block.place.block + offset, ..block.place })
        {
            if Amounts::kept(counts, file, source, place).is_none() {
                let key = file.block_key(source.column(), place.block);
                let number = key.group(file.table.blocks().len());
                let new = || Group { counts: Arc::clone(counts), number, blocks: Vec::new() };
                groups
                    .entry((number, Arc::as_ptr(counts).addr()))
                    .or_insert_with(new)
                    .blocks
                    .push(place);
            }
        }
    }
    let mut groups: Vec<Group> = groups.into_values().collect();
    let first = Uuid::new_v4().as_u64_pair().0 % (groups.len() as u64).max(1);
    groups.rotate_left(usize::try_from(first).unwrap_or_default());
    groups
}

fn is_missing(
    dataset: &Dataset,
    counts: &TokenCounts,
    source: LengthsSource,
    place: BlockOf,
) -> bool {
    let file = dataset.files().get(place.file);
    file.is_some_and(|file| Amounts::kept(counts, file, source, place).is_none())
}

#[derive(Clone)]
struct Counting {
    dataset: Arc<Dataset>,
    source: LengthsSource,
    /// Whether claims of others are respected.
    is_patient: bool,
    cancel: Cancel,
    looked: Arc<Mutex<Option<Instant>>>,
}

impl Counting {
    /// Counts groups that can be claimed, and returns the others.
    fn run(&self, groups: Vec<Group>, threads: usize, cancel: &Cancel) -> Result<Vec<Group>> {
        let (own, count, shared) = (self.clone(), groups.len(), Arc::new(groups));
        let of_work = Arc::clone(&shared);
        let work = move |number: usize| {
            ControlFlow::Continue(of_work.get(number).map_or(Ok(true), |group| own.count(group)))
        };
        let mut left = Vec::new();
        for (outcome, group) in
            run_in_order(count, threads.max(1), &self.cancel, work)?.zip(shared.iter())
        {
            cancel.check()?;
            if !outcome?? {
                left.push(group.clone());
            }
        }
        Ok(left)
    }

    /// False if another process counts the group.
    fn count(&self, group: &Group) -> Result<bool> {
        let claim = match group.counts.claim(group.number) {
            Claimed::Busy if self.is_patient => return Ok(false),
            Claimed::Held(claim) => Some(claim),
            Claimed::Busy | Claimed::Unsupported => None,
        };
        // A process that held the claim before has published.
        if claim.is_some() || self.is_time_to_look() {
            group.counts.refresh(&self.cancel)?;
        }
        for place in &group.blocks {
            self.cancel.check()?;
            let Some(file) = self.dataset.files().get(place.file) else { continue };
            if Amounts::kept(&group.counts, file, self.source, *place).is_some() {
                continue;
            }
            // A failure is reported when the rows of the block are needed.
            if let Ok(counts) = of_whole_block(&self.dataset, *place, self.source) {
                counts.keep(&group.counts, file, self.source, *place);
            }
        }
        if let Some(claim) = claim {
            group.counts.release(claim);
        }
        Ok(true)
    }

    fn is_time_to_look(&self) -> bool {
        let mut looked = self.looked.lock().unwrap_or_else(PoisonError::into_inner);
        let is_time = looked.is_none_or(|looked| looked.elapsed() >= LOOKS_EACH);
        if is_time {
            *looked = Some(Instant::now());
        }
        is_time
    }
}
