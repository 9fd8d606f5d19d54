//! Packs of rows that are cut outside of blocks, against parts that are found token by token.

use super::budget_tests::expected;
use super::tests::balances;
use super::*;
use crate::order::Lanes;
use proptest::prelude::{Just, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::strategy::Strategy as _;
use std::ops::Range;

/// Patches of the longest block, and its tokens.
const MOST: u32 = 5;

/// A row, first token, and what the part from there on takes.
type Part = (u64, u32, Amount);

#[derive(Debug, Clone)]
struct Document {
    tokens: u32,
    blocks: Vec<Block>,
}

impl Document {
    fn row(&self) -> Row<'_> {
        let images = u32::try_from(self.blocks.len()).unwrap();
        let patches = self.blocks.iter().map(|block| block.patches).sum();
        Row { amount: Amount { tokens: self.tokens, images, patches }, blocks: &self.blocks }
    }

    /// What the tokens take; `None` if a block is only partly among them.
    fn part(&self, tokens: Range<u32>) -> Option<Amount> {
        let mut amount = Amount::from(tokens.end - tokens.start);
        for block in &self.blocks {
            let own = (block.start..block.end).filter(|token| tokens.contains(token)).count();
            if own == (block.end - block.start) as usize {
                amount.images += 1;
                amount.patches += block.patches;
            } else if own > 0 {
                return None;
            }
        }
        Some(amount)
    }

    fn longest(&self, first: u32, room: &Amount) -> Amount {
        let mut parts = (first..=self.tokens).rev().filter_map(|end| self.part(first..end));
        parts.find(|part| part.fits(room)).unwrap()
    }
}

fn documents() -> impl proptest::strategy::Strategy<Value = Vec<Document>> {
    let part = (0u32..9, prop::option::of((1..=MOST, 0..=MOST)));
    let document = prop::collection::vec(part, 0..6).prop_map(|parts| {
        let (mut tokens, mut blocks) = (0, Vec::new());
        for (text, image) in parts {
            tokens += text;
            if let Some((own, patches)) = image {
                blocks.push(Block { start: tokens, end: tokens + own, patches });
                tokens += own;
            }
        }
        Document { tokens, blocks }
    });
    prop::collection::vec(document, 0..30)
}

fn packings(strategy: Strategy) -> impl proptest::strategy::Strategy<Value = Packing> {
    let limit = |least: u32| prop_oneof![1 => Just(u32::MAX), 3 => least..3 * MOST];
    let multiples = (1u32..4, 0u32..5).prop_map(|(multiple_of, more)| {
        (multiple_of, (MOST.div_ceil(multiple_of) + more) * multiple_of)
    });
    (multiples, limit(1), limit(MOST)).prop_map(
        move |((multiple_of, length), max_images, max_patches)| Packing {
            multiple_of,
            max_images,
            max_patches,
            ..Packing::new(length, strategy)
        },
    )
}

fn fits() -> impl proptest::strategy::Strategy<Value = Packing> {
    let choice = prop_oneof![Just(Choice::Best), Just(Choice::First)];
    let long = prop_oneof![Just(Long::Split), Just(Long::Truncate)];
    (choice, 1usize..6, long)
        .prop_map(|(choice, open_packs, long)| Strategy::Fit { choice, open_packs, long })
        .prop_flat_map(packings)
}

fn build(packing: Packing, rows: &[Document]) -> PackPlan {
    PackPlan::build(packing, &Lanes::new(rows.len() as u64, 1), |positions, each| {
        positions.for_each(|position| each(rows[usize::try_from(position).unwrap()].row()));
    })
    .unwrap()
}

fn of_piece(piece: &Piece) -> Part {
    let Piece { position, first, count: tokens, images, patches, .. } = *piece;
    (position, first, Amount { tokens, images, patches })
}

/// The parts of each pack, as one of two ranks finds them that know the rows of every second pack.
fn packs(plan: &PackPlan, rows: &[Document]) -> Vec<Vec<Part>> {
    let pack = |number| {
        let own = (number % 2..plan.num_packs()).step_by(2).map(|pack| pack..pack + 1);
        let needed = plan.positions(&own.collect::<Vec<_>>());
        let row_of = |position: u64| {
            let is_known = needed.iter().any(|run| run.contains(&position));
            let row = rows.get(usize::try_from(position).unwrap()).filter(|_| is_known);
            row.map_or(Row::default(), Document::row)
        };
        let mut parts = Vec::new();
        plan.for_each_piece(number, row_of, |piece| parts.push(of_piece(&piece)));
        parts
    };
    (0..plan.num_packs()).map(pack).collect()
}

/// Parts that a pack has room for, one after another; of a row that is truncated, the first.
fn parts(packing: &Packing, rows: &[Document]) -> Vec<Part> {
    let is_truncated = matches!(packing.strategy, Strategy::Fit { long: Long::Truncate, .. });
    let mut parts = Vec::new();
    for (row, document) in (0..).zip(rows) {
        let mut first = 0;
        while first < document.tokens && !(is_truncated && first > 0) {
            let part = document.longest(first, &packing.room());
            if part.tokens > 0 {
                parts.push((row, first, part));
            }
            first += part.tokens.max(1);
        }
    }
    parts
}

fn concatenated(packing: &Packing, rows: &[Document]) -> Vec<Vec<Part>> {
    let (mut packs, mut room) = (vec![Vec::new()], packing.room());
    for (row, document) in (0..).zip(rows) {
        let mut first = 0;
        while first < document.tokens {
            let part = document.longest(first, &room);
            if part.tokens == 0 {
                packs.push(Vec::new());
                room = packing.room();
                continue;
            }
            packs.last_mut().unwrap().push((row, first, part));
            first += part.tokens;
            let tokens = part.tokens.next_multiple_of(packing.multiple_of);
            room = room.without(&Amount { tokens, ..part });
        }
    }
    packs.retain(|pack| !pack.is_empty());
    packs
}

struct Passes<'a>(&'a [Document]);

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

    fn has_blocks(&self) -> bool {
        true
    }

    fn counts(&self, _pass: u64, rows: Range<u64>) -> Result<Counts, ()> {
        let [start, end] = [rows.start, rows.end].map(|row| usize::try_from(row).unwrap());
        let mut counts = Counts::default();
        for (number, document) in self.0[start..end].iter().enumerate() {
            counts.amounts.push(document.row().amount);
            counts.blocks.add(number, document.blocks.iter().copied());
        }
        Ok(counts)
    }
}

/// The packs of a lane that never ends from `start` on, with the pass and the row of each part.
fn drawn(packing: Packing, rows: &[Document], start: u64, count: usize) -> Vec<Vec<(u64, Part)>> {
    let mut cursor = LaneCursor::at(packing, 1 << 20, Mark::default());
    cursor.seek(&Passes(rows), start).unwrap();
    let pack = |_| {
        let mut pieces = Vec::new();
        cursor.draw(&Passes(rows), &mut pieces).unwrap();
        let part = |piece: LanePiece| {
            let LanePiece { pass, row, first, count: tokens, images, patches, .. } = piece;
            (pass, (row, first, Amount { tokens, images, patches }))
        };
        pieces.into_iter().map(part).collect()
    };
    (0..count).map(pack).collect()
}

proptest! {
    #[test]
    fn concatenated_rows_are_cut_before_a_block_that_does_not_fit(
        rows in documents(),
        packing in packings(Strategy::Concat),
        start in 0u64..9,
    ) {
        let plan = build(packing, &rows);
        let found = packs(&plan, &rows);
        prop_assert_eq!(&found, &concatenated(&packing, &rows));
        for (number, pack) in (0..).zip(&found) {
            let patches: u32 = pack.iter().map(|(.., part)| part.patches).sum();
            prop_assert_eq!(plan.patches(number), u64::from(patches));
        }
        let tokens: u64 = rows.iter().map(|row| u64::from(row.tokens)).sum();
        prop_assert_eq!(plan.totals().tokens, tokens);
        if tokens == 0 {
            return Ok(());
        }
        // A lane that never ends has the packs of as many copies of its rows.
        let copies: Vec<Document> = (0..5).flat_map(|_| rows.iter().cloned()).collect();
        let all = concatenated(&packing, &copies);
        let start = start.min(all.len() as u64 - 1);
        let count = all.len() - 1 - usize::try_from(start).unwrap();
        let expected = all.into_iter().skip(usize::try_from(start).unwrap()).take(count);
        let rows_of_pass = rows.len() as u64;
        let flat = drawn(packing, &rows, start, count).into_iter().map(|pack| {
            let number = |(pass, (row, first, part))| (pass * rows_of_pass + row, first, part);
            pack.into_iter().map(number).collect::<Vec<_>>()
        });
        prop_assert_eq!(flat.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    }

    #[test]
    fn parts_of_long_rows_are_packed_as_rows(rows in documents(), packing in fits()) {
        let parts = parts(&packing, &rows);
        let amounts: Vec<Amount> = parts.iter().map(|(.., part)| *part).collect();
        let of_parts = |pack: Vec<u64>| {
            pack.into_iter().map(|part| parts[usize::try_from(part).unwrap()]).collect::<Vec<_>>()
        };
        let all: Vec<Vec<Part>> =
            expected(&packing, &amounts).into_iter().map(of_parts).collect();
        let plan = build(packing, &rows);
        prop_assert_eq!(packs(&plan, &rows), &all[..]);
        let sum = |of: fn(&Amount) -> u32| amounts.iter().map(|part| u64::from(of(part))).sum();
        let patches: u64 = (0..plan.num_packs()).map(|pack| plan.patches(pack)).sum();
        prop_assert_eq!((plan.totals().tokens, patches), (
            sum(|part| part.tokens), sum(|part| part.patches)
        ));
        let padding: u64 = amounts.iter().map(|part| {
            u64::from(part.tokens.next_multiple_of(packing.multiple_of) - part.tokens)
        }).sum();
        prop_assert_eq!(plan.totals().padded_tokens, padding);
        if !all.is_empty() {
            let found = drawn(packing, &rows, 0, all.len()).into_iter().map(|pack| {
                pack.into_iter().map(|(_, part)| part).collect::<Vec<_>>()
            });
            prop_assert_eq!(found.collect::<Vec<_>>(), all);
        }
    }

    #[test]
    fn balance_has_the_same_parts_in_another_order(
        rows in documents(),
        is_concat: bool,
        fit in fits(),
        concat in packings(Strategy::Concat),
        balance in balances(),
    ) {
        let packing = if is_concat { concat } else { fit };
        let balance = Balance { cost: Cost { patch: 3, image: 2, ..balance.cost }, ..balance };
        let plain = build(packing, &rows);
        let plan = build(Packing { balance: Some(balance), ..packing }, &rows);
        let (all, found) = (packs(&plain, &rows), packs(&plan, &rows));
        for (number, pack) in (0..).zip(&found) {
            prop_assert_eq!(pack, &all[usize::try_from(plan.packed_as(number)).unwrap()]);
            prop_assert_eq!(plan.patches(number), plain.patches(plan.packed_as(number)));
        }
        prop_assert!(found.len() == all.len());
    }
}

#[test]
fn block_that_no_pack_has_room_for_is_refused() {
    let document = Document { tokens: 9, blocks: vec![Block { start: 2, end: 8, patches: 4 }] };
    let rows = [document];
    let build =
        |packing| PackPlan::build(packing, &Lanes::new(1, 1), |_, each| each(rows[0].row())).err();
    let refused = Refused::ManyImages { position: 0, row: rows[0].row().amount };
    let fit = Strategy::Fit { choice: Choice::Best, open_packs: 4, long: Long::Split };
    for strategy in [Strategy::Concat, fit] {
        assert_eq!(build(Packing::new(5, strategy)), Some(refused.clone()));
        let few = Packing { max_patches: 3, ..Packing::new(6, strategy) };
        assert_eq!(build(few), Some(refused.clone()));
        let mut cursor = LaneCursor::at(few, 9, Mark::default());
        let drawn = cursor.seek(&Passes(&rows), 3);
        let amount = rows[0].row().amount;
        assert_eq!(drawn, Err(NoPack::ManyImages { pass: 0, row: 0, amount }));
    }
}
