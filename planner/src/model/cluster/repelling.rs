//! Bound pods with required anti-affinity. A pending pod does not keep other pods away, whatever its anti-affinity is: a foreign pod
//! cannot make decisions for other preemptors look at more nodes.

use super::Cluster;
use crate::model::{ClassId, EquivalenceClass, NodeIndex, PodIndex, Row};
use std::collections::{BTreeMap, BTreeSet};

/// The pods on nodes with a required anti-affinity.
#[derive(Clone, Debug, Default)]
pub(super) struct Repelling {
    pods: BTreeSet<(NodeIndex, PodIndex)>,
    /// How many there are of each class.
    classes: BTreeMap<ClassId, usize>,
}

impl Cluster {
    /// Updates the index of bound pods with required anti-affinity after the summary row of a pod changed from `old` to `new`.
    pub(super) fn count_repelling(&mut self, index: PodIndex, old: &Row, new: &Row) {
        if (old.node, old.class) == (new.node, new.class) {
            return;
        }
        for (row, comes) in [(old, false), (new, true)] {
            let repels = |class: &&EquivalenceClass| !class.constraints.anti_affinity.is_empty();
            let (Some(node), Some(_)) = (row.node, self.kinds.get(row.class).map(AsRef::as_ref).filter(repels)) else {
                continue;
            };
            let Repelling { pods, classes } = &mut self.repelling;
            let moved = if comes { pods.insert((node, index)) } else { pods.remove(&(node, index)) };
            if !moved {
                continue;
            }
            let count = classes.entry(row.class).or_default();
            *count = if comes { *count + 1 } else { count.saturating_sub(1) };
            if *count == 0 {
                classes.remove(&row.class);
            }
        }
    }

    /// Returns the equivalence classes of bound pods with required anti-affinity.
    pub(crate) fn repelling(&self) -> impl Iterator<Item = (ClassId, &EquivalenceClass)> {
        self.repelling.classes.keys().filter_map(|id| Some((*id, self.kinds.get(*id)?.as_ref())))
    }

    /// Returns the bound pods with required anti-affinity, sorted by node; also those on nodes that are not in the model.
    #[allow(dead_code, reason = "for filters that count instead of looking")]
    pub(crate) fn repelling_pods(&self) -> impl Iterator<Item = (NodeIndex, PodIndex)> {
        self.repelling.pods.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ObjectKey;
    use serde_json::{Value, json};

    fn upsert(cluster: &mut Cluster, name: &str, node: Option<&str>, phase: &str) {
        let term = json!({"labelSelector": {}, "topologyKey": "hostname"});
        let affinity = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
        let object: Value = json!({"metadata": {"namespace": "d", "name": name}, "status": {"phase": phase},
            "spec": {"containers": [], "nodeName": node, "affinity": affinity}});
        cluster.upsert_pod(&serde_json::from_value(object).unwrap()).unwrap();
    }

    #[test]
    fn only_pods_on_nodes_keep_others_away_and_they_are_listed_by_node() {
        let mut cluster = Cluster::default();
        let seen = |cluster: &Cluster| {
            let name = |(_, pod): (NodeIndex, PodIndex)| cluster.pod_at(pod).unwrap().key.name.to_string();
            (cluster.repelling().count(), cluster.repelling_pods().map(name).collect::<Vec<_>>())
        };
        upsert(&mut cluster, "waits", None, "Pending");
        assert_eq!(seen(&cluster), (0, vec![]));
        upsert(&mut cluster, "a", Some("n2"), "Running");
        upsert(&mut cluster, "b", Some("n1"), "Running");
        upsert(&mut cluster, "c", Some("n2"), "Running");
        assert_eq!(seen(&cluster), (1, vec!["a".to_owned(), "c".to_owned(), "b".to_owned()]));
        upsert(&mut cluster, "a", Some("n2"), "Succeeded");
        cluster.remove_pod(&ObjectKey::new("d", "c"));
        assert_eq!(seen(&cluster), (1, vec!["b".to_owned()]));
        cluster.remove_pod(&ObjectKey::new("d", "b"));
        assert_eq!(seen(&cluster), (0, vec![]));
    }
}
