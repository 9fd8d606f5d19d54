//! Which blocks can hold a row that a predicate keeps, told from what is known of their columns.
//!
//! A [`Predicate`] and [`Facts`] enter, one truth a block leaves; called when a data set is planned and before a block is read. Three questions are asked of
//! each block and each part of the tree: can it be true for a row, can it be false, can it be unknown. The invariant: an answer is "no" only where that is
//! certain, so that a block that is pruned holds no row that the predicate keeps. What is missing, damaged or of an unexpected type says nothing.

mod members;
mod outcomes;
mod pages;

pub use members::prune_by_members;
pub use pages::prune_pages;

use crate::Predicate;
use crate::predicate::Node;
use outcomes::{Blocks, Outcomes};
use shardmill_formats::table::Statistics;

/// What is known of columns without reading them.
pub trait Facts {
    /// One entry for each block; `None` when nothing is known. A partition column is a [`Statistics::constant`].
    fn statistics(&self, column: &str) -> Option<Statistics>;
}

impl<F: Fn(&str) -> Option<Statistics>> Facts for F {
    fn statistics(&self, column: &str) -> Option<Statistics> {
        self(column)
    }
}

/// True for each block that may hold a row for which `predicate` is true. `row_counts` has the rows of each block.
#[must_use]
pub fn prune(predicate: &Predicate, row_counts: &[u64], facts: &dyn Facts) -> Vec<bool> {
    let outcomes = outcomes_of(&predicate.root, row_counts, facts);
    outcomes.can_be_true.iter().zip(row_counts).map(|(can_be_true, rows)| can_be_true && *rows > 0).collect()
}

fn outcomes_of(node: &Node, row_counts: &[u64], facts: &dyn Facts) -> Outcomes {
    match node {
        Node::Leaf(leaf) => match facts.statistics(&leaf.column).and_then(|statistics| Blocks::new(leaf, &statistics, row_counts)) {
            Some(blocks) => blocks.outcomes(leaf).unwrap_or_else(|| Outcomes::open(row_counts.len())),
            None => Outcomes::open(row_counts.len()),
        },
        Node::Columns(_) => Outcomes::open(row_counts.len()),
        Node::Constant(truth) => Outcomes::certain(row_counts.len(), *truth),
        Node::And(parts) => {
            parts.iter().fold(Outcomes::certain(row_counts.len(), Some(true)), |all, part| all.and(&outcomes_of(part, row_counts, facts)))
        }
        Node::Or(parts) => {
            parts.iter().fold(Outcomes::certain(row_counts.len(), Some(false)), |all, part| all.or(&outcomes_of(part, row_counts, facts)))
        }
        Node::Not(inner) => outcomes_of(inner, row_counts, facts).not(),
    }
}

#[cfg(test)]
mod tests;
