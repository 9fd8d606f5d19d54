//! Values that belong to one process.

use std::sync::OnceLock;

/// Created on first use. A forked child creates its own, because threads and connections of its parent do not exist there.
#[derive(Debug, Default)]
pub(crate) struct PerProcess<T> {
    made: OnceLock<(u32, T)>,
    of_child: OnceLock<Box<Self>>,
}

impl<T> PerProcess<T> {
    pub(crate) const fn new() -> Self {
        Self { made: OnceLock::new(), of_child: OnceLock::new() }
    }

    /// The value of this process, if it was made.
    pub(crate) fn get(&self) -> Option<&T> {
        let process = std::process::id();
        let links = std::iter::successors(Some(self), |link| link.of_child.get().map(|child| &**child));
        links.filter_map(|link| link.made.get()).find(|(maker, _)| *maker == process).map(|(_, value)| value)
    }

    pub(crate) fn get_or_make(&self, make: impl Fn() -> T) -> &T {
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
