//! The possible outcomes of a part of a predicate for the rows of each block.

use super::bounds::{only_value, only_where, sound, with_zero};
use crate::Comparison;
use crate::predicate::{Leaf, Limit, Members, Sides, Test};
use arrow_arith::boolean::not;
use arrow_array::{Array, ArrayRef, BooleanArray, new_null_array};
use arrow_buffer::BooleanBuffer;
use arrow_ord::ord::make_comparator;
use arrow_schema::{DataType, SortOptions};
use shardmill_formats::table::Statistics;
use std::sync::Arc;

/// One bit per block, set if the outcome is possible for some row.
#[derive(Debug, Clone)]
pub(super) struct Outcomes {
    pub can_be_true: BooleanBuffer,
    pub can_be_false: BooleanBuffer,
    pub can_be_unknown: BooleanBuffer,
}

impl Outcomes {
    /// Nothing is excluded.
    pub(super) fn open(blocks: usize) -> Self {
        let all = BooleanBuffer::new_set(blocks);
        Self { can_be_true: all.clone(), can_be_false: all.clone(), can_be_unknown: all }
    }

    pub(super) fn certain(blocks: usize, truth: Option<bool>) -> Self {
        let all = |is_set: bool| {
            if is_set { BooleanBuffer::new_set(blocks) } else { BooleanBuffer::new_unset(blocks) }
        };
        Self {
            can_be_true: all(truth == Some(true)),
            can_be_false: all(truth == Some(false)),
            can_be_unknown: all(truth.is_none()),
        }
    }

    pub(super) fn not(self) -> Self {
        Self {
            can_be_true: self.can_be_false,
            can_be_false: self.can_be_true,
            can_be_unknown: self.can_be_unknown,
        }
    }

    pub(super) fn and(&self, other: &Self) -> Self {
        let either_unknown = &(&self.can_be_unknown
            & &(&other.can_be_true | &other.can_be_unknown))
            | &(&other.can_be_unknown & &(&self.can_be_true | &self.can_be_unknown));
        Self {
            can_be_true: &self.can_be_true & &other.can_be_true,
            can_be_false: &self.can_be_false | &other.can_be_false,
            can_be_unknown: either_unknown,
        }
    }

    pub(super) fn or(&self, other: &Self) -> Self {
        self.clone().not().and(&other.clone().not()).not()
    }

    /// Of a comparison of two sides. `None` if their bounds cannot be compared.
    pub(super) fn of_sides(sides: &Sides, left: &Blocks, right: &Blocks) -> Option<Self> {
        let not_ruled_out = |left: &ArrayRef, op, right: &ArrayRef| {
            Some(or_unknown(&sides.compare(left, op, right).ok()?))
        };
        let (low, high) = (
            |op| not_ruled_out(&left.min, op, &right.max),
            |op| not_ruled_out(&left.max, op, &right.min),
        );
        let (can_be_true, can_be_false) = possible(sides.op, sides.is_float(), low, high)?;
        let both_may_have_values = &left.may_have_values & &right.may_have_values;
        Some(Self {
            can_be_true: &can_be_true & &both_may_have_values,
            can_be_false: &can_be_false & &both_may_have_values,
            can_be_unknown: &left.may_have_nulls | &right.may_have_nulls,
        })
    }
}

/// Whether a comparison can be true and can be false, given where `low` and `high` do not rule an
/// operator out: for the smallest value, which is the most likely to be below, and for the largest.
/// Bounds exclude NaN, which is unequal to everything and neither below nor above it.
fn possible(
    op: Comparison,
    is_float: bool,
    low: impl Fn(Comparison) -> Option<BooleanBuffer>,
    high: impl Fn(Comparison) -> Option<BooleanBuffer>,
) -> Option<(BooleanBuffer, BooleanBuffer)> {
    let holds = |op| match op {
        Comparison::Less | Comparison::LessOrEqual => low(op),
        Comparison::Greater | Comparison::GreaterOrEqual => high(op),
        Comparison::Equal => {
            Some(&low(Comparison::LessOrEqual)? & &high(Comparison::GreaterOrEqual)?)
        }
        Comparison::NotEqual => Some(&low(op)? | &high(op)?),
    };
    let (can_be_true, can_be_false) = (holds(op)?, holds(op.negated())?);
    let all = BooleanBuffer::new_set(can_be_true.len());
    Some(match (is_float, op) {
        (false, _) => (can_be_true, can_be_false),
        (true, Comparison::NotEqual) => (all, can_be_false),
        (true, _) => (can_be_true, all),
    })
}

/// The statistics of one operand, validated and converted to the type in which its leaf compares.
pub(super) struct Blocks {
    /// Null if unknown.
    min: ArrayRef,
    max: ArrayRef,
    /// Whether rows with a value may exist.
    may_have_values: BooleanBuffer,
    may_have_nulls: BooleanBuffer,
}

impl Blocks {
    /// With the types of the values and of their comparison, if bounds are needed. `None` if the
    /// statistics do not match these blocks.
    pub(super) fn new(
        statistics: &Statistics,
        row_counts: &[u64],
        types: Option<(&DataType, &DataType)>,
    ) -> Option<Self> {
        let blocks = row_counts.len();
        let lengths = [
            statistics.min.len(),
            statistics.max.len(),
            statistics.null_counts.len(),
            statistics.row_counts.len(),
        ];
        if lengths.iter().any(|length| *length != blocks) || statistics.row_counts != row_counts {
            return None;
        }
        // A count of more nulls than rows is damaged.
        let counts = statistics
            .null_counts
            .iter()
            .zip(row_counts)
            .map(|(nulls, rows)| (nulls.filter(|nulls| nulls <= rows), *rows));
        let may_have_values = counts.clone().map(|(nulls, rows)| nulls != Some(rows)).collect();
        let may_have_nulls = counts.map(|(nulls, rows)| nulls != Some(0) && rows > 0).collect();
        let known = types.and_then(|(data_type, compared)| {
            sound(&statistics.min, &statistics.max, data_type, compared)
        });
        let (min, max) = known.unwrap_or_else(|| {
            let unknown =
                new_null_array(types.map_or(&DataType::Null, |(_, compared)| compared), blocks);
            (Arc::clone(&unknown), unknown)
        });
        Some(Self { min, max, may_have_values, may_have_nulls })
    }

    /// `None` if the bounds cannot be compared.
    pub(super) fn outcomes(&self, leaf: &Leaf) -> Option<Outcomes> {
        let none = BooleanBuffer::new_unset(self.may_have_values.len());
        let values = &self.may_have_values;
        Some(match &leaf.test {
            Test::Compare(op, limit) => self.compared(*op, limit, leaf.is_float())?,
            Test::Range(first, None) => self.compared(Comparison::GreaterOrEqual, first, false)?,
            Test::Range(first, Some(behind)) => self
                .compared(Comparison::GreaterOrEqual, first, false)?
                .and(&self.compared(Comparison::Less, behind, false)?),
            Test::IsIn { members, of_null } => {
                let (can_be_in, can_be_out) = self.found(members, leaf.is_float())?;
                let nulls = |truth: Option<bool>| {
                    if *of_null == truth { &self.may_have_nulls } else { &none }
                };
                Outcomes {
                    can_be_true: &can_be_in | nulls(Some(true)),
                    can_be_false: &can_be_out | nulls(Some(false)),
                    can_be_unknown: nulls(None).clone(),
                }
            }
            Test::EndsWith(_) | Test::Contains(_) => {
                let truth = leaf
                    .test_values(&only_where(&self.min, &only_value(&self.min, &self.max)?)?)
                    .ok()?;
                let (can_be_true, can_be_false) =
                    (or_unknown(&truth), or_unknown(&not(&truth).ok()?));
                Outcomes {
                    can_be_true: &can_be_true & values,
                    can_be_false: &can_be_false & values,
                    can_be_unknown: self.may_have_nulls.clone(),
                }
            }
            Test::IsNull { nan_is_null: true } if leaf.is_float() => Outcomes {
                can_be_true: &self.may_have_nulls | values,
                can_be_false: values.clone(),
                can_be_unknown: none,
            },
            Test::IsNull { .. } => Outcomes {
                can_be_true: self.may_have_nulls.clone(),
                can_be_false: values.clone(),
                can_be_unknown: none,
            },
            Test::IsNan => {
                let can_be_true = if leaf.is_float() { values.clone() } else { none };
                Outcomes {
                    can_be_true,
                    can_be_false: values.clone(),
                    can_be_unknown: self.may_have_nulls.clone(),
                }
            }
            Test::Never => Outcomes::certain(values.len(), Some(false)),
            Test::Unknown => Outcomes::certain(values.len(), None),
        })
    }

    fn compared(&self, op: Comparison, limit: &Limit, is_float: bool) -> Option<Outcomes> {
        let not_ruled_out =
            |bound: &ArrayRef, op: Comparison| Some(or_unknown(&limit.compare(bound, op).ok()?));
        // Nothing is below NaN, and nothing is at or above it.
        let is_float = is_float || limit.is_nan();
        let (can_be_true, can_be_false) = possible(
            op,
            is_float,
            |op| not_ruled_out(&self.min, op),
            |op| not_ruled_out(&self.max, op),
        )?;
        Some(Outcomes {
            can_be_true: &can_be_true & &self.may_have_values,
            can_be_false: &can_be_false & &self.may_have_values,
            can_be_unknown: self.may_have_nulls.clone(),
        })
    }

    /// Where a value can be a member, and where one can be a non-member.
    fn found(&self, members: &Members, is_float: bool) -> Option<(BooleanBuffer, BooleanBuffer)> {
        let (min, max) = if is_float {
            (with_zero(&self.min, false), with_zero(&self.max, true))
        } else {
            (Arc::clone(&self.min), Arc::clone(&self.max))
        };
        let options = SortOptions::default();
        let beside_min = make_comparator(&members.sorted, &min, options).ok()?;
        let beside_max = make_comparator(&members.sorted, &max, options).ok()?;
        let blocks = self.may_have_values.len();
        let is_known = |block: usize| min.is_valid(block) && max.is_valid(block);
        let first_at_least = |block: usize| {
            partition_point(members.sorted.len(), |member| beside_min(member, block).is_lt())
        };
        let mut can_be_in = BooleanBuffer::collect_bool(blocks, |block| {
            if !self.may_have_values.value(block) {
                return false;
            }
            let first = if is_known(block) { first_at_least(block) } else { 0 };
            members.has_nan
                || first < members.sorted.len()
                    && (!is_known(block) || beside_max(first, block).is_le())
        });
        for range in &members.ranges {
            can_be_in = &can_be_in | &self.compared(Comparison::Equal, range, false)?.can_be_true;
        }
        let can_be_out = BooleanBuffer::collect_bool(blocks, |block| {
            let only_value_is_in = || {
                let first = first_at_least(block);
                first < members.sorted.len()
                    && beside_min(first, block).is_eq()
                    && beside_max(first, block).is_eq()
            };
            self.may_have_values.value(block)
                && (is_float || !is_known(block) || !only_value_is_in())
        });
        Some((can_be_in, can_be_out))
    }
}

/// Also true where a comparison with an unknown bound is unknown.
fn or_unknown(truth: &BooleanArray) -> BooleanBuffer {
    match truth.nulls() {
        Some(nulls) => truth.values() | &!nulls.inner(),
        None => truth.values().clone(),
    }
}

fn partition_point(length: usize, is_before: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, length);
    while low < high {
        let middle = low + (high - low) / 2;
        if is_before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}
