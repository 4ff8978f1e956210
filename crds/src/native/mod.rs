//! Native PodGroups: `PodGroup` of the API group `scheduling.k8s.io`, which pods name in `spec.schedulingGroup`.
//!
//! kube-scheduler schedules them. Giveway gates none of their pods and preempts for none of them. As victims they have
//! one priority, and are disrupted together if their disruption mode is `all`. In every map and message with groups of
//! both sorts, a native one has the API group in its [name](key_name), which is not possible in object names.

mod group;
mod member;
pub mod version;

pub use group::NativeGroup;
pub use member::{MemberPod, group_of};

/// The API group.
pub const GROUP: &str = "scheduling.k8s.io";
/// Their kind.
pub const KIND: &str = "PodGroup";
/// Their resource.
pub const PLURAL: &str = "podgroups";

/// Prefix of the names of native groups, among groups of both sorts.
const PREFIX: &str = "scheduling.k8s.io/";

/// Returns the name under which Giveway refers to the native group `name`, to distinguish it from its own PodGroups:
/// `scheduling.k8s.io/NAME`.
pub fn key_name(name: &str) -> String {
    format!("{PREFIX}{name}")
}

/// Returns the object name of a native group from its name in the form of [`key_name`]; `None` if that is the name of a PodGroup of
/// Giveway.
pub fn own_name(key_name: &str) -> Option<&str> {
    key_name.strip_prefix(PREFIX)
}

/// Returns true if the name has the form of [`key_name`]: it is that of a native group.
pub fn is_native(key_name: &str) -> bool {
    own_name(key_name).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_native_group_and_ours_of_the_same_name_have_different_names() {
        let name = key_name("train");
        assert_eq!(name, "scheduling.k8s.io/train");
        assert_eq!(own_name(&name), Some("train"));
        assert_eq!(own_name("train"), None);
        assert!(is_native(&name) && !is_native("scheduling.k8s.io"), "no object has a slash in its name");
    }
}
