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

/// Returns true, with a certain probability, to accept a choice of victims that is heavier than the current one by `more`. The probability
/// is e^-x, and x is `more` in relation to the average weight of a victim, `mean`, and to the temperature `heat` ([`ONE`] at the start,
/// falling to 0).
pub(super) fn accepts_heavier(numbers: &mut RandomNumbers, more: u64, mean: u64, heat: u64) -> bool {
    let slack = u128::from(mean) * u128::from(heat) / u128::from(2 * ONE) + 1;
    let times = u128::from(more) * u128::from(ONE) / slack;
    u64::from(numbers.bits()) < decay(u64::try_from(times).unwrap_or(u64::MAX))
}

/// Returns e^-x, in 2^32ths, for x in [`ONE`]ths. It is computed as a power of two, whose last part is a parabola with an error of half a
/// percent.
fn decay(x: u64) -> u64 {
    // Above this the result is 0.
    let x = x.min(64 * ONE);
    let power = x * 94_548 / ONE;
    let (whole, rest) = (power / ONE, power % ONE);
    let last = ONE - 43_024 * rest / ONE + 10_256 * (rest * rest / ONE) / ONE;
    (last * (CERTAIN / ONE)).checked_shr(u32::try_from(whole).unwrap_or(u32::MAX)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chance_halves_where_e_to_the_minus_x_does() {
        // e^-0, e^-0.6931 and e^-1.3863.
        assert_eq!(decay(0), CERTAIN);
        for (x, chance) in [(45_426, CERTAIN / 2), (90_852, CERTAIN / 4)] {
            let got = decay(x);
            assert!(got.abs_diff(chance) < chance / 100, "{x}: {got} instead of {chance}");
        }
        assert_eq!(decay(u64::MAX), 0);
        assert!((0..1000).all(|at| decay(at * 100) >= decay(at * 100 + 100)), "it never grows");
    }

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
        let kept = (0..1000).filter(|_| accepts_heavier(&mut numbers, 1 << 32, 1 << 32, ONE)).count();
        assert!((100..180).contains(&kept), "e^-2 of a thousand: {kept}");
        assert_eq!(ratio(1 << 100, 1 << 50), 1 << 50);
        assert_eq!((ratio(7, 2), ratio(7, 0)), (3, 7));
    }
}
