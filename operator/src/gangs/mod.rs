//! PodGroups and their pods beside plans: groups that are created from a label or a template, gangs that are partially scheduled,
//! successors, annotations that admission did not add, finalizers, and gates that no plan removes.

pub mod backfill;
pub mod half_bound;
pub mod housekeeping;
pub mod labelled;
pub mod orphans;
pub mod succession;
pub mod ungate_all;
