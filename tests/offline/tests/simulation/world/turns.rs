//! The events from outside.

use super::World;
use crate::simulation::excuses::{Disturbance, Touch};
use crate::simulation::object::{Kind, Pod, set_condition, terminating, text};
use crate::simulation::owners::Bond;
use crate::simulation::plot::Turn;
use crate::simulation::process::{namespace, switched};
use crate::simulation::server::Request;
use crate::simulation::world::{DeletedPlan, Event};
use giveway_tests::audit::{ADMIN, SCHEDULER};
use serde_json::{Value, json};

/// Returns true if a stored plan is in a state with evictions.
pub(super) fn evicts(plan: &Value) -> bool {
    matches!(text(plan, "/status/state"), "Evicting" | "WaitingForVictims" | "Ungating")
}

impl World {
    pub(super) fn plug(&mut self, cpus: usize) {
        let name = format!("n{}", self.server.changes(Kind::Node).len() + 1);
        let size = json!({"cpu": cpus.to_string(), "memory": "64Gi", "pods": "110"});
        let node = json!({"metadata": {"name": name}, "spec": {}, "status": {"allocatable": size, "capacity": size}});
        self.say("cluster", format!("node {name} of {cpus} CPUs"));
        self.server.create(ADMIN, Kind::Node, node).expect("a new name");
    }

    /// Returns the name of a node by its number, if the node exists.
    fn node(&self, number: usize) -> Option<String> {
        Some(format!("n{}", number + 1)).filter(|name| self.server.get(Kind::Node, name).is_some())
    }

    pub(super) fn turn(&mut self, turn: &Turn) {
        self.say("outside", format!("{turn:?}"));
        if let Some(fault) = turn.fault() {
            self.faults.note(fault);
        }
        match turn {
            Turn::Begin(owner) => {
                self.say("owner", format!("{:?}", self.owners[*owner]));
                let server = &mut self.server;
                self.owners[*owner].begin(server);
                self.owners[*owner].replace(server);
            }
            Turn::End(owner) => {
                self.disturb_owner(*owner);
                self.owners[*owner].deleted = true;
                let name = self.owners[*owner].name.clone();
                self.server.delete(ADMIN, Kind::Group, &name);
                for pod in self.pods_of(*owner) {
                    drop(self.server.delete_pod(ADMIN, &pod, ""));
                }
            }
            Turn::Scale(owner, pods) => {
                self.disturb_owner(*owner);
                self.owners[*owner].pods = *pods;
                for pod in self.pods_of(*owner).into_iter().skip(*pods) {
                    drop(self.server.delete_pod(ADMIN, &pod, ""));
                }
                self.after(50, Event::Replace(*owner));
            }
            Turn::DeletePod(owner) => {
                self.disturb_owner(*owner);
                if let Some(pod) = self.pods_of(*owner).first() {
                    drop(self.server.delete_pod(ADMIN, pod, ""));
                }
            }
            Turn::Cordon(node, on) => {
                if let Some(name) = self.node(*node) {
                    if *on {
                        self.disturb(Touch::Node(name.clone()));
                    }
                    self.server.change(Kind::Node, &name, |node| node["spec"]["unschedulable"] = json!(on));
                }
            }
            Turn::Unplug(node) => {
                let Some(name) = self.node(*node) else { return };
                self.disturb(Touch::Node(name.clone()));
                self.server.delete(ADMIN, Kind::Node, &name);
                let there = self.server.list(Kind::Pod).filter(|pod| Pod(pod).node() == Some(&name));
                let pods: Vec<(String, String)> =
                    there.map(|pod| (Pod(pod).name().to_owned(), Pod(pod).owner().to_owned())).collect();
                for (pod, owner) in pods {
                    self.disturb(Touch::Owner(owner));
                    drop(self.server.delete_pod(ADMIN, &pod, ""));
                    self.server.remove(Kind::Pod, &pod);
                }
            }
            Turn::Plug(cpus) => self.plug(*cpus),
            Turn::Occupy(node) => self.occupy(*node),
            Turn::Budget(owner, least) => {
                let app = self.owners[*owner].name.clone();
                let budget = json!({"metadata": {"name": app}, "spec": {"minAvailable": least,
                    "selector": {"matchLabels": {"app": app}}}, "status": {"disruptionsAllowed": 0,
                    "currentHealthy": 0, "desiredHealthy": least, "expectedPods": 0}});
                self.disturb_owner(*owner);
                drop(self.server.create(ADMIN, Kind::Budget, budget));
            }
            Turn::NoBudget(owner) => {
                let name = self.owners[*owner].name.clone();
                self.server.delete(ADMIN, Kind::Budget, &name);
            }
            Turn::Preempt(owner) => self.preempt(*owner),
            Turn::Refuse(owner, on) => {
                let name = self.owners[*owner].name.clone();
                match on {
                    true => drop(self.scheduler.refused.insert(name)),
                    false => drop(self.scheduler.refused.remove(&name)),
                }
                self.schedule();
            }
            Turn::Forget => {
                let nominated = self.server.list(Kind::Pod).find(|pod| Pod(pod).nominated().is_some()).cloned();
                if let Some(pod) = nominated {
                    self.disturb(Touch::Owner(Pod(&pod).owner().to_owned()));
                    self.server.change(Kind::Pod, Pod(&pod).name(), |pod| {
                        pod["status"]["nominatedNodeName"] = Value::Null;
                    });
                }
            }
            Turn::Switch(mode) => {
                // Units that were already disrupted are evicted completely, and another preemptor may be bound before
                // the plan's own.
                self.disturb(Touch::Everybody);
                self.mode = *mode;
                let plans = self.server.list(Kind::Preemption).filter(|plan| evicts(plan));
                self.begun = plans.map(|plan| text(plan, "/metadata/name").to_owned()).collect();
                let now = self.instant();
                for process in self.replicas.iter_mut().filter_map(|replica| replica.process.as_mut()) {
                    if !process.delivered.is_empty() {
                        process.take(switched(*mode), now);
                    }
                }
            }
            Turn::Protect(on) => {
                self.disturb(Touch::Everybody);
                match on {
                    true => self.protected.push((self.now, u64::MAX)),
                    false => self.protected.iter_mut().for_each(|(_, until)| *until = self.now.min(*until)),
                }
                let now = self.instant();
                for process in self.replicas.iter_mut().filter_map(|replica| replica.process.as_mut()) {
                    if !process.delivered.is_empty() {
                        process.take(namespace(*on), now);
                    }
                }
            }
            Turn::MinCount(owner, pods) => {
                let name = self.owners[*owner].name.clone();
                let gang = matches!(self.owners[*owner].bond, Bond::Gang { .. });
                let Some(group) = self.server.get(Kind::Group, &name).filter(|group| gang && !terminating(group))
                else {
                    return;
                };
                let generation = crate::simulation::object::number(group, "/metadata/generation") + 1;
                let body = json!({"metadata": {"generation": generation},
                    "spec": {"schedulingPolicy": {"gang": {"minCount": pods}}}});
                self.disturb_owner(*owner);
                let request =
                    Request { user: ADMIN, verb: "patch", kind: Kind::Group, name: &name, subresource: "", body };
                drop(self.server.patch(request));
            }
            Turn::DeleteGroup(owner) => {
                self.disturb_owner(*owner);
                let name = self.owners[*owner].name.clone();
                self.server.delete(ADMIN, Kind::Group, &name);
            }
            Turn::DeletePlan => {
                let over = |plan: &Value| plan.pointer("/status/finishedAt").is_some_and(|at| !at.is_null());
                let found = self.server.list(Kind::Preemption).find(|plan| !over(plan)).cloned();
                if let Some(plan) = found {
                    self.delete_plan(&plan);
                }
            }
            Turn::Meanwhile(owner) => self.begin_meanwhile(*owner),
            Turn::Started(owner) => self.judge_meanwhile(*owner),
            Turn::Outage(node, begins) => {
                if let Some(name) = self.node(*node) {
                    self.outage(&name, *begins);
                }
            }
            Turn::Interrupt(how) => self.interrupt_next(*how),
            Turn::AddOn(cpus) => self.add_on(*cpus),
            Turn::Deny(denial) => self.deny(*denial),
            trouble => self.trouble(trouble),
        }
    }

    /// An administrator deletes a Preemption.
    pub(super) fn delete_plan(&mut self, plan: &Value) {
        let name = text(plan, "/metadata/name").to_owned();
        let victims = || plan["spec"]["victims"].as_array().into_iter().flatten();
        let groups = victims().filter(|victim| victim["kind"] == "PodGroup");
        let groups = groups.map(|group| text(group, "/name").to_owned()).collect();
        let pods = victims().filter_map(|victim| victim["pods"].as_array()).flatten();
        let pods = pods.map(|pod| text(pod, "/uid").to_owned()).collect();
        let planned = text(plan, "/metadata/creationTimestamp").parse().expect("a time");
        self.disturb(Touch::Everybody);
        self.server.delete(ADMIN, Kind::Preemption, &name);
        let unheard = self.now < self.cut_until();
        self.deleted.push(DeletedPlan { name, groups, pods, unheard, planned, at: self.now });
    }

    /// Records that something took capacity or pods away. The initial state does not count.
    pub(super) fn disturb(&mut self, touch: Touch) {
        if self.now > 0 {
            self.disturbed.push(Disturbance { at: self.now, touch });
        }
    }

    fn disturb_owner(&mut self, owner: usize) {
        self.disturb(Touch::Owner(self.owners[owner].name.clone()));
    }

    /// Returns the live pods of an owner, by name.
    fn pods_of(&self, owner: usize) -> Vec<String> {
        let name = &self.owners[owner].name;
        let pods = self.server.list(Kind::Pod).filter(|pod| Pod(pod).owner() == name && Pod(pod).live());
        pods.map(|pod| Pod(pod).name().to_owned()).collect()
    }

    /// Creates a pod with a node name.
    fn occupy(&mut self, node: usize) {
        let Some(node) = self.node(node) else { return };
        self.disturb(Touch::Node(node.clone()));
        let name = format!("agent-{}", self.now);
        let containers = json!([{"name": "main", "resources": {"requests": {"cpu": "1"}}}]);
        let spec = json!({"priority": 5_000, "nodeName": node, "containers": containers});
        let pod = json!({"metadata": {"name": name}, "spec": spec, "status": {"phase": "Pending", "conditions": []}});
        drop(self.server.create(ADMIN, Kind::Pod, pod));
    }

    /// kube-scheduler preempts a pod, as it does for classes that are not managed.
    fn preempt(&mut self, owner: usize) {
        // The admission guard would reject the deletion if a budget refuses the eviction.
        if self.server.get(Kind::Budget, &self.owners[owner].name).is_some() {
            return;
        }
        self.disturb_owner(owner);
        let Some(name) = self
            .pods_of(owner)
            .into_iter()
            .find(|pod| self.server.get(Kind::Pod, pod).is_some_and(|pod| Pod(pod).node().is_some()))
        else {
            return;
        };
        let time = self.server.time();
        self.server.change(Kind::Pod, &name, |pod| {
            let message = "default-scheduler: preempting to accommodate a higher priority pod";
            set_condition(
                pod,
                json!({"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
                    "message": message, "lastTransitionTime": time}),
            );
        });
        // The admission guard marks the pod before it permits the deletion.
        let uid =
            self.server.get(Kind::Pod, &name).map(|pod| text(pod, "/metadata/uid").to_owned()).unwrap_or_default();
        let time = self.server.time();
        self.server.change(Kind::Group, &self.owners[owner].name, |group| {
            group["status"]["preemptedPods"][uid.as_str()] = json!({"name": name, "time": time});
        });
        drop(self.server.delete_pod(SCHEDULER, &name, ""));
    }
}
