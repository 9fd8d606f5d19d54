//! Runs the two passes on the fastest code that this CPU has.
//!
//! Axes are set, then rasters enter and rows leave. Invariant: which code runs shows in time alone.

use super::coefficients::{Axis, Coefficients};
use super::{passes, simd};
use crate::raster::Raster;

/// Weights of both axes, and the buffers of the passes.
#[derive(Debug)]
pub(super) struct Kernel {
    across: Coefficients,
    down: Coefficients,
    sums: Vec<i32>,
    simd: Option<simd::Passes>,
}

impl Default for Kernel {
    fn default() -> Self {
        Self { simd: simd::Passes::new(), ..Self::scalar() }
    }
}

impl Kernel {
    /// The kernel of plain Rust, which runs everywhere.
    pub(super) fn scalar() -> Self {
        Self {
            across: Coefficients::default(),
            down: Coefficients::default(),
            sums: Vec::new(),
            simd: None,
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
        if !self.simd.as_mut().is_some_and(|simd| simd.horizontal(source, left, &self.across, out))
        {
            passes::horizontal(source, left, &self.across, out);
        }
    }

    /// Resizes the columns of `source`, which begins at row `top` of the axis.
    pub(super) fn vertical(&mut self, source: Raster<'_>, top: usize, out: &mut [u8]) {
        if !self.simd.as_mut().is_some_and(|simd| simd.vertical(source, top, &self.down, out)) {
            passes::vertical(source, top, &self.down, out, &mut self.sums);
        }
    }
}
