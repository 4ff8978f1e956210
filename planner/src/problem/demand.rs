//! Demand of a preemptor: the pending members, how many of them must fit together, and their equivalence classes.

use super::effort::Effort;
use crate::api::{Context, Decision, Preemptor, Refusal, Strategy};
use crate::filters::{Nodes, Occupancy, unsuitable};
use crate::model::{Cluster, Group, Pod, PodIndex};
use giveway_crds::policy::{PreemptFor, PreemptionPolicy};
use smol_str::SmolStr;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// What a preemptor demands: its pending pods, and how many of them must fit together.
pub(crate) struct Demand {
    /// Priority that counts for it.
    pub(crate) priority: i32,
    /// Preemption policy: whether pods may be evicted for it.
    pub(crate) policy: PreemptionPolicy,
    /// The pending members, by name.
    pub(crate) members: Vec<PodIndex>,
    /// How many of them must fit together.
    pub(crate) need: usize,
    /// For how many of them units are evicted; the others use free capacity only. Not below `need`.
    pub(crate) wanted: usize,
    /// True if `minCount` members are bound and units are evicted for no further one.
    pub(crate) optional: bool,
    /// Whether the preemptor is one pod, so that each node is a domain of its own.
    pub(crate) single: bool,
    /// The topology domains, in one of which all members must be placed; `None` without a topology constraint.
    pub(crate) domains: Option<Domains>,
}

/// The topology constraint of a group, with the one domain that members have fixed.
pub(crate) struct Domains {
    /// Key of the node label.
    pub(crate) key: SmolStr,
    /// The only permitted value, if members are bound or were ungated for one domain; `Some(None)` if they have no value in common.
    pub(crate) pinned: Option<Option<SmolStr>>,
}

impl Domains {
    /// Returns the topology constraint of a group, with the domain that its members have fixed: those that are bound, or ungated for one
    /// domain, unless they terminate, have ended, or are evicted by a plan in flight. `None` if the group has no topology constraint.
    fn of(cluster: &Cluster, group: &Group, context: &Context) -> Option<Self> {
        let key = group.topology.clone()?;
        let live = || cluster.members(&group.key).filter(|pod| pod.live() && !context.departing.contains(&pod.uid));
        // Pods on a node that no longer exists do not pin a domain: they will be removed.
        let nodes = live().filter_map(|pod| cluster.node(pod.node.as_deref()?));
        let bound = nodes.map(|node| node.labels.get(key.as_str()).map(SmolStr::new));
        let ungated = live().filter(|pod| !pod.bound() && !pod.gated).filter_map(|pod| pod.asks_for(&key));
        let mut pins: BTreeSet<Option<SmolStr>> = bound.chain(ungated.map(|value| Some(value.into()))).collect();
        let pinned = match pins.len() {
            0 => None,
            1 => pins.pop_first(),
            _ => Some(None),
        };
        Some(Self { key, pinned })
    }
}

/// Members of a preemptor that are equal for every scheduler filter.
pub(crate) struct MemberClass {
    /// The members, by name.
    pub(crate) members: Vec<PodIndex>,
    /// By rank: why the node is infeasible for them whatever else runs there; `None` if it is not.
    pub(crate) unsuitable: Vec<Option<Refusal>>,
}

#[allow(clippy::result_large_err, reason = "the answer is rare, and made once a decision")]
impl Demand {
    /// Returns the demand of a preemptor. Members that plans in flight evict do not count as members.
    ///
    /// # Errors
    /// The final decision, if there is nothing to plan: the preemptor does not exist, has no pending member, or has fewer pods than it
    /// needs.
    pub(crate) fn of(cluster: &Cluster, preemptor: &Preemptor, context: &Context) -> Result<Self, Decision> {
        let key = match preemptor {
            Preemptor::Pod(key) => return Self::of_pod(cluster, cluster.pod(key).ok_or(Decision::Nothing)?),
            Preemptor::Group(key) => key,
        };
        let group = cluster.group(key).ok_or(Decision::Nothing)?;
        let (mut bound, mut below, mut waiting) = (0, 0, Vec::new());
        for index in cluster.members_of(key) {
            match cluster.pod_at(*index) {
                Some(pod) if !pod.live() || context.departing.contains(&pod.uid) => {}
                Some(pod) if pod.bound() => bound += 1,
                Some(pod) if group.is_above(pod) => below += 1,
                Some(pod) if !pod.gated_by_others => waiting.push(*index),
                _ => {}
            }
        }
        let finished = if group.min_count.is_some() { cluster.finished(group) } else { 0 };
        if let Some(min_count) = group.min_count.filter(|min_count| bound + waiting.len() + finished < *min_count) {
            return Err(Decision::WaitingForPods { live: bound + waiting.len(), min_count, finished, below });
        }
        let lowest = waiting.iter().map(|pod| cluster.row(*pod).priority).min().ok_or(Decision::Nothing)?;
        let missing = group.min_count.map(|min_count| min_count.saturating_sub(bound + finished));
        let limited = group.preempt_for == PreemptFor::MinCount && context.strategy == Strategy::LeastCost;
        let limit = missing.filter(|_| limited);
        let optional = limit == Some(0);
        Ok(Self {
            priority: group.known_priority().unwrap_or(lowest),
            policy: if optional { PreemptionPolicy::Never } else { group.policy },
            need: missing.map_or(1, |missing| missing.max(1)),
            wanted: limit.map_or(waiting.len(), |missing| missing.max(1)),
            optional: optional && group.policy != PreemptionPolicy::Never,
            members: waiting,
            single: false,
            domains: Domains::of(cluster, group, context),
        })
    }

    /// Returns the demand of a single pod as preemptor.
    ///
    /// # Errors
    /// The final decision, if there is nothing to plan: the pod is not live, is bound, or has a scheduling gate that is not Giveway's.
    fn of_pod(cluster: &Cluster, pod: &Pod) -> Result<Self, Decision> {
        if !pod.live() || pod.bound() || pod.gated_by_others {
            return Err(Decision::Nothing);
        }
        Ok(Self {
            priority: cluster.effective_priority(pod),
            policy: cluster.effective_policy(pod),
            members: cluster.pod_index(&pod.key).into_iter().collect(),
            need: 1,
            wanted: 1,
            optional: false,
            single: true,
            domains: None,
        })
    }

    /// Returns the members by equivalence class, the largest class first: by the largest share of the total capacity of a resource, then by
    /// the sum of these shares, then by the name of the first member. Members that the inter-pod constraints in `room` treat differently
    /// are in different classes. Classes for which no effort is left are omitted: their members are not placed.
    pub(crate) fn classes(
        &self,
        cluster: &Cluster,
        nodes: &Nodes<'_>,
        room: &Occupancy<'_>,
        effort: &Effort,
    ) -> Vec<MemberClass> {
        let mut numbers: BTreeMap<_, usize> = BTreeMap::new();
        let mut alike: Vec<(&Pod, Vec<PodIndex>)> = Vec::new();
        for index in &self.members {
            let number =
                *numbers.entry((cluster.row(*index).class, room.constraint_class(*index))).or_insert(alike.len());
            if number == alike.len() {
                let Some(pod) = cluster.pod_at(*index) else { continue };
                alike.push((pod, Vec::new()));
            }
            alike[number].1.push(*index);
        }
        let mut sized: Vec<(i128, i128, MemberClass)> = Vec::with_capacity(alike.len());
        for (example, members) in alike {
            if !effort.take(nodes.len()) {
                break;
            }
            let shares = example.requests.iter().map(|(id, amount)| share(amount, cluster.offered(id)));
            let (largest, sum) = shares.fold((0, 0i128), |(largest, sum), s| (s.max(largest), sum.saturating_add(s)));
            let unsuitable = if nodes.all_suitable() {
                vec![None; nodes.len()]
            } else {
                (0..nodes.len()).map(|rank| unsuitable(example, nodes.at(rank))).collect()
            };
            sized.push((largest, sum, MemberClass { members, unsuitable }));
        }
        sized.sort_by_key(|(largest, sum, _)| Reverse((*largest, *sum)));
        sized.into_iter().map(|(_, _, class)| class).collect()
    }
}

/// Returns `amount` as a share of `offered`, in billionths; a very large number if nothing is offered.
fn share(amount: i128, offered: i128) -> i128 {
    if offered <= 0 { i128::MAX / 2 } else { amount.saturating_mul(1_000_000_000) / offered }
}
