//! What happened, told by the audit log alone.

use super::log::Line;
use super::record::{REST, is, list, map, number, text};
use giveway_crds::condition::types;
use giveway_crds::plan::StoredPlan;
use giveway_crds::preemption::{assemble, plan_of_part};
use giveway_crds::{Preemption, critical, keys, native};
use jiff::Timestamp;
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
    current: BTreeMap<Key, String>,
    parts: BTreeMap<String, Vec<Preemption>>,
    classes: BTreeMap<String, i32>,
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

/// A PodGroup.
#[derive(Clone, Debug, Default)]
pub struct GroupRecord {
    /// Whether it gives way whole.
    pub whole: bool,
    /// Whether it is one of Kubernetes' own: its name begins with their API group.
    pub native: bool,
    /// How many members it needs; 0 for a basic group.
    pub min_count: usize,
    /// Its priority.
    pub priority: Option<i32>,
    /// Its class.
    pub class: Option<String>,
    /// Key of the node label of which all its pods have one value.
    pub topology: Option<String>,
    /// Whether it was deleted.
    pub deleted: bool,
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
    /// The sentence, which names the preemptor.
    pub message: String,
}

/// Who a plan is for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Preemptor {
    /// A PodGroup.
    Group(Key),
    /// A single pod, by UID.
    Pod(String),
}

/// A plan as it was stored.
#[derive(Clone, Debug)]
pub struct PlanRecord {
    /// When the request that stored it was answered.
    pub at: Timestamp,
    /// Who stored it.
    pub user: String,
    /// Who it is for.
    pub preemptor: Preemptor,
    /// The plan.
    pub plan: StoredPlan,
}

impl PlanRecord {
    /// Whether the plan names this pod as a victim.
    pub fn names(&self, uid: &str) -> bool {
        self.plan.victims.iter().flat_map(|victim| &victim.pods).any(|pod| pod.uid == uid)
    }
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
            (keys::GROUP, "preemptions", _) if !removes => self.take_preemption(line),
            ("scheduling.k8s.io", "priorityclasses", "") if is(&line.response_object, "PriorityClass") => {
                let class = &line.response_object;
                self.classes.insert(text(class, "/metadata/name"), number(class, "/value").unwrap_or(0));
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
        if line.verb == "create" {
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
                    || (line.object_ref.namespace == "kube-system"
                        && critical::asked(&map(pod, "/metadata/annotations"))),
                fixed: map(pod, "/metadata/annotations").contains_key("kubernetes.io/config.mirror")
                    || list(pod, "/metadata/ownerReferences").iter().any(|owner| text(owner, "/kind") == "DaemonSet"),
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
            self.marks.push(Mark { at: line.stage_timestamp, pod: key_of(line), message });
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
                self.push_removal(line, how, key, Some(text(pod, "/metadata/uid")));
            }
            return;
        }
        let answered = is(&line.response_object, "Pod").then(|| text(&line.response_object, "/metadata/uid"));
        self.push_removal(line, how, key_of(line), answered);
    }

    fn push_removal(&mut self, line: &Line, how: How, pod: Key, answered: Option<String>) {
        let request = &line.request_object;
        let precondition = [text(request, "/preconditions/uid"), text(request, "/deleteOptions/preconditions/uid")]
            .into_iter()
            .find(|uid| !uid.is_empty());
        let accepted = line.took_effect();
        let uid = answered
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
        });
    }

    fn take_group(&mut self, line: &Line, removes: bool) {
        let group = &line.response_object;
        let native = line.object_ref.api_group == native::GROUP;
        let key_of_group = |(namespace, name): Key| (namespace, if native { native::key_name(&name) } else { name });
        if removes {
            if let Some(record) = self.groups.get_mut(&key_of_group(key_of(line))) {
                record.deleted = true;
            }
            return;
        }
        if !is(group, "PodGroup") {
            return;
        }
        let key = key_of_group((text(group, "/metadata/namespace"), text(group, "/metadata/name")));
        let class = Some(text(group, "/spec/priorityClassName")).filter(|class| !class.is_empty());
        let min_count = number(group, "/spec/schedulingPolicy/gang/minCount").unwrap_or(0);
        let record = GroupRecord {
            whole: text(group, "/spec/disruptionMode") == "PodGroup"
                || group.pointer("/spec/disruptionMode/all").is_some(),
            native,
            min_count: usize::try_from(min_count).unwrap_or(0),
            priority: number(group, "/spec/priority"),
            class,
            topology: Some(text(group, "/spec/schedulingConstraints/topology/0/key")).filter(|key| !key.is_empty()),
            // It is still written to until its finalizers are gone, and by who has not heard of it.
            deleted: group.pointer("/metadata/deletionTimestamp").is_some()
                || (line.verb != "create" && self.groups.get(&key).is_some_and(|before| before.deleted)),
        };
        self.groups.insert(key, record);
    }

    /// A plan counts as stored when its last part is; only the operator's count.
    fn take_preemption(&mut self, line: &Line) {
        let Ok(part) = serde_json::from_value::<Preemption>(line.response_object.clone()) else { return };
        if line.user.username != super::OPERATOR {
            return;
        }
        let plan = plan_of_part(part.metadata.name.as_deref().unwrap_or_default()).to_owned();
        let parts = self.parts.entry(plan).or_default();
        parts.retain(|known| known.spec.part != part.spec.part);
        parts.push(part);
        let Ok(plan) = assemble(parts.clone()) else { return };
        let preemptor = match plan.preemptor.kind.as_str() {
            "Pod" => Preemptor::Pod(plan.preemptor.uid.clone()),
            _ => Preemptor::Group((plan.preemptor.namespace.clone(), plan.preemptor.name.clone())),
        };
        let user = line.user.username.clone();
        self.plans.push(PlanRecord { at: line.stage_timestamp, user, preemptor, plan });
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

    /// The pod's priority as it counts: the lower one of its group's, where it has one, and its own; of a native group the
    /// group's.
    pub fn effective_priority(&self, uid: &str) -> Option<i32> {
        let pod = self.pods.get(uid)?;
        let group = pod.group.as_ref().map(|group| (pod.key.0.clone(), group.clone()));
        let native = group.as_ref().and_then(|key| self.groups.get(key)).is_some_and(|group| group.native);
        let of_group = group.and_then(|key| self.priority_of_group(&key));
        Some(of_group.map_or(pod.priority, |group| if native { group } else { group.min(pod.priority) }))
    }

    /// The group's priority: as stored, or else as its class says.
    pub fn priority_of_group(&self, key: &Key) -> Option<i32> {
        let group = self.groups.get(key)?;
        group.priority.or_else(|| self.classes.get(group.class.as_ref()?).copied())
    }

    /// The priority that a preemptor decides by.
    pub fn priority_of(&self, preemptor: &Preemptor) -> Option<i32> {
        match preemptor {
            Preemptor::Group(key) => self.priority_of_group(key),
            Preemptor::Pod(uid) => self.effective_priority(uid),
        }
    }

    /// Whether this request was made for this plan: an eviction says so itself; of a deletion the last sentence tells that
    /// Giveway wrote to the pod before, which has the preemptor by name or, in another namespace, by UID. `None` when
    /// neither says anything.
    pub fn made_for(&self, removal: &Removal, plan: &StoredPlan) -> Option<bool> {
        if let Some(named) = &removal.plan {
            return Some(*named == plan.id);
        }
        let mark = self.marks.iter().rev().find(|mark| mark.at <= removal.at && mark.pod == removal.pod)?;
        let who = &plan.preemptor;
        let kind = if who.kind == "Pod" { "pod" } else { "pod group" };
        let named = format!("Preempted by {kind} {}/{} of priority ", who.namespace, who.name);
        Some(mark.message.starts_with(&named) || mark.message.contains(&format!("(UID {})", who.uid)))
    }

    /// What a pod was evicted for: the plan that the request says; else the last one that names the pod and was stored, and not
    /// over, before the pod was asked to go, and for whose preemptor it was marked. A DELETE names none, and two plans of one
    /// preemptor read alike, so that the end of the earlier one must not be taken for the later one.
    pub fn plan_of(&self, removal: &Removal) -> Option<&PlanRecord> {
        let naming = || self.plans.iter().rev().filter(|record| record.at <= removal.at && record.names(&removal.uid));
        let in_flight = || naming().filter(|record| record.plan.state.in_flight());
        let made_for = |record: &&PlanRecord| self.made_for(removal, &record.plan) == Some(true);
        let said = naming().find(|record| removal.plan.as_ref() == Some(&record.plan.id));
        let marked = said.or_else(|| in_flight().find(made_for)).or_else(|| naming().find(made_for));
        marked.or_else(|| in_flight().next()).or_else(|| naming().next())
    }

    /// When what happened in a namespace at this time is judged: at its next rest; `None` at the end of the log.
    pub fn judged_at(&self, namespace: &str, at: Timestamp) -> Option<Timestamp> {
        self.rests.iter().find(|(rest, of)| *rest > at && of == namespace).map(|(rest, _)| *rest)
    }

    /// Who held the operator's lease at this time, as far as the log tells.
    pub fn leader_at(&self, at: Timestamp) -> Option<&str> {
        self.leaders.iter().rev().find(|(since, _)| *since <= at).map(|(_, holder)| holder.as_str())
    }

    /// The name of a preemptor.
    pub fn name_of(&self, preemptor: &Preemptor) -> String {
        match preemptor {
            Preemptor::Group(key) => key.1.clone(),
            Preemptor::Pod(uid) => self.pods.get(uid).map_or_else(|| uid.clone(), |pod| pod.key.1.clone()),
        }
    }

    /// The members of a group that were created, by UID.
    pub fn members<'a>(&'a self, key: &'a Key) -> impl Iterator<Item = (&'a String, &'a PodRecord)> {
        self.pods.iter().filter(move |(_, pod)| pod.key.0 == key.0 && pod.group.as_ref() == Some(&key.1))
    }
}

/// Whether this is a removal by Giveway, by the scheduler or through the eviction API.
fn preempts(line: &Line, how: How) -> bool {
    how == How::Evict || matches!(line.user.username.as_str(), super::OPERATOR | super::SCHEDULER)
}

fn key_of(line: &Line) -> Key {
    (line.object_ref.namespace.clone(), line.object_ref.name.clone())
}
