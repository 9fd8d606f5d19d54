//! Packs of rows with images, against packs that are found by looking at every open one.

use super::tests::balances;
use super::*;
use crate::order::Lanes;
use proptest::prelude::{Just, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::strategy::Strategy as _;
use std::ops::Range;

fn amounts() -> impl proptest::strategy::Strategy<Value = Vec<Amount>> {
    let row = (0u32..14, 0u32..5, 0u32..9).prop_map(|(tokens, images, patches)| match tokens {
        0 => Amount::default(),
        _ => Amount { tokens, images, patches: patches * images },
    });
    prop::collection::vec(row, 0..60)
}

fn packings() -> impl proptest::strategy::Strategy<Value = Packing> {
    let limit = |most| prop_oneof![1 => Just(u32::MAX), 3 => 1u32..most];
    let choice = prop_oneof![Just(Choice::Best), Just(Choice::First)];
    (choice, 1usize..6, 1u32..16, 1u32..3, limit(6), limit(20)).prop_map(
        |(choice, open_packs, length, multiple_of, max_images, max_patches)| {
            let strategy = Strategy::Fit { choice, open_packs, long: Long::Drop };
            let length = length * multiple_of;
            Packing { multiple_of, max_images, max_patches, ..Packing::new(length, strategy) }
        },
    )
}

fn build(packing: Packing, rows: &[Amount], lanes: u64) -> Result<PackPlan, Refused> {
    let amounts_of = |positions: Range<u64>, each: &mut dyn FnMut(Amount)| {
        positions.for_each(|position| each(rows[usize::try_from(position).unwrap()]));
    };
    PackPlan::build(packing, &Lanes::new(rows.len() as u64, lanes), amounts_of)
}

fn packs(plan: &PackPlan, rows: &[Amount]) -> Vec<Vec<u64>> {
    let tokens_of = |position: u64| rows[usize::try_from(position).unwrap()].tokens;
    let of_pack = |pack| {
        let mut found = Vec::new();
        plan.for_each_piece(pack, tokens_of, |piece| {
            assert_eq!((piece.first, piece.count), (0, tokens_of(piece.position)));
            found.push(piece.position);
        });
        found
    };
    (0..plan.num_packs()).map(of_pack).collect()
}

fn sum(rows: &[Amount], pack: &[u64], of: fn(&Amount) -> u32) -> u64 {
    pack.iter().map(|row| u64::from(of(&rows[usize::try_from(*row).unwrap()]))).sum()
}

/// The rules as the specification states them.
pub(super) fn expected(packing: &Packing, rows: &[Amount]) -> Vec<Vec<u64>> {
    let Strategy::Fit { choice, open_packs, .. } = packing.strategy else { return Vec::new() };
    let padded = |row: &Amount| row.tokens.next_multiple_of(packing.multiple_of);
    let (mut open, mut closed, mut opened) = (Vec::<(usize, Vec<u64>)>::new(), Vec::new(), 0);
    let tokens = |pack: &[u64]| -> u32 {
        pack.iter().map(|row| padded(&rows[usize::try_from(*row).unwrap()])).sum()
    };
    let fits = |pack: &[u64]| {
        tokens(pack) <= packing.length
            && sum(rows, pack, |row| row.images) <= u64::from(packing.max_images)
            && sum(rows, pack, |row| row.patches) <= u64::from(packing.max_patches)
    };
    for row in 0..rows.len() as u64 {
        if !fits(&[row]) || tokens(&[row]) == 0 {
            continue;
        }
        if tokens(&[row]) == packing.length {
            closed.push(vec![row]);
            continue;
        }
        let with = |pack: &[u64]| [pack, &[row]].concat();
        let mut fitting: Vec<usize> =
            (0..open.len()).filter(|place| fits(&with(&open[*place].1))).collect();
        if choice == Choice::Best {
            fitting.sort_by_key(|place| packing.length - tokens(&open[*place].1));
        }
        let place = if let Some(place) = fitting.first() {
            *place
        } else {
            if open.len() >= open_packs {
                let fullest = (0..open.len()).max_by_key(|place| {
                    (tokens(&open[*place].1), std::cmp::Reverse(open[*place].0))
                });
                closed.push(open.remove(fullest.unwrap()).1);
            }
            if open.first().is_some_and(|(number, _)| opened - number >= 4 * open_packs) {
                closed.push(open.remove(0).1);
            }
            open.push((opened, Vec::new()));
            opened += 1;
            open.len() - 1
        };
        open[place].1.push(row);
        if tokens(&open[place].1) == packing.length {
            closed.push(open.remove(place).1);
        }
    }
    closed.extend(open.into_iter().map(|(_, pack)| pack));
    closed
}

struct Passes<'a>(&'a [Amount]);

impl LaneRows for Passes<'_> {
    type Error = ();

    fn num_rows(&self) -> u64 {
        self.0.len() as u64
    }

    fn is_periodic(&self) -> bool {
        true
    }

    fn counted_with(&self, _pass: u64, row: u64) -> u64 {
        row + 3
    }

    fn counts(&self, _pass: u64, rows: Range<u64>) -> Result<Counts, ()> {
        let [start, end] = [rows.start, rows.end].map(|row| usize::try_from(row).unwrap());
        Ok(self.0[start..end].iter().copied().collect())
    }
}

proptest! {
    #[test]
    fn rows_go_into_the_fullest_or_first_pack_with_room_for_their_images(
        rows in amounts(),
        packing in packings(),
        lanes in 1u64..4,
    ) {
        let plan = build(packing, &rows, lanes).unwrap();
        let of_rows = Lanes::new(rows.len() as u64, lanes);
        let mut all = Vec::new();
        for lane in 0..lanes {
            let own = of_rows.positions(lane);
            let part = usize::try_from(own.start).unwrap()..usize::try_from(own.end).unwrap();
            let of_lane = expected(&packing, &rows[part]);
            all.extend(of_lane.into_iter().map(|pack| {
                pack.into_iter().map(|row| own.start + row).collect::<Vec<_>>()
            }));
        }
        let found = packs(&plan, &rows);
        prop_assert_eq!(&found, &all);
        for (number, pack) in (0u64..).zip(&found) {
            prop_assert_eq!(plan.patches(number), sum(&rows, pack, |row| row.patches));
        }
    }

    #[test]
    fn balance_and_endless_lanes_have_the_same_packs_with_images(
        rows in amounts(),
        packing in packings(),
        balance in balances(),
        image in 0u64..50,
    ) {
        let plain = expected(&packing, &rows);
        let cost = Cost { patch: 3, image, ..balance.cost };
        let balance = Balance { cost, ..balance };
        let packing = Packing { balance: Some(balance), ..packing };
        let plan = build(packing, &rows, 1).unwrap();
        let found = packs(&plan, &rows);
        for (number, pack) in (0u64..).zip(&found) {
            prop_assert_eq!(plan.patches(number), sum(&rows, pack, |row| row.patches));
        }
        let window = balance.window_packs as usize;
        for (found, plain) in found.chunks(window).zip(plain.chunks(window)) {
            let cost_of = |pack: &Vec<u64>| {
                let padded = pack.iter().map(|row| {
                    packing.padded(rows[usize::try_from(*row).unwrap()].tokens)
                });
                cost.of_pack(packing.length, padded)
                    + image * sum(&rows, pack, |row| row.images)
                    + 3 * sum(&rows, pack, |row| row.patches)
            };
            let mut sorted = [found.to_vec(), plain.to_vec()];
            sorted.iter_mut().for_each(|packs| packs.sort());
            prop_assert_eq!(&sorted[0], &sorted[1]);
            if balance.per_step == 1 {
                continue;
            }
            let step = balance.per_step as usize;
            let whole = found.len() / step * step;
            let least = found[..whole].iter().map(cost_of).min().unwrap_or(u64::MAX);
            // The cheapest are left for the incomplete step.
            prop_assert!(found[whole..].iter().all(|pack| cost_of(pack) <= least));
        }
        if plain.is_empty() {
            return Ok(());
        }
        let mut cursor =
            BalancedCursor::at(Packing { balance: None, ..packing }, 1 << 20, Mark::default());
        for pack in plain.iter().chain(&plain) {
            let mut pieces = Vec::new();
            cursor.draw(&Passes(&rows), &mut pieces).unwrap();
            let drawn: Vec<u64> = pieces.iter().map(|piece| piece.row).collect();
            prop_assert_eq!(&drawn, pack);
            let patches: u64 = pieces.iter().map(|piece| u64::from(piece.amount.patches)).sum();
            prop_assert_eq!(patches, sum(&rows, pack, |row| row.patches));
        }
    }
}

#[test]
fn row_with_too_many_images_is_refused_or_dropped() {
    let row = Amount { tokens: 4, images: 3, patches: 12 };
    let rows = [Amount::from(2), row];
    let packing = |max_images, max_patches, long| {
        let strategy = Strategy::Fit { choice: Choice::Best, open_packs: 4, long };
        Packing { max_images, max_patches, ..Packing::new(8, strategy) }
    };
    let refused = Refused::ManyImages { position: 1, row };
    for (images, patches) in [(2, 12), (3, 11)] {
        let raised = packing(images, patches, Long::Error);
        assert_eq!(build(raised, &rows, 1).err(), Some(refused.clone()));
        let mut cursor = LaneCursor::at(raised, 9, Mark::default());
        let drawn = cursor.draw(&Passes(&rows), &mut Vec::new());
        assert_eq!(drawn, Err(NoPack::ManyImages { pass: 0, row: 1, amount: row }));
        let plan = build(packing(images, patches, Long::Drop), &rows, 1).unwrap();
        let Totals { tokens, dropped_rows, dropped_tokens, .. } = plan.totals();
        assert_eq!((tokens, dropped_rows, dropped_tokens), (2, 1, 4));
    }
    let plan = build(packing(3, 12, Long::Error), &rows, 1).unwrap();
    assert_eq!(packs(&plan, &rows), [[0, 1]]);
}
