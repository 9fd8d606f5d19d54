//! A decompressor of TurboJPEG that can leave out columns and rows,
//! which the safe crate does not offer.
//!
//! Invariant: a handle decodes only the payload whose header it has read, so the sizes that were
//! checked are those that the library writes.

#![expect(unsafe_code, reason = "calls of a C library; one file, fuzzed with an address sanitizer")]

use std::ffi::{CStr, c_int};
use std::ptr::NonNull;

use turbojpeg_sys as raw;

use crate::raster::{Region, Sides};

/// Stands for a call that failed; the library has only a text.
type Message = String;

/// A payload whose header was read.
#[derive(Debug)]
pub(super) struct Opened<'a> {
    handle: Handle,
    payload: &'a [u8],
}

/// Samples of a pixel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PixelFormat {
    Gray,
    Rgb,
    Cmyk,
}

impl PixelFormat {
    fn code(self) -> raw::TJPF {
        match self {
            Self::Gray => raw::TJPF_TJPF_GRAY,
            Self::Rgb => raw::TJPF_TJPF_RGB,
            Self::Cmyk => raw::TJPF_TJPF_CMYK,
        }
    }

    fn samples(self) -> usize {
        match self {
            Self::Gray => 1,
            Self::Rgb => 3,
            Self::Cmyk => 4,
        }
    }
}

impl<'a> Opened<'a> {
    /// Reads the header. Progressive images of more than `max_scans` scans fail
    /// when they are decoded.
    pub(super) fn read(payload: &'a [u8], max_scans: u16) -> Result<Self, Message> {
        let handle = Handle::new().ok_or_else(|| "no memory for a decompressor".to_owned())?;
        handle.set(raw::TJPARAM_TJPARAM_SCANLIMIT, max_scans.into())?;
        // SAFETY: the handle is valid, and the library reads at most the given length
        // from the pointer.
        let status = unsafe {
            raw::tj3DecompressHeader(
                handle.0.as_ptr(),
                payload.as_ptr(),
                payload.len() as raw::size_t,
            )
        };
        handle.check(status)?;
        Ok(Self { handle, payload })
    }

    /// Width and height of the whole image.
    pub(super) fn size(&self) -> (usize, usize) {
        let side = |parameter| usize::try_from(self.handle.get(parameter)).unwrap_or(0);
        (side(raw::TJPARAM_TJPARAM_JPEGWIDTH), side(raw::TJPARAM_TJPARAM_JPEGHEIGHT))
    }

    /// Ends decoding with an error when the library would keep more than this.
    /// It counts in megabytes.
    pub(super) fn limit_memory(&self, bytes: u64) -> Result<(), Message> {
        self.handle.set(
            raw::TJPARAM_TJPARAM_MAXMEMORY,
            c_int::try_from(bytes.div_ceil(1 << 20)).unwrap_or(c_int::MAX),
        )
    }

    /// Whether columns and rows can be left out.
    pub(super) fn can_crop(&self) -> bool {
        self.handle.get(raw::TJPARAM_TJPARAM_SUBSAMP) != raw::TJSAMP_TJSAMP_UNKNOWN
    }

    /// Writes the pixels of a region to `pixels`, without gaps. The region counts pixels at one
    /// part of `denominator` of each side, and its first column is a multiple of the width of a
    /// coded unit at that scale.
    pub(super) fn decode(
        self,
        denominator: u32,
        region: Region,
        format: PixelFormat,
        pixels: &mut [u8],
    ) -> Result<(), Message> {
        let denominator = denominator.max(1);
        let (width, height) = self.size();
        let whole = Sides {
            height: height.div_ceil(denominator as usize),
            width: width.div_ceil(denominator as usize),
        };
        region.within(whole).map_err(|error| error.to_string())?;
        let pitch = region.width * format.samples();
        if pixels.len() < region.height * pitch {
            return Err("buffer does not fit the region".to_owned());
        }
        let number = |value: usize| c_int::try_from(value).map_err(|error| error.to_string());
        let factor = raw::tjscalingfactor { num: 1, denom: number(denominator as usize)? };
        // SAFETY: the handle is valid, and the arguments are values.
        self.handle.check(unsafe { raw::tj3SetScalingFactor(self.handle.0.as_ptr(), factor) })?;
        if region != whole.whole() {
            let region = raw::tjregion {
                x: number(region.left)?,
                y: number(region.top)?,
                w: number(region.width)?,
                h: number(region.height)?,
            };
            // SAFETY: as above.
            let set = unsafe { raw::tj3SetCroppingRegion(self.handle.0.as_ptr(), region) };
            self.handle.check(set)?;
        }
        let (pitch, format) = (number(pitch)?, format.code() as c_int);
        // SAFETY: the payload is the one whose header gave width and height. The library writes
        // `region.width` pixels to each of `region.height` rows, which are `pitch` bytes apart, and
        // `pixels` has that many.
        let status = unsafe {
            raw::tj3Decompress8(
                self.handle.0.as_ptr(),
                self.payload.as_ptr(),
                self.payload.len() as raw::size_t,
                pixels.as_mut_ptr(),
                pitch,
                format,
            )
        };
        self.handle.check(status)
    }
}

/// An instance of the library.
#[derive(Debug)]
struct Handle(NonNull<std::ffi::c_void>);

impl Handle {
    fn new() -> Option<Self> {
        // SAFETY: takes a value, and returns an instance or null.
        NonNull::new(unsafe { raw::tj3Init(raw::TJINIT_TJINIT_DECOMPRESS as c_int) }).map(Self)
    }

    fn get(&self, parameter: raw::TJPARAM) -> c_int {
        // SAFETY: the handle is valid.
        unsafe { raw::tj3Get(self.0.as_ptr(), parameter as c_int) }
    }

    fn set(&self, parameter: raw::TJPARAM, value: c_int) -> Result<(), Message> {
        // SAFETY: the handle is valid.
        self.check(unsafe { raw::tj3Set(self.0.as_ptr(), parameter as c_int, value) })
    }

    fn check(&self, status: c_int) -> Result<(), Message> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: the handle is valid, and its text ends with a zero and lives until the next call.
        let message = unsafe { CStr::from_ptr(raw::tj3GetErrorStr(self.0.as_ptr())) };
        Err(message.to_string_lossy().into_owned())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the handle is valid, and used for the last time.
        unsafe { raw::tj3Destroy(self.0.as_ptr()) };
    }
}
