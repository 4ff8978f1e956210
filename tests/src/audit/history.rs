//! What happened, told by the audit log alone.

use super::groups::{ClassRecord, GroupRecord};
use super::log::Line;
use super::plans::PlanRecord;
use super::record::{REST, is, list, map, number, text};
use giveway_crds::condition::types;
use giveway_crds::{Preemption, critical, keys, native};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::collections::BTreeMap;

/// Name of the operator's Lease.
const LEASE: &str = "giveway-operator";

/// What the log says of a request whose client was gone before the answer, carried out or not.
pub(super) const GATEWAY_TIMEOUT: u16 = 504;

/// A namespace and a name.
pub type Key = (String, String);

/// Everything that the log tells about pods, groups and plans.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Every pod that was created, by UID.
    pub pods: BTreeMap<String, PodRecord>,
    /// Every removal that was asked for, by whoever, also refused ones, in the order in which they were asked for.
    pub removals: Vec<Removal>,
    /// Every binding.
    pub bindings: Vec<Binding>,
    /// Every nomination that was set or withdrawn.
    pub nominations: Vec<Nomination>,
    /// Every time that Giveway wrote to a pod for whom it goes, before it deleted the pod.
    pub marks: Vec<Mark>,
    /// Every plan that was stored, each time that it changed.
    pub plans: Vec<PlanRecord>,
    /// Every plan that was deleted, by whomever, and when.
    pub deleted_plans: Vec<(Timestamp, String)>,
    /// Every time that a node was written.
    pub nodes: Vec<NodeWrite>,
    /// Every write of a node's taints by the operator of which nobody heard the answer, and how many writes of nodes were
    /// answered before it.
    pub nodes_asked: Vec<(usize, NodeWrite)>,
    /// How often Giveway wrote the status of each PodGroup.
    pub statuses: BTreeMap<Key, usize>,
    /// Who held the operator's lease from when on; empty when nobody did.
    pub leaders: Vec<(Timestamp, String)>,
    /// When a test said that a namespace was at rest, before it cleaned up.
    pub rests: Vec<(Timestamp, String)>,
    /// Every PodGroup, as it was last seen.
    pub groups: BTreeMap<Key, GroupRecord>,
    /// Every time that a namespace was written, and whether nobody in it may be evicted since then.
    pub protected: Vec<(Timestamp, String, bool)>,
    /// The UIDs of the PodGroups that had a name, each from when on.
    pub(super) incarnations: BTreeMap<Key, Vec<(Timestamp, String)>>,
    current: BTreeMap<Key, String>,
    pub(super) parts: BTreeMap<String, Vec<Preemption>>,
    pub(super) classes: BTreeMap<String, ClassRecord>,
}

/// A pod.
#[derive(Clone, Debug)]
pub struct PodRecord {
    /// Namespace and name.
    pub key: Key,
    /// The PodGroup that its label names.
    pub group: Option<String>,
    /// Whether the operator made it to keep room for a gang.
    pub placeholder: bool,
    /// Its own priority.
    pub priority: i32,
    /// When it was created.
    pub created: Timestamp,
    /// When it was bound, and where to.
    pub bound: Option<(Timestamp, String)>,
    /// When its removal was first accepted, whoever asked.
    pub removed: Option<Timestamp>,
    /// When its removal by the operator, a scheduler or the eviction API was first accepted. What a test deletes is none of it.
    pub preempted: Option<Timestamp>,
    /// When a kubelet wrote that its containers have ended.
    pub finished: Option<Timestamp>,
    /// Seconds that it is given to terminate.
    pub grace: i64,
    /// Whether it is a critical add-on: by its priority, or by its annotation in kube-system.
    pub critical: bool,
    /// Whether a DaemonSet made it, or it is static.
    pub fixed: bool,
    /// Whether it is static: what stands for it at the API server.
    pub mirror: bool,
    /// Since when it has no scheduling gate.
    pub released: Option<Timestamp>,
    /// Whether kube-scheduler preempts nobody for it.
    pub never: bool,
    /// The policy by which Giveway preempts for it, as its annotation says.
    pub policy: Option<String>,
}

/// A node was written.
#[derive(Clone, Debug)]
pub struct NodeWrite {
    /// When.
    pub at: Timestamp,
    /// By whom.
    pub user: String,
    /// Its name.
    pub node: String,
    /// The version that it got: writes of one moment are in this order.
    pub version: u64,
    /// Its taints since then, as JSON.
    pub taints: Vec<Value>,
    /// Its labels since then.
    pub labels: BTreeMap<String, String>,
}

/// By which request a pod was to be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// The eviction subresource.
    Evict,
    /// DELETE.
    Delete,
    /// DELETE of a collection.
    DeleteCollection,
}

/// A request to remove a pod.
#[derive(Clone, Debug)]
pub struct Removal {
    /// When it was asked for.
    pub at: Timestamp,
    /// Who asked.
    pub user: String,
    /// How.
    pub how: How,
    /// Namespace and name of the pod.
    pub pod: Key,
    /// UID of the pod that had the name at that time, or that the answer shows.
    pub uid: String,
    /// The UID that the request insisted on.
    pub precondition: Option<String>,
    /// The grace that the request gave, in seconds.
    pub grace: Option<i32>,
    /// For which plan, as an eviction by Giveway says.
    pub plan: Option<String>,
    /// The HTTP status of the answer.
    pub code: u16,
    /// Why it was refused.
    pub message: String,
    /// Whether it was accepted, or carried out although nobody heard the answer.
    pub accepted: bool,
    /// When the deletion of the pod began, as the answer shows: an earlier request may have begun it.
    pub begun: Option<Timestamp>,
}

impl Removal {
    /// Whether a budget is why it was refused. Of two budgets the API server says 500; throttling is a 429, too, and any failure
    /// a 500.
    pub fn refused_for_budget(&self) -> bool {
        let words = match self.code {
            429 => "disruption budget",
            500 => "more than one PodDisruptionBudget",
            _ => return false,
        };
        self.how == How::Evict && !self.accepted && self.message.contains(words)
    }

    /// Whether the pod was on its way before this request: the answer shows when that began, in whole seconds.
    pub(super) fn came_late(&self) -> bool {
        self.begun.is_some_and(|begun| begun.as_second() < self.at.as_second())
    }
}

/// A pod got a node.
#[derive(Clone, Debug)]
pub struct Binding {
    /// When.
    pub at: Timestamp,
    /// By whom.
    pub user: String,
    /// Namespace and name of the pod.
    pub pod: Key,
    /// UID of the pod.
    pub uid: String,
    /// The node.
    pub node: String,
}

/// `status.nominatedNodeName` of a pod was written.
#[derive(Clone, Debug)]
pub struct Nomination {
    /// When.
    pub at: Timestamp,
    /// By whom.
    pub user: String,
    /// Namespace and name of the pod.
    pub pod: Key,
    /// The node; `None` when the nomination was withdrawn.
    pub node: Option<String>,
}

/// Giveway wrote to a pod for whom it goes, which it does before it deletes one that the eviction API refused.
#[derive(Clone, Debug)]
pub struct Mark {
    /// When.
    pub at: Timestamp,
    /// Namespace and name of the pod.
    pub pod: Key,
    /// Its UID.
    pub uid: String,
    /// The sentence, which names the preemptor.
    pub message: String,
}

impl History {
    /// Builds the history from the lines of a log. What nobody heard the answer of counts as not done.
    pub fn new(lines: &[Line]) -> Self {
        let mut order: Vec<&Line> = lines.iter().collect();
        // The log is in the order of answers; what was removed is asked in the order of requests, so a creation that
        // was answered counts before everything that was asked for later.
        order.sort_by_key(|line| match line.verb.as_str() {
            "delete" | "deletecollection" => line.request_received_timestamp,
            _ if line.object_ref.subresource == "eviction" => line.request_received_timestamp,
            _ => line.stage_timestamp,
        });
        let mut history = Self::default();
        for line in order {
            history.take(line);
        }
        history
    }

    /// Whether the operator wrote a taint with this value to a node, or asked for it and did not hear the answer.
    pub fn tainted_with(&self, value: &str) -> bool {
        let asked = self.nodes_asked.iter().map(|(_, write)| write);
        let mut writes = self.nodes.iter().chain(asked).filter(|write| write.user == super::OPERATOR);
        writes.any(|write| write.taints.iter().any(|taint| text(taint, "/value") == value))
    }

    fn take(&mut self, line: &Line) {
        let object = &line.object_ref;
        let removes = matches!(line.verb.as_str(), "delete" | "deletecollection") || object.subresource == "eviction";
        match (object.api_group.as_str(), object.resource.as_str(), object.subresource.as_str()) {
            ("", "pods", "" | "eviction") if removes => self.take_removal(line),
            ("", "nodes", "") if !line.took_effect() => self.ask_node(line),
            // The read that marks a rest finds nothing.
            _ if !line.took_effect() && object.resource != "configmaps" => {}
            ("", "pods", "binding") => self.take_binding(line),
            ("", "pods", "status") => self.take_pod_status(line),
            ("", "pods", "") => self.take_pod(line),
            ("coordination.k8s.io", "leases", "") if object.name == LEASE => {
                let holder = if removes { String::new() } else { text(&line.response_object, "/spec/holderIdentity") };
                self.leaders.push((line.stage_timestamp, holder));
            }
            ("", "configmaps", "") => {
                if let Some(namespace) = object.namespace.strip_prefix(REST) {
                    self.rests.push((line.stage_timestamp, namespace.to_owned()));
                }
            }
            ("", "nodes", "") if removes || is(&line.response_object, "Node") => self.take_node(line, removes),
            (keys::GROUP, "podgroups", subresource) => {
                if subresource == "status" && line.user.username == super::OPERATOR {
                    *self.statuses.entry(key_of(line)).or_default() += 1;
                }
                self.take_group(line, removes);
            }
            (native::GROUP, "podgroups", "") => self.take_group(line, removes),
            (keys::GROUP, "preemptions", _) => self.take_preemption(line, removes),
            ("scheduling.k8s.io", "priorityclasses", "") if is(&line.response_object, "PriorityClass") => {
                self.classes
                    .insert(text(&line.response_object, "/metadata/name"), ClassRecord::of(&line.response_object));
            }
            ("", "namespaces", "") if is(&line.response_object, "Namespace") => {
                let annotations = map(&line.response_object, "/metadata/annotations");
                let protected = annotations.get(keys::ANNOTATION_NEVER_EVICT).is_some_and(|value| value == "true");
                self.protected.push((line.stage_timestamp, text(&line.response_object, "/metadata/name"), protected));
            }
            _ => {}
        }
    }

    fn take_pod(&mut self, line: &Line) {
        let pod = &line.response_object;
        if !is(pod, "Pod") {
            return;
        }
        let uid = text(pod, "/metadata/uid");
        let key = (text(pod, "/metadata/namespace"), text(pod, "/metadata/name"));
        let released = list(pod, "/spec/schedulingGates").is_empty().then_some(line.stage_timestamp);
        let annotations = map(pod, "/metadata/annotations");
        let policy = annotations.get(keys::ANNOTATION_PREEMPTION_POLICY).cloned();
        if let Some(record) = self.pods.get_mut(&uid).filter(|_| line.verb != "create") {
            record.released = record.released.or(released);
            record.policy = policy;
        } else if line.verb == "create" {
            let mirror = annotations.contains_key("kubernetes.io/config.mirror");
            let node = Some(text(pod, "/spec/nodeName")).filter(|node| !node.is_empty());
            let record = PodRecord {
                key: key.clone(),
                placeholder: line.user.username == super::OPERATOR
                    && map(pod, "/metadata/labels").contains_key(keys::LABEL_PLACEHOLDER),
                group: match native::group_of(pod) {
                    Some(name) => Some(native::key_name(name)),
                    None => map(pod, "/metadata/labels").remove(keys::LABEL_POD_GROUP),
                },
                priority: number(pod, "/spec/priority").unwrap_or(0),
                created: line.stage_timestamp,
                bound: node.map(|node| (line.stage_timestamp, node)),
                removed: None,
                preempted: None,
                finished: None,
                grace: i64::from(number(pod, "/spec/terminationGracePeriodSeconds").unwrap_or(30)),
                critical: number(pod, "/spec/priority").unwrap_or(0) >= critical::PRIORITY
                    || (line.object_ref.namespace == "kube-system" && critical::asked(&annotations)),
                fixed: mirror
                    || list(pod, "/metadata/ownerReferences").iter().any(|owner| text(owner, "/kind") == "DaemonSet"),
                mirror,
                released,
                never: text(pod, "/spec/preemptionPolicy") == "Never",
                policy,
            };
            self.pods.insert(uid.clone(), record);
            self.current.insert(key, uid);
        }
    }

    /// A node that is gone has no taints.
    fn take_node(&mut self, line: &Line, removes: bool) {
        let node = &line.response_object;
        let last = self.nodes.last().map_or(0, |write| write.version);
        self.nodes.push(NodeWrite {
            version: text(node, "/metadata/resourceVersion").parse().unwrap_or(last),
            at: line.stage_timestamp,
            user: line.user.username.clone(),
            node: if removes { line.object_ref.name.clone() } else { text(node, "/metadata/name") },
            labels: if removes { BTreeMap::new() } else { map(node, "/metadata/labels") },
            taints: if removes { Vec::new() } else { list(node, "/spec/taints") },
        });
    }

    /// A write of taints of which nobody heard the answer.
    fn ask_node(&mut self, line: &Line) {
        let unheard = line.response_status.code == GATEWAY_TIMEOUT && line.user.username == super::OPERATOR;
        if unheard && line.request_object.pointer("/spec/taints").is_some() {
            let write = NodeWrite {
                version: self.nodes.last().map_or(0, |write| write.version),
                at: line.stage_timestamp,
                user: line.user.username.clone(),
                node: line.object_ref.name.clone(),
                taints: list(&line.request_object, "/spec/taints"),
                labels: BTreeMap::new(),
            };
            self.nodes_asked.push((self.nodes.len(), write));
        }
    }

    fn take_pod_status(&mut self, line: &Line) {
        let conditions = line.request_object.pointer("/status/conditions").and_then(Value::as_array);
        let target = conditions.into_iter().flatten().find(|c| text(c, "/type") == types::DISRUPTION_TARGET);
        if let Some(message) = target.map(|c| text(c, "/message")).filter(|_| line.user.username == super::OPERATOR) {
            let named = Some(text(&line.request_object, "/metadata/uid")).filter(|uid| !uid.is_empty());
            let uid = named.or_else(|| self.current.get(&key_of(line)).cloned()).unwrap_or_default();
            self.marks.push(Mark { at: line.stage_timestamp, pod: key_of(line), uid, message });
        }
        if matches!(text(&line.request_object, "/status/phase").as_str(), "Succeeded" | "Failed")
            && let Some(record) = self.current.get(&key_of(line)).and_then(|uid| self.pods.get_mut(uid))
        {
            record.finished.get_or_insert(line.stage_timestamp);
        }
        // A patch tells only what it changes; an update repeats everything.
        let Some(node) = line.request_object.pointer("/status/nominatedNodeName") else { return };
        let node = node.as_str().filter(|node| !node.is_empty()).map(str::to_owned);
        self.nominations.push(Nomination {
            at: line.stage_timestamp,
            user: line.user.username.clone(),
            pod: key_of(line),
            node,
        });
    }

    fn take_binding(&mut self, line: &Line) {
        let pod = key_of(line);
        let node = text(&line.request_object, "/target/name");
        let uid = self.current.get(&pod).cloned().unwrap_or_default();
        if let Some(record) = self.pods.get_mut(&uid) {
            record.bound = Some((line.stage_timestamp, node.clone()));
        }
        self.bindings.push(Binding { at: line.stage_timestamp, user: line.user.username.clone(), pod, uid, node });
    }

    fn take_removal(&mut self, line: &Line) {
        let how = match line.verb.as_str() {
            "delete" => How::Delete,
            "deletecollection" => How::DeleteCollection,
            _ => How::Evict,
        };
        if how == How::DeleteCollection {
            let items = line.response_object.get("items").and_then(Value::as_array).cloned().unwrap_or_default();
            for pod in &items {
                let key = (line.object_ref.namespace.clone(), text(pod, "/metadata/name"));
                self.push_removal(line, how, key, Some(pod));
            }
            return;
        }
        let answered = Some(&line.response_object).filter(|answer| is(answer, "Pod"));
        self.push_removal(line, how, key_of(line), answered);
    }

    fn push_removal(&mut self, line: &Line, how: How, pod: Key, answered: Option<&Value>) {
        let request = &line.request_object;
        let precondition = [text(request, "/preconditions/uid"), text(request, "/deleteOptions/preconditions/uid")]
            .into_iter()
            .find(|uid| !uid.is_empty());
        let accepted = line.took_effect();
        let uid = answered
            .map(|pod| text(pod, "/metadata/uid"))
            .or_else(|| precondition.clone().filter(|_| accepted))
            .or_else(|| self.current.get(&pod).cloned())
            .unwrap_or_default();
        if accepted && let Some(record) = self.pods.get_mut(&uid) {
            record.removed.get_or_insert(line.request_received_timestamp);
            if preempts(line, how) {
                record.preempted.get_or_insert(line.request_received_timestamp);
            }
        }
        self.removals.push(Removal {
            at: line.request_received_timestamp,
            user: line.user.username.clone(),
            how,
            pod,
            uid,
            precondition,
            grace: number(request, "/gracePeriodSeconds")
                .or_else(|| number(request, "/deleteOptions/gracePeriodSeconds")),
            plan: map(request, "/metadata/annotations").remove(keys::ANNOTATION_PLAN),
            code: line.response_status.code,
            message: line.response_status.message.clone(),
            accepted,
            begun: answered.and_then(deletion_began),
        });
    }

    /// The accepted removals that Giveway's operator asked for, but for those of pods that it made itself to keep room.
    pub fn evicted(&self) -> Vec<&Removal> {
        let own = |removal: &&Removal| self.pods.get(&removal.uid).is_some_and(|pod| pod.placeholder);
        self.removed_by(super::OPERATOR).into_iter().filter(|removal| !own(removal)).collect()
    }

    /// The accepted removals that this user asked for.
    pub fn removed_by(&self, user: &str) -> Vec<&Removal> {
        self.removals.iter().filter(|removal| removal.accepted && removal.user == user).collect()
    }

    /// The names of the pods that Giveway evicted, sorted.
    pub fn evicted_names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.evicted().into_iter().map(|removal| removal.pod.1.clone()).collect();
        names.sort();
        names
    }

    /// When what happened in a namespace at this time is judged: at its next rest; `None` at the end of the log.
    pub fn judged_at(&self, namespace: &str, at: Timestamp) -> Option<Timestamp> {
        self.rests.iter().find(|(rest, of)| *rest > at && of == namespace).map(|(rest, _)| *rest)
    }

    /// Who held the operator's lease at this time, as far as the log tells.
    pub fn leader_at(&self, at: Timestamp) -> Option<&str> {
        self.leaders.iter().rev().find(|(since, _)| *since <= at).map(|(_, holder)| holder.as_str())
    }
}

/// Whether this is a removal by Giveway, by the scheduler or through the eviction API.
fn preempts(line: &Line, how: How) -> bool {
    how == How::Evict || matches!(line.user.username.as_str(), super::OPERATOR | super::SCHEDULER)
}

/// When the deletion of a pod began: its end without its grace.
fn deletion_began(pod: &Value) -> Option<Timestamp> {
    let ends: Timestamp = text(pod, "/metadata/deletionTimestamp").parse().ok()?;
    let grace = number(pod, "/metadata/deletionGracePeriodSeconds")?;
    ends.checked_sub(SignedDuration::from_secs(grace.into())).ok()
}

pub(super) fn key_of(line: &Line) -> Key {
    (line.object_ref.namespace.clone(), line.object_ref.name.clone())
}
