//! Interruptions: a plan ends between the evictions of the pods of one PodGroup in mode `PodGroup`. Promise 2 is judged at rest as always: the
//! PodGroup, of which pods were evicted, is evicted as a whole.

use super::{Event, World};
use crate::simulation::object::{Kind, Pod, text};
use crate::simulation::owners::Owner;
use crate::simulation::plot::{Interruption, Turn};
use giveway_operator::messages::command::{Command, EvictCall, EvictionCause};
use serde_json::Value;
use std::collections::BTreeMap;

/// For this time the API server rejects the evictions of the other pods as an overload (429), in milliseconds, so that the operator observes
/// the interruption before it has evicted them.
const OVERLOADED: u64 = 3_000;

/// A cordoned node is uncordoned after this time, in milliseconds.
const CORDONED: u64 = 20_000;

/// The interruptions of a simulation.
#[derive(Default)]
pub struct Interruptions {
    /// How the next plan ends that evicts a pod of a PodGroup with other pods.
    next: Option<Interruption>,
    /// The pods, by UID, whose evictions are rejected until a time, in milliseconds.
    rejected: BTreeMap<String, u64>,
    /// The number of PodGroups with an interrupted eviction.
    pub count: usize,
}

impl World {
    /// Interrupts the next eviction of a PodGroup.
    pub(super) fn interrupt_next(&mut self, how: Interruption) {
        self.interruptions.next = Some(how);
    }

    /// Returns true if the API server rejects this call as an overload.
    pub(super) fn is_rejected_as_overload(&self, command: &Command) -> bool {
        let Command::Evict(eviction) = command else { return false };
        let until = self.interruptions.rejected.get(eviction.uid.as_str());
        !eviction.rehearsal && until.is_some_and(|until| self.now < *until)
    }

    /// Ends the plan of an accepted eviction if it has evicted one of several pods of a PodGroup.
    pub(super) fn interrupt(&mut self, eviction: &EvictCall) {
        let EvictionCause::Plan { id, .. } = &eviction.cause else { return };
        let Some(how) = self.interruptions.next else { return };
        let Some(plan) = self.server.get(Kind::Preemption, id).cloned() else { return };
        let others = self.other_pods(&plan, &eviction.uid);
        if others.is_empty() {
            return;
        }
        self.interruptions.next = None;
        self.interruptions.count += 1;
        self.say("outside", format!("{how:?} after the eviction of {}", eviction.pod.name));
        let until = self.now + OVERLOADED;
        self.interruptions.rejected.extend(others.into_iter().map(|uid| (uid, until)));
        match how {
            Interruption::PlanDeleted => self.delete_plan(&plan),
            Interruption::PreemptorDeleted => {
                let name = text(&plan, "/spec/preemptor/name");
                let is_of = |rest: &str| rest.is_empty() || rest.starts_with('-');
                let owns = |owner: &Owner| name.strip_prefix(owner.name.as_str()).is_some_and(is_of);
                if let Some(owner) = self.owners.iter().position(owns) {
                    self.turn(&Turn::End(owner));
                }
            }
            Interruption::NodeCordoned => {
                let node = text(&plan, "/spec/placements/0/node");
                if let Some(number) = node.strip_prefix('n').and_then(|number| number.parse::<usize>().ok()) {
                    self.turn(&Turn::Cordon(number - 1, true));
                    self.after(CORDONED, Event::Turn(Turn::Cordon(number - 1, false)));
                }
            }
        }
    }

    /// Returns the UIDs of the running pods that the plan evicts together with this pod.
    fn other_pods(&self, plan: &Value, evicted: &str) -> Vec<String> {
        let uids = |unit: &Value| -> Vec<String> {
            let pods = unit["pods"].as_array().into_iter().flatten();
            pods.map(|pod| text(pod, "/uid").to_owned()).collect()
        };
        let runs = |uid: &String| self.server.pod_of_uid(uid).is_some_and(|pod| Pod(pod).live());
        let units = plan["spec"]["victims"].as_array().into_iter().flatten();
        let mut groups = units.filter(|unit| unit["kind"] == "PodGroup").map(uids);
        let unit = groups.find(|unit| unit.iter().any(|uid| uid == evicted)).unwrap_or_default();
        unit.into_iter().filter(|uid| uid != evicted && runs(uid)).collect()
    }
}
