//! The reaction of the cluster to writes: scheduler, kubelets, owners, and the disruption controller.

use super::{Event, World};
use crate::simulation::evictions::deadline;
use crate::simulation::excuses::{Disturbance, Touch};
use crate::simulation::object::{Kind, Pod, terminating, uid};
use serde_json::Value;
use std::rc::Rc;

/// The operator stops waiting for a terminating pod this long after its deadline, in milliseconds.
const OVERDUE: u64 = 30_000;

impl World {
    /// Schedules the events that follow from the writes since the last call.
    pub(super) fn react(&mut self) {
        for kind in Kind::ALL {
            let all = self.server.changes(kind);
            let from = self.seen.insert(kind, all.len()).unwrap_or(0);
            if from == all.len() {
                continue;
            }
            let (upto, new) = (all.len(), all[from..].to_vec());
            self.tell_soon(kind, upto);
            if matches!(kind, Kind::Pod | Kind::Group) {
                self.halves.note(&self.server, self.now);
            }
            if matches!(kind, Kind::Pod | Kind::Node) {
                self.schedule();
            }
            if matches!(kind, Kind::Pod | Kind::Budget) && !std::mem::replace(&mut self.counting, true) {
                let soon = self.between(20, 1_000);
                self.after(soon, Event::Count);
            }
            if kind == Kind::Pod {
                new.into_iter().for_each(|change| self.follow(&change.name, change.object));
            }
        }
    }

    /// Schedules what the kubelet and the owner do for a changed pod.
    fn follow(&mut self, name: &str, object: Option<Rc<Value>>) {
        let leaves = object.as_ref().is_none_or(|pod| terminating(pod));
        if leaves {
            let owner = self.owners.iter().position(|owner| name.starts_with(&format!("{}-", owner.name)));
            if let Some(owner) = owner {
                let soon = self.between(50, 1_500);
                self.after(soon, Event::Replace(owner));
            }
        }
        let Some(pod) = object.filter(|pod| Pod(pod).node().is_some()) else { return };
        if leaves {
            self.end_of(&pod);
        } else if self.running.insert(uid(&pod).to_owned()) {
            let soon = self.between(100, 3_000);
            self.after(soon, Event::Run(uid(&pod).to_owned()));
        }
    }

    /// Schedules the removal of a terminating pod: mostly within its grace period, but some pods terminate late.
    fn end_of(&mut self, pod: &Value) {
        let uid = uid(pod).to_owned();
        if !self.leaving.insert(uid.clone()) {
            return;
        }
        let left = ((deadline(pod) - self.server.second()).max(0) * 1_000) as u64;
        let mut end = 50 + self.random.below(left as usize + 1) as u64;
        if self.faults.percent(3) {
            end = left + self.faults.between(10_000, 90_000);
            self.say("kubelet", format!("{} hangs", Pod(pod).name()));
            self.faults.note("pods that terminate late");
            // The operator stops waiting for the pod, and its capacity is not available to plans: from now on, and after the deadline.
            let touch = Touch::Node(Pod(pod).node().unwrap_or_default().to_owned());
            self.disturb(touch.clone());
            self.disturbed.push(Disturbance { at: self.now + left + OVERDUE, touch });
        }
        if self.random.percent(50) {
            self.after(end, Event::Ended(uid.clone()));
            end += self.between(10, 1_000);
        }
        self.after(end, Event::Gone(uid));
    }

    /// Schedules a run of the scheduler.
    pub(super) fn schedule(&mut self) {
        if !std::mem::replace(&mut self.scheduling, true) {
            let soon = self.between(5, 80);
            self.after(soon, Event::Schedule);
        }
    }
}
