//! Pending critical add-ons and whether kube-scheduler will bind them (design, section 5, "Critical add-ons").

pub mod queue;
pub mod scheduler_liveness;
