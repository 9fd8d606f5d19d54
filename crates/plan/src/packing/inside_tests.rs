//! Multiples, overlaps and the token after a pack, against rows that are rounded up and against
//! tokens that are dealt out one by one.

use super::tests::balances;
use super::{
    Balance, Choice, Counts, LaneCursor, LanePiece, LaneRows, Long, Mark, NoPack, PackPlan,
    Packing, Piece, Strategy, Totals,
};
use crate::order::Lanes;
use proptest::prelude::{Just, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::strategy::Strategy as _;
use std::cell::Cell;
use std::collections::BTreeSet;
use std::ops::Range;

/// Rows of a lane; every pass begins one row later.
struct Lane<'a> {
    rows: &'a [u32],
    counted_with: u64,
    calls: Cell<u64>,
}

impl Lane<'_> {
    fn tokens(&self, pass: u64, row: u64) -> u32 {
        self.rows[usize::try_from((pass + row) % self.rows.len() as u64).unwrap()]
    }
}

impl LaneRows for Lane<'_> {
    type Error = ();

    fn num_rows(&self) -> u64 {
        self.rows.len() as u64
    }

    fn is_periodic(&self) -> bool {
        false
    }

    fn has_equal_totals(&self) -> bool {
        true
    }

    fn counted_with(&self, _pass: u64, row: u64) -> u64 {
        row + self.counted_with
    }

    fn counts(&self, pass: u64, rows: Range<u64>) -> Result<Counts, ()> {
        self.calls.set(self.calls.get() + 1);
        Ok(rows.map(|row| self.tokens(pass, row).into()).collect())
    }
}

fn lane(rows: &[u32], counted_with: u64) -> Lane<'_> {
    Lane { rows, counted_with, calls: Cell::default() }
}

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

fn build(packing: Packing, rows: &[u32], lanes: u64) -> PackPlan {
    PackPlan::build(packing, &Lanes::new(rows.len() as u64, lanes), |positions, each| {
        positions.for_each(|position| each(rows[usize::try_from(position).unwrap()]));
    })
    .unwrap()
}

fn pieces(plan: &PackPlan, rows: &[u32]) -> Vec<Vec<Piece>> {
    let pack = |number| {
        let mut pieces = Vec::new();
        let tokens_of = |position: u64| rows[usize::try_from(position).unwrap()];
        plan.for_each_piece(number, tokens_of, |piece| pieces.push(piece));
        pieces
    };
    (0..plan.num_packs()).map(pack).collect()
}

fn draw(cursor: &mut LaneCursor, rows: &Lane<'_>) -> Vec<LanePiece> {
    let mut pieces = Vec::new();
    cursor.draw(rows, &mut pieces).unwrap();
    pieces
}

fn drawn(packing: Packing, rows: &Lane<'_>, count: usize) -> Vec<Vec<LanePiece>> {
    let mut cursor = LaneCursor::at(packing, 7, Mark::default());
    (0..count).map(|_| draw(&mut cursor, rows)).collect()
}

/// Tokens of the lane by pass, row and index, for the first passes.
fn tokens_of(rows: &Lane<'_>, passes: u64) -> Vec<(u64, u64, u32)> {
    (0..passes)
        .flat_map(|pass| (0..rows.num_rows()).map(move |row| (pass, row)))
        .flat_map(|(pass, row)| (0..rows.tokens(pass, row)).map(move |token| (pass, row, token)))
        .collect()
}

fn spread(pieces: &[LanePiece]) -> Vec<(u64, u64, u32)> {
    let tokens = |piece: &LanePiece| {
        let LanePiece { pass, row, first, count, .. } = *piece;
        (first..first + count).map(move |token| (pass, row, token))
    };
    pieces.iter().flat_map(tokens).collect()
}

/// Rows with at least one token.
fn rows() -> impl proptest::strategy::Strategy<Value = Vec<u32>> {
    prop::collection::vec(prop_oneof![0u32..3, 0u32..40], 0..40).prop_map(|mut rows| {
        rows.push(1);
        rows
    })
}

/// A packing with multiples, and the same without.
fn multiples() -> impl proptest::strategy::Strategy<Value = (Packing, Packing)> {
    (strategies(), 1u32..6, 1u32..6).prop_map(|(strategy, multiple_of, multiples)| {
        let plain = Packing::new(multiple_of * multiples, strategy);
        (Packing { multiple_of, ..plain }, plain)
    })
}

proptest! {
    #[test]
    fn rows_are_packed_like_rows_that_are_rounded_up(
        rows in rows(), lanes in 1u64..4, (packing, plain) in multiples(),
    ) {
        check_rounded(&rows, lanes, packing, plain);
    }

    #[test]
    fn endless_rows_are_packed_like_rows_that_are_rounded_up(
        rows in rows(), (packing, plain) in multiples(), counted_with in 1u64..9, other in 1u64..9,
        start in 0usize..40,
    ) {
        let padded: Vec<u32> = rows.iter().map(|tokens| packing.padded(*tokens)).collect();
        let packs = drawn(packing, &lane(&rows, counted_with), start + 3);
        let expected = drawn(plain, &lane(&padded, counted_with), start + 3);
        prop_assert_eq!(packs.len(), expected.len());
        for (pack, of_model) in packs.iter().zip(&expected) {
            let padded = |piece: &LanePiece| (piece.pass, piece.row, piece.first, piece.padded);
            let found: Vec<_> = pack.iter().map(padded).collect();
            prop_assert_eq!(found, of_model.iter().map(padded).collect::<Vec<_>>());
            let count = |piece: &LanePiece| piece.padded.min(piece.amount.tokens - piece.first);
            prop_assert!(pack.iter().all(|piece| piece.count == count(piece)));
        }
        check_restart(packing, &lane(&rows, other), &packs, start);
    }

    #[test]
    fn overlapping_packs_begin_with_the_last_token_of_the_one_before(
        rows in rows(), length in 2u32..16, counted_with in 1u64..9, other in 1u64..9,
        start in 0usize..30,
    ) {
        let packing = Packing { overlaps: true, ..Packing::new(length, Strategy::Concat) };
        let packs = drawn(packing, &lane(&rows, counted_with), start + 3);
        let of_pass: u64 = rows.iter().map(|tokens| u64::from(*tokens)).sum();
        let passes = (packs.len() as u64 * u64::from(length)).div_ceil(of_pass);
        let tokens = tokens_of(&lane(&rows, 1), passes);
        for (pack, first) in packs.iter().zip((0..).step_by(length as usize - 1)) {
            prop_assert_eq!(spread(pack), &tokens[first..first + length as usize]);
        }
        check_restart(packing, &lane(&rows, other), &packs, start);
        check_overlapping_epoch(&rows, packing);
    }

    #[test]
    fn balance_orders_packs_by_all_that_is_in_them(
        rows in rows(), lanes in 1u64..4, (multiples, _) in multiples(), length in 2u32..16,
        balance in balances(),
    ) {
        let overlaps = Packing { overlaps: true, ..Packing::new(length, Strategy::Concat) };
        let looks_ahead = Packing { looks_ahead: true, strategy: Strategy::Concat, ..multiples };
        for packing in [multiples, overlaps, looks_ahead] {
            check_order(&rows, lanes, packing, balance);
        }
    }

    #[test]
    fn token_after_a_pack_is_the_first_of_the_next_one(
        rows in rows(), lanes in 1u64..4, (multiples, _) in multiples(), counted_with in 1u64..9,
        start in 0usize..30,
    ) {
        let without = Packing { strategy: Strategy::Concat, ..multiples };
        let packing = Packing { looks_ahead: true, ..without };
        check_next_of_epoch(&rows, lanes, packing, without);
        let rows = lane(&rows, counted_with);
        let packs = drawn(packing, &rows, start + 3);
        let expected = drawn(without, &rows, start + 4);
        for (pack, of_model) in packs.iter().zip(expected.windows(2)) {
            let ((ahead, inside), next) = (pack.split_last().unwrap(), of_model[1][0]);
            prop_assert_eq!(inside, of_model[0].as_slice());
            prop_assert_eq!(*ahead, LanePiece { count: 0, padded: 0, ..next });
        }
        check_restart(packing, &rows, &packs, start);
    }
}

fn check_order(rows: &[u32], lanes: u64, packing: Packing, balance: Balance) {
    let (plain, ordered) = (
        build(packing, rows, lanes),
        build(Packing { balance: Some(balance), ..packing }, rows, lanes),
    );
    assert_eq!((plain.lanes(), plain.totals()), (ordered.lanes(), ordered.totals()));
    let (packed, found) = (pieces(&plain, rows), pieces(&ordered, rows));
    for (number, pack) in (0..).zip(&found) {
        assert_eq!(pack, &packed[usize::try_from(ordered.packed_as(number)).unwrap()]);
    }
    for lane in 0..lanes {
        let own = plain.lanes().positions(lane);
        let own = usize::try_from(own.start).unwrap()..usize::try_from(own.end).unwrap();
        let windows = packed[own.clone()].chunks(balance.window_packs as usize);
        let in_order = |(window, packs): (u64, &[Vec<Piece>])| {
            let cost = |pack: &Vec<Piece>| {
                balance.cost.of_pack(packing.length, pack.iter().map(|piece| piece.padded))
            };
            let costs: Vec<u64> = packs.iter().map(cost).collect();
            let order = balance.aligned(window, &costs);
            order.into_iter().map(|pack| packs[pack as usize].clone()).collect::<Vec<_>>()
        };
        let expected: Vec<Vec<Piece>> = (0..).zip(windows).flat_map(in_order).collect();
        assert_eq!(&found[own], &expected[..]);
    }
}

fn check_rounded(rows: &[u32], lanes: u64, packing: Packing, plain: Packing) {
    let padded: Vec<u32> =
        rows.iter().map(|tokens| tokens.next_multiple_of(packing.multiple_of)).collect();
    let (plan, model) = (build(packing, rows, lanes), build(plain, &padded, lanes));
    let packs = pieces(&plan, rows);
    let places = |packs: &[Vec<Piece>]| {
        let place = |piece: &Piece| (piece.position, piece.first, piece.padded);
        packs.iter().map(|pack| pack.iter().map(place).collect()).collect::<Vec<Vec<_>>>()
    };
    assert_eq!(places(&packs), places(&pieces(&model, &padded)));
    let (mut counted, mut added) = (0, 0);
    for Piece { position, first, count, padded, .. } in packs.into_iter().flatten() {
        assert_eq!(count, padded.min(rows[usize::try_from(position).unwrap()] - first));
        assert!(count > 0 && padded % packing.multiple_of == 0);
        counted += u64::from(count);
        added += u64::from(padded - count);
    }
    let Totals { tokens, padded_tokens, truncated_tokens, dropped_tokens, .. } = plan.totals();
    assert_eq!((tokens, padded_tokens), (counted, added));
    let all: u64 = rows.iter().map(|tokens| u64::from(*tokens)).sum();
    assert_eq!(tokens + truncated_tokens + dropped_tokens, all);
}

/// A cursor that starts at a later pack draws the same ones, and knows what it needs for them.
fn check_restart(packing: Packing, rows: &Lane<'_>, packs: &[Vec<LanePiece>], start: usize) {
    let mut cursor = LaneCursor::at(packing, 7, Mark::default());
    cursor.seek(rows, start as u64).unwrap();
    for pack in &packs[start..] {
        let (needed, is_counted) = (cursor.needed_from(), cursor.is_counted_to(cursor.pack() + 1));
        let calls = rows.calls.get();
        assert_eq!(&draw(&mut cursor, rows), pack);
        assert_eq!(is_counted, rows.calls.get() == calls);
        assert!(pack.iter().all(|piece| needed <= (piece.pass, piece.row)));
    }
}

/// The packs of the first pass alone.
fn check_overlapping_epoch(rows: &[u32], packing: Packing) {
    let plan = build(packing, rows, 1);
    let tokens = tokens_of(&lane(rows, 1), 1);
    let spread = |pack: &Vec<Piece>| {
        let tokens = |piece: &Piece| {
            let Piece { position, first, count, .. } = *piece;
            (first..first + count).map(move |token| (0, position, token))
        };
        pack.iter().flat_map(tokens).collect::<Vec<_>>()
    };
    let found: Vec<Vec<(u64, u64, u32)>> = pieces(&plan, rows).iter().map(spread).collect();
    let length = packing.length as usize;
    let starts = (0..tokens.len().max(2) - 1).step_by(length - 1);
    let pack = |start: usize| tokens[start..tokens.len().min(start + length)].to_vec();
    assert_eq!(found, starts.map(pack).collect::<Vec<_>>());
    assert_eq!(plan.totals().tokens, found.iter().map(|pack| pack.len() as u64).sum::<u64>());
}

fn check_next_of_epoch(rows: &[u32], lanes: u64, packing: Packing, without: Packing) {
    let (plan, model) = (build(packing, rows, lanes), build(without, rows, lanes));
    let (packs, expected) = (pieces(&plan, rows), pieces(&model, rows));
    for number in 0..plan.num_packs() {
        let place = usize::try_from(number).unwrap();
        let (ahead, inside): (Vec<Piece>, Vec<Piece>) =
            packs[place].iter().partition(|piece| piece.count == 0);
        assert_eq!(&inside, &expected[place]);
        let is_last = plan.lanes().positions(plan.lanes().lane_of(number)).end == number + 1;
        let next = Some(place + 1).filter(|_| !is_last).map(|next| packs[next][0]);
        let at = |piece: &Piece| (piece.position, piece.first);
        assert_eq!(ahead.first().map(at), next.as_ref().map(at));
        let runs = plan.positions(std::slice::from_ref(&(number..number + 1)));
        let found: BTreeSet<u64> = runs.into_iter().flatten().collect();
        assert!(packs[place].iter().all(|piece| found.contains(&piece.position)));
    }
    assert_eq!(packs.len(), expected.len());
}

#[test]
fn row_that_cannot_be_rounded_up_is_as_long_as_one_can_be() {
    let packing = Packing { multiple_of: 16, ..Packing::new(32, Strategy::Concat) };
    assert_eq!(packing.padded(u32::MAX), u32::MAX - 15);
    assert_eq!([0, 1, 16, 17].map(|tokens| packing.padded(tokens)), [0, 16, 16, 32]);
}

#[test]
fn long_row_is_refused_with_its_own_tokens() {
    let strategy = Strategy::Fit { choice: Choice::Best, open_packs: 2, long: Long::Error };
    let packing = Packing { multiple_of: 8, ..Packing::new(16, strategy) };
    let mut cursor = LaneCursor::at(packing, 7, Mark::default());
    let refused = cursor.draw(&lane(&[9, 17], 2), &mut Vec::new());
    assert_eq!(refused, Err(NoPack::LongRow { pass: 0, row: 1, tokens: 17 }));
}
