//! Excludes blocks by sets of values, such as bloom filters.

use crate::predicate::{Leaf, Node, Test, with_both_zeros};
use crate::{Comparison, Operand, Predicate};
use arrow_array::{Array, ArrayRef};
use std::sync::Arc;

/// Clears the entry of each block that is still kept but certainly contains none of the values
/// required in some column.
///
/// `may_contain` receives a block, a column and an array of the column's type without nulls, as
/// `TableFile::may_contain` does; it is only called for conditions that every kept row satisfies:
/// `column == literal` and `column.is_in(literals)` at the top of the tree, joined by "and".
///
/// # Errors
/// Errors of `may_contain`.
pub fn prune_by_members<E>(
    predicate: &Predicate,
    keep: &mut [bool],
    mut may_contain: impl FnMut(usize, &str, &ArrayRef) -> Result<bool, E>,
) -> Result<(), E> {
    let mut needed = Vec::new();
    add_needed(&predicate.root, &mut needed);
    for (block, keep) in keep.iter_mut().enumerate() {
        for (column, values) in &needed {
            *keep = *keep && may_contain(block, column, values)?;
        }
    }
    Ok(())
}

fn add_needed<'a>(node: &'a Node, needed: &mut Vec<(&'a str, ArrayRef)>) {
    match node {
        Node::And(parts) => parts.iter().for_each(|part| add_needed(part, needed)),
        Node::Leaf(leaf) => {
            if let Operand::Column(column) = &leaf.operand {
                needed.extend(
                    values_of(leaf)
                        .and_then(|values| Some((column.as_str(), leaf.as_stored(&values)?))),
                );
            }
        }
        _ => {}
    }
}

fn values_of(leaf: &Leaf) -> Option<ArrayRef> {
    match &leaf.test {
        Test::Compare(Comparison::Equal, limit) => Some(with_both_zeros(limit.only_value()?)),
        Test::IsIn { members, of_null: None | Some(false) }
            if !members.has_nan && members.ranges.is_empty() && !members.sorted.is_empty() =>
        {
            Some(Arc::clone(&members.sorted))
        }
        _ => None,
    }
}
