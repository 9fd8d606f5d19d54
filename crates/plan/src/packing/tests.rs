use super::*;
use crate::order::Lanes;
use proptest::prelude::{Just, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::strategy::Strategy as _;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

const BEST: Strategy = Strategy::Fit { choice: Choice::Best, open_packs: 4, long: Long::Split };

fn strategies() -> impl proptest::strategy::Strategy<Value = Strategy> {
    let choice = prop_oneof![Just(Choice::Best), Just(Choice::First)];
    let long = prop_oneof![Just(Long::Split), Just(Long::Truncate), Just(Long::Drop)];
    let fit = (choice, 1usize..6, long).prop_map(|(choice, open_packs, long)| Strategy::Fit {
        choice,
        open_packs,
        long,
    });
    prop_oneof![Just(Strategy::Concat), fit]
}

fn plan(rows: &[u32], lanes: u64, length: u32, strategy: Strategy) -> PackPlan {
    built(rows, lanes, length, strategy).unwrap()
}

fn built(rows: &[u32], lanes: u64, length: u32, strategy: Strategy) -> Result<PackPlan, Refused> {
    let tokens_of = |positions: Range<u64>, each: &mut dyn FnMut(u32)| {
        positions.for_each(|position| each(rows[usize::try_from(position).unwrap()]));
    };
    let packing = Packing::new(length, strategy);
    PackPlan::build(packing, &Lanes::new(rows.len() as u64, lanes), tokens_of)
}

fn balanced(
    rows: &[u32],
    lanes: u64,
    length: u32,
    strategy: Strategy,
    balance: Balance,
) -> PackPlan {
    let tokens_of = |positions: Range<u64>, each: &mut dyn FnMut(u32)| {
        positions.for_each(|position| each(rows[usize::try_from(position).unwrap()]));
    };
    let packing = Packing { balance: Some(balance), ..Packing::new(length, strategy) };
    PackPlan::build(packing, &Lanes::new(rows.len() as u64, lanes), tokens_of).unwrap()
}

pub(super) fn balances() -> impl proptest::strategy::Strategy<Value = Balance> {
    let cost = Cost { token: 1, pair: 1, counts_padding: true, ..Cost::default() };
    (1u32..4, 0u32..9, proptest::bool::ANY).prop_map(move |(per_step, more, is_alike)| Balance {
        cost,
        per_step,
        window_packs: per_step + more,
        within: if is_alike { Within::Alike } else { Within::Mixed },
        seed: 1,
        epoch: 2,
    })
}

/// Row, first token and count of each piece of each pack.
fn packs(plan: &PackPlan, rows: &[u32]) -> Vec<Vec<(u64, u32, u32)>> {
    let tokens_of = |position: u64| rows[usize::try_from(position).unwrap()];
    (0..plan.num_packs())
        .map(|pack| {
            let mut pieces = Vec::new();
            plan.for_each_piece(pack, tokens_of, |piece| {
                pieces.push((piece.position, piece.first, piece.count));
            });
            pieces
        })
        .collect()
}

proptest! {
    #[test]
    fn every_token_is_packed_once_in_order_or_counted_as_lost(
        rows in prop::collection::vec(prop_oneof![4 => 0u32..12, 1 => 12u32..60], 0..80),
        lanes in 1u64..5,
        length in 1u32..20,
        strategy in strategies(),
    ) {
        let plan = plan(&rows, lanes, length, strategy);
        let packs = packs(&plan, &rows);
        let mut next: BTreeMap<u64, u32> = BTreeMap::new();
        for pack in &packs {
            prop_assert!(!pack.is_empty());
            prop_assert!(pack.iter().map(|(.., count)| count).sum::<u32>() <= length);
            for (row, first, count) in pack {
                prop_assert!(*count > 0);
                let expected = next.entry(*row).or_default();
                prop_assert_eq!(*expected, *first, "tokens of a row come in their order");
                *expected += count;
            }
        }
        let mut totals = Totals::default();
        for (row, tokens) in rows.iter().enumerate() {
            let packed = next.get(&(row as u64)).copied().unwrap_or_default();
            totals.tokens += u64::from(packed);
            match strategy {
                Strategy::Fit { long: Long::Truncate, .. } => {
                    prop_assert_eq!(packed, length.min(*tokens));
                }
                Strategy::Fit { long: Long::Drop, .. } => {
                    prop_assert_eq!(packed, if *tokens > length { 0 } else { *tokens });
                }
                _ => prop_assert_eq!(packed, *tokens),
            }
            if packed == 0 && *tokens > 0 {
                totals.dropped_rows += 1;
                totals.dropped_tokens += u64::from(*tokens);
            } else {
                totals.truncated_tokens += u64::from(tokens - packed);
            }
        }
        prop_assert_eq!(plan.totals(), totals);
    }

    #[test]
    fn concatenated_packs_are_full_but_for_the_last_of_a_lane(
        rows in prop::collection::vec(0u32..40, 0..60),
        lanes in 1u64..5,
        length in 1u32..20,
    ) {
        let plan = plan(&rows, lanes, length, Strategy::Concat);
        let packs = packs(&plan, &rows);
        let of_rows = Lanes::new(rows.len() as u64, lanes);
        for lane in 0..lanes {
            let own = plan.lanes().positions(lane);
            let tokens: Vec<(u64, u32)> = of_rows
                .positions(lane)
                .flat_map(|row| {
                    (0..rows[usize::try_from(row).unwrap()]).map(move |token| (row, token))
                })
                .collect();
            let expected: Vec<Vec<(u64, u32)>> =
                tokens.chunks(length as usize).map(<[_]>::to_vec).collect();
            let spread = |pack: &Vec<(u64, u32, u32)>| {
                pack.iter()
                    .flat_map(|(row, first, count)| {
                        (*first..first + count).map(|token| (*row, token))
                    })
                    .collect()
            };
            let found: Vec<Vec<(u64, u32)>> =
                own.map(|pack| spread(&packs[usize::try_from(pack).unwrap()])).collect();
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn fitted_rows_stay_whole_where_they_can(
        rows in prop::collection::vec(0u32..30, 0..80),
        lanes in 1u64..4,
        length in 1u32..20,
        open_packs in 1usize..6,
        is_best: bool,
    ) {
        let choice = if is_best { Choice::Best } else { Choice::First };
        let plan =
            plan(&rows, lanes, length, Strategy::Fit { choice, open_packs, long: Long::Split });
        for (row, first, count) in packs(&plan, &rows).into_iter().flatten() {
            let tokens = rows[usize::try_from(row).unwrap()];
            prop_assert!(tokens > length || (first, count) == (0, tokens));
            // A long row is split at the ends of packs, and nowhere else.
            prop_assert!(first % length == 0 && count == length.min(tokens - first));
        }
    }

    #[test]
    fn rows_of_packs_are_found_without_looking_at_them(
        rows in prop::collection::vec(0u32..30, 0..80),
        lanes in 1u64..4,
        length in 1u32..20,
        strategy in strategies(),
        start in 0u64..40,
        len in 0u64..20,
    ) {
        let plan = plan(&rows, lanes, length, strategy);
        let packs = packs(&plan, &rows);
        let run = start.min(plan.num_packs())..(start + len).min(plan.num_packs());
        let needed: BTreeSet<u64> = run
            .clone()
            .flat_map(|pack| packs[usize::try_from(pack).unwrap()].iter().map(|(row, ..)| *row))
            .collect();
        let runs = plan.positions(&[run]);
        let found: BTreeSet<u64> = runs.iter().cloned().flatten().collect();
        prop_assert!(found.is_superset(&needed));
        // Rows without tokens are in no pack; they may be between those that are.
        prop_assert!(
            found.difference(&needed).all(|row| rows[usize::try_from(*row).unwrap()] == 0)
        );
        prop_assert!(runs.windows(2).all(|pair| pair[0].end < pair[1].start));
        for lane in 0..lanes {
            let own = plan.lanes().positions(lane);
            for cursor in own.clone() {
                let lowest = (cursor..own.end)
                    .flat_map(|pack| {
                        packs[usize::try_from(pack).unwrap()].iter().map(|(row, ..)| *row)
                    })
                    .min();
                prop_assert_eq!(Some(plan.needed_from(lane, cursor)), lowest);
            }
            prop_assert_eq!(
                plan.needed_from(lane, own.end),
                Lanes::new(rows.len() as u64, lanes).positions(lane).end
            );
        }
    }

    #[test]
    fn rows_of_packs_in_balanced_order_are_found_without_looking_at_them(
        rows in prop::collection::vec(0u32..30, 0..120),
        lanes in 1u64..4,
        length in 1u32..20,
        strategy in strategies(),
        balance in balances(),
        start in 0u64..40,
        len in 0u64..20,
    ) {
        let plan = balanced(&rows, lanes, length, strategy, balance);
        let packs = packs(&plan, &rows);
        let run = start.min(plan.num_packs())..(start + len).min(plan.num_packs());
        let rows_of = |run: Range<u64>| -> BTreeSet<u64> {
            run.flat_map(|pack| packs[usize::try_from(pack).unwrap()].iter().map(|(row, ..)| *row))
                .collect()
        };
        let needed = rows_of(run.clone());
        let runs = plan.positions(&[run]);
        let found: BTreeSet<u64> = runs.iter().cloned().flatten().collect();
        prop_assert!(found.is_superset(&needed));
        prop_assert!(
            found.difference(&needed).all(|row| rows[usize::try_from(*row).unwrap()] == 0)
        );
        prop_assert!(runs.windows(2).all(|pair| pair[0].end < pair[1].start));
        for lane in 0..lanes {
            let own = plan.lanes().positions(lane);
            for cursor in own.clone() {
                let lowest = rows_of(cursor..own.end).first().copied();
                prop_assert_eq!(Some(plan.needed_from(lane, cursor)), lowest);
            }
            prop_assert_eq!(
                plan.needed_from(lane, own.end),
                Lanes::new(rows.len() as u64, lanes).positions(lane).end
            );
        }
    }

    #[test]
    fn rows_of_a_fitted_pack_are_not_far_apart(
        rows in prop::collection::vec(1u32..9, 0..400),
        open_packs in 1usize..5,
    ) {
        let plan = plan(
            &rows,
            1,
            10,
            Strategy::Fit { choice: Choice::Best, open_packs, long: Long::Split },
        );
        // A pack is opened by at most nine tokens, and a bounded number is opened while one stays
        // open; rows that fit are added to open ones.
        let most = (4 * open_packs as u64 + open_packs as u64) * 10;
        for pack in packs(&plan, &rows) {
            let (first, last) = (pack.first().unwrap().0, pack.last().unwrap().0);
            prop_assert!(last - first <= most);
        }
    }
}

#[test]
fn best_fit_takes_the_fullest_pack_with_room() {
    let rows = [6, 7, 3, 4, 9, 1];
    let plan = plan(&rows, 1, 10, BEST);
    // 3 fits better with 7 than with 6; then 4 with 6; 1 with 9.
    assert_eq!(
        packs(&plan, &rows),
        [vec![(1, 0, 7), (2, 0, 3)], vec![(0, 0, 6), (3, 0, 4)], vec![(4, 0, 9), (5, 0, 1)]]
    );
}

#[test]
fn first_fit_takes_the_oldest_pack_with_room() {
    let rows = [5, 7, 3];
    let plan = plan(
        &rows,
        1,
        10,
        Strategy::Fit { choice: Choice::First, open_packs: 4, long: Long::Split },
    );
    assert_eq!(packs(&plan, &rows), [vec![(0, 0, 5), (2, 0, 3)], vec![(1, 0, 7)]]);
}

#[test]
fn fullest_pack_goes_when_too_many_are_open() {
    let rows = [6, 8, 7, 9];
    let plan = plan(
        &rows,
        1,
        10,
        Strategy::Fit { choice: Choice::Best, open_packs: 2, long: Long::Split },
    );
    assert_eq!(packs(&plan, &rows), [[(1, 0, 8)], [(2, 0, 7)], [(0, 0, 6)], [(3, 0, 9)]]);
}

#[test]
fn long_row_is_refused_with_its_place() {
    let strategy = Strategy::Fit { choice: Choice::Best, open_packs: 2, long: Long::Error };
    assert_eq!(
        built(&[1, 2, 3, 99, 98], 2, 10, strategy).err(),
        Some(Refused::LongRow { position: 3, tokens: 99 })
    );
}

#[test]
fn no_rows_give_no_packs() {
    for strategy in [Strategy::Concat, BEST] {
        assert_eq!(plan(&[], 3, 8, strategy).num_packs(), 0);
        assert_eq!(plan(&[0, 0, 0], 2, 8, strategy).num_packs(), 0);
    }
}

#[test]
#[ignore = "a measurement"]
fn millions_of_rows_a_second_are_packed() {
    // A spread of lengths without a library.
    let rows: Vec<u32> = (0u64..10_000_000)
        .map(|row| u32::try_from(row.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 54).unwrap() + 20)
        .collect();
    for strategy in [
        Strategy::Concat,
        Strategy::Fit { choice: Choice::Best, open_packs: 64, long: Long::Split },
    ] {
        let start = std::time::Instant::now();
        let plan = plan(&rows, 1, 2048, strategy);
        let fill = plan.totals().tokens as f64 / (plan.num_packs() * 2048) as f64;
        eprintln!(
            "{strategy:?}: {} packs, fill {fill:.4}, {:.1} M rows/s",
            plan.num_packs(),
            10.0 / start.elapsed().as_secs_f64()
        );
    }
}
