//! The answer of `plan`: one JSON object. Scripts parse its fields, so fields are added but never changed or removed.

mod dot;
pub(crate) mod table;

use crate::args::Format;
use crate::decide::DecisionOutcome;
use crate::error::CliError;
use crate::not_evicted::{self, NotEvicted};
use crate::output::{self, style};
use crate::world::World;
use giveway_crds::condition::Reason;
use giveway_crds::native;
use giveway_crds::policy::{PreemptFor, PreemptionPolicy};
use giveway_crds::wording::conditions::pending;
use giveway_crds::wording::{agree, counted, part_of};
use giveway_planner::model::Pod;
use giveway_planner::{
    Cost, Criterion, Decision, Domain, ObjectKey, Placement, Plan, Preemptor, Strategy, UnitKind, Victim,
};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The answer that `plan` prints.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlanAnswer {
    /// True if the preemptor's pods fit now or after the victims have terminated.
    pub(crate) schedulable: bool,
    /// True if pods have to be evicted.
    pub(crate) preemption_needed: bool,
    /// Name of the planning algorithm.
    pub(crate) strategy: &'static str,
    /// The preemptor as `podgroup/NAMESPACE/NAME` or `pod/NAMESPACE/NAME`; several are joined by commas.
    pub(crate) preemptor: String,
    /// The effective priority; of several preemptors the highest.
    pub(crate) priority: i32,
    /// The topology domain of the placements, if the group must be placed within one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) domain: Option<DomainLine>,
    /// The node of each placed pod.
    pub(crate) placements: Vec<PlacementLine>,
    /// The evicted units: pods, or groups that are disrupted together.
    pub(crate) victims: Vec<VictimLine>,
    /// Units of lower priority that run on a node of a placement and are not evicted.
    pub(crate) not_evicted: Vec<NotEvicted>,
    /// Every pod that is evicted.
    pub(crate) victim_pods: Vec<String>,
    /// Number of evicted pods whose eviction violates a budget.
    pub(crate) budget_violations: usize,
    /// The cost of the plan.
    pub(crate) cost: CostLine,
    /// What is proven about the cost; absent for several preemptors, and for strategies that prove nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) proof: Option<ProofLine>,
    /// Details of a plan for a critical add-on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) critical_addon: Option<RescueLine>,
    /// Pods that are already terminating and must terminate before the preemptor fits.
    pub(crate) awaited: Vec<String>,
    /// Number of members without a placement.
    pub(crate) left: usize,
    /// Reason why it is not schedulable, in one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<&'static str>,
    /// The answer in a sentence.
    pub(crate) message: String,
    /// How the plan was found.
    pub(crate) trace: Vec<String>,
    /// Single changes that would make it schedulable, as sentences, if an explanation is asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) changes: Vec<String>,
    /// Constraints that the planner does not model.
    pub(crate) not_modeled: Vec<String>,
    /// Additional notes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) notes: Vec<String>,
    /// The answers one by one, if there is more than one preemptor.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) decisions: Vec<PlanAnswer>,
}

/// The nodes with this value of a label.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct DomainLine {
    /// Key of the label.
    pub(crate) key: String,
    /// Its value.
    pub(crate) value: String,
}

impl DomainLine {
    /// Converts a topology domain to the form in which it is printed; `None` stays `None`.
    fn of(domain: Option<&Domain>) -> Option<Self> {
        domain.map(|domain| Self { key: domain.key.to_string(), value: domain.value.to_string() })
    }
}

/// Returns the topology domain as part of a sentence, such as ` in rack=r3`, or an empty string without a domain.
fn within(domain: Option<&Domain>) -> String {
    domain.map(|domain| format!(" in {domain}")).unwrap_or_default()
}

/// A pod and its node.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PlacementLine {
    pub(crate) pod: String,
    pub(crate) node: String,
}

/// Details of a plan for a critical add-on.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RescueLine {
    /// Escalation step, from 1 to 3.
    pub(crate) step: i32,
    /// What the step means for the victims.
    pub(crate) means: &'static str,
    /// True if the node gets the taint `CriticalAddonsOnly`; otherwise the pod is nominated.
    pub(crate) taint: bool,
    /// How the capacity is reserved, as a sentence.
    pub(crate) kept: String,
    /// Number of pods whose termination grace period is shortened.
    pub(crate) shortened_graces: usize,
}

/// The termination grace period of a pod.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct GraceLine {
    pub(crate) pod: String,
    /// Seconds in the pod's spec.
    pub(crate) seconds: i64,
    /// Seconds that the eviction grants.
    pub(crate) given: i64,
}

/// A unit that is evicted.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct VictimLine {
    /// `Pod` or `PodGroup`.
    pub(crate) kind: &'static str,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) priority: i32,
    /// Controller of its pods, as `Job/train`.
    pub(crate) owner: Option<String>,
    /// Number of pods that its group, or else its owner, loses.
    pub(crate) loses: Loss,
    pub(crate) pods: Vec<String>,
    pub(crate) nodes: Vec<String>,
    pub(crate) violates_budget: bool,
    pub(crate) why: String,
    /// Grace period of each of its pods, if the unit is evicted for a critical add-on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) graces: Vec<GraceLine>,
}

/// What a plan evicts of a group, or of the pods of one owner.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Loss {
    /// Pods that this plan evicts.
    pub(crate) pods: usize,
    /// Pods that have a node now.
    pub(crate) of: usize,
    /// The group or owner; absent for a pod on its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unit: Option<String>,
}

/// The cost of a plan; fields in the order in which plans are compared.
#[derive(Clone, Copy, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CostLine {
    pub(crate) budget_violations: usize,
    pub(crate) highest_victim_priority: Option<i32>,
    /// Victim pods that fit on no other node than their own after the plan.
    pub(crate) stranded_pods: usize,
    /// GPUs of the victims, times the seconds since their start.
    pub(crate) lost_gpu_seconds: u64,
    /// CPU cores of the victims without GPUs, times the seconds since their start.
    pub(crate) lost_core_seconds: u64,
    pub(crate) victim_pods: usize,
    pub(crate) victim_groups: usize,
}

/// What is proven about the cost of a plan.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProofLine {
    /// The last criterion by which no plan is cheaper: `BudgetViolations`, `HighestPriority` or `PrioritySum`.
    pub(crate) proven_up_to: &'static str,
    /// At least this many pods are evicted by every plan that costs no more by budget violations and highest priority; 0 if it is
    /// not known.
    pub(crate) least_victim_pods: usize,
}

impl From<&Cost> for CostLine {
    /// Copies the cost of a plan into the form in which it is printed.
    fn from(cost: &Cost) -> Self {
        Self {
            budget_violations: cost.budget_violations,
            highest_victim_priority: cost.highest_priority,
            stranded_pods: cost.stranded_pods,
            lost_gpu_seconds: cost.lost_work.gpu_seconds,
            lost_core_seconds: cost.lost_work.millicore_seconds / 1000,
            victim_pods: cost.victim_pods,
            victim_groups: cost.victim_groups,
        }
    }
}

impl PlanAnswer {
    /// Returns what `plan` prints about the decision for one preemptor (`outcome`). `strategy` is the name of the planning algorithm.
    pub(crate) fn new(world: &World, outcome: &DecisionOutcome, strategy: &'static str) -> Self {
        let mut answer =
            Self { strategy, preemptor: outcome.preemptor.to_string(), priority: outcome.priority, ..Self::default() };
        match &outcome.decision {
            Decision::Fits { placements, left, domain } => {
                answer.schedulable = true;
                answer.left = *left;
                answer.domain = DomainLine::of(domain.as_ref());
                let within = within(domain.as_ref());
                answer.message = match left {
                    0 => format!("It fits{within} now; no pod is evicted."),
                    left => format!("It fits{within} now, without {left} of its pods; no pod is evicted."),
                };
                answer.placements = placements.iter().map(placement).collect();
            }
            Decision::Preempt(plan) => {
                answer.fill_from_plan(world, plan);
                answer.left = without_placement(world, &outcome.preemptor, plan.placements.len());
                answer.notes.extend(beyond_min_count(world, &outcome.preemptor, &answer));
                answer.not_evicted = outcome.sparing.units.iter().map(NotEvicted::from).collect();
                answer.trace.extend(outcome.sparing.others.iter().cloned());
                if answer.preemption_needed {
                    answer.notes.extend(not_by_giveway(world, &outcome.preemptor));
                }
            }
            Decision::Unschedulable(shortfall) => {
                let reason = match (shortfall.is_exhausted(), shortfall.is_for_budgets()) {
                    (true, _) => Reason::SearchLimitReached,
                    (false, true) => Reason::UnschedulableGuaranteedBudget,
                    (false, false) => Reason::Unschedulable,
                };
                answer.set_unschedulable(reason, shortfall.to_string());
            }
            Decision::Unknown(unknown) => answer.set_unschedulable(Reason::Unschedulable, unknown.to_string()),
            Decision::WaitingForPods { live, min_count, finished, below } => {
                let below = match below {
                    0 => String::new(),
                    below => format!(
                        ", {} below the group's priority and {}",
                        counted(*below, "more is", "more are"),
                        agree(*below, "does not count", "do not count")
                    ),
                };
                let done = match finished {
                    0 => String::new(),
                    finished => format!(", {} finished", counted(*finished, "has", "have")),
                };
                let exist = part_of(*live, *min_count, ("pod", "pods"), ("exists", "exist"));
                let message = format!("{exist}{done}{below}; it waits for the others.");
                answer.set_unschedulable(Reason::WaitingForPods, message);
            }
            Decision::Nothing if world.is_unserved(&outcome.preemptor) => {
                answer.set_unschedulable(Reason::NotServed, pending::not_served(&outcome.preemptor.key().namespace));
            }
            Decision::Nothing => {
                answer.schedulable = true;
                answer.message = "None of its pods is pending.".to_owned();
            }
        }
        answer
    }

    /// Returns the answer for pods whose PodGroup `group` does not exist: they stay gated. `strategy` is the name of the planning
    /// algorithm.
    pub(crate) fn missing_group(group: &ObjectKey, strategy: &'static str) -> Self {
        let mut answer = Self { strategy, preemptor: format!("podgroup/{group}"), ..Self::default() };
        let message = format!("PodGroup {group} does not exist: its pods stay gated until it does.");
        answer.set_unschedulable(Reason::PodGroupNotFound, message);
        answer
    }

    /// Prints the answer on standard output. `explain` adds the steps of the decision to a table.
    pub(crate) fn print(&self, format: Format, explain: bool) -> Result<(), CliError> {
        let text = match format {
            Format::Json => serde_json::to_string_pretty(self).map_err(std::io::Error::from).map(|text| text + "\n"),
            Format::Yaml => serde_yaml_ng::to_string(self).map_err(std::io::Error::other),
            Format::Dot => Ok(dot::graph(self)),
            Format::Table => Ok(table::plan(self, explain, style::width())),
        };
        output::show(&text.map_err(CliError::stdout)?)
    }

    /// Merges the answers for several preemptors into one, with all placements and victims. It is schedulable if all of them are;
    /// members of a gang beyond `minCount` do not count.
    pub(crate) fn merge(answers: Vec<Self>) -> Self {
        let mut parts = answers.into_iter();
        let Some(first) = parts.next() else {
            return Self { schedulable: true, message: "No pod is pending.".to_owned(), ..Self::default() };
        };
        let rest: Vec<Self> = parts.collect();
        if rest.is_empty() {
            return first;
        }
        let mut sum = Self { schedulable: true, strategy: first.strategy, priority: i32::MIN, ..Self::default() };
        let mut names: Vec<String> = Vec::new();
        let decisions: Vec<Self> = std::iter::once(first).chain(rest).collect();
        let mut served: BTreeSet<&str> = BTreeSet::new();
        for part in &decisions {
            // Members beyond `minCount` that do not fit do not make a group unschedulable.
            let spare = !part.schedulable && served.contains(part.preemptor.as_str());
            if part.schedulable {
                served.insert(&part.preemptor);
            } else if !spare {
                sum.schedulable = false;
                sum.reason = sum.reason.or(part.reason);
            }
            if !names.contains(&part.preemptor) {
                names.push(part.preemptor.clone());
            }
            sum.absorb(part);
        }
        sum.not_evicted = not_evicted_by_any(&decisions);
        sum.message = summary(&decisions);
        sum.preemptor = names.join(",");
        sum.decisions = decisions;
        sum
    }

    /// Adds the placements, victims, costs and notes of another preemptor's answer to this one.
    fn absorb(&mut self, part: &Self) {
        self.preemption_needed |= part.preemption_needed;
        self.priority = self.priority.max(part.priority);
        self.placements.extend(part.placements.iter().cloned());
        self.victims.extend(part.victims.iter().cloned());
        self.victim_pods.extend(part.victim_pods.iter().cloned());
        self.budget_violations += part.budget_violations;
        self.cost.budget_violations += part.cost.budget_violations;
        self.cost.stranded_pods += part.cost.stranded_pods;
        self.cost.lost_gpu_seconds = self.cost.lost_gpu_seconds.saturating_add(part.cost.lost_gpu_seconds);
        self.cost.lost_core_seconds = self.cost.lost_core_seconds.saturating_add(part.cost.lost_core_seconds);
        self.cost.victim_pods += part.cost.victim_pods;
        self.cost.victim_groups += part.cost.victim_groups;
        self.cost.highest_victim_priority = self.cost.highest_victim_priority.max(part.cost.highest_victim_priority);
        self.awaited.extend(part.awaited.iter().cloned());
        for (list, more) in
            [(&mut self.trace, &part.trace), (&mut self.not_modeled, &part.not_modeled), (&mut self.notes, &part.notes)]
        {
            for line in more {
                if !list.contains(line) {
                    list.push(line.clone());
                }
            }
        }
    }

    /// Sets the reason and the message why the pods of this answer do not fit.
    pub(crate) fn set_unschedulable(&mut self, reason: Reason, message: String) {
        (self.reason, self.message) = (Some(reason.as_str()), message);
    }

    /// Sets the fields of this answer from a plan that evicts pods or waits for terminating pods.
    pub(crate) fn fill_from_plan(&mut self, world: &World, plan: &Plan) {
        self.schedulable = true;
        self.preemption_needed = !plan.victims.is_empty();
        self.strategy = plan.strategy;
        self.placements = plan.placements.iter().map(placement).collect();
        self.victims = victims(world, &plan.victims);
        self.victim_pods = plan.victims.iter().flat_map(|v| &v.pods).map(|pod| pod.key.to_string()).collect();
        self.budget_violations = plan.cost.budget_violations;
        self.cost = CostLine::from(&plan.cost);
        self.awaited = plan.awaited.iter().map(ToString::to_string).collect();
        self.domain = DomainLine::of(plan.domain.as_ref());
        let within = within(plan.domain.as_ref());
        self.message = match plan.victims.len() {
            0 => {
                let leaving =
                    counted(plan.awaited.len(), "pod that is leaving anyway has", "pods that are leaving anyway have");
                format!("It fits{within} once {leaving} terminated.")
            }
            _ => format!("It fits{within} once its victims have terminated: {}.", plan.cost),
        };
        if plan.strategy == Strategy::LeastCost.as_str() && self.preemption_needed {
            let line = |criterion: Criterion| ProofLine {
                proven_up_to: criterion.as_str(),
                least_victim_pods: plan.least.pods(&plan.cost),
            };
            self.proof = plan.least.proves(&plan.cost).map(line);
            self.message.extend(plan.least.necessary(&plan.cost).map(|necessary| format!(" {necessary}")));
        }
        self.trace.clone_from(&plan.trace);
        self.not_modeled.clone_from(&plan.not_modeled);
    }
}

/// Returns a note if the preemptor is a single pod for which kube-scheduler preempts, and not Giveway: it may choose other victims.
/// Otherwise returns `None`.
fn not_by_giveway(world: &World, preemptor: &Preemptor) -> Option<String> {
    let Preemptor::Pod(key) = preemptor else { return None };
    let pod = world.cluster.pod(key)?;
    if let Some(group) = pod.group.as_deref().and_then(native::own_name) {
        return Some(format!(
            "The pod belongs to native pod group {group}: kube-scheduler may preempt for that group, and Giveway does not."
        ));
    }
    if pod.annotation_policy.is_some() || pod.group.is_some() || pod.spec_policy == PreemptionPolicy::Never {
        return None;
    }
    let class = match pod.priority_class_name.as_deref().filter(|name| !name.is_empty()) {
        Some(name) => format!("Priority class {name} is not managed by Giveway"),
        None => "The pod has no priority class that Giveway manages".to_owned(),
    };
    Some(format!("{class}: kube-scheduler preempts for it, and may choose other victims."))
}

/// Returns how many pending members of the preemptor's group have no placement in a plan, which places `placed` of them; 0 for a single
/// pod.
fn without_placement(world: &World, preemptor: &Preemptor, placed: usize) -> usize {
    let Preemptor::Group(key) = preemptor else { return 0 };
    world.pending_members(key).saturating_sub(placed)
}

/// Returns a note if members of the preemptor's gang have no placement because pods are evicted for `minCount` members only; otherwise
/// `None`.
fn beyond_min_count(world: &World, preemptor: &Preemptor, answer: &PlanAnswer) -> Option<String> {
    let group = world.cluster.group(preemptor.key()).filter(|_| matches!(preemptor, Preemptor::Group(_)))?;
    let limited = group.min_count.is_some() && group.preempt_for == PreemptFor::MinCount;
    (limited && answer.left > 0 && answer.strategy == Strategy::LeastCost.as_str()).then(|| {
        format!(
            "{} placed, and {} beyond minCount {} free capacity only: no pod is evicted for more \
             (spec.preemptFor: MinCount).",
            counted(answer.placements.len(), "member is", "members are"),
            counted(answer.left, "member", "members"),
            agree(answer.left, "uses", "use")
        )
    })
}

/// Returns the line that says on which node a member is placed.
fn placement(placement: &Placement) -> PlacementLine {
    placed(&placement.pod, &placement.node)
}

/// Returns the line that says on which node a pod is placed.
pub(crate) fn placed(pod: &ObjectKey, node: &str) -> PlacementLine {
    PlacementLine { pod: pod.to_string(), node: node.to_owned() }
}

/// Returns a sentence that counts these decisions: how many fit now, fit after evictions, or do not fit.
fn summary(decisions: &[PlanAnswer]) -> String {
    let count = |want: fn(&PlanAnswer) -> bool| decisions.iter().filter(|answer| want(answer)).count();
    let fit = count(|answer| answer.schedulable && !answer.preemption_needed);
    let preempt = count(|answer| answer.preemption_needed);
    let wait = count(|answer| !answer.schedulable);
    let mut parts = Vec::new();
    for (count, what) in [
        (fit, agree(fit, "fits now", "fit now")),
        (preempt, agree(preempt, "fits once its victims have terminated", "fit once their victims have terminated")),
        (wait, agree(wait, "does not fit", "do not fit")),
    ] {
        if count > 0 {
            parts.push(format!("{count} {what}"));
        }
    }
    format!("Of {}, {}.", counted(decisions.len(), "decision", "decisions"), parts.join(", "))
}

/// That whose lost pods are counted together: the PodGroup of an evicted pod, or else its owner, or else the pod itself.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum LossUnit {
    Group(ObjectKey),
    Owner(String, String),
    Alone(ObjectKey),
}

impl LossUnit {
    /// Returns what the loss of this pod is counted for: its PodGroup, or else its owner, or else the pod itself.
    fn of(world: &World, pod: &Pod) -> Self {
        match (world.cluster.group_of(pod), owner(pod)) {
            (Some(group), _) => Self::Group(group.key.clone()),
            (None, Some(owner)) => Self::Owner(pod.key.namespace.to_string(), owner),
            (None, None) => Self::Alone(pod.key.clone()),
        }
    }

    /// Returns the group or owner as `PodGroup/train` or `Job/train`; `None` for a pod that has neither.
    fn name(&self) -> Option<String> {
        match self {
            Self::Group(key) => Some(format!("PodGroup/{}", key.name)),
            Self::Owner(_, owner) => Some(owner.clone()),
            Self::Alone(_) => None,
        }
    }
}

/// Returns the controller of a pod, as `Job/train`; for a ReplicaSet of a Deployment, the Deployment. `None` without a controller.
fn owner(pod: &Pod) -> Option<String> {
    let owner = pod.owner.as_ref()?;
    if owner.kind == "ReplicaSet"
        && let Some(hash) = pod.labels.get("pod-template-hash")
        && let Some(deployment) = owner.name.strip_suffix(hash).and_then(|name| name.strip_suffix('-'))
    {
        return Some(format!("Deployment/{deployment}"));
    }
    Some(format!("{}/{}", owner.kind, owner.name))
}

/// Returns a line for each victim, with the number of pods that its group or owner loses and has.
fn victims(world: &World, victims: &[Victim]) -> Vec<VictimLine> {
    let cluster = &world.cluster;
    let whole = |key: &ObjectKey| cluster.pod(key).map(|pod| LossUnit::of(world, pod));
    let mut lost: BTreeMap<LossUnit, usize> = BTreeMap::new();
    for pod in victims.iter().flat_map(|victim| &victim.pods).filter_map(|pod| whole(&pod.key)) {
        *lost.entry(pod).or_default() += 1;
    }
    let mut have: BTreeMap<LossUnit, usize> = BTreeMap::new();
    for pod in cluster.pods().filter(|pod| pod.bound() && !pod.ended()) {
        let whole = LossUnit::of(world, pod);
        if lost.contains_key(&whole) {
            *have.entry(whole).or_default() += 1;
        }
    }
    let line = |victim: &Victim| {
        let whole = victim.pods.first().and_then(|pod| whole(&pod.key)).unwrap_or(LossUnit::Alone(victim.key.clone()));
        let owners: BTreeSet<String> =
            victim.pods.iter().filter_map(|pod| cluster.pod(&pod.key)).filter_map(owner).collect();
        let nodes: BTreeSet<String> = victim.pods.iter().map(|pod| pod.node.to_string()).collect();
        VictimLine {
            kind: victim.kind.as_str(),
            namespace: victim.key.namespace.to_string(),
            name: victim.key.name.to_string(),
            priority: victim.priority,
            owner: (!owners.is_empty()).then(|| owners.into_iter().collect::<Vec<_>>().join(", ")),
            loses: Loss {
                pods: lost.get(&whole).copied().unwrap_or(victim.pods.len()),
                of: have.get(&whole).copied().unwrap_or(victim.pods.len()),
                unit: whole.name(),
            },
            pods: victim.pods.iter().map(|pod| pod.key.to_string()).collect(),
            nodes: nodes.into_iter().collect(),
            violates_budget: victim.violates_budget,
            why: victim.why.to_string(),
            graces: Vec::new(),
        }
    };
    victims.iter().map(line).collect()
}

impl VictimLine {
    /// Returns how many of its pods the victim's group or owner loses, such as `2 of 8 pods`.
    pub(crate) fn loss(&self) -> String {
        let Loss { pods, of, unit } = &self.loses;
        let all = counted(*of, "pod", "pods");
        match unit {
            _ if self.kind == UnitKind::PodGroup.as_str() => format!("whole group, {pods} of {all}"),
            Some(unit) if unit.starts_with("PodGroup/") => format!("{pods} of {all} of {unit}"),
            Some(_) => format!("{pods} of {all}"),
            None => "the pod".to_owned(),
        }
    }

    /// Returns the victim as `podgroup/NAMESPACE/NAME` or `pod/NAMESPACE/NAME`.
    pub(crate) fn reference(&self) -> String {
        not_evicted::reference(self.kind, &self.namespace, &self.name)
    }
}

/// Returns the pods and PodGroups that at least one decision lists as not evicted and no decision evicts, as the first of these
/// decisions describes them.
fn not_evicted_by_any(decisions: &[PlanAnswer]) -> Vec<NotEvicted> {
    let victims = decisions.iter().flat_map(|part| &part.victims);
    let mut seen: BTreeSet<_> = victims.map(|victim| (victim.kind, &*victim.namespace, &*victim.name)).collect();
    let units = decisions.iter().flat_map(|part| &part.not_evicted);
    units.filter(|unit| seen.insert((unit.kind, &*unit.namespace, &*unit.name))).cloned().collect()
}
