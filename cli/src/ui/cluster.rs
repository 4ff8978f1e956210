//! The view *Cluster*: capacity by resource, class and domain, and the critical add-ons.

use super::map::{NodeMap, PlanOnNodes, ZONE};
use crate::overview::Snapshot;
use crate::overview::usage::{Capacity, NodeUsage, UsageLine, total};
use crate::world::World;
use giveway_crds::policy::PreemptionPolicy;
use giveway_planner::model::ResourceId;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of topology domains that are listed.
const MOST_DOMAINS: usize = 500;

/// The view *Cluster* of the page: capacity by resource, topology domain and priority.
#[derive(Debug, Serialize)]
pub(super) struct CapacityPage<'s> {
    /// Priority of the preemptor for which capacity could be freed.
    priority: i32,
    resources: Vec<ResourceRow<'s>>,
    classes: Vec<ClassRow<'s>>,
    domains: Vec<DomainRow<'s>>,
    addons: Vec<AddonRow<'s>>,
    map: Option<NodeMap>,
}

/// A resource.
#[derive(Debug, Serialize)]
struct ResourceRow<'s> {
    name: &'s str,
    #[serde(flatten)]
    usage: UsageLine,
}

/// A PriorityClass.
#[derive(Debug, Serialize)]
struct ClassRow<'s> {
    name: &'s str,
    value: i32,
    managed: bool,
    /// True if kube-scheduler preempts for its pods by itself.
    preempts: bool,
    /// Number of its pods that have a node.
    bound: usize,
    /// Number of its pods that have none.
    pending: usize,
}

/// A topology domain.
#[derive(Debug, Serialize)]
struct DomainRow<'s> {
    key: &'s str,
    value: &'s str,
    nodes: usize,
    #[serde(flatten)]
    usage: UsageLine,
}

/// A critical add-on.
#[derive(Debug, Serialize)]
struct AddonRow<'s> {
    namespace: &'s str,
    name: &'s str,
    priority: i32,
    node: Option<&'s str>,
}

/// Returns the page *Cluster*. `resource` is the one whose usage by topology domain and node is shown (`None`: the scarcest). Freeable
/// is what a preemptor of `priority` could free; `None` stands for the highest priority that is pending or that users have a class for.
pub(super) fn view<'s>(snapshot: &'s Snapshot, resource: Option<&str>, priority: Option<i32>) -> CapacityPage<'s> {
    let world = &snapshot.world;
    let priority = priority.unwrap_or_else(|| snapshot.highest_priority());
    let capacity = Capacity::of(&world.cluster, priority);
    let chosen = capacity.chosen(resource);
    CapacityPage {
        priority,
        domains: chosen.map(|chosen| domains(world, &capacity.nodes, chosen.id)).unwrap_or_default(),
        map: chosen.map(|chosen| NodeMap::of(world, &capacity, chosen, None, &PlanOnNodes::default())),
        resources: capacity
            .resources
            .iter()
            .map(|one| ResourceRow { name: one.name, usage: one.usage.line() })
            .collect(),
        classes: classes(world),
        addons: addons(world),
    }
}

/// Returns a row for each PriorityClass with the numbers of its bound and pending pods, the highest value first.
fn classes(world: &World) -> Vec<ClassRow<'_>> {
    let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for pod in world.cluster.pods().filter(|pod| pod.live()) {
        let count = counts.entry(pod.priority_class_name.as_deref().unwrap_or_default()).or_default();
        if pod.bound() { count.0 += 1 } else { count.1 += 1 }
    }
    let mut rows: Vec<ClassRow<'_>> = world
        .cluster
        .classes()
        .iter()
        .map(|class| {
            let (bound, pending) = counts.get(class.name.as_str()).copied().unwrap_or_default();
            let preempts = class.scheduler_policy != PreemptionPolicy::Never;
            ClassRow { name: &class.name, value: class.value, managed: class.managed, preempts, bound, pending }
        })
        .collect();
    rows.sort_by(|a, b| (b.value, a.name).cmp(&(a.value, b.name)));
    rows
}

/// Returns the usage of a resource in each topology domain: in the zones, and in the domains of the topology keys that PodGroups ask
/// for.
fn domains<'s>(world: &'s World, nodes: &[NodeUsage<'s>], resource: ResourceId) -> Vec<DomainRow<'s>> {
    let asked = world.groups.values().filter_map(|group| group.spec.topology_key());
    let keys: BTreeSet<&'s str> = asked.chain([ZONE]).collect();
    let mut found: BTreeMap<(&'s str, &'s str), Vec<&NodeUsage<'s>>> = BTreeMap::new();
    for one in nodes {
        let labels = &one.node.labels;
        for (key, value) in keys.iter().filter_map(|key| Some((*key, labels.get(*key)?.as_str()))) {
            found.entry((key, value)).or_default().push(one);
        }
    }
    let rows = found.into_iter().take(MOST_DOMAINS).map(|((key, value), nodes)| DomainRow {
        key,
        value,
        nodes: nodes.len(),
        usage: total(nodes, resource).line(),
    });
    rows.collect()
}

/// Returns a row for each pod that is a critical add-on and has not ended.
fn addons(world: &World) -> Vec<AddonRow<'_>> {
    let critical = world.cluster.pods().filter(|pod| !pod.ended() && world.addons.evicts_for(pod));
    let row = critical.map(|pod| AddonRow {
        namespace: &pod.key.namespace,
        name: &pod.key.name,
        priority: pod.priority,
        node: pod.node.as_deref(),
    });
    row.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overview::samples;
    use serde_json::{Value, json};

    #[test]
    fn capacity_is_shown_by_priority_with_what_could_be_freed() {
        let snapshot = samples::snapshot();
        let view = |priority| serde_json::to_value(view(&snapshot, None, priority)).unwrap();
        let cpu = |view: &Value| {
            view["resources"].as_array().unwrap().iter().find(|row| row["name"] == "cpu").unwrap().clone()
        };
        let row = cpu(&view(None));
        // n2 is cordoned: what is free or could be freed there helps no pod.
        let expected =
            json!({"name": "cpu", "capacity": 8000, "used": 6000, "free": 0, "freeable": 4000, "levels": [[10, 6000]]});
        assert_eq!(row, expected);
        assert_eq!(cpu(&view(Some(10)))["freeable"], 0, "no pod is below priority 10");
        assert_eq!(view(None)["priority"], 1000);
    }

    #[test]
    fn classes_domains_and_critical_add_ons_are_listed() {
        let snapshot = samples::snapshot();
        let view = serde_json::to_value(view(&snapshot, Some("cpu"), None)).unwrap();
        assert_eq!(
            view["classes"],
            json!([{"name": "high", "value": 1000, "managed": true, "preempts": false, "bound": 0, "pending": 4}])
        );
        let zones: Vec<(&str, i64)> = (view["domains"].as_array().unwrap().iter())
            .map(|row| (row["value"].as_str().unwrap(), row["capacity"].as_i64().unwrap()))
            .collect();
        assert_eq!(zones, [(samples::HOSTILE_LABEL, 4000), ("b", 4000)]);
        assert_eq!(
            view["addons"],
            json!([{"namespace": "kube-system", "name": "dns", "priority": 2_000_000_000, "node": null}])
        );
    }
}
