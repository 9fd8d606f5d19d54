//! Random numbers for augmentation: a pure function of the image and the purpose, independent of
//! ranks, threads, batch sizes and resumes.
//!
//! A seed, a source and a column make [`Draws`]; a row, an epoch and a round make a [`Draw`] of it;
//! a purpose makes a [`Stream`] of numbers. The generator is Philox 4x32-10. Invariant: numbers of
//! a given [`AUGMENT_VERSION`] never change.

/// Rises when any number that a stream yields changes.
pub const AUGMENT_VERSION: u32 = 1;

const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const KEY_STEPS: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];
const ROUNDS: usize = 10;

/// What numbers are drawn for. Each purpose has numbers of its own, so turning one augmentation on
/// does not change another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Crop = 1,
    Flip = 2,
}

/// The keys of one column of one source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draws {
    base: u64,
}

impl Draws {
    /// Returns the keys for a seed, the number of the source in its mixture,
    /// and the name of the column.
    pub fn new(seed: u64, source: u64, column: &str) -> Self {
        let mut base = absorb(absorb(0, seed), source);
        for word in column.as_bytes().chunks(8) {
            let mut bytes = [0; 8];
            for (byte, value) in bytes.iter_mut().zip(word) {
                *byte = *value;
            }
            base = absorb(base, u64::from_le_bytes(bytes));
        }
        // The length tells a name from one that ends in zeros.
        Self { base: absorb(base, column.len() as u64) }
    }

    /// Returns the draw of a row. `round` counts how often the source was gone through before, over
    /// all epochs.
    pub fn at(self, row: u64, epoch: u32, round: u32) -> Draw {
        Draw { base: self.base, row, epoch, round }
    }
}

/// All random numbers of one image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Draw {
    base: u64,
    row: u64,
    epoch: u32,
    round: u32,
}

impl Draw {
    /// Returns the draw of an image in a list of the row. That of the first is the draw of the row.
    #[must_use]
    pub fn of_item(self, item: u64) -> Self {
        if item == 0 { self } else { Self { base: absorb(self.base, item), ..self } }
    }

    /// Returns the numbers for one purpose, from the first on.
    pub fn stream(self, purpose: Purpose) -> Stream {
        let key = halves(absorb(self.base, purpose as u64));
        let [low, high] = halves(self.row);
        Stream { key, counter: [low, high, self.epoch, self.round << 8], words: [0; 4], left: 0 }
    }
}

/// Numbers of one image for one purpose.
#[derive(Debug, Clone)]
pub struct Stream {
    key: [u32; 2],
    counter: [u32; 4],
    words: [u32; 4],
    left: u8,
}

impl Stream {
    /// Returns a number of [0, 1) with 53 random bits.
    #[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
    pub fn uniform(&mut self) -> f64 {
        (self.word() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// Returns a number of `0..count`, or 0 if `count` is 0.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the upper half of a product is below its factors"
    )]
    pub fn below(&mut self, count: usize) -> usize {
        ((u128::from(self.word()) * count as u128) >> 64) as usize
    }

    /// Two words of the generator, the first as the upper half. Calls are numbered in the last
    /// eight bits of the counter, and start again after 256.
    fn word(&mut self) -> u64 {
        if self.left == 0 {
            self.words = philox(self.counter, self.key);
            let [_, _, _, call] = &mut self.counter;
            *call = (*call & !0xFF) | (call.wrapping_add(1) & 0xFF);
            self.left = 2;
        }
        self.left -= 1;
        let [first, second, third, fourth] = self.words;
        let (high, low) = if self.left == 1 { (first, second) } else { (third, fourth) };
        (u64::from(high) << 32) | u64::from(low)
    }
}

/// Philox 4x32-10 of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011).
fn philox(counter: [u32; 4], key: [u32; 2]) -> [u32; 4] {
    let [mut a, mut b, mut c, mut d] = counter;
    let [mut k, mut l] = key;
    for _ in 0..ROUNDS {
        let [low, high] = halves(u64::from(MULTIPLIERS[0]) * u64::from(a));
        let [other_low, other_high] = halves(u64::from(MULTIPLIERS[1]) * u64::from(c));
        (a, b, c, d) = (other_high ^ b ^ k, other_low, high ^ d ^ l, low);
        k = k.wrapping_add(KEY_STEPS[0]);
        l = l.wrapping_add(KEY_STEPS[1]);
    }
    [a, b, c, d]
}

/// SplitMix64's step and finisher over one more word.
fn absorb(state: u64, word: u64) -> u64 {
    let mut mixed = state.wrapping_add(0x9E37_79B9_7F4A_7C15) ^ word;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// The lower half first.
#[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
fn halves(word: u64) -> [u32; 2] {
    [word as u32, (word >> 32) as u32]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn philox_gives_the_published_vectors() {
        let pi = [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344];
        let cases = [
            ([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]),
            ([u32::MAX; 4], [u32::MAX; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]),
            (pi, [0xa409_3822, 0x299f_31d0], [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]),
        ];
        for (counter, key, expected) in cases {
            assert_eq!(philox(counter, key), expected);
        }
    }

    #[test]
    fn numbers_depend_on_everything_they_are_drawn_for() {
        let draws = Draws::new(7, 1, "image");
        let first = |draws: Draws, row, epoch, round, purpose| {
            draws.at(row, epoch, round).stream(purpose).word()
        };
        let all = [
            first(draws, 5, 2, 3, Purpose::Crop),
            first(draws, 5, 2, 3, Purpose::Flip),
            first(draws, 6, 2, 3, Purpose::Crop),
            first(draws, 5 + (1 << 32), 2, 3, Purpose::Crop),
            first(draws, 5, 3, 3, Purpose::Crop),
            first(draws, 5, 2, 4, Purpose::Crop),
            first(Draws::new(8, 1, "image"), 5, 2, 3, Purpose::Crop),
            first(Draws::new(7, 2, "image"), 5, 2, 3, Purpose::Crop),
            first(Draws::new(7, 1, "image\0"), 5, 2, 3, Purpose::Crop),
        ];
        let distinct: std::collections::HashSet<u64> = all.into_iter().collect();
        assert_eq!(distinct.len(), all.len());
    }

    #[test]
    fn uniform_numbers_fill_their_interval() {
        let mut stream = Draws::new(0, 0, "image").at(0, 0, 0).stream(Purpose::Crop);
        let numbers: Vec<f64> = (0..512).map(|_| stream.uniform()).collect();
        assert!(numbers.iter().all(|number| (0.0..1.0).contains(number)));
        let mean = numbers.iter().sum::<f64>() / 512.0;
        assert!((mean - 0.5).abs() < 0.05, "{mean}");
        // After 256 calls of the generator the numbers repeat, and no longer change the round.
        assert_eq!(stream.uniform().to_bits(), numbers[0].to_bits());
    }

    #[test]
    fn version_1_is_frozen() {
        let mut stream = Draws::new(42, 0, "image").at(1_000_000_007, 3, 1).stream(Purpose::Crop);
        assert_eq!(
            [stream.word(), stream.word(), stream.word()],
            [0xb691_d6e3_d8b2_dcf9, 0x9493_9bca_1aec_1269, 0x34bc_3170_835a_e2be]
        );
        assert_eq!(
            [stream.below(10), stream.below(1), stream.below(0), stream.below(1_000_000)],
            [3, 0, 0, 669_025]
        );
    }
}
