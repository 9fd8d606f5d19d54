//! The digests that an index may hold.

use sha2::Digest;
use sha2::digest::DynDigest;
use std::fmt::Write;

/// By the name that stands in the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HashAlgorithm {
    Blake2b,
    Blake2s,
    Md5,
    Sha1,
    Sha224,
    Sha256,
    Sha384,
    Sha3_224,
    Sha3_256,
    Sha3_384,
    Sha3_512,
    Sha512,
    Xxh128,
    Xxh32,
    Xxh3_128,
    Xxh3_64,
    Xxh64,
}

/// In the order of their names, which is the order in files.
const ALGORITHMS: [(HashAlgorithm, &str); 17] = [
    (HashAlgorithm::Blake2b, "blake2b"),
    (HashAlgorithm::Blake2s, "blake2s"),
    (HashAlgorithm::Md5, "md5"),
    (HashAlgorithm::Sha1, "sha1"),
    (HashAlgorithm::Sha224, "sha224"),
    (HashAlgorithm::Sha256, "sha256"),
    (HashAlgorithm::Sha384, "sha384"),
    (HashAlgorithm::Sha3_224, "sha3_224"),
    (HashAlgorithm::Sha3_256, "sha3_256"),
    (HashAlgorithm::Sha3_384, "sha3_384"),
    (HashAlgorithm::Sha3_512, "sha3_512"),
    (HashAlgorithm::Sha512, "sha512"),
    (HashAlgorithm::Xxh128, "xxh128"),
    (HashAlgorithm::Xxh32, "xxh32"),
    (HashAlgorithm::Xxh3_128, "xxh3_128"),
    (HashAlgorithm::Xxh3_64, "xxh3_64"),
    (HashAlgorithm::Xxh64, "xxh64"),
];

impl HashAlgorithm {
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        ALGORITHMS.iter().find(|(_, own)| *own == name).map(|(algorithm, _)| *algorithm)
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        ALGORITHMS.iter().find(|(algorithm, _)| *algorithm == self).map_or("", |(_, name)| name)
    }

    /// The digest of `bytes` in hexadecimal digits.
    #[must_use]
    pub fn hex(self, bytes: &[u8]) -> String {
        let mut hasher = Hasher::new(self);
        hasher.update(bytes);
        hasher.hex()
    }
}

/// Takes bytes in pieces.
pub(super) struct Hasher(State);

enum State {
    Digest(Box<dyn DynDigest>),
    Xxh32(xxhash_rust::xxh32::Xxh32),
    Xxh64(xxhash_rust::xxh64::Xxh64),
    Xxh3 { state: Box<xxhash_rust::xxh3::Xxh3>, is_wide: bool },
}

impl Hasher {
    pub(super) fn new(algorithm: HashAlgorithm) -> Self {
        use HashAlgorithm as Of;
        let xxh3 = |is_wide| State::Xxh3 { state: Box::default(), is_wide };
        Self(match algorithm {
            Of::Blake2b => State::Digest(Box::new(blake2::Blake2b512::new())),
            Of::Blake2s => State::Digest(Box::new(blake2::Blake2s256::new())),
            Of::Md5 => State::Digest(Box::new(md5::Md5::new())),
            Of::Sha1 => State::Digest(Box::new(sha1::Sha1::new())),
            Of::Sha224 => State::Digest(Box::new(sha2::Sha224::new())),
            Of::Sha256 => State::Digest(Box::new(sha2::Sha256::new())),
            Of::Sha384 => State::Digest(Box::new(sha2::Sha384::new())),
            Of::Sha3_224 => State::Digest(Box::new(sha3::Sha3_224::new())),
            Of::Sha3_256 => State::Digest(Box::new(sha3::Sha3_256::new())),
            Of::Sha3_384 => State::Digest(Box::new(sha3::Sha3_384::new())),
            Of::Sha3_512 => State::Digest(Box::new(sha3::Sha3_512::new())),
            Of::Sha512 => State::Digest(Box::new(sha2::Sha512::new())),
            Of::Xxh32 => State::Xxh32(xxhash_rust::xxh32::Xxh32::new(0)),
            Of::Xxh64 => State::Xxh64(xxhash_rust::xxh64::Xxh64::new(0)),
            Of::Xxh3_64 => xxh3(false),
            Of::Xxh128 | Of::Xxh3_128 => xxh3(true),
        })
    }

    pub(super) fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            State::Digest(digest) => digest.update(bytes),
            State::Xxh32(state) => state.update(bytes),
            State::Xxh64(state) => state.update(bytes),
            State::Xxh3 { state, .. } => state.update(bytes),
        }
    }

    pub(super) fn hex(self) -> String {
        match self.0 {
            State::Digest(digest) => digest.finalize().iter().fold(String::new(), |mut hex, byte| {
                let _infallible = write!(hex, "{byte:02x}");
                hex
            }),
            State::Xxh32(state) => format!("{:08x}", state.digest()),
            State::Xxh64(state) => format!("{:016x}", state.digest()),
            State::Xxh3 { state, is_wide: false } => format!("{:016x}", state.digest()),
            State::Xxh3 { state, is_wide: true } => format!("{:032x}", state.digest128()),
        }
    }
}
