use super::*;
use crate::order::Lanes;
use crate::packing::{Choice, Long, PackPlan};
use proptest::prelude::{Just, prop, prop_assert, prop_assert_eq, prop_oneof, proptest};
use proptest::strategy::Strategy as _;
use std::cell::RefCell;
use std::collections::BTreeSet;

/// Counts of each pass in turn; later passes repeat them.
#[derive(Debug)]
struct Model {
    passes: Vec<Vec<u32>>,
    counted_with: u64,
    counted: RefCell<Vec<(u64, u64)>>,
}

impl Model {
    fn new(passes: &[Vec<u32>], counted_with: u64) -> Self {
        Self { passes: passes.to_vec(), counted_with, counted: RefCell::default() }
    }

    fn part(&self, pass: u64, rows: Range<u64>) -> Vec<u32> {
        self.of(pass)[usize::try_from(rows.start).unwrap()..usize::try_from(rows.end).unwrap()]
            .to_vec()
    }

    fn of(&self, pass: u64) -> &[u32] {
        &self.passes[usize::try_from(pass).unwrap() % self.passes.len()]
    }
}

impl LaneRows for Model {
    type Error = ();

    fn num_rows(&self) -> u64 {
        self.passes[0].len() as u64
    }

    fn is_periodic(&self) -> bool {
        self.passes.len() == 1
    }

    fn has_equal_totals(&self) -> bool {
        let mut totals = self.passes.iter().map(|counts| counts.iter().sum::<u32>());
        let first = totals.next();
        totals.all(|total| Some(total) == first)
    }

    fn counted_with(&self, _pass: u64, row: u64) -> u64 {
        // The end need not follow from where the rows start.
        if self.counted_with.is_multiple_of(2) {
            (row / self.counted_with + 1) * self.counted_with
        } else {
            row + self.counted_with
        }
    }

    fn counts(&self, pass: u64, rows: Range<u64>) -> Result<Counts, ()> {
        self.counted.borrow_mut().extend(rows.clone().map(|row| (pass, row)));
        Ok(self.part(pass, rows).into_iter().map(Amount::from).collect())
    }
}

type Pieces = Vec<(u64, u64, u32, u32)>;

fn drawn(cursor: &mut LaneCursor, rows: &Model) -> Result<Pieces, NoPack<()>> {
    let mut pieces = Vec::new();
    cursor.draw(rows, &mut pieces)?;
    assert!(pieces.iter().all(
        |piece| piece.amount.tokens == rows.of(piece.pass)[usize::try_from(piece.row).unwrap()]
    ));
    Ok(pieces.iter().map(|piece| (piece.pass, piece.row, piece.first, piece.count)).collect())
}

fn cursor(strategy: Strategy, length: u32, window_rows: u64) -> LaneCursor {
    LaneCursor::at(Packing::new(length, strategy), window_rows, Mark::default())
}

fn first_packs(
    strategy: Strategy,
    length: u32,
    window_rows: u64,
    rows: &Model,
    count: usize,
) -> Result<Vec<Pieces>, NoPack<()>> {
    let mut cursor = cursor(strategy, length, window_rows);
    (0..count).map(|_| drawn(&mut cursor, rows)).collect()
}

/// The packs of the first passes as the specification defines them: token by token,
/// or window by window.
fn expected(
    strategy: Strategy,
    length: u32,
    window_rows: u64,
    rows: &Model,
    passes: u64,
) -> Vec<Pieces> {
    if strategy == Strategy::Concat {
        let tokens: Vec<(u64, u64, u32)> = (0..passes)
            .flat_map(|pass| {
                (0..).zip(rows.of(pass)).flat_map(move |(row, tokens)| {
                    (0..*tokens).map(move |token| (pass, row, token))
                })
            })
            .collect();
        return tokens.chunks_exact(length as usize).map(runs).collect();
    }
    let mut packs = Vec::new();
    for pass in 0..passes {
        for (number, window) in
            (0u64..).zip(rows.of(pass).chunks(usize::try_from(window_rows).unwrap()))
        {
            let first = number * window_rows;
            let tokens_of = |position: u64| window[usize::try_from(position).unwrap()];
            let each = |positions: Range<u64>, each: &mut dyn FnMut(u32)| {
                positions.for_each(|position| each(tokens_of(position)));
            };
            let plan = PackPlan::build(
                Packing::new(length, strategy),
                &Lanes::new(window.len() as u64, 1),
                each,
            )
            .unwrap();
            for pack in 0..plan.num_packs() {
                let mut pieces = Vec::new();
                plan.for_each_piece(pack, tokens_of, |piece| {
                    pieces.push((pass, first + piece.position, piece.first, piece.count));
                });
                packs.push(pieces);
            }
        }
    }
    packs
}

fn runs(tokens: &[(u64, u64, u32)]) -> Pieces {
    let mut pieces: Pieces = Vec::new();
    for (pass, row, token) in tokens {
        match pieces.last_mut() {
            Some(last) if (last.0, last.1) == (*pass, *row) => last.3 += 1,
            _ => pieces.push((*pass, *row, *token, 1)),
        }
    }
    pieces
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

/// Passes of one lane, each with the same rows in another order and at least one row that every
/// strategy packs.
fn passes() -> impl proptest::strategy::Strategy<Value = Vec<Vec<u32>>> {
    let rows = prop::collection::vec(prop_oneof![4 => 0u32..9, 1 => 9u32..40], 0..30);
    rows.prop_flat_map(|mut rows| {
        rows.push(1);
        prop::collection::vec(Just(rows).prop_shuffle(), 1..4)
    })
}

proptest! {
    #[test]
    fn packs_are_those_of_the_specification(
        passes in passes(),
        strategy in strategies(),
        length in 1u32..20,
        window_rows in 1u64..12,
        counted_with in 1u64..12,
    ) {
        let rows = Model::new(&passes, counted_with);
        let expected = expected(strategy, length, window_rows, &rows, 5);
        prop_assert_eq!(
            first_packs(strategy, length, window_rows, &rows, expected.len()).unwrap(),
            expected
        );
    }

    #[test]
    fn cursor_that_starts_at_a_pack_goes_on_as_one_that_came_there(
        passes in passes(),
        strategy in strategies(),
        length in 1u32..20,
        window_rows in 1u64..12,
        counted_with in 1u64..12,
        start in 0usize..60,
        other in 1u64..12,
    ) {
        let rows = Model::new(&passes, counted_with);
        let whole = first_packs(strategy, length, window_rows, &rows, start + 5).unwrap();
        // Rows may be counted together in other runs after a restart.
        let again = Model::new(&passes, other);
        let mut cursor = cursor(strategy, length, window_rows);
        cursor.seek(&again, start as u64).unwrap();
        prop_assert_eq!(cursor.pack(), start as u64);
        for pack in &whole[start..] {
            prop_assert_eq!(&drawn(&mut cursor, &again).unwrap(), pack);
        }
    }

    #[test]
    fn marks_lead_to_the_same_packs(
        passes in passes(),
        strategy in strategies(),
        length in 1u32..20,
        window_rows in 1u64..12,
        counted_with in 1u64..12,
        jumps in prop::collection::vec(0u64..7, 1..6),
    ) {
        let rows = Model::new(&passes, counted_with);
        let mut first = cursor(strategy, length, window_rows);
        let mut pack = 0;
        for jump in jumps {
            pack += jump;
            first.seek(&rows, pack).unwrap();
            let marks = first.mark().into_iter().chain([first.last_mark()]);
            let next = drawn(&mut first, &rows);
            for mark in marks {
                prop_assert!(mark.pack <= pack);
                let mut second = LaneCursor::at(Packing::new(length, strategy), window_rows, mark);
                second.seek(&rows, pack).unwrap();
                prop_assert_eq!(&drawn(&mut second, &rows), &next);
            }
            pack += 1;
        }
    }

    #[test]
    fn no_later_pack_needs_an_earlier_row(
        passes in passes(),
        strategy in strategies(),
        length in 1u32..20,
        window_rows in 1u64..12,
        counted_with in 1u64..12,
        count in 1usize..30,
    ) {
        let rows = Model::new(&passes, counted_with);
        let mut cursor = cursor(strategy, length, window_rows);
        let (mut needed, mut packs) = (Vec::new(), Vec::new());
        for _ in 0..count {
            needed.push(cursor.needed_from());
            packs.push(drawn(&mut cursor, &rows).unwrap());
        }
        for (number, needed) in needed.iter().enumerate() {
            let lowest = packs[number..]
                .iter()
                .flatten()
                .map(|(pass, row, ..)| (*pass, *row))
                .min()
                .unwrap();
            prop_assert!(*needed <= lowest, "{needed:?} {lowest:?}");
        }
    }

    #[test]
    fn cursor_knows_the_counted_rows_that_are_left(
        passes in passes(),
        strategy in strategies(),
        length in 1u32..20,
        window_rows in 1u64..12,
        counted_with in 1u64..12,
        count in 1usize..30,
    ) {
        let rows = Model::new(&passes, counted_with);
        let mut cursor = cursor(strategy, length, window_rows);
        for _ in 0..count {
            let (pass, left) = cursor.counted();
            let (before, is_counted) =
                (rows.counted.borrow().len(), cursor.is_counted_to(cursor.pack() + 1));
            let pack = drawn(&mut cursor, &rows).unwrap();
            prop_assert_eq!(is_counted, rows.counted.borrow().len() == before);
            let is_left = |of: u64, row: u64| (of, row) >= (pass, left.end) || left.contains(&row);
            prop_assert!(pack.iter().all(|(of, row, ..)| is_left(*of, *row)), "{left:?} {pack:?}");
            prop_assert!(
                !is_counted || pack.iter().all(|(of, row, ..)| *of == pass && left.contains(row))
            );
        }
    }

    #[test]
    fn concatenated_packs_start_like_those_of_an_epoch(
        rows in prop::collection::vec(0u32..12, 1..60),
        lanes in 1u64..5,
        length in 1u32..9,
    ) {
        let of_rows = Lanes::new(rows.len() as u64, lanes);
        let tokens_of = |position: u64| rows[usize::try_from(position).unwrap()];
        let each = |positions: Range<u64>, each: &mut dyn FnMut(u32)| positions.for_each(|position| each(tokens_of(position)));
        let plan = PackPlan::build(Packing::new(length, Strategy::Concat), &of_rows, each).unwrap();
        let tokens = |lane| of_rows.positions(lane).map(|position| u64::from(tokens_of(position))).sum::<u64>();
        let common = (0..lanes).map(|lane| tokens(lane) / u64::from(length)).min().unwrap();
        for lane in 0..lanes {
            let positions = of_rows.positions(lane);
            let model = Model::new(&[positions.clone().map(tokens_of).collect()], 4);
            let mut cursor = cursor(Strategy::Concat, length, 1);
            for pack in 0..common {
                let mut expected = Pieces::new();
                plan.for_each_piece(
                    plan.lanes().positions(lane).start + pack,
                    tokens_of,
                    |piece| {
                        expected.push((
                            0,
                            piece.position - positions.start,
                            piece.first,
                            piece.count,
                        ));
                    },
                );
                prop_assert_eq!(drawn(&mut cursor, &model).unwrap(), expected);
            }
        }
    }
}

const FIT: Strategy = Strategy::Fit { choice: Choice::Best, open_packs: 4, long: Long::Split };

#[test]
fn passes_join_without_padding() {
    let rows = Model::new(&[vec![3, 1, 4, 1]], 2);
    let packs = first_packs(Strategy::Concat, 4, 1, &rows, 3).unwrap();
    assert_eq!(
        packs,
        [vec![(0, 0, 0, 3), (0, 1, 0, 1)], vec![(0, 2, 0, 4)], vec![(0, 3, 0, 1), (1, 0, 0, 3)]]
    );
}

#[test]
fn next_pack_needs_no_later_window() {
    for strategy in [Strategy::Concat, FIT] {
        let rows = Model::new(&[vec![2; 100]], 8);
        first_packs(strategy, 4, 8, &rows, 1).unwrap();
        assert!(rows.counted.borrow().iter().all(|(_, row)| *row < 8));
    }
}

#[test]
fn distant_pack_of_equal_passes_is_found_by_a_division() {
    for (strategy, of_pass) in [(Strategy::Concat, 7), (FIT, 14)] {
        let rows = Model::new(&[vec![2; 14]], 4);
        let mut cursor = cursor(strategy, if strategy == FIT { 3 } else { 4 }, 4);
        cursor.seek(&rows, of_pass * 1_000_000_000_000 + 1).unwrap();
        assert_eq!(cursor.needed_from(), (1_000_000_000_000, if strategy == FIT { 1 } else { 2 }));
    }
}

#[test]
fn distant_pack_of_passes_with_equal_totals_is_found_by_a_division() {
    let rows = Model::new(&[vec![1, 2, 3], vec![3, 1, 2]], 4);
    let mut cursor = cursor(Strategy::Concat, 4, 4);
    cursor.seek(&rows, 3_000_000_000_001).unwrap();
    assert_eq!(cursor.needed_from(), (2_000_000_000_000, 2));
    assert_eq!(
        rows.counted.borrow().iter().map(|(pass, _)| *pass).collect::<BTreeSet<_>>(),
        BTreeSet::from([0, 2_000_000_000_000])
    );
}

#[test]
fn pass_with_nothing_to_pack_is_refused() {
    for strategy in [Strategy::Concat, FIT] {
        assert_eq!(
            first_packs(strategy, 4, 2, &Model::new(&[vec![0; 5]], 2), 1),
            Err(NoPack::Empty { pass: 0 })
        );
        assert_eq!(
            first_packs(strategy, 4, 2, &Model::new(&[vec![]], 2), 1),
            Err(NoPack::Empty { pass: 0 })
        );
        let second = Model::new(&[vec![0, 4], vec![0, 0]], 1);
        assert_eq!(first_packs(strategy, 4, 1, &second, 2), Err(NoPack::Empty { pass: 1 }));
        let mut cursor = cursor(strategy, 4, 1);
        assert_eq!(cursor.seek(&second, 9), Err(NoPack::Empty { pass: 1 }));
    }
}

#[test]
fn long_row_is_refused_with_its_place() {
    let strategy = Strategy::Fit { choice: Choice::Best, open_packs: 2, long: Long::Error };
    let rows = Model::new(&[vec![1, 2, 3, 99]], 2);
    let mut cursor = cursor(strategy, 10, 2);
    drawn(&mut cursor, &rows).unwrap();
    assert_eq!(drawn(&mut cursor, &rows), Err(NoPack::LongRow { pass: 0, row: 3, tokens: 99 }));
}
