//! What this build decodes and resizes with.
//!
//! Facts for support and benchmarks: they affect the speed, and never the pixels.

// Its build script says where the library is, which `build.rs` of this crate looks into.
use turbojpeg_sys as _;

/// The code that runs on this machine.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BuildInfo {
    /// Of libjpeg-turbo, such as `3.1.0`.
    pub jpeg_version: &'static str,
    /// Whether libjpeg-turbo has SIMD code; `None` if it was linked from elsewhere
    /// and cannot be asked.
    pub jpeg_simd: Option<bool>,
    /// The instruction set of the resize.
    pub resize: &'static str,
}

/// The code that runs on this machine.
#[must_use]
pub fn build_info() -> BuildInfo {
    let jpeg_simd = match env!("LIBJPEG_TURBO_SIMD") {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    };
    let resize = crate::resize::simd_name().unwrap_or("scalar");
    BuildInfo { jpeg_version: env!("LIBJPEG_TURBO_VERSION"), jpeg_simd, resize }
}
