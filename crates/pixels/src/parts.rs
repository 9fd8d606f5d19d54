//! A vector of numbers that several threads write, each thread its own part.
//!
//! The invariant: the ranges of all parts of a vector are disjoint, because only [`Parts::split_to`]
//! makes parts, and it removes the range of the new part from the old one.

#![expect(unsafe_code, reason = "copies took a third of the time of packs of patches")]

use std::mem::ManuallyDrop;
use std::ops::Range;
use std::slice::{from_raw_parts, from_raw_parts_mut};
use std::sync::Arc;

/// A vector, or a part of one.
#[derive(Debug)]
pub struct Parts<T> {
    whole: Arc<Whole<T>>,
    range: Range<usize>,
}

/// The memory of a vector.
#[derive(Debug)]
struct Whole<T> {
    start: *mut T,
    len: usize,
    capacity: usize,
}

// SAFETY: it owns the values as a vector does. Parts of it access disjoint ranges.
unsafe impl<T: Send> Send for Whole<T> {}
// SAFETY: as above; a shared part reads its own range.
unsafe impl<T: Sync> Sync for Whole<T> {}

impl<T> Whole<T> {
    fn into_vec(self) -> Vec<T> {
        let whole = ManuallyDrop::new(self);
        // SAFETY: a vector was taken apart into these values, and no other vector is made of them.
        unsafe { Vec::from_raw_parts(whole.start, whole.len, whole.capacity) }
    }
}

impl<T> Drop for Whole<T> {
    fn drop(&mut self) {
        // SAFETY: as in `into_vec`, which does not drop this.
        drop(unsafe { Vec::from_raw_parts(self.start, self.len, self.capacity) });
    }
}

impl<T> From<Vec<T>> for Parts<T> {
    fn from(values: Vec<T>) -> Self {
        let mut values = ManuallyDrop::new(values);
        let (start, len, capacity) = (values.as_mut_ptr(), values.len(), values.capacity());
        Self { whole: Arc::new(Whole { start, len, capacity }), range: 0..len }
    }
}

impl<T> Parts<T> {
    pub fn len(&self) -> usize {
        self.range.len()
    }

    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    pub fn as_slice(&self) -> &[T] {
        // SAFETY: the range is inside of the vector, and no range of another part overlaps it.
        unsafe { from_raw_parts(self.whole.start.add(self.range.start), self.range.len()) }
    }

    pub fn as_mut_slice(&mut self) -> &mut [T] {
        // SAFETY: as in `as_slice`; this part is borrowed exclusively.
        unsafe { from_raw_parts_mut(self.whole.start.add(self.range.start), self.range.len()) }
    }

    /// Takes the first `len` values, or all if there are fewer.
    #[must_use]
    pub fn split_to(&mut self, len: usize) -> Self {
        let end = self.range.start + len.min(self.range.len());
        let range = self.range.start..end;
        self.range.start = end;
        Self { whole: Arc::clone(&self.whole), range }
    }

    /// Keeps only the first `len` values.
    pub fn truncate(&mut self, len: usize) {
        self.range.end = self.range.start + len.min(self.range.len());
    }

    /// Adds the values of `other` if they follow those of this part in memory, or if this part has
    /// none; returns `other` otherwise.
    #[must_use]
    pub fn join(&mut self, other: Self) -> Option<Self> {
        if self.is_empty() {
            *self = other;
            return None;
        }
        let follows = Arc::ptr_eq(&self.whole, &other.whole) && self.range.end == other.range.start;
        if !follows {
            return Some(other);
        }
        self.range.end = other.range.end;
        None
    }
}

impl<T: Clone> Parts<T> {
    /// The values, which are not moved if this is the only part and begins where the vector does.
    pub fn into_vec(self) -> Vec<T> {
        let Range { start, end } = self.range;
        match Arc::try_unwrap(self.whole) {
            Ok(whole) => {
                let mut values = whole.into_vec();
                values.truncate(end);
                values.drain(..start);
                values
            }
            Err(whole) => Self { whole, range: start..end }.as_slice().to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn parts_that_threads_wrote_become_one_vector_in_the_same_memory() {
        let values = vec![0_u32; 12];
        let start = values.as_ptr();
        let mut rest = Parts::from(values);
        let parts: Vec<Parts<u32>> = [3, 0, 5, 9].map(|len| rest.split_to(len)).into();
        assert!(rest.is_empty());
        let threads = (1..).zip(parts).map(|(number, mut part)| {
            thread::spawn(move || {
                part.as_mut_slice().fill(number);
                part
            })
        });
        let threads: Vec<_> = threads.collect();
        for thread in threads {
            assert!(rest.join(thread.join().unwrap()).is_none());
        }
        let values = rest.into_vec();
        assert_eq!(values, [1, 1, 1, 3, 3, 3, 3, 3, 4, 4, 4, 4]);
        assert_eq!(values.as_ptr(), start);
    }

    #[test]
    fn parts_that_do_not_follow_each_other_are_not_joined() {
        let mut rest = Parts::from((0..10).collect::<Vec<u8>>());
        let mut first = rest.split_to(3);
        let mut gap = rest.split_to(4);
        gap.truncate(2);
        let rest = first.join(rest).unwrap();
        assert!(gap.join(rest).is_some());
        assert_eq!([first.into_vec(), gap.into_vec()], [vec![0, 1, 2], vec![3, 4]]);
    }

    #[test]
    fn a_part_inside_of_a_vector_is_moved_out_of_it() {
        let mut rest = Parts::from((0..10).collect::<Vec<u8>>());
        let first = rest.split_to(3);
        assert_eq!(rest.split_to(2).into_vec(), [3, 4]);
        drop(first);
        assert_eq!(rest.into_vec(), [5, 6, 7, 8, 9]);
    }
}
