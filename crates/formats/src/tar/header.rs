//! One header block: the kind of its entry, its name and its size.
//!
//! Called by the walk with blocks of 512 bytes. A header exists only if its checksum is right.

use super::BLOCK_LEN;
use super::error::Fault;

const NAME: (usize, usize) = (0, 100);
const SIZE: (usize, usize) = (124, 12);
const CHECKSUM: (usize, usize) = (148, 8);
const TYPE: usize = 156;
const LINK_NAME: (usize, usize) = (157, 100);
const MAGIC: (usize, usize) = (257, 6);
const PREFIX: (usize, usize) = (345, 155);
const SPARSE_GOES_ON: usize = 482;
const SPARSE_BLOCK_GOES_ON: usize = 504;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Regular,
    /// Type NUL, from before directories had a type: a trailing slash
    /// in the name marks a directory.
    OldRegular,
    LongName,
    LongLink,
    Pax,
    GlobalPax,
    Sparse,
    Continuation,
    /// No payload follows a link, a directory or a device, regardless of its size field.
    HardLink,
    SymbolicLink,
    Directory,
    /// Devices and FIFOs.
    Device,
    Other,
}

pub(super) struct Header<'a> {
    pub(super) kind: Kind,
    pub(super) size: u64,
    block: &'a [u8; BLOCK_LEN],
}

impl Kind {
    pub(super) fn has_payload(self) -> bool {
        !matches!(self, Self::HardLink | Self::SymbolicLink | Self::Directory | Self::Device)
    }
}

impl<'a> Header<'a> {
    pub(super) fn parse(block: &'a [u8; BLOCK_LEN]) -> Result<Self, Fault> {
        if !checksum_holds(block) {
            return Err(Fault::Checksum);
        }
        let kind = match block.get(TYPE).copied().unwrap_or(0) {
            b'0' | b'7' => Kind::Regular,
            0 => Kind::OldRegular,
            b'L' => Kind::LongName,
            b'K' => Kind::LongLink,
            // Solaris wrote `X` before POSIX standardized `x`.
            b'x' | b'X' => Kind::Pax,
            b'g' => Kind::GlobalPax,
            b'S' => Kind::Sparse,
            b'M' => Kind::Continuation,
            b'1' => Kind::HardLink,
            b'2' => Kind::SymbolicLink,
            b'5' => Kind::Directory,
            b'3' | b'4' | b'6' => Kind::Device,
            _ => Kind::Other,
        };
        let size = match kind {
            kind if !kind.has_payload() => 0,
            _ => number(field(block, SIZE)).ok_or(Fault::Size)?,
        };
        Ok(Self { kind, size, block })
    }

    /// The name as stored, with the ustar prefix.
    pub(super) fn name(&self) -> Vec<u8> {
        let name = until_nul(field(self.block, NAME));
        // GNU headers store times and sparse maps where ustar has the prefix; their magic has a
        // space instead of the NUL.
        let prefix = if field(self.block, MAGIC) == b"ustar\0" {
            until_nul(field(self.block, PREFIX))
        } else {
            &[]
        };
        if prefix.is_empty() {
            return name.to_vec();
        }
        [prefix, b"/", name].concat()
    }

    /// The target of a link, as stored.
    pub(super) fn link_name(&self) -> Vec<u8> {
        until_nul(field(self.block, LINK_NAME)).to_vec()
    }

    /// Whether blocks with the rest of the sparse map follow; they are not part of the size.
    pub(super) fn sparse_map_goes_on(&self) -> bool {
        self.block.get(SPARSE_GOES_ON).is_some_and(|&byte| byte != 0)
    }
}

pub(super) fn sparse_block_goes_on(block: &[u8]) -> bool {
    block.get(SPARSE_BLOCK_GOES_ON).is_some_and(|&byte| byte != 0)
}

pub(super) fn until_nul(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}

fn field(block: &[u8; BLOCK_LEN], (start, len): (usize, usize)) -> &[u8] {
    block.get(start..start + len).unwrap_or_default()
}

fn checksum_holds(block: &[u8; BLOCK_LEN]) -> bool {
    let stored_field = field(block, CHECKSUM);
    let Some(stored) = octal(stored_field) else {
        return false;
    };
    // The field itself counts as eight spaces.
    let spaces = 8 * u32::from(b' ');
    let sum = |bytes: &[u8]| bytes.iter().map(|&byte| u32::from(byte)).sum::<u32>();
    let unsigned = sum(block) - sum(stored_field) + spaces;
    if stored == u64::from(unsigned) {
        return true;
    }
    // Some old writers summed signed chars; each byte from 128 on then counts 256 less.
    let high = |bytes: &[u8]| bytes.iter().map(|&byte| u32::from(byte >> 7)).sum::<u32>();
    let lower = 256 * (high(block) - high(stored_field));
    stored.checked_add(u64::from(lower)) == Some(u64::from(unsigned))
}

/// Octal digits, or big-endian binary if the first byte says so.
fn number(field: &[u8]) -> Option<u64> {
    match field.split_first()? {
        (0x80, digits) => {
            let (high, low) = digits.split_last_chunk::<8>()?;
            let fits = high.iter().all(|&byte| byte == 0);
            fits.then(|| u64::from_be_bytes(*low))
        }
        _ => octal(field),
    }
}

fn octal(field: &[u8]) -> Option<u64> {
    let text = until_nul(field);
    // GNU tar continues after a leading NUL, Python reads the field as 0: a size on which readers
    // differ is rejected.
    if text.is_empty() && field.iter().any(|&byte| byte != 0 && byte != b' ') {
        return None;
    }
    text.trim_ascii().iter().try_fold(0_u64, |value, &digit| match digit {
        b'0'..=b'7' => value.checked_mul(8)?.checked_add(u64::from(digit - b'0')),
        _ => None,
    })
}
