//! Runs the two passes on the fastest code that this CPU has.
//!
//! Axes are set, then rasters enter and rows leave. Invariant: which code runs shows in time alone.

use super::coefficients::{Axis, Coefficients};
#[cfg(target_arch = "x86_64")]
use super::packed::Packed;
use super::passes;
#[cfg(target_arch = "x86_64")]
use super::x86;
use crate::raster::Raster;

/// Weights of both axes, and the buffers of the passes.
#[derive(Debug)]
pub(super) struct Kernel {
    across: Coefficients,
    down: Coefficients,
    sums: Vec<i32>,
    #[cfg(target_arch = "x86_64")]
    packed: Option<[Packed; 2]>,
    #[cfg(target_arch = "x86_64")]
    edge: Vec<u8>,
}

impl Default for Kernel {
    fn default() -> Self {
        Self {
            #[cfg(target_arch = "x86_64")]
            packed: x86::is_supported().then(Default::default),
            ..Self::scalar()
        }
    }
}

impl Kernel {
    /// The kernel of plain Rust, which runs everywhere.
    pub(super) fn scalar() -> Self {
        Self {
            across: Coefficients::default(),
            down: Coefficients::default(),
            sums: Vec::new(),
            #[cfg(target_arch = "x86_64")]
            packed: None,
            #[cfg(target_arch = "x86_64")]
            edge: Vec::new(),
        }
    }

    /// Sets what the vertical pass does, and returns the rows that it needs.
    pub(super) fn set_down(&mut self, axis: Axis) -> std::ops::Range<usize> {
        self.down.set(axis);
        self.down.span()
    }

    /// Sets what the horizontal pass does, and returns the columns that it needs.
    pub(super) fn set_across(&mut self, axis: Axis) -> std::ops::Range<usize> {
        self.across.set(axis);
        self.across.span()
    }

    /// Resizes each row of `source`, which begins at column `left` of the axis.
    pub(super) fn horizontal(&mut self, source: Raster<'_>, left: usize, out: &mut [u8]) {
        #[cfg(target_arch = "x86_64")]
        if let Some([packed, _]) = &mut self.packed {
            packed.set(&self.across, x86::group(source.channels()), left);
            if x86::horizontal(source, packed, out, &mut self.edge) {
                return;
            }
        }
        passes::horizontal(source, left, &self.across, out);
    }

    /// Resizes the columns of `source`, which begins at row `top` of the axis.
    pub(super) fn vertical(&mut self, source: Raster<'_>, top: usize, out: &mut [u8]) {
        #[cfg(target_arch = "x86_64")]
        if let Some([_, packed]) = &mut self.packed {
            packed.set(&self.down, x86::ROW_GROUP, top);
            if x86::vertical(source, packed, out) {
                return;
            }
        }
        passes::vertical(source, top, &self.down, out, &mut self.sums);
    }
}

/// Writes each channel of a row to a row of its own, mirrored if `flip`.
pub(crate) fn split_channels(pixels: &[[u8; 3]], planes: [&mut [u8]; 3], flip: bool) {
    #[cfg(target_arch = "x86_64")]
    if x86::is_supported() {
        return x86::split_channels(pixels, planes, flip);
    }
    passes::split_channels(pixels, planes, flip);
}
