use super::super::{PackPlan, Strategy};
use super::*;
use crate::order::Lanes;
use proptest::prelude::*;

fn rules(window_rows: u32, max_rows: u32) -> BatchRules {
    let (long, unit) = (Long::Drop, Unit::Tokens);
    BatchRules { max_rows, window_rows, long, unit, seed: 5, epoch: 0 }
}

fn plan(lengths: &[u32], lanes: u64, packing: Packing) -> Result<PackPlan, Refused> {
    let rows = Lanes::new(lengths.len() as u64, lanes);
    PackPlan::build(packing, &rows, |positions, each| {
        positions.for_each(|position| each(lengths[usize::try_from(position).unwrap()]));
    })
}

proptest! {
    #[test]
    fn each_row_is_in_one_batch_of_its_lane_that_keeps_the_limits(
        lengths in prop::collection::vec(0u32..50, 0..200),
        lanes in 1u64..4,
        tokens in 4u32..64,
        multiple_of in 1u32..5,
        window_rows in 1u32..40,
        max_rows in 1u32..9,
    ) {
        let strategy = Strategy::Batches(rules(window_rows, max_rows));
        let packing = Packing { multiple_of, ..Packing::new(tokens, strategy) };
        let plan = plan(&lengths, lanes, packing).unwrap();
        let tokens_of = |position: u64| lengths[usize::try_from(position).unwrap()];
        let mut seen = Vec::new();
        for lane in 0..lanes {
            let own = plan.row_lanes().positions(lane);
            for batch in plan.lanes().positions(lane) {
                let (mut rows, mut sum) = (Vec::new(), 0);
                plan.for_each_piece(batch, tokens_of, |piece| {
                    sum += piece.count;
                    rows.push(piece);
                });
                let longest = rows.iter().map(|piece| packing.padded(piece.count)).max().unwrap();
                prop_assert!(rows.iter().all(|piece| piece.padded == longest));
                prop_assert!(rows.is_sorted_by_key(|piece| piece.position));
                prop_assert!(rows.iter().all(|piece| own.contains(&piece.position)));
                let padded = u64::from(longest) * rows.len() as u64;
                prop_assert!(rows.len() == 1 || padded <= u64::from(tokens));
                prop_assert!(rows.len() <= max_rows as usize);
                prop_assert!((plan.tokens(batch) - f64::from(sum)).abs() < 0.5);
                seen.extend(rows.iter().map(|piece| piece.position));
            }
        }
        seen.sort_unstable();
        let fits = |row: &u64| packing.padded(tokens_of(*row)) <= tokens;
        let expected: Vec<u64> = (0..lengths.len() as u64).filter(fits).collect();
        prop_assert_eq!(plan.totals().dropped_rows, (lengths.len() - expected.len()) as u64);
        prop_assert_eq!(seen, expected);
    }

    #[test]
    fn floats_are_sorted_as_their_bits_and_never_rounded_down(
        first in 0.0f64..1e6,
        second in 0.0f64..1e6,
    ) {
        let bits = |value| Unit::of_float(value).unwrap();
        prop_assert!(Unit::Float.value(bits(first)) >= first);
        prop_assert_eq!(bits(first).cmp(&bits(second)).is_lt(), {
            Unit::Float.value(bits(first)) < Unit::Float.value(bits(second))
        });
    }
}

#[test]
fn what_is_no_length_is_refused() {
    for value in [-1.0, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert_eq!(Unit::of_float(value), None);
    }
    assert_eq!(Unit::of_float(-0.0), Some(0));
    assert_eq!(Unit::of_float(1e300), Some(f32::MAX.to_bits()));
}

#[test]
fn a_long_row_is_refused_with_its_place() {
    let rules = BatchRules { long: Long::Error, ..rules(8, 8) };
    let packing = Packing::new(4, Strategy::Batches(rules));
    let refused = plan(&[1, 2, 3, 9], 2, packing).unwrap_err();
    assert_eq!(refused, Refused::LongRow { position: 3, tokens: 9 });
}
