//! A fixed pseudo-random sequence of numbers, which breaks ties differently from one attempt to the next. It starts from the same seed in
//! every decision, so that decisions can be repeated.

/// A pseudo-random number generator (xorshift) with a fixed seed.
pub(super) struct RandomNumbers(u64);

impl RandomNumbers {
    /// Creates a generator that always returns the same sequence.
    pub(super) fn new() -> Self {
        Self(0x9E37_79B9_7F4A_7C15)
    }

    /// Returns the next pseudo-random number of 64 bits.
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Returns the next pseudo-random number, from 0 to `bound` - 1; 0 if `bound` is 0.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        usize::try_from((self.next() >> 33) % bound.max(1) as u64).unwrap_or(0)
    }

    /// Returns the next pseudo-random number of 32 bits.
    pub(super) fn bits(&mut self) -> u32 {
        u32::try_from(self.next() >> 32).unwrap_or(0)
    }
}
