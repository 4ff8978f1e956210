//! Single changes that would make a preemptor schedulable: of its policy, `minCount`, topology constraint or priority, one budget, one
//! protected namespace, or more nodes. Each one is tested with the planner.

use crate::decide::DecisionOutcome;
use crate::world::World;
use giveway_crds::policy::{PreemptionPolicy, SchedulingPolicy};
use giveway_crds::wording::counted;
use giveway_crds::{PodGroup, PodGroupSpec};
use giveway_planner::model::Pod;
use giveway_planner::{Decision, ObjectKey, Preemptor, Strategy, plan};
use k8s_openapi::api::core::v1::Node;
use std::collections::{BTreeMap, BTreeSet};

/// Maximum number of added nodes that are tested.
const MOST_NODES: usize = 1024;
/// Maximum number of budgets, and of protected namespaces, that are tested.
const MOST_TRIED: usize = 8;
/// The namespace whose protection is not questioned.
const SYSTEM: &str = "kube-system";

/// Returns sentences about single changes that would make an unschedulable preemptor schedulable: of its policy, `minCount`, priority
/// and so on. The list is empty if the preemptor is schedulable.
pub(crate) fn of(world: &World, outcome: &DecisionOutcome, strategy: Strategy) -> Vec<String> {
    match &outcome.decision {
        Decision::WaitingForPods { live, min_count, finished, .. } => {
            vec![format!("{} more of its pods have to be created.", min_count.saturating_sub(*live + *finished))]
        }
        Decision::Unschedulable(_) => {
            let mut list: Vec<String> = allowed(world, outcome, strategy).into_iter().collect();
            list.extend(fewer_members(world, outcome, strategy));
            list.extend(in_any_domain(world, outcome, strategy));
            list.extend(with_higher_priority(world, outcome, strategy));
            list.extend(without_a_budget(world, outcome, strategy));
            list.extend(without_a_protection(world, outcome, strategy));
            list.extend(more_nodes(world, outcome, strategy));
            if list.is_empty() {
                let changes =
                    "a lower minCount, a higher priority, one budget or protected namespace fewer, more nodes";
                list.push(format!("None of the single changes that were tried would help: {changes}."));
            }
            list
        }
        _ => Vec::new(),
    }
}

/// Returns a copy of the cluster's objects in which the preemptor has this priority, and this policy unless it is `None`. Returns
/// `None` if the preemptor does not exist.
fn with_priority(
    world: &World,
    preemptor: &Preemptor,
    priority: i32,
    policy: Option<PreemptionPolicy>,
) -> Option<World> {
    let mut world = world.clone();
    match preemptor {
        Preemptor::Group(key) => {
            let mut group = world.groups.get(key)?.clone();
            group.spec.priority = Some(priority);
            group.spec.preemption_policy = policy.or(group.spec.preemption_policy);
            world.add_group(group).ok()?;
            // A group cannot raise the priority of its pods, so theirs is raised too.
            let waits = |pod: &&Pod| pod.live() && !pod.bound();
            let members = world.cluster.members(key).filter(waits).map(|pod| (pod.key.clone(), pod.priority));
            for (pod, own) in members.collect::<Vec<_>>() {
                set_pod_priority(&mut world, &pod, own.max(priority), policy)?;
            }
        }
        Preemptor::Pod(key) => set_pod_priority(&mut world, key, priority, policy)?,
    }
    Some(world)
}

/// Sets the priority of a pending pod, and its preemption policy unless that is `None`. Returns `None` if there is no such pending pod.
fn set_pod_priority(world: &mut World, key: &ObjectKey, priority: i32, policy: Option<PreemptionPolicy>) -> Option<()> {
    let mut pod = world.pending.get(key)?.clone();
    let spec = pod.spec.as_mut()?;
    spec.priority = Some(priority);
    if let Some(policy) = policy {
        spec.preemption_policy = Some(policy.as_str().to_owned());
        let annotations = pod.metadata.annotations.get_or_insert_default();
        annotations.remove(giveway_crds::keys::ANNOTATION_PREEMPTION_POLICY);
    }
    world.add_pod(pod).ok()
}

/// Plans for the preemptor, and returns what would happen as a phrase, such as "it would preempt 2 pods"; `None` if it is
/// unschedulable.
fn consequence(world: &World, preemptor: &Preemptor, strategy: Strategy) -> Option<String> {
    match plan(&world.cluster, preemptor, &world.context(preemptor, strategy)) {
        Decision::Fits { .. } => Some("it would fit without an eviction".to_owned()),
        Decision::Preempt(plan) => Some(format!("it would preempt {}", plan.cost)),
        _ => None,
    }
}

/// Applies `change` to a copy of the cluster's objects, and returns what would happen to the preemptor of `outcome` as a phrase; `None`
/// if the change is not possible or does not make it schedulable.
fn after(
    world: &World,
    outcome: &DecisionOutcome,
    strategy: Strategy,
    change: impl FnOnce(&mut World) -> Option<()>,
) -> Option<String> {
    let mut world = world.clone();
    change(&mut world)?;
    consequence(&world, &outcome.preemptor, strategy)
}

/// Applies `change` to a copy of the preemptor's PodGroup, and returns what would happen as a phrase; `None` if that does not make it
/// schedulable, or if the preemptor is a single pod.
fn after_group(
    world: &World,
    outcome: &DecisionOutcome,
    strategy: Strategy,
    change: impl FnOnce(&mut PodGroupSpec),
) -> Option<String> {
    let mut group = group_of(world, outcome)?.clone();
    change(&mut group.spec);
    after(world, outcome, strategy, |world| world.add_group(group).ok())
}

/// Returns the PodGroup that the decision is for, or `None` if it is for a single pod.
fn group_of<'w>(world: &'w World, outcome: &DecisionOutcome) -> Option<&'w PodGroup> {
    match &outcome.preemptor {
        Preemptor::Group(key) => world.groups.get(key),
        Preemptor::Pod(_) => None,
    }
}

/// Returns a sentence with the highest `minCount` below the present one with which the gang would be schedulable; `None` if there is
/// none, or the preemptor is no gang.
fn fewer_members(world: &World, outcome: &DecisionOutcome, strategy: Strategy) -> Option<String> {
    let asked = group_of(world, outcome)?.spec.scheduling_policy.gang.as_ref()?.min_count;
    let (mut enough, mut too_many, mut text) = (0, asked, None);
    while too_many - enough > 1 {
        let middle = enough + (too_many - enough) / 2;
        let lower = |spec: &mut PodGroupSpec| spec.scheduling_policy = SchedulingPolicy::gang(middle);
        match after_group(world, outcome, strategy, lower) {
            Some(then) => (enough, text) = (middle, Some(then)),
            None => too_many = middle,
        }
    }
    text.map(|then| format!("With minCount {enough} instead of {asked}, {then}."))
}

/// Returns a sentence that the group would be schedulable if it need not stay within one topology domain; `None` if that does not help,
/// or the group asks for no topology domain.
fn in_any_domain(world: &World, outcome: &DecisionOutcome, strategy: Strategy) -> Option<String> {
    let key = group_of(world, outcome)?.spec.topology_key()?.to_owned();
    let then = after_group(world, outcome, strategy, |spec| spec.scheduling_constraints = None)?;
    Some(format!("In a new PodGroup without the topology key {key}, {then}."))
}

/// Returns the bound pods of lower priority than the preemptor of `outcome`, including those in protected namespaces.
fn pods_below<'w>(world: &'w World, outcome: &DecisionOutcome) -> impl Iterator<Item = &'w Pod> {
    let (cluster, priority) = (&world.cluster, outcome.priority);
    cluster.pods().filter(move |pod| pod.live() && pod.bound() && cluster.effective_priority(pod) < priority)
}

/// Returns sentences that name the budgets without which, one at a time, the preemptor would be schedulable.
fn without_a_budget(world: &World, outcome: &DecisionOutcome, strategy: Strategy) -> Vec<String> {
    let guarded = pods_below(world, outcome).filter(|pod| pod.threshold.is_some_and(|least| least > outcome.priority));
    let budgets = guarded.flat_map(|pod| world.cluster.budgets_of(pod)).map(|budget| budget.key.clone());
    let budgets: BTreeSet<ObjectKey> = budgets.collect();
    let without =
        |key: &ObjectKey| after(world, outcome, strategy, |world| world.cluster.remove_budget(key).then_some(()));
    let mut said = Vec::new();
    for key in budgets.iter().take(MOST_TRIED) {
        said.extend(without(key).map(|then| format!("Without PodDisruptionBudget {key}, {then}.")));
    }
    said
}

/// Returns sentences that name the protected namespaces without whose protection, one at a time, the preemptor would be schedulable.
fn without_a_protection(world: &World, outcome: &DecisionOutcome, strategy: Strategy) -> Vec<String> {
    let namespaces: BTreeSet<&str> = pods_below(world, outcome).map(|pod| pod.key.namespace.as_str()).collect();
    let is_protected = |name: &&str| *name != SYSTEM && world.cluster.protection(name).is_some();
    let mut said = Vec::new();
    for name in namespaces.into_iter().filter(is_protected).take(MOST_TRIED) {
        let then = after(world, outcome, strategy, |world| {
            world.cluster.unprotect_namespace(name);
            Some(())
        });
        said.extend(then.map(|then| format!("If namespace {name} were not protected, {then}.")));
    }
    said
}

/// Returns the effective preemption policy of the preemptor; `Never` if the preemptor does not exist.
fn policy(world: &World, preemptor: &Preemptor) -> PreemptionPolicy {
    let policy = match preemptor {
        Preemptor::Group(key) => world.cluster.group(key).map(|group| group.policy),
        Preemptor::Pod(key) => world.cluster.pod(key).map(|pod| world.cluster.effective_policy(pod)),
    };
    policy.unwrap_or(PreemptionPolicy::Never)
}

/// Returns a sentence if the preemptor has the preemption policy `Never` and would be schedulable with `PreemptLowerPriority`;
/// otherwise `None`.
fn allowed(world: &World, outcome: &DecisionOutcome, strategy: Strategy) -> Option<String> {
    if policy(world, &outcome.preemptor) != PreemptionPolicy::Never {
        return None;
    }
    let asked = PreemptionPolicy::PreemptLowerPriority;
    let tried = with_priority(world, &outcome.preemptor, outcome.priority, Some(asked))?;
    let then = consequence(&tried, &outcome.preemptor, strategy)?;
    Some(format!("With preemptionPolicy {asked} instead of Never, {then}."))
}

/// Returns a sentence with the lowest priority at which the preemptor would be schedulable; `None` if there is none. Tried are
/// priorities just above those of bound pods, and the thresholds of pods.
fn with_higher_priority(world: &World, outcome: &DecisionOutcome, strategy: Strategy) -> Option<String> {
    let cluster = &world.cluster;
    let mut tried: BTreeMap<i32, String> = BTreeMap::new();
    for pod in cluster.pods().filter(|pod| pod.live() && pod.bound()) {
        let level = cluster.effective_priority(pod);
        if level >= outcome.priority && level < i32::MAX {
            tried.insert(level + 1, format!("above {level}"));
        }
        if let Some(threshold) = pod.threshold.filter(|threshold| *threshold > outcome.priority) {
            tried.entry(threshold).or_insert_with(|| format!("of at least {threshold}"));
        }
    }
    let tried: Vec<(i32, String)> = tried.into_iter().collect();
    let asked = Some(PreemptionPolicy::PreemptLowerPriority);
    let then = |priority: i32| {
        let changed = with_priority(world, &outcome.preemptor, priority, asked)?;
        consequence(&changed, &outcome.preemptor, strategy)
    };
    let at = tried.partition_point(|(priority, _)| then(*priority).is_none());
    let (lowest, priority) = tried.get(at)?;
    let text = then(*lowest)?;
    let class = cluster.classes().iter().filter(|c| c.value >= *lowest && c.value <= 1_000_000_000);
    let class = class.min_by_key(|class| class.value);
    let class = class.map(|class| format!(", as class {} has ({})", class.name, class.value)).unwrap_or_default();
    Some(format!("With a priority {priority}{class}, {text}."))
}

/// Returns a sentence with the least number of additional nodes, equal to an existing one, with which the preemptor would fit without
/// an eviction; `None` if no such number up to 1024 helps.
fn more_nodes(world: &World, outcome: &DecisionOutcome, strategy: Strategy) -> Option<String> {
    let mut kinds: BTreeMap<String, &Node> = BTreeMap::new();
    for node in world.nodes.values() {
        let offered = node.status.as_ref().and_then(|status| status.allocatable.clone()).unwrap_or_default();
        let offered: Vec<String> = offered.into_iter().map(|(name, amount)| format!("{}={}", name, amount.0)).collect();
        kinds.entry(offered.join(",")).or_insert(node);
    }
    let tried = |node: &Node, count: usize| {
        let mut world = world.clone();
        for index in 0..count {
            let mut twin = node.clone();
            let name = format!("{}-more-{index}", node.metadata.name.clone().unwrap_or_default());
            twin.metadata.uid = None;
            twin.metadata.labels.get_or_insert_default().insert("kubernetes.io/hostname".to_owned(), name.clone());
            twin.metadata.name = Some(name);
            world.cluster.upsert_node(&twin).ok()?;
        }
        let decision = plan(&world.cluster, &outcome.preemptor, &world.context(&outcome.preemptor, strategy));
        matches!(decision, Decision::Fits { .. }).then_some(())
    };
    let mut best: Option<(usize, &Node)> = None;
    for node in kinds.into_values().take(8) {
        let limit = best.map_or(MOST_NODES, |(count, _)| count - 1);
        let Some(mut high) = std::iter::successors(Some(1), |n| Some(n * 2))
            .take_while(|n| *n <= limit)
            .find(|n| tried(node, *n).is_some())
        else {
            continue;
        };
        let mut low = high / 2;
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if tried(node, middle).is_some() { high = middle } else { low = middle }
        }
        best = Some((high, node));
    }
    let (count, node) = best?;
    let nodes = counted(count, "more node", "more nodes");
    Some(format!(
        "With {nodes} like {}, it would fit without an eviction.",
        node.metadata.name.as_deref().unwrap_or_default()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::once;
    use crate::live::Objects;
    use giveway_planner::ObjectKey;
    use serde_json::{Value, json};

    fn pod(name: &str, priority: i32, node: Option<&str>, threshold: Option<&str>) -> Value {
        let annotations = threshold.map(|threshold| json!({ giveway_crds::keys::ANNOTATION_THRESHOLD: threshold }));
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": "default", "uid": name, "labels": {"app": name}, "annotations": annotations},
            "spec": {"priority": priority, "nodeName": node, "preemptionPolicy": "PreemptLowerPriority",
                "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        })
    }

    /// Returns the sentences for pod `p` of priority 1000. Its node is full with `db`, whose budget allows no
    /// disruption.
    fn sentences(db: &Value) -> Vec<String> {
        let offer = json!({"cpu": "1", "pods": "10"});
        let items = vec![
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": offer}}),
            json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "db", "namespace": "default"},
                "spec": {"selector": {"matchLabels": {"app": "db"}}},
                "status": {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}}),
            db.clone(),
            pod("p", 1000, None, None),
        ];
        let world = World::new(Objects { source: "test".into(), items, notes: Vec::new() }, false).unwrap();
        let outcome = once(&world, &Preemptor::Pod(ObjectKey::new("default", "p")), Strategy::default());
        of(&world, &outcome, Strategy::default())
    }

    #[test]
    fn a_priority_of_the_threshold_may_violate_a_guaranteed_budget() {
        let said = sentences(&pod("db", 10, Some("n"), Some("5000")));
        let words =
            "With a priority of at least 5000, it would preempt 1 pod of priority 10 and below, 1 budget violation.";
        assert_eq!(said[0], words, "{said:?}");
    }

    #[test]
    fn one_budget_that_withholds_the_only_victim_is_named() {
        let said = sentences(&pod("db", 10, Some("n"), Some("5000")));
        let words = "Without PodDisruptionBudget default/db, it would preempt 1 pod of priority 10 and below, 0 budget violations.";
        assert_eq!(said[1], words, "{said:?}");
    }

    /// Returns the sentences for a gang `g` of three pods of priority 1000 in racks of two nodes for one pod each, with a victim of
    /// priority 10 in namespace `kept`, which is protected, on the only node that is not free.
    fn of_gang(min_count: i32, topology: &Value) -> Vec<String> {
        let offer = json!({"cpu": "1", "pods": "10"});
        let node = |name: &str, rack: &str| {
            json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"rack": rack}}, "status": {"allocatable": offer}})
        };
        let mut victim = pod("low", 10, Some("b2"), None);
        victim["metadata"]["namespace"] = json!("kept");
        let annotations = json!({giveway_crds::keys::ANNOTATION_NEVER_EVICT: "true"});
        let mut items = vec![
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kept", "annotations": annotations}}),
            json!({"apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "PodGroup",
                "metadata": {"name": "g", "namespace": "default"},
                "spec": {"schedulingPolicy": {"gang": {"minCount": min_count}}, "disruptionMode": "Pod", "priority": 1000,
                    "preemptionPolicy": "PreemptLowerPriority", "schedulingConstraints": topology}}),
            victim,
        ];
        items.extend([("a1", "a"), ("a2", "a"), ("b1", "b"), ("b2", "b")].map(|(name, rack)| node(name, rack)));
        for index in 0..min_count {
            let mut member = pod(&format!("g-{index}"), 1000, None, None);
            member["metadata"]["labels"] = json!({giveway_crds::keys::LABEL_POD_GROUP: "g"});
            items.push(member);
        }
        let world = World::new(Objects { source: "test".into(), items, notes: Vec::new() }, false).unwrap();
        let outcome = once(&world, &Preemptor::Group(ObjectKey::new("default", "g")), Strategy::default());
        of(&world, &outcome, Strategy::default())
    }

    #[test]
    fn a_lower_min_count_and_one_protected_namespace_are_named() {
        let said = of_gang(4, &Value::Null);
        assert_eq!(said[0], "With minCount 3 instead of 4, it would fit without an eviction.", "{said:?}");
        let words = "If namespace kept were not protected, it would preempt 1 pod of priority 10 and below, 0 budget violations.";
        assert!(said.iter().any(|sentence| sentence == words), "{said:?}");
    }

    #[test]
    fn the_topology_key_is_named_if_the_gang_fits_in_no_domain_and_fits_in_several() {
        let said = of_gang(3, &json!({"topology": [{"key": "rack"}]}));
        assert_eq!(said[0], "With minCount 2 instead of 3, it would fit without an eviction.", "{said:?}");
        let words = "In a new PodGroup without the topology key rack, it would fit without an eviction.";
        assert_eq!(said[1], words, "{said:?}");
    }

    #[test]
    fn a_threshold_below_the_priority_of_its_pods_is_not_suggested() {
        let said = sentences(&pod("db", 6000, Some("n"), Some("5000")));
        let words =
            "With a priority above 6000, it would preempt 1 pod of priority 6000 and below, 1 budget violation.";
        assert_eq!(said[0], words, "{said:?}");
    }
}
