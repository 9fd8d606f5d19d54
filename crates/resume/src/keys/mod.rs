//! Ids as keys: lossless where possible, else a keyed hash of 128 bits.
