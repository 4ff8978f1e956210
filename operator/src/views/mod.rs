//! The fields of objects that the operator needs and the planner does not, one file for each kind of object.

pub mod correction;
pub mod creation_failure;
pub mod origin;
