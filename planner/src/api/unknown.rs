//! Members whose feasible nodes depend on what the planner does not know: volumes that are not bound yet, devices.

use crate::model::ObjectKey;
use std::fmt;

/// Why no pod is evicted for a preemptor, and which members kube-scheduler has to place. `Display` is the sentence for a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unknown {
    /// The pending members, by name: no capacity is reserved for them.
    pub members: Vec<ObjectKey>,
    /// What is not known, as in "claim data, which is bound to no volume yet"; never empty.
    pub why: Vec<String>,
}

impl fmt::Display for Unknown {
    /// Writes what is not known, and that no pod is evicted.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Where it can run depends on what Giveway does not know: {}.", self.why.join("; "))?;
        f.write_str(" No pod is evicted for it; kube-scheduler places it.")
    }
}
