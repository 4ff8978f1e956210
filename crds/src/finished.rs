//! Finished members of a gang, as the status of its PodGroup stores them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Members that have finished in this run, also those whose pods were deleted since: they need not be there for the others
/// to start. A run ends when all live members are of other controllers. At most 1,000 of each are remembered. Where others are made
/// instead of those that finish, `spare` says of how many.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FinishedMembers {
    /// UIDs of the controllers, such as Jobs, whose pods the members of this run are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub owners: Vec<String>,
    /// UIDs of the members.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pods: Vec<String>,
    /// How many members may finish for which their Job makes others: its `completions` beyond the gang's `minCount`. The barrier
    /// counts only those that finish after them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub spare: i32,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(number: &i32) -> bool {
    *number == 0
}

impl FinishedMembers {
    /// Returns true if there is nothing to store.
    pub fn is_empty(&self) -> bool {
        self.owners.is_empty() && self.pods.is_empty() && self.spare == 0
    }
}
