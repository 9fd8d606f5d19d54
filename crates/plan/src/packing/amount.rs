//! What a row takes of a pack, and what a pack has room for.

/// Tokens, images, and patches of these images.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amount {
    pub tokens: u32,
    pub images: u32,
    pub patches: u32,
}

impl From<u32> for Amount {
    /// Tokens without images.
    fn from(tokens: u32) -> Self {
        Self { tokens, ..Self::default() }
    }
}

impl Amount {
    pub(super) fn fits(&self, room: &Self) -> bool {
        self.tokens <= room.tokens && self.has_room_for_images(room)
    }

    pub(super) fn has_room_for_images(&self, room: &Self) -> bool {
        self.images <= room.images && self.patches <= room.patches
    }

    /// What is left of `self`.
    pub(super) fn without(&self, other: &Self) -> Self {
        Self {
            tokens: self.tokens.saturating_sub(other.tokens),
            images: self.images.saturating_sub(other.images),
            patches: self.patches.saturating_sub(other.patches),
        }
    }
}
