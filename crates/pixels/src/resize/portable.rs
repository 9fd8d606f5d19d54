//! Platforms without a SIMD kernel, where `passes.rs` does everything.

use super::coefficients::Coefficients;
pub(crate) use super::passes::split_channels;
use crate::raster::Raster;

/// The instruction set, of which there is none.
pub(crate) fn name() -> Option<&'static str> {
    None
}

/// Never made.
#[derive(Debug)]
pub(super) enum Passes {}

impl Passes {
    pub(super) fn new() -> Option<Self> {
        None
    }

    pub(super) fn horizontal(
        &mut self,
        _: Raster<'_>,
        _: usize,
        _: &Coefficients,
        _: &mut [u8],
    ) -> bool {
        match *self {}
    }

    pub(super) fn vertical(
        &mut self,
        _: Raster<'_>,
        _: usize,
        _: &Coefficients,
        _: &mut [u8],
    ) -> bool {
        match *self {}
    }
}
