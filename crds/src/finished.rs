//! Finished members of a gang, as the status of its PodGroup stores them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Maximum number of controllers of one run.
pub const MOST_OWNERS: usize = 1_000;
/// Maximum length of the UID of a controller; those that the API server assigns have 36 characters.
pub const LONGEST_UID: usize = 128;

/// Members that have finished in the current run, including those whose pods have been deleted: they reduce the number
/// of members that the gang needs to start, except the first `replaced` of them, which are replaced by other pods. The run ends
/// when all live members have other controllers.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FinishedMembers {
    /// UIDs of the controllers, such as Jobs, whose pods the members of this run are; at most 1,000.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_OWNERS), inner(length(max = LONGEST_UID)), extend("x-kubernetes-list-type" = "atomic"))]
    pub owners: Vec<String>,
    /// Number of members that have finished.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0))]
    pub count: i32,
    /// Number of finished members that their Job replaces by other pods: its `completions` minus the gang's `minCount`.
    /// Only finished members beyond this number reduce the number of pods that the gang needs to start.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0))]
    pub replaced: i32,
}

/// Returns true if a number is 0, which is left out of the stored status.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(number: &i32) -> bool {
    *number == 0
}

impl FinishedMembers {
    /// Returns true if no member has finished, so that the field is left out of the stored status.
    pub fn is_empty(&self) -> bool {
        self.owners.is_empty() && self.count == 0 && self.replaced == 0
    }
}
