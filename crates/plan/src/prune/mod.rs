//! Determines from statistics which blocks can contain a row that a predicate keeps.
//!
//! Used when a data set is planned and before a block is read. Three questions are answered
//! for each block and each part of the tree: can it be true for a row, can it be false,
//! can it be unknown. The invariant: an answer is "no" only if that is certain, so that a pruned
//! block contains no row that the predicate keeps. Missing, damaged or unexpected statistics
//! exclude nothing.

mod bounds;
mod intervals;
mod members;
mod outcomes;
mod pages;

pub use members::prune_by_members;
pub use pages::prune_pages;

use crate::Predicate;
use crate::predicate::{Leaf, Node, Side, Sides, Test};
use intervals::statistics_of;
use outcomes::{Blocks, Outcomes};
use shardmill_formats::table::Statistics;

/// Statistics of columns that are known without reading them.
pub trait Facts {
    /// One entry for each block; `None` if nothing is known. A partition column
    /// is a [`Statistics::constant`].
    fn statistics(&self, column: &str) -> Option<Statistics>;
}

impl<F: Fn(&str) -> Option<Statistics>> Facts for F {
    fn statistics(&self, column: &str) -> Option<Statistics> {
        self(column)
    }
}

/// True for each block that may contain a row for which `predicate` is true. `row_counts` are the
/// numbers of rows of each block.
#[must_use]
pub fn prune(predicate: &Predicate, row_counts: &[u64], facts: &dyn Facts) -> Vec<bool> {
    let outcomes = outcomes_of(&predicate.root, row_counts, facts);
    outcomes
        .can_be_true
        .iter()
        .zip(row_counts)
        .map(|(can_be_true, rows)| can_be_true && *rows > 0)
        .collect()
}

fn outcomes_of(node: &Node, row_counts: &[u64], facts: &dyn Facts) -> Outcomes {
    match node {
        Node::Leaf(leaf) => {
            of_leaf(leaf, row_counts, facts).unwrap_or_else(|| Outcomes::open(row_counts.len()))
        }
        Node::Sides(sides) => {
            of_sides(sides, row_counts, facts).unwrap_or_else(|| Outcomes::open(row_counts.len()))
        }
        Node::Constant(truth) => Outcomes::certain(row_counts.len(), *truth),
        Node::And(parts) => {
            parts.iter().fold(Outcomes::certain(row_counts.len(), Some(true)), |all, part| {
                all.and(&outcomes_of(part, row_counts, facts))
            })
        }
        Node::Or(parts) => {
            parts.iter().fold(Outcomes::certain(row_counts.len(), Some(false)), |all, part| {
                all.or(&outcomes_of(part, row_counts, facts))
            })
        }
        Node::Not(inner) => outcomes_of(inner, row_counts, facts).not(),
    }
}

fn of_leaf(leaf: &Leaf, row_counts: &[u64], facts: &dyn Facts) -> Option<Outcomes> {
    let statistics = statistics_of(&leaf.operand, row_counts, facts)?;
    let needs_bounds =
        !matches!(leaf.test, Test::IsNull { .. } | Test::IsNan | Test::Never | Test::Unknown);
    let types = needs_bounds.then_some((leaf.data_type(), leaf.compared()));
    Blocks::new(&statistics, row_counts, types)?.outcomes(leaf)
}

fn of_sides(sides: &Sides, row_counts: &[u64], facts: &dyn Facts) -> Option<Outcomes> {
    let blocks = |side: &Side| {
        Blocks::new(
            &statistics_of(&side.operand, row_counts, facts)?,
            row_counts,
            Some((&side.data_type, &side.compared)),
        )
    };
    Outcomes::of_sides(sides, &blocks(&sides.left)?, &blocks(&sides.right)?)
}

#[cfg(test)]
mod tests;
