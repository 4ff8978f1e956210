//! Pseudo-random choices from a seed, for tests with many small clusters.

/// A pseudo-random number generator (SplitMix64).
pub struct Random(u64);

impl Random {
    /// Returns the generator of one round of one slot. It depends only on the arguments.
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

    /// Returns a number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// Returns true with this probability in percent.
    pub fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// Returns an element of the list.
    pub fn pick<'t>(&mut self, list: &[&'t str]) -> &'t str {
        list[self.below(list.len())]
    }
}

/// Returns the part of `all` that a run uses: a third, or everything with `GIVEWAY_ROUNDS=all` (`make soak`). Applies to the
/// number of rounds, to the minimum number of events in them and to permitted breaches.
pub fn share(all: usize) -> usize {
    if std::env::var("GIVEWAY_ROUNDS").is_ok_and(|rounds| rounds == "all") { all } else { all.div_ceil(3) }
}
