//! Slots for work that needs a core. A thread gives its slot away while it waits for the disk, so that another one computes meanwhile.

use crate::{ByteBudget, Cancel, Permit, Result};

/// As many slots as cores may be busy at once.
#[derive(Debug, Clone)]
pub struct CoreSlots(ByteBudget);

/// The right to keep one core busy; dropping it passes the right on.
#[derive(Debug)]
pub struct CoreSlot(#[expect(dead_code, reason = "held for its drop")] Permit);

impl CoreSlots {
    #[must_use]
    pub fn new(cores: usize) -> Self {
        Self(ByteBudget::new(cores.max(1) as u64))
    }

    /// # Errors
    /// [`crate::Error::Cancelled`] when the run is stopped meanwhile.
    pub fn acquire(&self, cancel: &Cancel) -> Result<CoreSlot> {
        Ok(CoreSlot(self.0.acquire(1, cancel)?))
    }
}
