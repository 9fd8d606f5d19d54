//! A set of texts with numbers, searched by the bytes of a text.

/// A trie as a double array. The child of a node for a byte is the unit at the node's `base` plus
/// the byte, if that unit has the node as its parent.
pub(super) struct Trie(Vec<Unit>);

#[derive(Clone, Copy)]
struct Unit {
    base: u32,
    parent: u32,
    value: u32,
}

/// Some of the sorted texts, with their numbers.
type Keys<'a, 'k> = &'a [(&'k [u8], u32)];

const ROOT: u32 = 0;
const NONE: u32 = u32::MAX;
/// The parent of the root; not the number of any node.
const OF_ROOT: u32 = u32::MAX - 1;
const FREE: Unit = Unit { base: 0, parent: NONE, value: NONE };
/// After this many places that do not fit, the free units before them are not tried again.
const MOST_TRIES: usize = 64;

impl Trie {
    /// `keys` are sorted, distinct and not empty.
    pub(super) fn new(keys: Keys<'_, '_>) -> Self {
        let mut trie = Self(vec![Unit { parent: OF_ROOT, ..FREE }]);
        let mut first_free = 1;
        // A node, its depth, and the keys below it.
        let mut pending = vec![(ROOT, 0, keys)];
        while let Some((node, depth, mut below)) = pending.pop() {
            if let Some(((key, value), rest)) = below.split_first()
                && key.len() == depth
            {
                trie.set(node, |unit| unit.value = *value);
                below = rest;
            }
            let children: Vec<(u8, Keys<'_, '_>)> = below
                .chunk_by(|(left, _), (right, _)| left.get(depth) == right.get(depth))
                .filter_map(|keys| Some((*keys.first()?.0.get(depth)?, keys)))
                .collect();
            let Some((first, _)) = children.first() else {
                continue;
            };
            let base = trie.place(&children, *first, &mut first_free);
            trie.set(node, |unit| unit.base = base);
            for (byte, keys) in children {
                let child = base + u32::from(byte);
                trie.set(child, |unit| unit.parent = node);
                pending.push((child, depth + 1, keys));
            }
        }
        trie
    }

    fn set(&mut self, place: u32, change: impl FnOnce(&mut Unit)) {
        if let Some(unit) = self.0.get_mut(place as usize) {
            change(unit);
        }
    }

    fn is_free(&self, place: usize) -> bool {
        self.0.get(place).is_none_or(|unit| unit.parent == NONE)
    }

    /// A base with which all children get free units. Adds units if there are too few.
    fn place<T>(&mut self, children: &[(u8, T)], first: u8, first_free: &mut usize) -> u32 {
        let mut place = (*first_free).max(usize::from(first));
        let mut tries = 0;
        let base = loop {
            if self.is_free(place) {
                let base = place - usize::from(first);
                if children.iter().all(|(byte, _)| self.is_free(base + usize::from(*byte))) {
                    break base;
                }
                tries += 1;
            } else if place == *first_free {
                *first_free += 1;
            }
            if tries == MOST_TRIES {
                *first_free = place;
            }
            place += 1;
        };
        let end = base + usize::from(u8::MAX) + 1;
        if self.0.len() < end {
            self.0.resize(end, FREE);
        }
        u32::try_from(base).unwrap_or(NONE)
    }

    /// The keys that `bytes` begins with, the shortest first: their lengths and values.
    pub(super) fn prefixes<'a>(
        &'a self,
        bytes: &'a [u8],
    ) -> impl Iterator<Item = (usize, u32)> + 'a {
        let mut node = ROOT;
        let mut base = self.0.first().map_or(0, |root| root.base);
        let mut rest = bytes.iter().enumerate();
        std::iter::from_fn(move || {
            for (place, byte) in rest.by_ref() {
                let child = base + u32::from(*byte);
                let unit = self.0.get(child as usize).filter(|unit| unit.parent == node)?;
                (node, base) = (child, unit.base);
                if unit.value != NONE {
                    return Some((place + 1, unit.value));
                }
            }
            None
        })
    }

    /// The value of a key.
    pub(super) fn get(&self, key: &[u8]) -> Option<u32> {
        self.prefixes(key).find(|(length, _)| *length == key.len()).map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn prefixes_are_those_of_a_map() {
        let mut state = 1_u64;
        let mut random = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let mut text = |longest: u64, letters: u64| -> Vec<u8> {
            let length = 1 + random(longest);
            (0..length).map(|_| u8::try_from(random(letters) * (256 / letters)).unwrap()).collect()
        };
        for letters in [2, 5, 256] {
            let known: BTreeMap<Vec<u8>, u32> =
                (0..3000).map(|number| (text(9, letters), number)).collect();
            let keys: Vec<(&[u8], u32)> =
                known.iter().map(|(key, value)| (key.as_slice(), *value)).collect();
            let trie = Trie::new(&keys);
            for searched in (0..2000).map(|_| text(12, letters)) {
                let expected = (1..=searched.len())
                    .filter_map(|end| Some((end, *known.get(&searched[..end])?)));
                assert_eq!(
                    trie.prefixes(&searched).collect::<Vec<_>>(),
                    expected.collect::<Vec<_>>()
                );
                assert_eq!(trie.get(&searched), known.get(&searched).copied());
            }
        }
    }
}
