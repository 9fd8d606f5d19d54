use super::*;
use crate::packing::{Amount, Choice, Cost, Counts, Long, Strategy, Within};
use proptest::prelude::{Just, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};

/// Counts of each pass in turn; later passes repeat them.
#[derive(Debug)]
struct Passes(Vec<Vec<u32>>);

impl Passes {
    fn part(&self, pass: u64, rows: Range<u64>) -> Vec<u32> {
        let counts = &self.0[usize::try_from(pass).unwrap() % self.0.len()];
        let rows = usize::try_from(rows.start).unwrap()..usize::try_from(rows.end).unwrap();
        counts[rows].to_vec()
    }
}

impl LaneRows for Passes {
    type Error = ();

    fn num_rows(&self) -> u64 {
        self.0[0].len() as u64
    }

    fn is_periodic(&self) -> bool {
        self.0.len() == 1
    }

    fn has_equal_totals(&self) -> bool {
        false
    }

    fn counted_with(&self, _pass: u64, row: u64) -> u64 {
        row + 3
    }

    fn counts(&self, pass: u64, rows: Range<u64>) -> Result<Counts, ()> {
        Ok(self.part(pass, rows).into_iter().map(Amount::from).collect())
    }
}

fn insides() -> impl proptest::strategy::Strategy<Value = Packing> {
    let concat = Packing::new(12, Strategy::Concat);
    let best = Strategy::Fit { choice: Choice::Best, open_packs: 3, long: Long::Split };
    let best = Packing::new(12, best);
    prop_oneof![
        Just(concat),
        Just(best),
        Just(Packing { multiple_of: 4, ..best }),
        Just(Packing { overlaps: true, ..concat }),
        Just(Packing { multiple_of: 3, looks_ahead: true, ..concat }),
    ]
}

fn packing(inside: Packing, per_step: u32, window_packs: u32) -> Packing {
    let cost = Cost { token: 1, pair: 1, counts_padding: true, ..Cost::default() };
    let within = Within::Mixed;
    let balance = Balance { cost, per_step, window_packs, within, seed: 5, epoch: 0 };
    Packing { balance: Some(balance), ..inside }
}

fn drawn(cursor: &mut BalancedCursor, rows: &Passes) -> Vec<LanePiece> {
    let mut pieces = Vec::new();
    cursor.draw(rows, &mut pieces).unwrap();
    pieces
}

proptest! {
    #[test]
    fn windows_have_the_packs_of_the_lane_in_the_order_of_their_costs(
        passes in prop::collection::vec(prop::collection::vec(1u32..20, 9), 1..4),
        inside in insides(), per_step in 1u32..5, more in 1u32..20,
    ) {
        let rows = Passes(passes);
        let packing = packing(inside, per_step, per_step + more);
        let balance = packing.balance.unwrap();
        let mut plain = LaneCursor::at(packing, 4, Mark::default());
        let mut cursor = BalancedCursor::at(packing, 4, Mark::default());
        while plain.pack() < 60 {
            let (window, packs) = balance.window_ahead(plain.pack());
            let mut own = Vec::new();
            for _ in packs {
                let mut pieces = Vec::new();
                plain.draw(&rows, &mut pieces).unwrap();
                own.push(pieces);
            }
            let costs: Vec<u64> = own
                .iter()
                .map(|pieces| balance.cost.of_pack(12, pieces.iter().map(|piece| piece.padded)))
                .collect();
            for pack in balance.aligned(window, &costs) {
                prop_assert_eq!(&drawn(&mut cursor, &rows), &own[pack as usize]);
            }
            prop_assert_eq!(cursor.pack(), plain.pack());
        }
    }

    #[test]
    fn every_pack_is_found_from_a_mark_before_its_window_and_needs_no_earlier_row(
        passes in prop::collection::vec(prop::collection::vec(1u32..20, 9), 1..4),
        inside in insides(), per_step in 1u32..5, more in 1u32..20, from in 0usize..50,
        step in 1usize..9,
    ) {
        let rows = Passes(passes);
        let packing = packing(inside, per_step, per_step + more);
        let balance = packing.balance.unwrap();
        let mut cursor = BalancedCursor::at(packing, 4, Mark::default());
        let (mut packs, mut needed, mut marks) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..60 {
            needed.push(cursor.needed_from());
            marks.extend(cursor.mark());
            packs.push(drawn(&mut cursor, &rows));
        }
        for (number, from) in needed.iter().enumerate() {
            let later = packs[number..].iter().flatten().map(|piece| (piece.pass, piece.row));
            prop_assert!(later.min().is_none_or(|first| *from <= first));
        }
        let start = balance.window_ahead(from as u64).1.start;
        let mark = marks.into_iter().filter(|mark| mark.pack <= start).max_by_key(|mark| mark.pack);
        let mut second = BalancedCursor::at(packing, 4, mark.unwrap());
        for pack in (from..60).step_by(step) {
            second.seek(&rows, pack as u64).unwrap();
            prop_assert_eq!(second.pack(), pack as u64);
            prop_assert!(second.held().all(|row| row >= second.needed_from()));
            prop_assert_eq!(&drawn(&mut second, &rows), &packs[pack]);
        }
    }

    #[test]
    fn a_window_is_counted_before_its_first_pack_comes(
        counts in prop::collection::vec(1u32..20, 9), inside in insides(), per_step in 1u32..4,
    ) {
        let rows = Passes(vec![counts]);
        let packing = packing(inside, per_step, 9);
        let balance = packing.balance.unwrap();
        let mut cursor = BalancedCursor::at(packing, 4, Mark::default());
        for pack in 0..40 {
            drawn(&mut cursor, &rows);
            for end in pack + 1..=balance.window_ahead(pack).1.end {
                prop_assert!(cursor.is_counted_to(end));
            }
        }
    }
}
