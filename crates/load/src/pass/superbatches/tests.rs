use super::*;
use proptest::prelude::*;
use shardmill_plan::order::{Blend, Block, MixtureOptions, Tail};

fn planners(
    blocks: &[u64],
    window: Option<u64>,
    lanes: u64,
    batch_size: u64,
    world_size: u64,
    consumed: u64,
    tail: Tail,
) -> Vec<Planner> {
    let blocks: Vec<Block> =
        blocks.iter().map(|rows| Block { rows: *rows, decoded_bytes: rows * 8 }).collect();
    let order = Arc::new(match window {
        None => RowOrder::sequential(&blocks),
        Some(window) => RowOrder::shuffled(&blocks, window, 1, 0),
    });
    let steps = Steps { lanes: Lanes::new(order.num_rows(), lanes), batch_size, world_size, tail };
    (0..world_size)
        .map(|rank| Planner::new(Arc::clone(&order), steps.clone(), rank, consumed, 1, 20))
        .collect()
}

proptest! {
    #[test]
    fn superbatches_hold_the_slices_of_their_rank_and_every_block_is_given_up_once(
        blocks in prop::collection::vec(0u64..60, 0..12),
        window in prop::option::of(0u64..900),
        lanes in 1u64..6,
        batch_size in 1u64..9,
        world_size in 1u64..4,
        consumed in 0u64..40,
        has_whole_steps_only: bool,
    ) {
        let tail = if has_whole_steps_only { Tail::Drop } else { Tail::Uneven };
        for mut planner in
            planners(&blocks, window, lanes, batch_size, world_size, consumed, tail)
        {
            let mut expected: Vec<u64> = Vec::new();
            let mut start = consumed;
            while let Some(step) = planner.steps.step(start) {
                expected
                    .extend(planner.steps.slice(step, planner.rank).rows.into_iter().flatten());
                start += step.len;
            }
            let (mut rows, mut known, mut retired) = (Vec::new(), BTreeSet::new(), Vec::new());
            while let Some(job) = planner.next_job() {
                for superbatch in job {
                    prop_assert_eq!(
                        superbatch.rows(),
                        superbatch.batches.iter().map(|batch| batch.rows as u64).sum::<u64>()
                    );
                    rows.extend(superbatch.runs.iter().cloned().flatten());
                    for scheduled in superbatch.scheduled_blocks {
                        // The rows of a short last step may be in lanes of other ranks: such a
                        // block is read again.
                        prop_assert!(
                            !has_whole_steps_only || !retired.contains(&scheduled),
                            "a block that was given up is needed again"
                        );
                        known.insert(scheduled);
                    }
                    retired.extend(superbatch.retired);
                }
            }
            prop_assert_eq!(rows, expected);
            retired.sort_unstable();
            let once: Vec<usize> =
                retired.iter().copied().collect::<BTreeSet<_>>().into_iter().collect();
            prop_assert!(!has_whole_steps_only || once == retired);
            prop_assert!(retired.iter().all(|scheduled| known.contains(scheduled)));
        }
    }
}

#[test]
fn nothing_is_planned_after_a_failure() {
    let mut planner = planners(&[100], None, 1, 8, 1, 0, Tail::Uneven).remove(0);
    planner.failure = Some(Error::NoSuchFormat { name: "x".to_owned() });
    assert!(planner.next_job().is_none());
    assert!(planner.take_failure().is_some());
    assert!(planner.next_job().is_none() && planner.take_failure().is_none());
}

#[test]
fn batches_of_large_blocks_come_in_superbatches_that_need_no_copy() {
    let mut planner = planners(&[100, 100], None, 1, 8, 1, 0, Tail::Uneven).remove(0);
    let shape = |job: Vec<SuperbatchPlan>| {
        job.iter()
            .map(|superbatch| (superbatch.batches.len(), superbatch.scheduled_blocks.clone()))
            .collect::<Vec<_>>()
    };
    assert_eq!(shape(planner.next_job().unwrap()), [(12, vec![0])]);
    // The batch across the border, then those within the second block, assembled by one thread.
    assert_eq!(shape(planner.next_job().unwrap()), [(1, vec![0, 1]), (12, vec![1])]);
    assert!(planner.next_job().is_none());
}

proptest! {
    #[test]
    fn superbatches_of_a_mixture_hold_the_slices_of_their_rank_and_every_block_is_given_up_once(
        sources in prop::collection::vec(prop::collection::vec(1u64..400, 1..5), 1..4),
        counts in prop::collection::vec(1u64..1_500, 3),
        window in prop::option::of(0u64..4_000),
        lanes in 1u64..5,
        batch_size in 1u64..40,
        world_size in 1u64..4,
        epoch in 0u64..3,
    ) {
        let blend = Blend::fixed(counts.into_iter().take(sources.len()).collect());
        let blocks: Vec<Vec<Block>> = sources
            .iter()
            .map(|blocks| {
                blocks
                    .iter()
                    .map(|rows| Block { rows: *rows, decoded_bytes: rows << 20 })
                    .collect()
            })
            .collect();
        let options = MixtureOptions {
            blend: &blend,
            sources: &blocks,
            window_bytes: window.map(|window| window << 20),
            seed: 1,
            lanes,
        };
        let order = Arc::new(RowOrder::mixed(options, epoch));
        let steps = Steps {
            lanes: Lanes::new(order.num_rows(), lanes),
            batch_size,
            world_size,
            tail: Tail::Drop,
        };
        for rank in 0..world_size {
            let mut planner = Planner::new(Arc::clone(&order), steps.clone(), rank, 0, 1, 100);
            let (mut known, mut retired) = (BTreeSet::new(), BTreeSet::new());
            while let Some(job) = planner.next_job() {
                for superbatch in job {
                    for run in &superbatch.runs {
                        order.for_each(run.clone(), |scheduled, _| {
                            assert!(
                                superbatch.scheduled_blocks.binary_search(&scheduled).is_ok()
                            );
                        });
                    }
                    for scheduled in superbatch.scheduled_blocks {
                        prop_assert!(
                            !retired.contains(&scheduled),
                            "a block that was given up is needed again"
                        );
                        known.insert(scheduled);
                    }
                    for scheduled in superbatch.retired {
                        prop_assert!(known.contains(&scheduled) && retired.insert(scheduled));
                    }
                }
            }
        }
    }
}

/// Each batch by its end position, with its rows.
fn batches(order: &Arc<RowOrder>, steps: Steps, first: u64, stride: u64) -> Vec<(u64, Vec<u64>)> {
    let consumed = first * steps.global_batch();
    let mut planner = Planner::new(Arc::clone(order), steps, 0, consumed, stride, 40);
    let mut found = Vec::new();
    while let Some(job) = planner.next_job() {
        for superbatch in job {
            let mut rows = superbatch.runs.into_iter().flatten();
            found.extend(
                superbatch
                    .batches
                    .iter()
                    .map(|batch| (batch.consumed, rows.by_ref().take(batch.rows).collect())),
            );
        }
    }
    found
}

proptest! {
    #[test]
    fn strides_share_out_the_batches(
        blocks in prop::collection::vec(1u64..50, 1..8),
        batch_size in 1u64..20,
        stride in 1u64..6,
        lanes in 1u64..4,
    ) {
        let blocks: Vec<Block> =
            blocks.into_iter().map(|rows| Block { rows, decoded_bytes: rows }).collect();
        let rows = blocks.iter().map(|block| block.rows).sum();
        let order = Arc::new(RowOrder::sequential(&blocks));
        for tail in [Tail::Uneven, Tail::Drop, Tail::Pad] {
            let steps =
                Steps { lanes: Lanes::new(rows, lanes), batch_size, world_size: 1, tail };
            let mut shared: Vec<_> = (0..stride)
                .flat_map(|first| batches(&order, steps.clone(), first, stride))
                .collect();
            shared.sort();
            prop_assert_eq!(shared, batches(&order, steps, 0, 1));
        }
    }
}
