//! PodGroup: [`fill`] before the object is final, [`check`] after.

pub mod check;
pub mod fill;
