//! The tokens of an image that are never cut apart.

use crate::dataset::Affixes;
use shardmill_plan::packing::Block;

/// The tokens of the images of a row: their placeholders, and the ids around these.
pub(crate) fn blocks_of<T: Copy + TryInto<u32>>(
    ids: &[T],
    places: &[i32],
    patches: impl Iterator<Item = u64>,
    affixes: &Affixes,
) -> impl Iterator<Item = Block> {
    let is = |affix: &[u32], ids: Option<&[T]>| {
        let ids = ids.into_iter().flatten().map(|id| (*id).try_into().ok());
        ids.eq(affix.iter().map(|id| Some(*id)))
    };
    let number = |place: usize| u32::try_from(place).unwrap_or(u32::MAX);
    let small = |number: i32| usize::try_from(number).unwrap_or_default();
    let mut last = 0;
    places.chunks_exact(2).zip(patches).filter_map(move |(place, patches)| {
        let [first, tokens] = *place else { return None };
        let (first, next) = (small(first), small(first) + small(tokens));
        let starts = affixes.before.iter().filter_map(|before| {
            let start = first.checked_sub(before.len()).filter(|start| *start >= last)?;
            is(before, ids.get(start..first)).then_some(start)
        });
        let start = starts.min().unwrap_or(first);
        let ends = affixes.after.iter().filter_map(|after| {
            let end = next + after.len();
            is(after, ids.get(next..end)).then_some(end)
        });
        let end = ends.max().unwrap_or(next);
        last = end;
        let patches = u32::try_from(patches).unwrap_or(u32::MAX);
        Some(Block { start: number(start), end: number(end), patches })
    })
}
