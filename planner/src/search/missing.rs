//! What is missing of several resources, and what the eviction of a unit frees of each: in 64 bits for a matrix, in 128 bits for an
//! occupancy.

use std::ops::{Add, AddAssign, SubAssign};

/// Subtracts what the eviction of a unit (a single pod or a whole group) frees from what is missing, resource by resource. A result below 0
/// says that more is freed than was missing.
pub(super) fn subtract<T: Copy + SubAssign>(missing: &mut [T], freed: &[T]) {
    missing.iter_mut().zip(freed).for_each(|(missing, freed)| *missing -= *freed);
}

/// Puts a unit (a single pod or a whole group) back if nothing is missing then either: adds what its eviction frees to `missing`, resource
/// by resource, and returns true. Otherwise `missing` is unchanged and the result is false: the unit must be evicted.
pub(super) fn put_back_if_enough<T>(missing: &mut [T], freed: &[T]) -> bool
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
        assert!(!put_back_if_enough(&mut missing, &[1, 2]), "one of the second resource would be missing");
        assert_eq!(missing, [-2, -1]);
        assert!(put_back_if_enough(&mut missing, &[2, 1]));
        assert_eq!(missing, [0, 0]);
    }
}
