//! Values that belong to one process.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

/// The process that made a value: the first one that asks. A child forked while a thread of its
/// parent asks waits for nothing.
#[derive(Debug, Default)]
struct Maker(AtomicU32);

impl Maker {
    /// No process has this number.
    const NONE: u32 = 0;

    fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    fn get_or_claim(&self) -> u32 {
        let maker = self.get();
        if maker != Self::NONE {
            return maker;
        }
        let own = std::process::id();
        match self.0.compare_exchange(Self::NONE, own, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => own,
            Err(maker) => maker,
        }
    }
}

/// Created on first use. A forked child creates its own, because threads and connections of its
/// parent do not exist there; it does not wait for one that a thread of its parent was creating at
/// the fork.
#[derive(Debug, Default)]
pub struct PerProcess<T> {
    maker: Maker,
    made: OnceLock<T>,
    of_child: OnceLock<Box<Self>>,
}

impl<T> PerProcess<T> {
    #[must_use]
    pub const fn new() -> Self {
        Self {
            maker: Maker(AtomicU32::new(Maker::NONE)),
            made: OnceLock::new(),
            of_child: OnceLock::new(),
        }
    }

    /// The value of this process, if it was made.
    pub(crate) fn get(&self) -> Option<&T> {
        let process = std::process::id();
        let mut links =
            std::iter::successors(Some(self), |link| link.of_child.get().map(|child| &**child));
        links.find(|link| link.maker.get() == process)?.made.get()
    }

    pub fn get_or_make(&self, make: impl FnOnce() -> T) -> &T {
        let process = std::process::id();
        let mut link = self;
        while link.maker.get_or_claim() != process {
            link = link.of_child.get_or_init(|| Box::new(Self::new()));
        }
        link.made.get_or_init(make)
    }
}

/// What threads remember to save work. The invariant: what is not remembered is found again. So a
/// forked child, in which a thread of its parent may hold the lock forever, begins a second memory
/// in place of waiting, and a call may get either.
#[derive(Debug, Default)]
pub struct Remembered<T> {
    maker: Maker,
    memory: Mutex<T>,
    of_child: OnceLock<Box<Self>>,
}

impl<T: Default> Remembered<T> {
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let mut link = self;
        loop {
            let maker = link.maker.get_or_claim();
            match link.memory.try_lock() {
                Ok(memory) => return memory,
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                Err(TryLockError::WouldBlock) if maker == std::process::id() => {
                    return link.memory.lock().unwrap_or_else(PoisonError::into_inner);
                }
                Err(TryLockError::WouldBlock) => link = link.of_child.get_or_init(Box::default),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    /// Of no process that runs these tests.
    const PARENT: u32 = u32::MAX;

    #[test]
    fn value_that_a_thread_of_the_parent_was_making_is_not_waited_for() {
        let inherited = PerProcess {
            maker: Maker(AtomicU32::new(PARENT)),
            made: OnceLock::new(),
            of_child: OnceLock::new(),
        };
        let (begun, end) = (Barrier::new(2), Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                inherited.made.get_or_init(|| {
                    begun.wait();
                    end.wait();
                    1
                });
            });
            begun.wait();
            assert_eq!((inherited.get_or_make(|| 2), inherited.get()), (&2, Some(&2)));
            end.wait();
        });
        assert_eq!(inherited.get_or_make(|| 3), &2);
    }

    #[test]
    fn memory_that_a_thread_of_the_parent_holds_is_replaced_and_one_of_this_process_is_waited_for()
    {
        let inherited = Remembered {
            maker: Maker(AtomicU32::new(PARENT)),
            memory: Mutex::new(vec![1]),
            of_child: OnceLock::new(),
        };
        let held = inherited.memory.lock().unwrap();
        inherited.lock().push(2);
        assert_eq!(*inherited.lock(), [2]);
        drop(held);
        assert_eq!(*inherited.lock(), [1]);

        let own = Remembered::<Vec<u32>>::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..1000).for_each(|number| own.lock().push(number)));
            }
        });
        assert_eq!(own.lock().len(), 4000);
    }
}
