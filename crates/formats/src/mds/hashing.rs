//! The hash algorithms of an index.

use sha2::Digest;
use sha2::digest::DynDigest;
use std::fmt::Write;

/// An algorithm with its name in the index.
#[derive(Debug, Clone, Copy)]
pub struct HashAlgorithm {
    name: &'static str,
    start: fn() -> State,
}

impl Eq for HashAlgorithm {}

impl PartialEq for HashAlgorithm {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

type NewState = fn() -> State;

/// In the order of their names, which is the order in files.
const ALGORITHMS: [(&str, NewState); 17] = [
    ("blake2b", digest::<blake2::Blake2b512>),
    ("blake2s", digest::<blake2::Blake2s256>),
    ("md5", digest::<md5::Md5>),
    ("sha1", digest::<sha1::Sha1>),
    ("sha224", digest::<sha2::Sha224>),
    ("sha256", digest::<sha2::Sha256>),
    ("sha384", digest::<sha2::Sha384>),
    ("sha3_224", digest::<sha3::Sha3_224>),
    ("sha3_256", digest::<sha3::Sha3_256>),
    ("sha3_384", digest::<sha3::Sha3_384>),
    ("sha3_512", digest::<sha3::Sha3_512>),
    ("sha512", digest::<sha2::Sha512>),
    ("xxh128", || State::Xxh3 { state: Box::default(), is_wide: true }),
    ("xxh32", || State::Xxh32(xxhash_rust::xxh32::Xxh32::new(0))),
    ("xxh3_128", || State::Xxh3 { state: Box::default(), is_wide: true }),
    ("xxh3_64", || State::Xxh3 { state: Box::default(), is_wide: false }),
    ("xxh64", || State::Xxh64(xxhash_rust::xxh64::Xxh64::new(0))),
];

impl HashAlgorithm {
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        ALGORITHMS
            .into_iter()
            .find(|(own, _)| *own == name)
            .map(|(name, start)| Self { name, start })
    }

    #[must_use]
    pub fn name(self) -> &'static str {
        self.name
    }

    /// The digest of `bytes` in hexadecimal digits.
    #[must_use]
    pub fn hex(self, bytes: &[u8]) -> String {
        self.hex_of(&[bytes])
    }

    /// As [`HashAlgorithm::hex`], of pieces one after another.
    pub(super) fn hex_of(self, pieces: &[impl AsRef<[u8]>]) -> String {
        let mut hasher = Hasher::new(self);
        pieces.iter().for_each(|piece| hasher.update(piece.as_ref()));
        hasher.hex()
    }
}

/// Hashes bytes incrementally.
pub struct Hasher(State);

enum State {
    Digest(Box<dyn DynDigest>),
    Xxh32(xxhash_rust::xxh32::Xxh32),
    Xxh64(xxhash_rust::xxh64::Xxh64),
    Xxh3 { state: Box<xxhash_rust::xxh3::Xxh3>, is_wide: bool },
}

fn digest<D: Digest + DynDigest + 'static>() -> State {
    State::Digest(Box::new(D::new()))
}

impl Hasher {
    #[must_use]
    pub fn new(algorithm: HashAlgorithm) -> Self {
        Self((algorithm.start)())
    }

    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            State::Digest(digest) => digest.update(bytes),
            State::Xxh32(state) => state.update(bytes),
            State::Xxh64(state) => state.update(bytes),
            State::Xxh3 { state, .. } => state.update(bytes),
        }
    }

    /// The digest in hexadecimal digits.
    #[must_use]
    pub fn hex(self) -> String {
        match self.0 {
            State::Digest(digest) => {
                digest.finalize().iter().fold(String::new(), |mut hex, byte| {
                    let _infallible = write!(hex, "{byte:02x}");
                    hex
                })
            }
            State::Xxh32(state) => format!("{:08x}", state.digest()),
            State::Xxh64(state) => format!("{:016x}", state.digest()),
            State::Xxh3 { state, is_wide: false } => format!("{:016x}", state.digest()),
            State::Xxh3 { state, is_wide: true } => format!("{:032x}", state.digest128()),
        }
    }
}
