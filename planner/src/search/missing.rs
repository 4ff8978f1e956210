//! What is missing of several resources, and what the eviction of a unit frees of each: in 64 bits for a matrix, in 128 bits for an occupancy.

use std::ops::{Add, AddAssign, SubAssign};

/// Subtracts what a unit frees from what is missing. An amount below 0 is freed in excess.
pub(super) fn subtract<T: Copy + SubAssign>(missing: &mut [T], freed: &[T]) {
    missing.iter_mut().zip(freed).for_each(|(missing, freed)| *missing -= *freed);
}

/// Adds what a unit frees, if nothing is missing then either: the unit need not be evicted. Returns true in that case.
pub(super) fn put_back<T>(missing: &mut [T], freed: &[T]) -> bool
where
    T: Copy + Default + PartialOrd + Add<Output = T> + AddAssign,
{
    let stays = missing.iter().zip(freed).all(|(missing, freed)| *missing + *freed <= T::default());
    if stays {
        missing.iter_mut().zip(freed).for_each(|(missing, freed)| *missing += *freed);
    }
    stays
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_is_put_back_only_if_nothing_is_missing_then() {
        let mut missing = [3i64, 1];
        subtract(&mut missing, &[5, 2]);
        assert_eq!(missing, [-2, -1]);
        assert!(!put_back(&mut missing, &[1, 2]), "one of the second resource would be missing");
        assert_eq!(missing, [-2, -1]);
        assert!(put_back(&mut missing, &[2, 1]));
        assert_eq!(missing, [0, 0]);
    }
}
