//! `Preemption`: a plan, or another disruption that Giveway carries out, as an object (design, section 2).
//!
//! Only the operator writes them. A plan that is too large for one object is split into parts: the first one has the
//! name of the plan and its status, the others are named `NAME.2`, `NAME.3` and so on. They are written in this order,
//! so a plan is complete when its last part exists.

use crate::ban::{MOST_BANS, StoredBan};
use crate::brief::{MOST_OF_MESSAGE, first_characters};
use crate::keys::LABEL_KEEPS_NODE;
use crate::plan::{
    Cause, MOST_ITEMS, PlanState, StoredCost, StoredDomain, StoredPlacement, StoredPlan, StoredPreemptor, StoredRescue,
    StoredVictim, StoredVictimPod,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Maximum bytes of placements and victims, as JSON, in one object: with the other fields it is well below 1 MiB, and
/// below the limit of etcd (1.5 MiB).
pub const PART_BYTES: usize = 768 * 1024;

/// One decision to evict pods, and the nodes for which the pods of its preemptor are nominated.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "scheduling.giveway.dev",
    version = "v1alpha1",
    kind = "Preemption",
    plural = "preemptions",
    shortname = "gpr",
    category = "giveway",
    status = "PreemptionStatus",
    derive = "PartialEq",
    derive = "Default",
    doc = "Preemption is a disruption that Giveway carries out: why, which pods are evicted, and where the pods of the preemptor are placed, if there is one. It is stored before the first eviction and kept for some time after it has finished. Only the operator writes Preemptions; `kubectl get preemptions` shows the history of disruptions.",
    printcolumn = r#"{"name": "Cause", "type": "string", "jsonPath": ".spec.cause", "description": "why pods are evicted"}"#,
    printcolumn = r#"{"name": "Preemptor", "type": "string", "jsonPath": ".spec.preemptor.name", "description": "the PodGroup or pod that needs the capacity"}"#,
    printcolumn = r#"{"name": "Priority", "type": "integer", "jsonPath": ".spec.preemptor.priority", "description": "the priority that it preempts with"}"#,
    printcolumn = r#"{"name": "Victims", "type": "integer", "jsonPath": ".spec.cost.victimPods", "description": "pods that are evicted"}"#,
    printcolumn = r#"{"name": "Groups", "type": "integer", "jsonPath": ".spec.cost.victimGroups", "description": "whole groups that are evicted"}"#,
    printcolumn = r#"{"name": "Strategy", "type": "string", "jsonPath": ".spec.strategy", "description": "the algorithm that made the plan; critical-addon frees a node for a critical add-on"}"#,
    printcolumn = r#"{"name": "State", "type": "string", "jsonPath": ".status.state", "description": "how far it is"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#,
    printcolumn = r#"{"name": "Step", "type": "integer", "jsonPath": ".spec.criticalAddon.step", "description": "how disruptive the evictions for a critical add-on are, from step 1 to step 3", "priority": 1}"#,
    printcolumn = r#"{"name": "Domain", "type": "string", "jsonPath": ".spec.domain.value", "description": "the value of the node label that all its pods get, where the group asks for one", "priority": 1}"#,
    printcolumn = r#"{"name": "Violations", "type": "integer", "jsonPath": ".spec.cost.budgetViolations", "description": "evictions that violate a PodDisruptionBudget", "priority": 1}"#,
    printcolumn = r#"{"name": "Message", "type": "string", "jsonPath": ".status.message", "description": "what happens, or what happened", "priority": 1}"#
)]
#[x_kube(validation = Rule::new("self == oldSelf").message("spec: field is immutable: a plan is made once"))]
pub struct PreemptionSpec {
    /// Why pods are evicted: `Preemptor` (a PodGroup or pod of higher priority needs the capacity), `CriticalAddon` (a critical add-on
    /// needs it), `MemberPreempted` (kube-scheduler preempted a pod of a PodGroup in mode `PodGroup`), `PartiallyScheduled` (a gang has
    /// been partially scheduled for too long), `PartiallyDisrupted` (a plan was cancelled after it evicted some pods of a PodGroup in
    /// mode `PodGroup`). Later versions may add causes.
    #[serde(default = "preemptor")]
    #[schemars(default = "preemptor", length(max = 63))]
    pub cause: String,
    /// The preemptor, also that of a plan that was cancelled; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preemptor: Option<StoredPreemptor>,
    /// The algorithm that made the plan; absent if it is no plan.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = 63))]
    pub strategy: String,
    /// One sentence: what is going to happen, and for which preemptor.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = MOST_OF_MESSAGE))]
    pub reason: String,
    /// Which part of the plan this is, from 1.
    #[serde(default = "one")]
    #[schemars(default = "one", range(min = 1))]
    pub part: i32,
    /// How many parts the plan has.
    #[serde(default = "one")]
    #[schemars(default = "one", range(min = 1))]
    pub parts: i32,
    /// The topology domain of the placements, to which the members are restricted when they are ungated; absent if the
    /// group may be placed on any nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<StoredDomain>,
    /// The placed members and their nodes.
    #[serde(default)]
    #[schemars(length(max = MOST_ITEMS), extend("x-kubernetes-list-type" = "atomic"))]
    pub placements: Vec<StoredPlacement>,
    /// The evicted pods, by unit: a pod, or a PodGroup that is disrupted together. A unit that does not fit into one
    /// part is continued in the next one.
    #[serde(default)]
    #[schemars(length(max = MOST_ITEMS), extend("x-kubernetes-list-type" = "atomic"))]
    pub victims: Vec<StoredVictim>,
    /// What the whole plan costs.
    #[serde(default)]
    pub cost: StoredCost,
    /// Set when the preemptor is a critical add-on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub critical_addon: Option<StoredRescue>,
}

/// How far a preemption is; of a plan in parts, the first one has it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PreemptionStatus {
    /// How far it is: `Planned` (stored, no pod has been evicted), `Evicting`, `WaitingForVictims` (every eviction was accepted), `Ungating` (the
    /// members are ungated, and kube-scheduler binds them), `Completed`, `Cancelled`, `Failed`, or `Observed` (only stored, because Giveway
    /// observes). Later versions may add states.
    #[serde(default)]
    pub state: PlanState,
    /// Identity of the leader that carries it out.
    #[serde(default)]
    #[schemars(length(max = 512))]
    pub term: String,
    /// One sentence: what happens, or what happened.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    #[schemars(length(max = MOST_OF_MESSAGE))]
    pub message: String,
    /// Pods whose eviction was accepted so far, or that left by themselves; 0 if it ended before an eviction was requested.
    #[serde(default)]
    #[schemars(range(min = 0))]
    pub evicted: i32,
    /// When the plan was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned_at: Option<Time>,
    /// When it ended. Circuit breakers are computed from this time, the state and the number of evicted pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<Time>,
    /// Evictions and placements that failed in this Preemption, and that Giveway does not try again for a while. Deleting the
    /// Preemption ends these bans.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = MOST_BANS), extend("x-kubernetes-list-type" = "atomic"))]
    pub bans: Vec<StoredBan>,
}

/// Returns 1: the default of `spec.part` and `spec.parts` of a Preemption.
fn one() -> i32 {
    1
}

/// Returns the default of `spec.cause` of a Preemption: `Preemptor`.
fn preemptor() -> String {
    Cause::Preemptor.as_str().to_owned()
}

/// Why parts are not a complete plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Incomplete {
    /// The operator stopped while it stored the parts.
    #[error("not every part of the plan was stored ({have} of {parts})")]
    Missing {
        /// Parts that exist.
        have: usize,
        /// Expected number of parts.
        parts: i32,
    },
    /// The parts belong to different plans.
    #[error("part {part} of the plan is not of the same plan as the first one")]
    Foreign {
        /// Number of the part.
        part: i32,
    },
}

/// Returns the name of the Preemption that stores the part with this number of a plan. Parts are numbered from 1, and the first one has
/// the plan's name.
pub fn part_name(plan: &str, part: i32) -> String {
    if part <= 1 { plan.to_owned() } else { format!("{plan}.{part}") }
}

/// Returns the name of the plan of which the Preemption `name` stores a part. Plan names contain no dot.
pub fn plan_of_part(name: &str) -> &str {
    name.split_once('.').map_or(name, |(plan, _)| plan)
}

/// Splits a plan into Preemptions, because its lists of placements and victims may be too large for one object. In each the lists have at
/// most `bytes` as JSON. They are in the order in which they must be stored.
pub fn parts_of(plan: &StoredPlan, bytes: usize) -> Vec<Preemption> {
    let mut cutter = Cutter { limit: bytes, done: Vec::new(), current: Lists::default() };
    plan.placements.iter().for_each(|placement| cutter.placement(placement));
    for (index, unit) in plan.victims.iter().enumerate() {
        unit.pods.iter().for_each(|pod| cutter.victim(index, unit, pod));
    }
    let lists = cutter.finish();
    let parts = i32::try_from(lists.len()).unwrap_or(i32::MAX);
    (1..)
        .zip(lists)
        .map(|(part, lists)| Preemption {
            metadata: ObjectMeta {
                name: Some(part_name(&plan.id, part)),
                labels: keeps_node(plan, part).then(|| BTreeMap::from([(LABEL_KEEPS_NODE.into(), "true".into())])),
                ..ObjectMeta::default()
            },
            spec: PreemptionSpec {
                cause: plan.cause.as_str().to_owned(),
                preemptor: (!plan.preemptor.uid.is_empty()).then(|| plan.preemptor.clone()),
                strategy: plan.strategy.clone(),
                reason: first_characters(&plan.reason, MOST_OF_MESSAGE).to_owned(),
                part,
                parts,
                domain: plan.domain.clone(),
                placements: lists.placements,
                victims: lists.victims,
                cost: plan.cost.clone(),
                critical_addon: plan.critical_addon,
            },
            status: None,
        })
        .collect()
}

/// Returns true if the Preemption with this part of a plan gets the label by which the webhook finds taints to remove: it is
/// the first part, with the placement, of a plan for a critical add-on that is carried out.
fn keeps_node(plan: &StoredPlan, part: i32) -> bool {
    plan.critical_addon.is_some() && part == 1 && plan.state != PlanState::Observed
}

/// The lists of one part, and their size.
#[derive(Default)]
struct Lists {
    placements: Vec<StoredPlacement>,
    victims: Vec<StoredVictim>,
    /// Index of the unit that the last element of `victims` belongs to.
    unit: Option<usize>,
    bytes: usize,
}

/// Distributes the placements and victims of a plan over parts of limited size, one part after the other.
struct Cutter {
    limit: usize,
    done: Vec<Lists>,
    current: Lists,
}

impl Cutter {
    /// Starts the next part if `bytes` more would exceed the size limit of the current one.
    fn start_part_if_full(&mut self, bytes: usize) {
        if self.current.bytes > 0 && self.current.bytes + bytes > self.limit {
            self.done.push(std::mem::take(&mut self.current));
        }
    }

    /// Adds a placement to the current part of the plan, or to a new part if the current one would become too large.
    fn placement(&mut self, placement: &StoredPlacement) {
        let bytes = largest_size(&[&placement.pod, &placement.uid, &placement.node]);
        self.start_part_if_full(bytes);
        self.current.bytes += bytes;
        self.current.placements.push(placement.clone());
    }

    /// Adds a victim pod to the current part of the plan, or to a new part if the current one would become too large. `unit` is the victim
    /// that it belongs to, a single pod or a whole group, with the index `index` in the plan; it is repeated in each part that has pods of
    /// it.
    fn victim(&mut self, index: usize, unit: &StoredVictim, pod: &StoredVictimPod) {
        // Any user can write the kind and the name of an owner, so they may need escapes.
        let owner = unit.owner.as_ref().and_then(|owner| serde_json::to_string(owner).ok()).unwrap_or_default();
        let head = largest_size(&[&unit.kind, &unit.namespace, &unit.name, &owner]);
        let own = largest_size(&[&pod.name, &pod.uid, &pod.node]);
        self.start_part_if_full(own + head);
        if self.current.unit != Some(index) {
            self.current.unit = Some(index);
            self.current.bytes += head;
            self.current.victims.push(StoredVictim { pods: Vec::new(), ..unit.clone() });
        }
        self.current.bytes += own;
        if let Some(unit) = self.current.victims.last_mut() {
            unit.pods.push(pod.clone());
        }
    }

    /// Returns the lists of all parts, including the current one, in their order.
    fn finish(mut self) -> Vec<Lists> {
        self.done.push(self.current);
        self.done
    }
}

/// Upper bound for the length of the keys of a list item, as JSON.
const KEYS: usize = 96;
// A part has at most `MOST_ITEMS` items of each list.
const _: () = assert!(PART_BYTES / KEYS <= MOST_ITEMS);

/// Returns an upper bound for the size, in bytes, of a list item with these values as JSON: names and UIDs need no escapes.
fn largest_size(values: &[&str]) -> usize {
    KEYS + values.iter().map(|value| value.len()).sum::<usize>()
}

/// Combines the Preemptions that store the parts of one plan, given in any order, to the plan.
///
/// # Errors
/// A part is missing, or belongs to another plan.
pub fn assemble(mut parts: Vec<Preemption>) -> Result<StoredPlan, Incomplete> {
    parts.sort_by_key(|part| part.spec.part);
    let wanted = parts.first().map_or(1, |first| first.spec.parts);
    let numbered = parts.iter().zip(1..).all(|(part, number)| part.spec.part == number);
    if !numbered || i32::try_from(parts.len()) != Ok(wanted) {
        return Err(Incomplete::Missing { have: parts.len(), parts: wanted });
    }
    let mut rest = parts.into_iter();
    let Some(first) = rest.next() else { return Err(Incomplete::Missing { have: 0, parts: wanted }) };
    let mut plan = first.head();
    let PreemptionSpec { mut placements, mut victims, .. } = first.spec.clone();
    for part in rest {
        let spec = part.spec;
        let whole = |spec: &PreemptionSpec| {
            (spec.cause.clone(), spec.preemptor.clone(), spec.cost.clone(), spec.parts, spec.domain.clone())
        };
        if whole(&spec) != whole(&first.spec) {
            return Err(Incomplete::Foreign { part: spec.part });
        }
        placements.extend(spec.placements);
        for mut unit in spec.victims {
            match victims.last_mut() {
                Some(last)
                    if (&last.kind, &last.namespace, &last.name) == (&unit.kind, &unit.namespace, &unit.name) =>
                {
                    last.pods.append(&mut unit.pods);
                }
                _ => victims.push(unit),
            }
        }
    }
    (plan.placements, plan.victims) = (placements, victims);
    Ok(plan)
}

impl Preemption {
    /// Returns the plan that this Preemption stores, with empty `placements` and `victims`: this object may have only a part of both lists.
    pub fn head(&self) -> StoredPlan {
        let status = self.status.clone().unwrap_or_default();
        StoredPlan {
            id: plan_of_part(self.metadata.name.as_deref().unwrap_or_default()).to_owned(),
            term: status.term,
            state: status.state,
            cause: Cause::parse(&self.spec.cause).unwrap_or_default(),
            preemptor: self.spec.preemptor.clone().unwrap_or_default(),
            strategy: self.spec.strategy.clone(),
            reason: self.spec.reason.clone(),
            // A leader may have stopped between the last part and the first status.
            planned_at: status.planned_at.or_else(|| self.metadata.creation_timestamp.clone()),
            message: if status.message.is_empty() { self.spec.reason.clone() } else { status.message },
            domain: self.spec.domain.clone(),
            placements: Vec::new(),
            victims: Vec::new(),
            cost: self.spec.cost.clone(),
            critical_addon: self.spec.critical_addon,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::ControllerRef;

    fn pods(unit: usize, count: usize) -> Vec<StoredVictimPod> {
        let pod = |i| StoredVictimPod {
            name: format!("{}-{unit:04}-{i:04}", "x".repeat(190)),
            uid: format!("6f1a2b3c-0000-0000-{unit:04}-{i:012}"),
            node: format!("node-{i}"),
        };
        (0..count).map(pod).collect()
    }

    fn plan(members: usize, units: &[usize]) -> StoredPlan {
        let placement = |i| StoredPlacement {
            pod: format!("{}-{i:05}", "m".repeat(190)),
            uid: format!("6f1a2b3c-1111-1111-1111-{i:012}"),
            node: format!("node-{i}"),
        };
        let victim = |(index, count): (usize, &usize)| StoredVictim {
            kind: "PodGroup".into(),
            namespace: "batch".into(),
            name: format!("g{index}"),
            priority: 10,
            owner: Some(ControllerRef { kind: "Job".into(), name: "\u{1}".repeat(253), ..ControllerRef::default() }),
            pods: pods(index, *count),
            ..StoredVictim::default()
        };
        StoredPlan {
            id: "abc-1".into(),
            preemptor: StoredPreemptor { kind: "PodGroup".into(), uid: "u".into(), ..StoredPreemptor::default() },
            domain: Some(StoredDomain { key: "rack".into(), value: "r1".into() }),
            placements: (0..members).map(placement).collect(),
            victims: units.iter().enumerate().map(victim).collect(),
            ..StoredPlan::default()
        }
    }

    #[test]
    fn a_small_plan_is_one_object_with_the_name_of_the_plan() {
        let parts = parts_of(&plan(2, &[3]), PART_BYTES);
        assert_eq!(parts.len(), 1);
        assert_eq!(parts[0].metadata.name.as_deref(), Some("abc-1"));
        assert_eq!((parts[0].spec.part, parts[0].spec.parts), (1, 1));
        assert_eq!(assemble(parts), Ok(plan(2, &[3])));
    }

    #[test]
    fn the_first_part_of_a_plan_for_a_critical_addon_says_that_it_keeps_a_node() {
        assert_eq!(parts_of(&plan(1, &[1]), PART_BYTES)[0].metadata.labels, None);
        let rescue = StoredPlan { critical_addon: Some(StoredRescue::default()), ..plan(1, &[100, 100]) };
        let observed = StoredPlan { state: PlanState::Observed, ..rescue.clone() };
        assert_eq!(parts_of(&observed, PART_BYTES)[0].metadata.labels, None, "an observed plan reserves no node");
        let parts = parts_of(&rescue, 10_000);
        let labels: Vec<bool> = parts.iter().map(|part| part.metadata.labels.is_some()).collect();
        assert!(labels.len() > 1 && labels[0] && !labels[1..].contains(&true), "{labels:?}");
        assert_eq!(assemble(parts), Ok(rescue));
    }

    #[test]
    fn five_thousand_members_and_ten_thousand_victims_of_long_names_fit_into_objects_below_one_mebibyte() {
        let whole = plan(5_000, &[1_000, 1, 8_000, 999]);
        let parts = parts_of(&whole, PART_BYTES);
        assert!(parts.len() > 4, "{}", parts.len());
        for part in &parts {
            assert!(serde_json::to_vec(part).unwrap().len() < 1024 * 1024);
        }
        assert_eq!(parts[1].metadata.name.as_deref(), Some("abc-1.2"));
        assert_eq!(plan_of_part("abc-1.2"), "abc-1");
        let mut shuffled = parts.clone();
        shuffled.reverse();
        assert_eq!(assemble(shuffled), Ok(whole));
    }

    #[test]
    fn the_escapes_in_the_names_of_owners_count_for_the_size_of_a_part() {
        for part in parts_of(&plan(0, &[1; 3_000]), PART_BYTES) {
            assert!(serde_json::to_vec(&part).unwrap().len() < 1024 * 1024);
        }
    }

    #[test]
    fn a_plan_without_a_written_status_is_as_old_as_its_object() {
        let mut parts = parts_of(&plan(1, &[1]), PART_BYTES);
        let created = Some(Time(k8s_openapi::jiff::Timestamp::from_second(7).unwrap()));
        parts[0].metadata.creation_timestamp = created.clone();
        let plan = assemble(parts).unwrap();
        assert_eq!((plan.state, plan.planned_at), (PlanState::Planned, created), "its delay has not passed");
    }

    #[test]
    fn a_plan_with_a_missing_or_foreign_part_is_not_read() {
        let parts = parts_of(&plan(10, &[100, 100]), 10_000);
        let have = parts.len() - 1;
        let words = format!("not every part of the plan was stored ({have} of {})", parts.len());
        assert_eq!(assemble(parts[..have].to_vec()).unwrap_err().to_string(), words);
        assert_eq!(assemble(parts[1..].to_vec()).unwrap_err().to_string(), words);
        let mut foreign = parts;
        foreign[2].spec.preemptor.as_mut().unwrap().uid = "other".into();
        assert_eq!(assemble(foreign), Err(Incomplete::Foreign { part: 3 }));
        let mut elsewhere = parts_of(&plan(10, &[100, 100]), 10_000);
        elsewhere[1].spec.domain = None;
        assert_eq!(assemble(elsewhere), Err(Incomplete::Foreign { part: 2 }));
    }
}
