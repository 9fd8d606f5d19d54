use super::super::{RowOrder, Steps, Tail};
use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn blocks(sources: &[Vec<u64>]) -> Vec<Vec<Block>> {
    sources
        .iter()
        .map(|rows| {
            rows.iter().map(|rows| Block { rows: *rows, decoded_bytes: rows * 8 }).collect()
        })
        .collect()
}

fn order(
    blend: &Blend,
    sources: &[Vec<u64>],
    window_bytes: Option<u64>,
    seed: i64,
    lanes: u64,
    epoch: u64,
) -> RowOrder {
    RowOrder::mixed(
        MixtureOptions { blend, sources: &blocks(sources), window_bytes, seed, lanes },
        epoch,
    )
}

/// (source, row) at each plan position.
fn rows(order: &RowOrder, sources: &[Vec<u64>]) -> Vec<(u64, u64)> {
    let mut starts = Vec::new();
    for (number, blocks) in sources.iter().enumerate() {
        let mut start = 0;
        for rows in blocks {
            starts.push((number as u64, start));
            start += rows;
        }
    }
    let mut found = Vec::new();
    order.for_each(0..u64::MAX, |scheduled, row| {
        let (source, start) = starts[order.block(scheduled).unwrap()];
        found.push((source, start + row));
    });
    found
}

fn sources() -> impl Strategy<Value = Vec<Vec<u64>>> {
    // Large sources span many windows of the pattern, small ones repeat.
    prop::collection::vec(
        prop_oneof![
            prop::collection::vec(1u64..30, 1..6),
            prop::collection::vec(200u64..900, 1..6)
        ],
        1..4,
    )
}

proptest! {
    #[test]
    fn three_epochs_draw_every_source_evenly_and_exactly(
        sources in sources(),
        counts in prop::collection::vec(0u64..2_500, 3),
        window in prop::option::of(0u64..9_000),
        lanes in 1u64..5,
        seed: i64,
    ) {
        let blend = Blend::fixed(counts.into_iter().take(sources.len()).collect());
        let mut seen: BTreeMap<(u64, u64), u64> = BTreeMap::new();
        for epoch in 0..3 {
            let order = order(&blend, &sources, window, seed, lanes, epoch);
            let found = rows(&order, &sources);
            prop_assert_eq!(found.len() as u64, blend.rows());
            for (source, count) in blend.counts(epoch).into_iter().enumerate() {
                prop_assert_eq!(
                    found.iter().filter(|(own, _)| *own == source as u64).count() as u64,
                    count
                );
            }
            found.into_iter().for_each(|row| *seen.entry(row).or_default() += 1);
            for (source, blocks) in sources.iter().enumerate() {
                let rows: u64 = blocks.iter().sum();
                let times: Vec<u64> = (0..rows)
                    .map(|row| seen.get(&(source as u64, row)).copied().unwrap_or_default())
                    .collect();
                prop_assert!(
                    times.iter().max().unwrap() - times.iter().min().unwrap() <= 1,
                    "a row came again before all others did"
                );
                prop_assert_eq!(times.iter().sum::<u64>(), blend.counts(0)[source] * (epoch + 1));
            }
        }
    }

    #[test]
    fn scheduled_blocks_and_spans_agree_about_what_positions_need(
        sources in sources(),
        counts in prop::collection::vec(1u64..2_500, 3),
        window in prop::option::of(0u64..9_000),
        lanes in 1u64..4,
        epoch in 0u64..3,
        start in 0u64..4_000,
        len in 1u64..200,
    ) {
        let blend = Blend::fixed(counts.into_iter().take(sources.len()).collect());
        let order = order(&blend, &sources, window, 5, lanes, epoch);
        let scheduled_blocks = order.scheduled_blocks(start..start + len);
        order.for_each(start..start + len, |scheduled, _| {
            assert!(scheduled_blocks.contains(scheduled) && scheduled < order.num_scheduled());
        });
        for scheduled in scheduled_blocks {
            let span = order.span(scheduled);
            prop_assert!(span.start < start + len && start < span.end, "{scheduled}: {span:?}");
        }
        let counted: u64 = order.ranges(start..start + len).iter().map(|range| range.len).sum();
        prop_assert_eq!(counted, (start + len).min(order.num_rows()).saturating_sub(start));
        for position in
            [start, start + len / 2].into_iter().filter(|position| *position < order.num_rows())
        {
            prop_assert_eq!(
                order.at(position),
                order
                    .ranges(position..position + 1)
                    .first()
                    .map(|range| (order.block(range.scheduled).unwrap(), range.start))
            );
        }
    }

    #[test]
    fn counters_are_those_of_the_rows_delivered(
        sources in sources(),
        counts in prop::collection::vec(1u64..600, 3),
        lanes in 1u64..6,
        batch_size in 1u64..90,
        world_size in 1u64..4,
    ) {
        let blend = Blend::fixed(counts.into_iter().take(sources.len()).collect());
        let order = order(&blend, &sources, Some(800), 5, lanes, 1);
        let steps = Steps {
            lanes: Lanes::new(order.num_rows(), lanes),
            batch_size,
            world_size,
            tail: Tail::Uneven,
        };
        let mixture = order.mixture().unwrap();
        let (mut consumed, mut delivered) = (0, vec![0; sources.len()]);
        while let Some(step) = steps.step(consumed) {
            prop_assert_eq!(mixture.consumed(consumed), delivered.clone());
            for run in (0..world_size).flat_map(|rank| steps.slice(step, rank).rows) {
                order.for_each(run, |scheduled, _| {
                    delivered[mixture.source(scheduled).unwrap()] += 1;
                });
            }
            consumed += step.len;
        }
        prop_assert_eq!(mixture.consumed(consumed), delivered);
    }

    #[test]
    fn schedule_moves_the_sources_at_its_row(lanes in 1u64..6, turn in 0u64..4_000) {
        let sources = [vec![700, 900], vec![1_000]];
        let blend = Blend::staged(4_000, &[(0, vec![1, 0]), (turn.max(1), vec![1, 3])], false);
        let order = order(&blend, &sources, None, 0, lanes, 0);
        let found = rows(&order, &sources);
        let plan = Lanes::new(4_000, lanes);
        // Rows before the turn in the global sequence come from the first source, up to a window of
        // each lane.
        for lane in 0..lanes {
            let positions = plan.positions(lane);
            let before = plan.cursor(lane, turn).saturating_sub(1_024).max(positions.start);
            prop_assert!(
                (positions.start..before)
                    .all(|position| found[usize::try_from(position).unwrap()].0 == 0)
            );
        }
        let first = order.mixture().unwrap().consumed(turn)[0];
        prop_assert!(first <= turn && first + 1_024 * lanes >= turn);
    }
}

#[test]
fn small_source_that_is_repeated_is_visited_once() {
    let blend = Blend::fixed(vec![1_000, 1_000]);
    let order = order(&blend, &[vec![10], vec![500, 500]], Some(1 << 20), 0, 1, 0);
    assert_eq!(order.num_scheduled(), 3);
    assert_eq!(
        order
            .scheduled_blocks(0..1_000)
            .into_iter()
            .filter(|scheduled| order.block(*scheduled) == Some(0))
            .count(),
        1
    );
}

#[test]
fn source_without_draws_may_be_empty() {
    let order = order(&Blend::fixed(vec![3, 0]), &[vec![2], vec![]], None, 0, 1, 0);
    assert_eq!(order.num_rows(), 3);
    assert_eq!(order.mixture().unwrap().drawn(3), [3, 0]);
}

/// These rows must never change, like those of the permutation. They were computed by a second
/// implementation, in Python.
#[test]
fn vectors_of_version_1_are_pinned() {
    let (two, three) = ([vec![3, 2], vec![4]], [vec![2, 2, 2], vec![3, 3]]);
    let blend = Blend::fixed(vec![6, 3]);
    assert_eq!(rows(&order(&blend, &two, Some(0), 7, 2, 1), &two), VECTOR_BLOCKS);
    assert_eq!(rows(&order(&blend, &two, None, 7, 1, 1), &two), VECTOR_FILES);
    assert_eq!(
        rows(&order(&Blend::fixed(vec![7, 5]), &three, Some(1 << 40), -1, 1, 2), &three),
        VECTOR_ALL
    );
}

const VECTOR_BLOCKS: [(u64, u64); 9] =
    [(0, 0), (1, 1), (1, 2), (0, 1), (0, 3), (0, 4), (1, 3), (0, 3), (0, 4)];
const VECTOR_FILES: [(u64, u64); 9] =
    [(0, 1), (1, 3), (1, 0), (0, 2), (0, 3), (0, 4), (0, 0), (0, 1), (1, 1)];
const VECTOR_ALL: [(u64, u64); 12] = [
    (1, 3),
    (1, 2),
    (1, 5),
    (0, 4),
    (0, 5),
    (0, 3),
    (0, 2),
    (0, 3),
    (0, 0),
    (1, 1),
    (1, 0),
    (0, 5),
];
