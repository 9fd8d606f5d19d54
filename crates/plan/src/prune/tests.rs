mod examples;

use super::*;
use crate::{Arithmetic, Comparison, Computed, Error, Expression, Literal, Operand};
use arrow_array::types::Int8Type;
use arrow_array::{
    Array, ArrayRef, BooleanArray, Decimal128Array, DictionaryArray, Float32Array, Float64Array,
    Int32Array, RecordBatch, StringArray, StringViewArray, TimestampMicrosecondArray, UInt64Array,
    new_null_array,
};
use arrow_buffer::i256;
use arrow_schema::{DataType, TimeUnit};
use proptest::prelude::*;
use shardmill_formats::table::BlockPages;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::ops::Range;
use std::sync::Arc;

/// All columns have values from one small ordered range, so that bounds,
/// literals and rows often coincide.
const COLUMNS: [&str; 9] = ["i", "u", "f", "g", "s", "v", "d", "t", "k"];
const RANKS: i64 = 8;
const NAN: i64 = 8;
const NEGATIVE_ZERO: i64 = 9;
const FLOATS: [f64; 10] =
    [f64::NEG_INFINITY, -2.0, -0.5, 0.0, 0.5, 1.0, 2.0, f64::INFINITY, f64::NAN, -0.0];
const TEXTS: [&str; 10] = ["", "a", "ab", "abc", "a\u{ff}", "b", "ba", "\u{10ffff}", "c", "d"];

fn rank_of(column: &str, seed: i64) -> Option<i64> {
    match seed {
        NAN if matches!(column, "f" | "g") => None,
        NEGATIVE_ZERO if matches!(column, "f" | "g") => Some(3),
        other => Some(other % RANKS),
    }
}

fn array(column: &str, seeds: &[Option<i64>]) -> ArrayRef {
    let ranked = seeds.iter().map(|seed| seed.map(|seed| seed % RANKS));
    let texts = ranked.clone().map(|rank| rank.map(|rank| TEXTS[usize::try_from(rank).unwrap()]));
    let floats = seeds.iter().map(|seed| seed.map(|seed| FLOATS[usize::try_from(seed).unwrap()]));
    match column {
        "i" => Arc::new(Int32Array::from_iter(
            ranked.map(|rank| rank.map(|rank| i32::try_from(rank - 4).unwrap())),
        )),
        "u" => Arc::new(UInt64Array::from_iter(
            ranked.map(|rank| rank.map(|rank| u64::MAX - 7 + u64::try_from(rank).unwrap())),
        )),
        "f" => Arc::new(Float64Array::from_iter(floats)),
        "g" => Arc::new(Float32Array::from_iter(
            floats.map(|float| float.map(|float| num_traits::ToPrimitive::to_f32(&float).unwrap())),
        )),
        "s" => Arc::new(StringArray::from_iter(texts)),
        "v" => Arc::new(StringViewArray::from_iter(texts)),
        "d" => {
            let values = ranked.map(|rank| rank.map(|rank| i128::from(rank) * 50 - 200));
            Arc::new(Decimal128Array::from_iter(values).with_precision_and_scale(10, 2).unwrap())
        }
        "t" => Arc::new(TimestampMicrosecondArray::from_iter(
            ranked.map(|rank| rank.map(|rank| rank * 500_000)),
        )),
        _ => Arc::new(DictionaryArray::<Int8Type>::from_iter(texts)),
    }
}

fn literal(column: &str, seed: i64) -> Literal {
    let rank = seed % RANKS;
    match column {
        "i" | "u" | "d" if seed == NEGATIVE_ZERO => Literal::Float(f64::NAN),
        "i" if seed == NAN => Literal::Float(-0.5),
        "i" => Literal::Integer(rank - 4),
        "u" if seed == NAN => Literal::Integer(-1),
        "u" => Literal::Unsigned(u64::MAX - 7 + u64::try_from(rank).unwrap()),
        "f" | "g" => Literal::Float(FLOATS[usize::try_from(seed).unwrap()]),
        "d" if seed == NAN => Literal::Float(0.1),
        "d" => Literal::Decimal { unscaled: i256::from(rank * 500 - 2000), scale: 3 },
        "t" if seed == NAN => {
            Literal::Timestamp { value: 1, unit: TimeUnit::Nanosecond, zone: None }
        }
        "t" => Literal::Timestamp { value: rank * 500, unit: TimeUnit::Millisecond, zone: None },
        _ => Literal::Text(TEXTS[usize::try_from(rank).unwrap()].to_owned()),
    }
}

const OPERATORS: [Comparison; 6] = [
    Comparison::Equal,
    Comparison::NotEqual,
    Comparison::Less,
    Comparison::LessOrEqual,
    Comparison::Greater,
    Comparison::GreaterOrEqual,
];

fn texts() -> impl Strategy<Value = Operand> {
    let column = prop::sample::select(vec!["s", "v", "k"]).prop_map(Operand::from);
    (column, any::<bool>()).prop_map(
        |(column, is_lower)| if is_lower { Computed::Lower(column).into() } else { column },
    )
}

/// Numbers that are computed from columns. Not from `g`, because 32-bit infinities and NaN are
/// those of `f`.
fn numbers() -> impl Strategy<Value = Operand> {
    let literal = prop::sample::select(vec![
        Literal::Integer(-1),
        Literal::Integer(0),
        Literal::Integer(3),
        Literal::Float(-0.5),
        Literal::Float(f64::INFINITY),
        Literal::Decimal { unscaled: i256::from(-25), scale: 1 },
    ]);
    let leaf = prop_oneof![
        4 => prop::sample::select(vec!["i", "u", "f", "d"]).prop_map(Operand::from),
        2 => literal.prop_map(|literal| Computed::Literal(literal).into()),
        1 => texts().prop_map(|text| Computed::Length(text).into()),
    ];
    let op = prop::sample::select(vec![
        Arithmetic::Add,
        Arithmetic::Subtract,
        Arithmetic::Multiply,
        Arithmetic::Divide,
        Arithmetic::Remainder,
    ]);
    leaf.prop_recursive(2, 6, 2, move |inner| {
        (op.clone(), inner.clone(), inner)
            .prop_map(|(op, left, right)| Computed::Arithmetic(op, left, right).into())
    })
}

fn computed_conditions(
    op: impl Strategy<Value = Comparison> + Clone,
) -> impl Strategy<Value = Expression> {
    let literal = prop_oneof![
        (-8..8_i64).prop_map(Literal::Integer),
        (-8..8_i32).prop_map(|value| Literal::Float(f64::from(value) / 2.0))
    ];
    prop_oneof![
        (numbers(), op.clone(), literal.clone())
            .prop_map(|(operand, op, value)| Expression::Compare { operand, op, value }),
        (numbers(), op.clone(), numbers())
            .prop_map(|(left, op, right)| Expression::CompareColumns { left, op, right }),
        (texts(), op, texts()).prop_map(|(left, op, right)| Expression::CompareColumns {
            left,
            op,
            right
        }),
        numbers().prop_map(|operand| Expression::IsNull { operand, nan_is_null: false }),
        (numbers(), prop::collection::vec(literal, 0..3)).prop_map(|(operand, values)| {
            Expression::IsIn { operand, values, matches_null: false, null_is_unknown: true }
        }),
    ]
}

fn expressions() -> impl Strategy<Value = Expression> {
    let column = || prop::sample::select(COLUMNS.to_vec());
    let op = || prop::sample::select(OPERATORS.to_vec());
    let leaf = prop_oneof![
        4 => (column(), op(), 0..10_i64).prop_map(|(column, op, seed)| Expression::Compare {
            operand: column.into(),
            op,
            value: literal(column, seed),
        }),
        3 => computed_conditions(op()),
        2 => (column(), prop::collection::vec(0..10_i64, 0..4), any::<bool>(), any::<bool>())
            .prop_map(|(column, seeds, matches_null, null_is_unknown)| Expression::IsIn {
                operand: column.into(),
                values: seeds.into_iter().map(|seed| literal(column, seed)).collect(),
                matches_null: matches_null && !null_is_unknown,
                null_is_unknown,
            }),
        1 => (column(), any::<bool>()).prop_map(|(column, nan_is_null)| {
            Expression::IsNull { operand: column.into(), nan_is_null }
        }),
        1 => prop::sample::select(vec!["i", "u", "f", "g", "d"])
            .prop_map(|column| Expression::IsNan { operand: column.into() }),
        3 => (texts(), 0..3, 0..8_usize).prop_map(|(operand, kind, index)| {
            let part = Literal::Text(TEXTS[index].to_owned());
            match kind {
                0 => Expression::StartsWith { operand, prefix: part },
                1 => Expression::EndsWith { operand, suffix: part },
                _ => Expression::Contains { operand, part },
            }
        }),
        1 => prop::option::of(any::<bool>()).prop_map(Expression::Constant),
    ];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Expression::And),
            prop::collection::vec(inner.clone(), 0..3).prop_map(Expression::Or),
            inner.prop_map(|inner| Expression::Not(Box::new(inner))),
        ]
    })
}

/// The quality of the statistics of a block.
#[derive(Debug, Clone, Copy)]
struct Quality {
    has_min: bool,
    has_max: bool,
    has_null_count: bool,
    /// How much further out the bounds are than the values, as after truncation.
    slack: i64,
    is_nan: bool,
}

fn qualities() -> impl Strategy<Value = Quality> {
    (any::<bool>(), any::<bool>(), any::<bool>(), 0..2_i64, prop::bool::weighted(0.1)).prop_map(
        |(a, b, c, slack, is_nan)| Quality {
            has_min: a || b,
            has_max: a || c,
            has_null_count: b || c,
            slack,
            is_nan,
        },
    )
}

fn statistics(
    column: &str,
    seeds: &[Option<i64>],
    blocks: &[(Range<usize>, Quality)],
) -> Statistics {
    let (mut min, mut max, mut null_counts) = (Vec::new(), Vec::new(), Vec::new());
    for (range, quality) in blocks {
        let block = &seeds[range.clone()];
        let ranks = || block.iter().flatten().filter_map(|seed| rank_of(column, *seed));
        let nan = (quality.is_nan && matches!(column, "f" | "g")).then_some(NAN);
        min.push(nan.or(
            ranks().min().filter(|_| quality.has_min).map(|rank| (rank - quality.slack).max(0)),
        ));
        max.push(
            nan.or(ranks()
                .max()
                .filter(|_| quality.has_max)
                .map(|rank| (rank + quality.slack).min(RANKS - 1))),
        );
        null_counts.push(
            quality
                .has_null_count
                .then_some(block.iter().filter(|seed| seed.is_none()).count() as u64),
        );
    }
    let row_counts = blocks.iter().map(|(range, _)| range.len() as u64).collect();
    Statistics { min: array(column, &min), max: array(column, &max), null_counts, row_counts }
}

type Seeds = BTreeMap<&'static str, Vec<Option<i64>>>;

fn tables() -> impl Strategy<Value = Seeds> {
    // Runs of similar values make blocks differ from one another;
    // otherwise nothing would be pruned.
    (1..40_usize).prop_flat_map(|rows| {
        let seed = prop_oneof![1 => Just(None), 4 => (0..10_i64).prop_map(Some)];
        let column = prop::collection::vec((seed, 1..6_usize), rows).prop_map(move |runs| {
            runs.into_iter()
                .flat_map(|(seed, length)| vec![seed; length])
                .take(rows)
                .collect::<Vec<_>>()
        });
        prop::collection::vec(column, COLUMNS.len())
            .prop_map(|columns| COLUMNS.into_iter().zip(columns).collect())
    })
}

fn batch_of(seeds: &Seeds) -> RecordBatch {
    RecordBatch::try_from_iter_with_nullable(
        seeds.iter().map(|(column, seeds)| (*column, array(column, seeds), true)),
    )
    .unwrap()
}

fn cut(rows: usize, borders: &[usize], qualities: &[Quality]) -> Vec<(Range<usize>, Quality)> {
    let mut borders: Vec<usize> =
        borders.iter().map(|border| border % (rows + 1)).chain([0, rows]).collect();
    borders.sort_unstable();
    borders
        .windows(2)
        .zip(qualities.iter().cycle())
        .map(|(pair, quality)| (pair[0]..pair[1], *quality))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn pruned_blocks_hold_no_row_that_is_kept(
        seeds in tables(),
        expression in expressions(),
        borders in prop::collection::vec(0..64_usize, 0..6),
        qualities in prop::collection::vec(qualities(), 1..4),
        unknown_column in prop::sample::select(COLUMNS.to_vec()),
    ) {
        let rows = batch_of(&seeds);
        let predicate = expression.bind(rows.schema_ref()).unwrap();
        let selected = match predicate.selection(&rows) {
            Err(Error::Overflow { .. }) => return Ok(()),
            selected => selected.unwrap(),
        };
        let blocks = cut(rows.num_rows(), &borders, &qualities);
        let row_counts: Vec<u64> = blocks.iter().map(|(range, _)| range.len() as u64).collect();
        let facts = |column: &str| {
            let (column, seeds) =
                seeds.get_key_value(column).filter(|(column, _)| **column != unknown_column)?;
            Some(statistics(column, seeds, &blocks))
        };
        for ((range, _), is_kept) in blocks.iter().zip(prune(&predicate, &row_counts, &facts)) {
            prop_assert!(
                is_kept || range.clone().all(|row| !selected.value(row)),
                "{range:?} of {expression:?}"
            );
        }
    }

    #[test]
    fn pruned_pages_hold_no_row_that_is_kept(
        seeds in tables(),
        expression in expressions(),
        borders in prop::collection::vec(prop::collection::vec(0..64_usize, 0..6), COLUMNS.len()),
        qualities in prop::collection::vec(qualities(), 1..4),
    ) {
        let rows = batch_of(&seeds);
        let predicate = expression.bind(rows.schema_ref()).unwrap();
        let selected = match predicate.selection(&rows) {
            Err(Error::Overflow { .. }) => return Ok(()),
            selected => selected.unwrap(),
        };
        let pages = |column: &str| {
            let index = COLUMNS.iter().position(|name| *name == column).unwrap();
            let blocks: Vec<_> = cut(rows.num_rows(), &borders[index], &qualities)
                .into_iter()
                .filter(|(range, _)| !range.is_empty())
                .collect();
            let first_rows = blocks.iter().map(|(range, _)| range.start as u64).collect();
            Ok::<_, Infallible>((index != 2).then(|| BlockPages {
                statistics: statistics(column, &seeds[column], &blocks),
                first_rows,
            }))
        };
        let kept = prune_pages(&predicate, rows.num_rows() as u64, pages).unwrap();
        prop_assert!(kept.windows(2).all(|pair| pair[0].end < pair[1].start));
        for row in (0..rows.num_rows()).filter(|row| selected.value(*row)) {
            prop_assert!(
                kept.iter().any(|range| range.contains(&(row as u64))),
                "row {row} of {expression:?}"
            );
        }
    }

    #[test]
    fn members_that_are_needed_are_in_each_row_that_is_kept(
        seeds in tables(),
        expression in expressions(),
    ) {
        let rows = batch_of(&seeds);
        let predicate = expression.bind(rows.schema_ref()).unwrap();
        let selected = match predicate.selection(&rows) {
            Err(Error::Overflow { .. }) => return Ok(()),
            selected => selected.unwrap(),
        };
        for row in 0..rows.num_rows() {
            let mut keep = [true];
            prune_by_members(&predicate, &mut keep, |_, column, values| {
                let stored = rows.column_by_name(column).unwrap().slice(row, 1);
                let value_type = match stored.data_type() {
                    DataType::Dictionary(_, value) => value.as_ref().clone(),
                    own => own.clone(),
                };
                let stored = arrow_cast::cast(&stored, &value_type).unwrap();
                assert_eq!((values.data_type(), values.null_count()), (&value_type, 0));
                Ok::<_, Infallible>(
                    (0..values.len())
                        .any(|index| values.slice(index, 1).to_data() == stored.to_data()),
                )
            })
            .unwrap();
            prop_assert!(keep[0] || !selected.value(row), "row {row} of {expression:?}");
        }
    }
}
