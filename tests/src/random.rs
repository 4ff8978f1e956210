//! Choices that look random and follow from a seed, for tests that try many small clusters.

/// SplitMix64: small, and good enough to choose with.
pub struct Random(u64);

impl Random {
    /// A generator for one round of one slot: all are different, and each depends on the seed only.
    pub fn new(seed: u64, slot: usize, round: usize) -> Self {
        Self(seed ^ (slot as u64) << 32 ^ (round as u64) << 16)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// True in so many of a hundred cases.
    pub fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// One of a list.
    pub fn pick<'t>(&mut self, list: &[&'t str]) -> &'t str {
        list[self.below(list.len())]
    }
}

/// What of a random test is run of so much: a third of it, or with `GIVEWAY_ROUNDS=all` (`make soak`) all. What it must have come across
/// is the less then, and so is what is let pass.
pub fn share(all: usize) -> usize {
    if std::env::var("GIVEWAY_ROUNDS").is_ok_and(|rounds| rounds == "all") { all } else { all.div_ceil(3) }
}
