//! An append-only list that is read without a lock. A child forked while another thread of its
//! parent was appending sees a consistent list.

use std::sync::OnceLock;

#[derive(Debug)]
pub(crate) struct AppendList<T>(OnceLock<Box<Node<T>>>);

#[derive(Debug)]
struct Node<T> {
    value: T,
    next: AppendList<T>,
}

impl<T> AppendList<T> {
    pub(crate) const fn new() -> Self {
        Self(OnceLock::new())
    }

    /// Iterates in insertion order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        std::iter::successors(self.0.get(), |node| node.next.0.get()).map(|node| &node.value)
    }

    pub(crate) fn push(&self, value: T) {
        let mut node = Box::new(Node { value, next: Self::new() });
        let mut link = &self.0;
        while let Err(refused) = link.set(node) {
            node = refused;
            while let Some(taken) = link.get() {
                link = &taken.next.0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_many_threads_are_all_there_in_the_order_of_each() {
        let list = AppendList::new();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let list = &list;
                scope.spawn(move || (0..500).for_each(|number| list.push((thread, number))));
            }
        });
        for thread in 0..4 {
            assert!(
                list.iter().filter(|(own, _)| *own == thread).map(|(_, number)| *number).eq(0..500)
            );
        }
    }
}
