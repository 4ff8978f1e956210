//! Messages of conditions, one file for each subject. Some of them are published as events, too. A doc comment says for which condition or
//! reason its sentence is written.

pub mod addon;
pub mod capacity;
pub mod disruption;
pub mod pending;
pub mod plan;
pub mod plan_end;
pub mod pod_group;
pub mod progress;
pub mod resumed;
pub mod workload;
