//! kube-scheduler, simplified: it binds the pod of the highest priority first, to a feasible node without the capacity that nominations of
//! pods of equal or higher priority reserve. It does not preempt here. It observes changes of pods in the order of the writes, so it
//! observes a nomination before the removal of a victim.

use crate::simulation::object::{Kind, Pod, set_condition, terminating, text};
use crate::simulation::server::{Request, Server};
use giveway_tests::audit::SCHEDULER;
use giveway_tests::random::Random;
use serde_json::{Value, json};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The simulated scheduler.
pub struct Scheduler {
    random: Random,
    /// The owners with a pod that is not bound, for a reason unknown to the planner.
    pub refused: BTreeSet<String>,
    /// The pods that were not bound for that reason, by UID, with their owners.
    pub unbound: BTreeMap<String, String>,
}

impl Scheduler {
    pub fn new(seed: u64) -> Self {
        Self { random: Random::new(seed, 3, 0), refused: BTreeSet::new(), unbound: BTreeMap::new() }
    }

    /// Schedules every pending pod. Returns the messages for the trace.
    pub fn run(&mut self, server: &mut Server) -> Vec<String> {
        let mut messages = Vec::new();
        let pods: Vec<Rc<Value>> = server.list(Kind::Pod).cloned().collect();
        let pending = |pod: &&Rc<Value>| Pod(pod).node().is_none() && !Pod(pod).gated() && Pod(pod).live();
        let mut order: Vec<&Rc<Value>> = pods.iter().filter(pending).collect();
        order.sort_by_key(|pod| (Reverse(Pod(pod).priority()), text(pod, "/metadata/creationTimestamp").to_owned()));
        for pod in order {
            let nodes: Vec<Rc<Value>> = server.list(Kind::Node).cloned().collect();
            let mut fitting: Vec<&str> = Vec::new();
            for node in &nodes {
                if fits(server, Pod(pod), node) {
                    fitting.push(text(node, "/metadata/name"));
                }
            }
            let nominated = Pod(pod).nominated().filter(|node| fitting.contains(node));
            let name = Pod(pod).name();
            let refused = !fitting.is_empty() && self.refuses(&pods, Pod(pod));
            if refused {
                self.unbound.insert(Pod(pod).uid().to_owned(), Pod(pod).owner().to_owned());
            }
            if fitting.is_empty() || refused {
                if Pod(pod).condition("PodScheduled") != Some("False") {
                    let why = if refused { "volume node affinity conflict" } else { "insufficient cpu" };
                    let message = format!("0/{} nodes are available: {why}.", nodes.len());
                    let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                        "message": message});
                    server.change(Kind::Pod, name, |pod| set_condition(pod, condition));
                    messages.push(format!("{name} is unschedulable"));
                }
                continue;
            }
            let node = nominated.unwrap_or_else(|| fitting[self.random.below(fitting.len())]).to_owned();
            let time = server.time();
            server.change(Kind::Pod, name, |pod| {
                pod["spec"]["nodeName"] = json!(node);
                set_condition(pod, json!({"type": "PodScheduled", "status": "True", "lastTransitionTime": time}));
            });
            let body = json!({"target": {"name": node}});
            let request =
                Request { user: SCHEDULER, verb: "create", kind: Kind::Pod, name, subresource: "binding", body };
            server.log(request, 201, None);
            messages.push(format!("binds {name} to {node}"));
        }
        messages
    }

    /// Returns true if the scheduler does not bind this pod although it fits: the last pod of an owner in `refused`.
    fn refuses(&self, pods: &[Rc<Value>], pod: Pod<'_>) -> bool {
        let others = pods.iter().map(|other| Pod(other)).filter(|other| other.owner() == pod.owner() && other.live());
        self.refused.contains(pod.owner())
            && others.map(|other| (other.name().len(), other.name())).max() == Some((pod.name().len(), pod.name()))
    }
}

/// Returns true if new pods may be bound to a node: it is neither cordoned nor tainted. No pod here tolerates a taint.
pub fn takes_pods(node: &Value) -> bool {
    let tainted = node["spec"]["taints"].as_array().is_some_and(|taints| !taints.is_empty());
    !terminating(node) && node["spec"]["unschedulable"] != json!(true) && !tainted
}

/// Returns true if a pod fits on a node, beside the nominations of pods of equal or higher priority.
fn fits(server: &Server, pod: Pod<'_>, node: &Value) -> bool {
    if !takes_pods(node) {
        return false;
    }
    let name = text(node, "/metadata/name");
    let size: i64 = text(node, "/status/allocatable/cpu").parse().unwrap_or(0);
    let taken = server.list(Kind::Pod).map(|other| Pod(other)).filter(|other| {
        let there = other.node() == Some(name) && !other.ended();
        let holds = other.node().is_none()
            && other.nominated() == Some(name)
            && other.uid() != pod.uid()
            && other.priority() >= pod.priority();
        there || holds
    });
    taken.map(Pod::cpus).sum::<i64>() + pod.cpus() <= size
}
