//! Hooks around the waits of a thread, so that it can release its core to others.
//!
//! There are more threads that read from a store than cores. A driver grants each thread a permit
//! to compute, and takes it back through this hook while the thread waits; so neither the store nor
//! a core is idle, and no more threads compute than there are cores.

use std::cell::RefCell;
use std::rc::Rc;

/// Called when its thread starts to wait, and when it continues.
pub trait Waiting {
    fn begins(&self);
    fn ends(&self);
}

thread_local! {
    static TOLD: RefCell<Option<Rc<dyn Waiting>>> = const { RefCell::new(None) };
}

/// Runs `work`; `told` is called around each wait in it.
pub fn with_waiting<T>(told: Rc<dyn Waiting>, work: impl FnOnce() -> T) -> T {
    let before = TOLD.replace(Some(told));
    let _back = Back(before);
    work()
}

struct Back(Option<Rc<dyn Waiting>>);

impl Drop for Back {
    fn drop(&mut self) {
        TOLD.set(self.0.take());
    }
}

/// Runs `wait`, which needs no core.
pub(crate) fn waiting<T>(wait: impl FnOnce() -> T) -> T {
    let told = TOLD.with_borrow(Clone::clone);
    let Some(told) = told else { return wait() };
    told.begins();
    let waited = wait();
    told.ends();
    waited
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    struct Counting(Cell<(u32, u32)>);

    impl Waiting for Counting {
        fn begins(&self) {
            self.0.update(|(begun, ended)| (begun + 1, ended));
        }

        fn ends(&self) {
            self.0.update(|(begun, ended)| (begun, ended + 1));
        }
    }

    #[test]
    fn each_wait_of_the_work_is_reported_and_none_after_it() {
        let counting = Rc::new(Counting(Cell::default()));
        let told = Rc::clone(&counting);
        with_waiting(told, || (waiting(|| ()), waiting(|| ())));
        waiting(|| ());
        assert_eq!(counting.0.get(), (2, 2));
    }
}
