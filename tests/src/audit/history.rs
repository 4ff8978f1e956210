//! Builds the history of a cluster from the audit log alone. Queries about a history are in [`super::evictions`], [`super::groups`] and
//! [`super::plans`].

pub use super::record::Key;

use super::json::{is, list, map, number, text};
use super::log::Line;
use super::record::{
    Binding, ClassRecord, GATEWAY_TIMEOUT, GroupRecord, How, Mark, NodeWrite, Nomination, PlanRecord, PodRecord,
    Preemptor, REST, Removal,
};
use super::{OPERATOR, SCHEDULER};
use giveway_crds::condition::types;
use giveway_crds::preemption::{assemble, plan_of_part};
use giveway_crds::{Preemption, critical, keys, native};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::collections::BTreeMap;

/// Name of the operator's Lease.
const LEASE: &str = "giveway-operator";

/// The pods, PodGroups, plans and nodes in the log, and the requests that changed them.
#[derive(Clone, Debug, Default)]
pub struct History {
    /// Every pod that was created, by UID.
    pub pods: BTreeMap<String, PodRecord>,
    /// Every request to remove a pod, also refused ones, in the order of the requests.
    pub removals: Vec<Removal>,
    /// Every binding.
    pub bindings: Vec<Binding>,
    /// Every nomination that was set or withdrawn.
    pub nominations: Vec<Nomination>,
    /// Every condition with a preemptor that the operator wrote to a pod before it deleted the pod.
    pub marks: Vec<Mark>,
    /// Every version of every stored plan.
    pub plans: Vec<PlanRecord>,
    /// The time and the name of every plan that any user deleted.
    pub deleted_plans: Vec<(Timestamp, String)>,
    /// Every write of a node.
    pub nodes: Vec<NodeWrite>,
    /// Every write of taints by the operator without a response, and the number of writes in `nodes` before it.
    pub nodes_asked: Vec<(usize, NodeWrite)>,
    /// Number of status writes by the operator for each PodGroup.
    pub statuses: BTreeMap<Key, usize>,
    /// The holders of the operator's Lease with the time from which they held it; empty if there was no holder.
    pub leaders: Vec<(Timestamp, String)>,
    /// The times at which a test marked a namespace as at rest, before it cleaned up.
    pub rests: Vec<(Timestamp, String)>,
    /// Every PodGroup in its last version.
    pub groups: BTreeMap<Key, GroupRecord>,
    /// Every write of a namespace, and whether it was protected from then on.
    pub protected: Vec<(Timestamp, String, bool)>,
    /// The UIDs of the PodGroups that had a name, each with the time from which it existed.
    pub(super) incarnations: BTreeMap<Key, Vec<(Timestamp, String)>>,
    pub(super) classes: BTreeMap<String, ClassRecord>,
    /// The UID of the pod that last had a name.
    current: BTreeMap<Key, String>,
    /// The stored parts of each plan.
    parts: BTreeMap<String, Vec<Preemption>>,
}

impl History {
    /// Builds the history from the lines of a log. A request without a response counts as not carried out.
    pub fn new(lines: &[Line]) -> Self {
        let mut order: Vec<&Line> = lines.iter().collect();
        // The log has the order of the responses. Removals are sorted by the time of the request instead, so that a removal comes after
        // every creation whose response preceded the request.
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

    fn take(&mut self, line: &Line) {
        let object = &line.object_ref;
        let removes = matches!(line.verb.as_str(), "delete" | "deletecollection") || object.subresource == "eviction";
        match (object.api_group.as_str(), object.resource.as_str(), object.subresource.as_str()) {
            ("", "pods", "" | "eviction") if removes => self.take_removal(line),
            ("", "nodes", "") if !line.took_effect() => self.ask_node(line),
            // The read of a ConfigMap that marks a rest is answered with 404.
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
                if subresource == "status" && line.user.username == OPERATOR {
                    *self.statuses.entry(key_of(line)).or_default() += 1;
                }
                self.take_group(line, removes);
            }
            (native::GROUP, "podgroups", "") => self.take_group(line, removes),
            (keys::GROUP, "preemptions", _) => self.take_preemption(line, removes),
            ("scheduling.k8s.io", "priorityclasses", "") if is(&line.response_object, "PriorityClass") => {
                self.classes.insert(text(&line.response_object, "/metadata/name"), class_of(&line.response_object));
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
                placeholder: line.user.username == OPERATOR
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

    /// Records a write of a node. A deleted node has no taints.
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

    /// Records a write of taints by the operator without a response.
    fn ask_node(&mut self, line: &Line) {
        let unanswered = line.response_status.code == GATEWAY_TIMEOUT && line.user.username == OPERATOR;
        if unanswered && line.request_object.pointer("/spec/taints").is_some() {
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
        if let Some(message) = target.map(|c| text(c, "/message")).filter(|_| line.user.username == OPERATOR) {
            let named = Some(text(&line.request_object, "/metadata/uid")).filter(|uid| !uid.is_empty());
            let uid = named.or_else(|| self.current.get(&key_of(line)).cloned()).unwrap_or_default();
            self.marks.push(Mark { at: line.stage_timestamp, pod: key_of(line), uid, message });
        }
        if matches!(text(&line.request_object, "/status/phase").as_str(), "Succeeded" | "Failed")
            && let Some(record) = self.current.get(&key_of(line)).and_then(|uid| self.pods.get_mut(uid))
        {
            record.finished.get_or_insert(line.stage_timestamp);
        }
        // A patch has only the changed fields; an update has all.
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
            dry_run: line.is_dry_run(),
            plan: map(request, "/metadata/annotations").remove(keys::ANNOTATION_PLAN),
            code: line.response_status.code,
            message: line.response_status.message.clone(),
            accepted,
            terminating_since: answered.and_then(deletion_began),
        });
    }

    fn take_group(&mut self, line: &Line, removes: bool) {
        let group = &line.response_object;
        let native = line.object_ref.api_group == native::GROUP;
        let key_of_group = |(namespace, name): Key| (namespace, if native { native::key_name(&name) } else { name });
        if removes {
            if let Some(record) = self.groups.get_mut(&key_of_group(key_of(line))) {
                record.deleted = true;
                record.gone = record.gone.or(Some(line.stage_timestamp).filter(|_| !record.finalized));
            }
            return;
        }
        if !is(group, "PodGroup") {
            return;
        }
        let key = key_of_group((text(group, "/metadata/namespace"), text(group, "/metadata/name")));
        let class = Some(text(group, "/spec/priorityClassName")).filter(|class| !class.is_empty());
        let policy = Some(text(group, "/spec/preemptionPolicy")).filter(|policy| !policy.is_empty());
        let uid = text(group, "/metadata/uid");
        let incarnations = self.incarnations.entry(key.clone()).or_default();
        if incarnations.last().is_none_or(|(_, last)| *last != uid) {
            incarnations.push((line.stage_timestamp, uid));
        }
        let min_count = number(group, "/spec/schedulingPolicy/gang/minCount").unwrap_or(0);
        let finalized =
            group.pointer("/metadata/finalizers").and_then(Value::as_array).is_some_and(|all| !all.is_empty());
        let is_terminating = group.pointer("/metadata/deletionTimestamp").is_some();
        let record = GroupRecord {
            whole: text(group, "/spec/disruptionMode") == "PodGroup"
                || group.pointer("/spec/disruptionMode/all").is_some(),
            native,
            min_count: usize::try_from(min_count).unwrap_or(0),
            priority: number(group, "/spec/priority"),
            class,
            never: policy.map(|policy| policy == "Never"),
            topology: Some(text(group, "/spec/schedulingConstraints/topology/0/key")).filter(|key| !key.is_empty()),
            // A deleted PodGroup is still updated until its finalizers are removed, and by clients that have not observed the deletion.
            deleted: is_terminating
                || (line.verb != "create" && self.groups.get(&key).is_some_and(|before| before.deleted)),
            finalized,
            gone: Some(line.stage_timestamp).filter(|_| is_terminating && !finalized),
        };
        self.groups.insert(key, record);
    }

    /// Records a write or deletion of a Preemption. A plan is stored from the write of its last part until one part is deleted. Plans of
    /// other users are ignored.
    fn take_preemption(&mut self, line: &Line, removes: bool) {
        if removes {
            let mut names: Vec<String> =
                list(&line.response_object, "/items").iter().map(|part| text(part, "/metadata/name")).collect();
            names.extend(Some(key_of(line).1).filter(|name| !name.is_empty()));
            for plan in names.iter().map(|name| plan_of_part(name)) {
                self.parts.remove(plan);
                self.deleted_plans.push((line.stage_timestamp, plan.to_owned()));
            }
            return;
        }
        let Ok(part) = serde_json::from_value::<Preemption>(line.response_object.clone()) else { return };
        if line.user.username != OPERATOR {
            return;
        }
        let plan = plan_of_part(part.metadata.name.as_deref().unwrap_or_default()).to_owned();
        let parts = self.parts.entry(plan).or_default();
        parts.retain(|known| known.spec.part != part.spec.part);
        parts.push(part);
        let Ok(plan) = assemble(parts.clone()) else { return };
        let stored = &plan.preemptor;
        let preemptor = match stored.kind.as_str() {
            "Pod" => Preemptor::Pod(stored.uid.clone()),
            _ => Preemptor::Group { key: (stored.namespace.clone(), stored.name.clone()), uid: stored.uid.clone() },
        };
        let preemptor = plan.cause.is_plan().then_some(preemptor);
        self.plans.push(PlanRecord {
            asked: line.request_received_timestamp,
            at: line.stage_timestamp,
            user: line.user.username.clone(),
            preemptor,
            written_in: Some(text(&line.request_object, "/status/term")).filter(|term| !term.is_empty()),
            plan,
        });
    }
}

/// Returns true for a removal by the operator, by kube-scheduler or through the Eviction API.
fn preempts(line: &Line, how: How) -> bool {
    how == How::Evict || matches!(line.user.username.as_str(), OPERATOR | SCHEDULER)
}

/// Returns the time at which a pod began to terminate: its `deletionTimestamp` minus the grace period.
fn deletion_began(pod: &Value) -> Option<Timestamp> {
    let ends: Timestamp = text(pod, "/metadata/deletionTimestamp").parse().ok()?;
    let grace = number(pod, "/metadata/deletionGracePeriodSeconds")?;
    ends.checked_sub(SignedDuration::from_secs(grace.into())).ok()
}

/// Returns the namespace and name of the object of a request.
fn key_of(line: &Line) -> Key {
    (line.object_ref.namespace.clone(), line.object_ref.name.clone())
}

/// Returns the policy of a class for Giveway. A managed class has it in an annotation: its field `preemptionPolicy` is for kube-scheduler.
fn class_of(class: &Value) -> ClassRecord {
    let annotations = map(class, "/metadata/annotations");
    let managed = annotations.get(keys::ANNOTATION_MANAGED).is_some_and(|value| value == "true");
    let policy = if managed {
        annotations.get(keys::ANNOTATION_PREEMPTION_POLICY).cloned().unwrap_or_default()
    } else {
        text(class, "/preemptionPolicy")
    };
    ClassRecord { value: number(class, "/value").unwrap_or(0), never: policy == "Never" }
}
