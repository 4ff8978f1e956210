//! The topology domain of a group, or why it has none.

use super::Evidence;
use std::collections::BTreeSet;

impl Evidence {
    /// Returns a sentence that says in which topology domain the requested group is, or will be placed. `key` is the node label that
    /// the group asks for.
    pub(super) fn topology(&self, key: &str) -> String {
        let cluster = &self.world.cluster;
        let live = cluster.members(self.target.key()).filter(|pod| pod.live());
        let nodes = live.filter_map(|pod| cluster.node(pod.node.as_deref()?));
        let values: BTreeSet<Option<&str>> = nodes.map(|node| node.labels.get(key).map(String::as_str)).collect();
        let named: Vec<&str> = values.iter().map(|value| value.unwrap_or("none")).collect();
        match (named.as_slice(), values.contains(&None)) {
            ([], _) => format!("one value of {key}, whichever takes it at the lowest cost."),
            ([only], false) => format!("one value of {key}: its pods are in {only}, and so will the others be."),
            (several, _) => {
                format!("its pods are not within one value of {key}, as it asks: {}.", several.join(", "))
            }
        }
    }
}
