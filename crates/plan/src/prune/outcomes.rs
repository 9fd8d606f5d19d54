//! What a part of a predicate can be for the rows of each block.

use crate::Comparison;
use crate::predicate::{Leaf, Limit, Members, Test};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float32Type, Float64Type};
use arrow_array::{Array, ArrayRef, BooleanArray, Float32Array, Float64Array};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_ord::cmp;
use arrow_ord::ord::make_comparator;
use arrow_schema::{DataType, SortOptions};
use shardmill_formats::table::Statistics;
use std::sync::Arc;

/// One bit a block; set where that outcome cannot be ruled out for some row.
#[derive(Debug, Clone)]
pub(super) struct Outcomes {
    pub can_be_true: BooleanBuffer,
    pub can_be_false: BooleanBuffer,
    pub can_be_unknown: BooleanBuffer,
}

impl Outcomes {
    /// Nothing is ruled out.
    pub(super) fn open(blocks: usize) -> Self {
        let all = BooleanBuffer::new_set(blocks);
        Self { can_be_true: all.clone(), can_be_false: all.clone(), can_be_unknown: all }
    }

    pub(super) fn certain(blocks: usize, truth: Option<bool>) -> Self {
        let all = |is_set: bool| if is_set { BooleanBuffer::new_set(blocks) } else { BooleanBuffer::new_unset(blocks) };
        Self { can_be_true: all(truth == Some(true)), can_be_false: all(truth == Some(false)), can_be_unknown: all(truth.is_none()) }
    }

    pub(super) fn not(self) -> Self {
        Self { can_be_true: self.can_be_false, can_be_false: self.can_be_true, can_be_unknown: self.can_be_unknown }
    }

    pub(super) fn and(&self, other: &Self) -> Self {
        let either_unknown = &(&self.can_be_unknown & &(&other.can_be_true | &other.can_be_unknown))
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
}

/// The statistics of one column, checked and in the type in which its leaf compares.
pub(super) struct Blocks {
    /// Null where nothing is known.
    min: ArrayRef,
    max: ArrayRef,
    /// Rows that hold a value may exist.
    may_have_values: BooleanBuffer,
    may_have_nulls: BooleanBuffer,
}

impl Blocks {
    /// `None` when the statistics are not of these blocks or of this column's type.
    pub(super) fn new(leaf: &Leaf, statistics: &Statistics, row_counts: &[u64]) -> Option<Self> {
        let blocks = row_counts.len();
        let lengths = [statistics.min.len(), statistics.max.len(), statistics.null_counts.len(), statistics.row_counts.len()];
        if lengths.iter().any(|length| *length != blocks) || statistics.row_counts != row_counts {
            return None;
        }
        // More nulls than rows is a damaged count.
        let counts = statistics.null_counts.iter().zip(row_counts).map(|(nulls, rows)| (nulls.filter(|nulls| nulls <= rows), *rows));
        let may_have_values = counts.clone().map(|(nulls, rows)| nulls != Some(rows)).collect();
        let may_have_nulls = counts.map(|(nulls, rows)| nulls != Some(0) && rows > 0).collect();
        let (min, max) = bounds(leaf, statistics).unwrap_or_else(|| {
            let unknown = arrow_array::new_null_array(leaf.compared(), blocks);
            (Arc::clone(&unknown), unknown)
        });
        Some(Self { min, max, may_have_values, may_have_nulls })
    }

    /// `None` when the bounds cannot be compared.
    pub(super) fn outcomes(&self, leaf: &Leaf) -> Option<Outcomes> {
        let none = BooleanBuffer::new_unset(self.may_have_values.len());
        let values = &self.may_have_values;
        Some(match &leaf.test {
            Test::Compare(op, limit) => self.compared(*op, limit, leaf.is_float())?,
            Test::Range(first, None) => self.compared(Comparison::GreaterOrEqual, first, false)?,
            Test::Range(first, Some(behind)) => {
                self.compared(Comparison::GreaterOrEqual, first, false)?.and(&self.compared(Comparison::Less, behind, false)?)
            }
            Test::IsIn { members, matches_null } => {
                let (can_be_in, can_be_out) = self.found(members, leaf.is_float())?;
                let (nulls_in, nulls_out) = if *matches_null { (&self.may_have_nulls, &none) } else { (&none, &self.may_have_nulls) };
                Outcomes { can_be_true: &can_be_in | nulls_in, can_be_false: &can_be_out | nulls_out, can_be_unknown: none }
            }
            Test::IsNull { nan_is_null: true } if leaf.is_float() => {
                Outcomes { can_be_true: &self.may_have_nulls | values, can_be_false: values.clone(), can_be_unknown: none }
            }
            Test::IsNull { .. } => Outcomes { can_be_true: self.may_have_nulls.clone(), can_be_false: values.clone(), can_be_unknown: none },
            Test::IsNan => {
                let can_be_true = if leaf.is_float() { values.clone() } else { none };
                Outcomes { can_be_true, can_be_false: values.clone(), can_be_unknown: self.may_have_nulls.clone() }
            }
            Test::Never => Outcomes::certain(values.len(), Some(false)),
            Test::Unknown => Outcomes::certain(values.len(), None),
        })
    }

    fn compared(&self, op: Comparison, limit: &Limit, is_float: bool) -> Option<Outcomes> {
        let not_ruled_out = |bound: &ArrayRef, op: Comparison| Some(or_unknown(&limit.compare(bound, op).ok()?));
        let (can_be_true, can_be_false) = match op {
            // The smallest value is the likeliest to be below, the largest the likeliest not to be.
            Comparison::Less => (not_ruled_out(&self.min, op)?, not_ruled_out(&self.max, Comparison::GreaterOrEqual)?),
            Comparison::LessOrEqual => (not_ruled_out(&self.min, op)?, not_ruled_out(&self.max, Comparison::Greater)?),
            Comparison::Greater => (not_ruled_out(&self.max, op)?, not_ruled_out(&self.min, Comparison::LessOrEqual)?),
            Comparison::GreaterOrEqual => (not_ruled_out(&self.max, op)?, not_ruled_out(&self.min, Comparison::Less)?),
            Comparison::Equal | Comparison::NotEqual => {
                let spans = &not_ruled_out(&self.min, Comparison::LessOrEqual)? & &not_ruled_out(&self.max, Comparison::GreaterOrEqual)?;
                let strays = &not_ruled_out(&self.min, Comparison::NotEqual)? | &not_ruled_out(&self.max, Comparison::NotEqual)?;
                if op == Comparison::Equal { (spans, strays) } else { (strays, spans) }
            }
        };
        // Bounds say nothing of NaN, which is unequal to everything and neither below nor above it.
        let all = BooleanBuffer::new_set(can_be_true.len());
        let (can_be_true, can_be_false) = match (is_float, op) {
            (false, _) => (can_be_true, can_be_false),
            (true, Comparison::NotEqual) => (all, can_be_false),
            (true, _) => (can_be_true, all),
        };
        Some(Outcomes {
            can_be_true: &can_be_true & &self.may_have_values,
            can_be_false: &can_be_false & &self.may_have_values,
            can_be_unknown: self.may_have_nulls.clone(),
        })
    }

    /// Where a value can be among the members, and where one can be none of them.
    fn found(&self, members: &Members, is_float: bool) -> Option<(BooleanBuffer, BooleanBuffer)> {
        let (min, max) =
            if is_float { (with_zero(&self.min, false), with_zero(&self.max, true)) } else { (Arc::clone(&self.min), Arc::clone(&self.max)) };
        let options = SortOptions::default();
        let beside_min = make_comparator(&members.sorted, &min, options).ok()?;
        let beside_max = make_comparator(&members.sorted, &max, options).ok()?;
        let blocks = self.may_have_values.len();
        let is_known = |block: usize| min.is_valid(block) && max.is_valid(block);
        let first_at_least = |block: usize| partition_point(members.sorted.len(), |member| beside_min(member, block).is_lt());
        let can_be_in = BooleanBuffer::collect_bool(blocks, |block| {
            if !self.may_have_values.value(block) {
                return false;
            }
            let first = if is_known(block) { first_at_least(block) } else { 0 };
            members.has_nan || first < members.sorted.len() && (!is_known(block) || beside_max(first, block).is_le())
        });
        let can_be_out = BooleanBuffer::collect_bool(blocks, |block| {
            let only_value_is_in = || {
                let first = first_at_least(block);
                first < members.sorted.len() && beside_min(first, block).is_eq() && beside_max(first, block).is_eq()
            };
            self.may_have_values.value(block) && (is_float || !is_known(block) || !only_value_is_in())
        });
        Some((can_be_in, can_be_out))
    }
}

/// Bounds in the leaf's type, null where they contradict themselves.
fn bounds(leaf: &Leaf, statistics: &Statistics) -> Option<(ArrayRef, ArrayRef)> {
    if matches!(leaf.test, Test::IsNull { .. } | Test::IsNan | Test::Never | Test::Unknown) || !leaf.is_of_type(statistics.min.data_type()) {
        return None;
    }
    let (min, max) = (without_nan(&leaf.comparable(&statistics.min).ok()?), without_nan(&leaf.comparable(&statistics.max).ok()?));
    if min.data_type() != max.data_type() {
        return None;
    }
    // Zeros of both signs are one value.
    let is_float = min.data_type().is_floating();
    let is_inverted = if is_float { cmp::gt(&with_zero(&min, false), &with_zero(&max, true)) } else { cmp::gt(&min, &max) }.ok()?;
    let is_sound = NullBuffer::new(!&(is_inverted.values() & is_inverted.nulls().map_or(&BooleanBuffer::new_set(min.len()), NullBuffer::inner)));
    Some((only_where(&min, &is_sound)?, only_where(&max, &is_sound)?))
}

fn only_where(array: &ArrayRef, condition: &NullBuffer) -> Option<ArrayRef> {
    if condition.null_count() == 0 {
        return Some(Arc::clone(array));
    }
    let nulls = NullBuffer::union(array.nulls(), Some(condition));
    Some(arrow_array::make_array(array.to_data().into_builder().nulls(nulls).build().ok()?))
}

/// A NaN among the bounds tells nothing.
fn without_nan(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Float32 => {
            Arc::new(Float32Array::from_iter(array.as_primitive::<Float32Type>().iter().map(|bound| bound.filter(|bound| !bound.is_nan()))))
        }
        DataType::Float64 => {
            Arc::new(Float64Array::from_iter(array.as_primitive::<Float64Type>().iter().map(|bound| bound.filter(|bound| !bound.is_nan()))))
        }
        _ => Arc::clone(array),
    }
}

/// Zeros of the sign that lies further out, for an order that tells them apart.
fn with_zero(array: &ArrayRef, is_positive: bool) -> ArrayRef {
    match array.data_type() {
        DataType::Float32 => {
            let zero = if is_positive { 0.0 } else { -0.0 };
            Arc::new(array.as_primitive::<Float32Type>().unary::<_, Float32Type>(|bound| if bound == 0.0 { zero } else { bound }))
        }
        DataType::Float64 => {
            let zero = if is_positive { 0.0 } else { -0.0 };
            Arc::new(array.as_primitive::<Float64Type>().unary::<_, Float64Type>(|bound| if bound == 0.0 { zero } else { bound }))
        }
        _ => Arc::clone(array),
    }
}

/// True also where a comparison with a bound that is not known is unknown.
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
