//! Bans in the arbiter: what a plan has learned is not tried again, and the next leader knows it, too.

use super::Arbiter;
use crate::clock::Clock;
use crate::limits::bans::{Ban, BanSubject, ends_when_bound};
use crate::plans::Flight;
use giveway_crds::ban::{MOST_BANS, StoredBan};
use giveway_crds::plan::PlanState;
use giveway_crds::preemption::PreemptionStatus;
use giveway_crds::wording::conditions::pending::{placement_banned, victim_banned};
use giveway_planner::model::{ObjectKey, Pod};
use giveway_planner::{Placement, Preemptor, SmolStr};
use k8s_openapi::jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

/// Returns when a ban ends, as a timestamp for messages.
fn end_time(ban: &Ban) -> Timestamp {
    Timestamp::from_second(ban.until).unwrap_or_default()
}

/// Returns the sentence that says that the pod with this name is banned on a node, or on every node if `node` is `None`, until when and
/// why.
fn ban_sentence(pod: &str, node: Option<&str>, ban: &Ban) -> String {
    placement_banned(pod, node, end_time(ban), &ban.why)
}

impl Arbiter {
    /// Bans the placements of an ended plan that kube-scheduler did not bind and the victims whose eviction was rejected; if the plan has
    /// completed, ends the bans of the placements that it bound. `why` is the message of the plan. Returns the bans to store in the
    /// `Preemption`.
    pub(super) fn note_bans(&mut self, flight: &Flight, state: PlanState, why: &str, clock: Clock) -> Vec<StoredBan> {
        if state == PlanState::Completed {
            self.end_bans_of_bound(flight, clock);
        }
        let unbound: BTreeMap<&SmolStr, &SmolStr> = flight.unbound.iter().map(|(uid, node)| (uid, node)).collect();
        let mut banned: BTreeSet<(BanSubject, &SmolStr)> = BTreeSet::new();
        for member in &flight.members {
            let pod = self.model.cluster.pod(&member.pod).filter(|pod| pod.uid == member.uid);
            if let (Some(pod), Some(node)) = (pod, unbound.get(&member.uid).copied()) {
                banned.insert((self.model.ban_subject_of(pod), node));
            }
        }
        let mut stored: Vec<StoredBan> = Vec::new();
        for (subject, node) in banned {
            let bans = self.restraint.bans.ban_placement(subject, node, why, &flight.plan.id, clock.epoch_seconds);
            for ban in bans {
                // The ban on every node is repeated with each further node.
                if !stored.contains(&ban) {
                    stored.push(ban);
                }
            }
        }
        for victim in flight.victims.iter().filter(|victim| flight.forbidden.contains(&victim.uid)) {
            let Some(why) = flight.refused.get(&victim.uid) else { continue };
            let (bans, plan) = (&mut self.restraint.bans, &flight.plan.id);
            stored.push(bans.ban_eviction(&victim.pod, &victim.uid, why, plan, clock.epoch_seconds));
        }
        stored.sort_by_key(|ban| ban.node.is_some());
        stored.truncate(MOST_BANS);
        stored
    }

    /// Ends the bans of the members that kube-scheduler has bound to their placements.
    fn end_bans_of_bound(&mut self, flight: &Flight, clock: Clock) {
        if self.restraint.bans.has_no_placement() {
            return;
        }
        let mut bound: Vec<(BanSubject, SmolStr)> = Vec::new();
        for member in &flight.members {
            let pod = self.model.cluster.pod(&member.pod).filter(|pod| pod.uid == member.uid);
            let Some((pod, node)) = pod.and_then(|pod| Some((pod, pod.node.as_ref()?))) else { continue };
            let subject = self.model.ban_subject_of(pod);
            if self.restraint.bans.bound(&subject, node) {
                bound.push((subject, node.clone()));
            }
        }
        if !bound.is_empty() {
            self.model.version += 1;
            self.end_stored_bans(&bound, clock);
        }
    }

    /// Ends the bans of these bound pods (each with its node) in every stored `Preemption` that has them, because the next leader restores
    /// bans that have not ended. The plan that bound them may have no `Preemption`, because it has no victims.
    fn end_stored_bans(&mut self, bound: &[(BanSubject, SmolStr)], clock: Clock) {
        let ends = |ban: &StoredBan| {
            bound.iter().any(|(subject, node)| ends_when_bound(ban, subject, node, clock.epoch_seconds))
        };
        let mut changed: Vec<(SmolStr, PreemptionStatus)> = Vec::new();
        for (plan, record) in self.model.plans.iter() {
            let shown = Some(&record.status).filter(|_| record.has_ended());
            let Some(last) = self.plan_store.last_status(plan).or(shown) else { continue };
            if last.bans.iter().any(ends) {
                changed.push((plan.clone(), last.clone()));
            }
        }
        for (plan, mut last) in changed {
            last.bans.iter_mut().filter(|ban| ends(ban)).for_each(|ban| ban.until = clock.time());
            self.plan_store.write_last_status(&plan, self.leadership.term(), last);
        }
    }

    /// Restores the bans that earlier leaders wrote into the status of stored plans, unless they have ended.
    pub(super) fn resume_bans(&mut self, clock: Clock) {
        let bans = self.model.plans.iter().flat_map(|(_, record)| &record.status.bans);
        let uids: BTreeSet<&str> = bans.filter_map(|ban| ban.pod_uid.as_deref()).collect();
        let is_named = |pod: &&Pod| !uids.is_empty() && uids.contains(pod.uid.as_str());
        let pods = self.model.cluster.pods().filter(is_named);
        let names: BTreeMap<&str, &ObjectKey> = pods.map(|pod| (pod.uid.as_str(), &pod.key)).collect();
        let named = |uid: &str| names.get(uid).copied().cloned();
        for (plan, record) in self.model.plans.iter() {
            self.restraint.bans.restore(plan, &record.status.bans, clock.epoch_seconds, named);
        }
    }

    /// Returns the UIDs of all pods on the nodes on which pods of this preemptor are banned, if one of these placements is banned and no
    /// pod is banned on every node; otherwise `None`. If the planner excludes these pods as victims, it may find another node.
    pub(super) fn pods_on_banned_nodes(
        &self,
        preemptor: &Preemptor,
        placements: &[Placement],
    ) -> Option<BTreeSet<SmolStr>> {
        let subjects = self.subjects(preemptor);
        let bans = &self.restraint.bans;
        let is_everywhere = subjects.keys().any(|subject| bans.everywhere(subject).is_some());
        if is_everywhere || self.banned(placements).is_none() {
            return None;
        }
        let nodes: BTreeSet<&SmolStr> =
            subjects.keys().flat_map(|subject| bans.nodes(subject)).map(|(node, _)| node).collect();
        let pods = nodes.into_iter().flat_map(|node| self.model.cluster.pods_on(node));
        Some(pods.map(|pod| pod.uid.clone()).collect())
    }

    /// Returns the sentence about the first of these placements that is banned, so that a plan with them must not be carried out; `None` if
    /// none is.
    pub(super) fn banned(&self, placements: &[Placement]) -> Option<String> {
        let bans = &self.restraint.bans;
        if bans.has_no_placement() {
            return None;
        }
        placements.iter().find_map(|placed| {
            let subject = self.model.ban_subject_of(self.model.cluster.pod(&placed.pod)?);
            let everywhere = bans.everywhere(&subject).map(|ban| ban_sentence(&placed.pod.name, None, ban));
            let here =
                || bans.on(&subject, &placed.node).map(|ban| ban_sentence(&placed.pod.name, Some(&placed.node), ban));
            everywhere.or_else(here)
        })
    }

    /// Returns the sentence about the first pending pod of the preemptor that must not be placed on any node by evictions; `None` if there
    /// is none.
    pub(super) fn banned_everywhere(&self, preemptor: &Preemptor) -> Option<String> {
        let bans = &self.restraint.bans;
        let subjects = self.subjects(preemptor);
        subjects.iter().find_map(|(subject, pod)| Some(ban_sentence(pod, None, bans.everywhere(subject)?)))
    }

    /// Returns a sentence about the first ban of a pending pod of the preemptor, on every node or on one; `None` if there is none.
    pub(super) fn banned_nodes_in_words(&self, preemptor: &Preemptor) -> Option<String> {
        let bans = &self.restraint.bans;
        let subjects = self.subjects(preemptor);
        let on_node = || {
            subjects.iter().find_map(|(subject, pod)| {
                let (node, ban) = bans.nodes(subject).next()?;
                Some(ban_sentence(pod, Some(node), ban))
            })
        };
        self.banned_everywhere(preemptor).or_else(on_node)
    }

    /// Returns a sentence about the first pod of a lower priority than `priority` that is banned as a victim, because its eviction was
    /// rejected; `None` if there is none. It has only names that the preemptor's namespace may see.
    pub(super) fn banned_victim_in_words(&self, preemptor: &Preemptor, priority: i32) -> Option<String> {
        let cluster = &self.model.cluster;
        let may_be_victim = |pod: &ObjectKey, uid: &str| {
            let found = cluster.pod(pod).filter(|found| found.uid == uid && found.live());
            found.is_some_and(|found| cluster.effective_priority(found) < priority)
        };
        let mut bans = self.restraint.bans.evictions();
        let (pod, uid, ban) = bans.find(|(pod, uid, _)| may_be_victim(pod, uid))?;
        let sentence = victim_banned(pod, uid, end_time(ban), &ban.why);
        Some(self.config.names().render(&sentence, &preemptor.key().namespace))
    }

    /// Returns what the pending pods of a preemptor are to a ban of placements: a single pod, or all pods of a controller with one
    /// template; each with the name of one of the pending pods. Empty if no placement is banned at all.
    fn subjects(&self, preemptor: &Preemptor) -> BTreeMap<BanSubject, SmolStr> {
        if self.restraint.bans.has_no_placement() {
            return BTreeMap::new();
        }
        let cluster = &self.model.cluster;
        let pods: Vec<&Pod> = match preemptor {
            Preemptor::Group(key) => self.model.pending.of_group(key).filter_map(|pod| cluster.pod(pod)).collect(),
            Preemptor::Pod(key) => cluster.pod(key).into_iter().collect(),
        };
        pods.into_iter().map(|pod| (self.model.ban_subject_of(pod), pod.key.name.clone())).collect()
    }
}
