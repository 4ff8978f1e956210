//! Where a group is, for groups that must stay within one domain of topology.

use super::Facts;
use giveway_crds::plan::StoredDomain;
use std::collections::BTreeSet;

/// As in "16 pods have a place in rack=r3": nothing for those who may be anywhere.
pub fn within(domain: Option<&StoredDomain>) -> String {
    domain.map(|domain| format!(" in {domain}")).unwrap_or_default()
}

/// The domain of the pods that have a node, as in "16 pods have a node in rack=r3"; and, where they are not in one, a
/// sentence that says so.
pub(super) fn bound(facts: &Facts<'_>) -> (String, String) {
    let Some(key) = facts.group.topology.as_deref() else { return Default::default() };
    let cluster = &facts.model.cluster;
    let value = |node: &str| cluster.node(node).and_then(|node| node.labels.get(key)).map(String::as_str);
    let live = cluster.members(&facts.group.key).filter(|pod| pod.live());
    let values: BTreeSet<Option<&str>> = live.filter_map(|pod| pod.node.as_ref()).map(|node| value(node)).collect();
    match values.iter().copied().collect::<Vec<_>>().as_slice() {
        [] => Default::default(),
        [Some(value)] => (format!(" in {key}={value}"), String::new()),
        several => {
            let named: Vec<&str> = several.iter().map(|value| value.unwrap_or("none")).collect();
            (String::new(), format!(" They are not within one value of {key}: {}.", named.join(", ")))
        }
    }
}
