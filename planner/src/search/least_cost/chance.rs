//! Prices and probabilities as integers: a decision must be the same on every machine.

use crate::search::numbers::RandomNumbers;

/// Probability 1, in the scale of [`RandomNumbers::bits`].
const CERTAIN: u64 = 1 << 32;
/// 1, in the scale of temperatures (`heat`) and of used shares.
pub(super) const ONE: u64 = 1 << 16;
/// 1, in the scale of the random factors of [`random_factor`].
const PLAIN: u64 = 1 << 10;

/// Returns the share `used / total`, in [`ONE`]ths and at most [`ONE`].
pub(super) fn share(used: usize, total: usize) -> u64 {
    ((used as u64).saturating_mul(ONE) / (total as u64).max(1)).min(ONE)
}

/// Returns a random factor from 1 to 1.3, in 1,024ths.
pub(super) fn random_factor(numbers: &mut RandomNumbers) -> u64 {
    PLAIN + ((307 * u64::from(numbers.bits())) >> 32)
}

/// Returns the factor 1, in 1,024ths, which leaves a price as it is; it is used instead of [`random_factor`].
pub(super) fn neutral_factor() -> u64 {
    PLAIN
}

/// Returns `amount / by`, rounded down; `by` 0 counts as 1. It is computed in 64 bits if the amount fits, because division in 128 bits is
/// slow.
pub(super) fn ratio(amount: u128, by: u64) -> u128 {
    let by = by.max(1);
    match u64::try_from(amount) {
        Ok(amount) => u128::from(amount / by),
        Err(_) => amount / u128::from(by),
    }
}

/// Returns which share of a missing amount is freed, at most all of it, in 2^20ths; 0 if nothing is missing or freed.
pub(super) fn freed_share(freed: i64, missing: i64) -> u64 {
    let (Ok(freed), Ok(missing)) = (u64::try_from(freed.min(missing)), u64::try_from(missing)) else { return 0 };
    if missing == 0 {
        return 0;
    }
    // Low bits of large amounts are dropped, so that 64 bits suffice.
    let spare = missing.leading_zeros().min(20);
    (freed << spare) / (missing >> (20 - spare))
}

/// Returns true with a probability of one in fifty at full temperature (`heat` is [`ONE`]), which falls in proportion to `heat` and is zero
/// at 0.
pub(super) fn accepts_rarely(numbers: &mut RandomNumbers, heat: u64) -> bool {
    u64::from(numbers.bits()) * 50 < heat * (CERTAIN / ONE)
}

/// Returns true, at random, to accept a choice of victims that is heavier than the current one by `more`. The probability falls linearly
/// with `more`, and is 0 from the average weight of a victim, `mean`, times the temperature `heat` ([`ONE`] at the start, falling to 0).
pub(super) fn accepts_heavier(numbers: &mut RandomNumbers, more: u64, mean: u64, heat: u64) -> bool {
    let most = u128::from(mean) * u128::from(heat) / u128::from(ONE);
    u128::from(more) * u128::from(CERTAIN) < most * u128::from(numbers.bits())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_the_same_for_small_and_for_large_amounts() {
        assert_eq!(
            (freed_share(1, 2), freed_share(3, 2), freed_share(5, 0), freed_share(-1, 4), freed_share(1, -4)),
            (1 << 19, 1 << 20, 0, 0, 0)
        );
        let large = freed_share(i64::MAX / 2, i64::MAX);
        assert!(large.abs_diff(1 << 19) <= 1, "{large}");
    }

    #[test]
    fn what_is_cold_is_never_kept_and_a_quotient_is_the_same_short_and_long() {
        let mut numbers = RandomNumbers::new();
        assert!((0..1000).all(|_| !accepts_rarely(&mut numbers, 0)));
        assert!((0..1000).all(|_| !accepts_heavier(&mut numbers, 1 << 32, 1 << 32, 0)));
        let kept = (0..1000).filter(|_| accepts_heavier(&mut numbers, 1 << 31, 1 << 32, ONE)).count();
        assert!((450..550).contains(&kept), "half of a thousand: {kept}");
        assert_eq!(ratio(1 << 100, 1 << 50), 1 << 50);
        assert_eq!((ratio(7, 2), ratio(7, 0)), (3, 7));
    }
}
