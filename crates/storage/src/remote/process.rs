//! Values that belong to one process.

use std::sync::OnceLock;

/// Created on first use. A forked child creates its own, because threads and connections of its parent do not exist there.
#[derive(Debug)]
pub(super) struct PerProcess<T> {
    made: OnceLock<(u32, T)>,
    of_child: OnceLock<Box<Self>>,
}

impl<T> PerProcess<T> {
    pub(super) const fn new() -> Self {
        Self { made: OnceLock::new(), of_child: OnceLock::new() }
    }

    pub(super) fn get_or_make(&self, make: impl Fn() -> T) -> &T {
        let process = std::process::id();
        let mut link = self;
        loop {
            let (maker, value) = link.made.get_or_init(|| (process, make()));
            if *maker == process {
                return value;
            }
            link = link.of_child.get_or_init(|| Box::new(Self::new()));
        }
    }
}
