//! Replaces names in objects.
//!
//! The names of each sort are numbered in their sort order: equal names stay equal, the order by name (the last
//! tie-breaker of the planner) is preserved, and a plan differs only in names. Label keys, resource names, quantities,
//! times, priorities, `system-*` classes and the namespace `kube-system` are kept.

use crate::world::protected_names;
use giveway_crds::{keys, membership, native};
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Sorts of names; names of different sorts are never compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Sort {
    Namespace,
    Node,
    /// Pods and groups, whose order is compared across the two kinds.
    Unit,
    Owner,
    Class,
    Budget,
    Workload,
    /// Label values, values of taints, and names inside a pod.
    Value,
    Uid,
}

impl Sort {
    fn prefix(self) -> &'static str {
        match self {
            Self::Namespace => "ns",
            Self::Node => "node",
            Self::Unit => "unit",
            Self::Owner => "owner",
            Self::Class => "class",
            Self::Budget => "budget",
            Self::Workload => "workload",
            Self::Value => "value",
            Self::Uid => "uid",
        }
    }
}

/// Replaces all names in trimmed objects.
pub(crate) fn anonymize(items: &mut [Value]) {
    items.iter_mut().for_each(settle_group);
    items.iter_mut().filter(|item| item["kind"] == "Pod").for_each(settle_claims);
    let mut names: BTreeMap<Sort, BTreeSet<String>> = BTreeMap::new();
    let (numeric, uids) = (numeric_labels(items), preemptors(items));
    for item in items.iter_mut() {
        let mut collect = |sort, name: &str| {
            names.entry(sort).or_default().insert(name.to_owned());
            name.to_owned()
        };
        Walk { rename: &mut collect, numeric: &numeric, uids: &uids }.item(item);
    }
    let tables: BTreeMap<Sort, BTreeMap<String, String>> =
        names.into_iter().map(|(sort, names)| (sort, numbered(sort, names))).collect();
    for item in items {
        let mut replace =
            |sort, name: &str| tables.get(&sort).and_then(|t| t.get(name)).cloned().unwrap_or_else(|| name.to_owned());
        Walk { rename: &mut replace, numeric: &numeric, uids: &uids }.item(item);
    }
}

fn numbered(sort: Sort, names: BTreeSet<String>) -> BTreeMap<String, String> {
    let width = names.len().to_string().len();
    // Annotations make pods in this namespace critical add-ons, so its name is kept, and names sorted before it remain
    // before it.
    let kept = (sort == Sort::Namespace && names.contains(SYSTEM)).then_some(SYSTEM);
    let name = |(index, name): (usize, String)| {
        let first = if kept.is_some_and(|kept| name.as_str() < kept) { "a-" } else { "" };
        let new = format!("{first}{}-{:0width$}", sort.prefix(), index + 1);
        let new = kept.filter(|kept| *kept == name).map_or(new, str::to_owned);
        (name, new)
    };
    names.into_iter().enumerate().map(name).collect()
}

/// Replaces the three labels that name a pod's group by the single label that admission derives from them: the parts
/// cannot be renamed consistently.
fn settle_group(item: &mut Value) {
    let Some(labels) = item.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) else { return };
    let text = labels.iter().filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect();
    if let Ok(Some(found)) = membership::of(Some(&text))
        && found.template.is_some()
    {
        for key in keys::GROUP_LABELS {
            labels.remove(key);
        }
        labels.insert(keys::LABEL_POD_GROUP.to_owned(), found.group.into());
    }
}

/// Returns labels that node affinity compares as numbers (`Gt`, `Lt`): their values are kept.
fn numeric_labels(items: &[Value]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let of = |item: &Value| [REQUIRED_NODE_TERMS, VOLUME_NODE_TERMS].map(|path| item.pointer(path).cloned());
    let terms: Vec<Value> =
        items.iter().flat_map(of).flatten().filter_map(|list| list.as_array().cloned()).flatten().collect();
    for rule in terms.iter().filter_map(|term| term["matchExpressions"].as_array()).flatten() {
        if let (Some(key), Some("Gt" | "Lt")) = (rule["key"].as_str(), rule["operator"].as_str()) {
            found.insert(key.to_owned());
        }
    }
    found
}

/// Returns the UIDs of the preemptors of stored plans: the values of taints that reserve nodes for them.
fn preemptors(items: &[Value]) -> BTreeSet<String> {
    let plans = items.iter().filter(|item| item["kind"] == "Preemption");
    plans.filter_map(|plan| Some(plan.pointer("/spec/preemptor/uid")?.as_str()?.to_owned())).collect()
}

/// The namespace whose name is kept.
const SYSTEM: &str = "kube-system";

const REQUIRED_NODE_TERMS: &str =
    "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";

const VOLUME_NODE_TERMS: &str = "/spec/nodeAffinity/required/nodeSelectorTerms";

/// Turns the claim of an ephemeral volume, whose name is derived from its pod, into a named claim that can be renamed.
fn settle_claims(item: &mut Value) {
    let pod = item["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    for volume in item.pointer_mut("/spec/volumes").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(volume) = volume.as_object_mut()
            && volume.remove("ephemeral").is_some()
        {
            let claim = format!("{pod}-{}", volume.get("name").and_then(Value::as_str).unwrap_or_default());
            volume.insert("persistentVolumeClaim".to_owned(), json!({ "claimName": claim }));
        }
    }
}

/// Visits every name in an object.
struct Walk<'a> {
    rename: &'a mut dyn FnMut(Sort, &str) -> String,
    numeric: &'a BTreeSet<String>,
    uids: &'a BTreeSet<String>,
}

impl Walk<'_> {
    fn item(&mut self, item: &mut Value) {
        let kind = item["kind"].as_str().unwrap_or_default().to_owned();
        let sort = match kind.as_str() {
            "Preemption" => return self.preemption(item),
            "Namespace" => Sort::Namespace,
            "Node" => Sort::Node,
            "PriorityClass" => return self.class(&mut item["metadata"]["name"]),
            "PodDisruptionBudget" => Sort::Budget,
            "Workload" => Sort::Workload,
            // Pods and claims refer to claims and volumes as values.
            "PersistentVolume" | "PersistentVolumeClaim" | "StorageClass" => Sort::Value,
            // The name is part of a resource name, and resource names are kept.
            "DeviceClass" => return,
            "ValidatingAdmissionPolicy" => {
                self.protected(item);
                self.served(item);
                return;
            }
            _ => Sort::Unit,
        };
        self.metadata(&mut item["metadata"], sort);
        match kind.as_str() {
            "Node" => self.each(item.pointer_mut("/spec/taints"), |walk, taint| {
                let kept_for = taint["value"].as_str().is_some_and(|value| walk.uids.contains(value));
                let sort = if kept_for { Sort::Uid } else { Sort::Value };
                walk.text(sort, taint.get_mut("value"));
            }),
            "Pod" => self.pod(item),
            "PersistentVolume" => {
                self.node_terms(item.pointer_mut("/spec/nodeAffinity/required/nodeSelectorTerms"));
            }
            "PersistentVolumeClaim" => {
                self.text(Sort::Value, item.pointer_mut("/spec/volumeName"));
                self.text(Sort::Value, item.pointer_mut("/spec/storageClassName"));
            }
            "StorageClass" => self.each(item.get_mut("allowedTopologies"), |walk, topology| {
                walk.each(topology.get_mut("matchLabelExpressions"), Self::rule);
            }),
            "PodGroup" => self.group(item),
            "PodDisruptionBudget" => {
                self.selector(item.pointer_mut("/spec/selector"));
                if let Some(map) = item.pointer_mut("/status/disruptedPods").and_then(Value::as_object_mut) {
                    *map = std::mem::take(map).into_iter().map(|(k, v)| ((self.rename)(Sort::Unit, &k), v)).collect();
                }
            }
            "Workload" => self.each(item.pointer_mut("/spec/podGroupTemplates"), |walk, template| {
                walk.text(Sort::Value, template.get_mut("name"));
                walk.optional_class(template.get_mut("priorityClassName"));
            }),
            _ => {}
        }
    }

    /// Renames the namespaces that the chart protects.
    fn protected(&mut self, policy: &mut Value) {
        let pointer = format!("/metadata/annotations/{}", keys::ANNOTATION_PROTECTED.replace('/', "~1"));
        let Some(Value::String(names)) = policy.pointer_mut(&pointer) else { return };
        let renamed = protected_names(names).map(|name| (self.rename)(Sort::Namespace, name));
        *names = renamed.collect::<Vec<_>>().join(",");
    }

    /// Renames the selector of the namespaces in which groups are served. An invalid selector becomes an empty one.
    fn served(&mut self, policy: &mut Value) {
        let pointer = format!("/metadata/annotations/{}", keys::ANNOTATION_SERVED.replace('/', "~1"));
        let Some(Value::String(text)) = policy.pointer_mut(&pointer) else { return };
        let mut selector = serde_json::from_str(text).unwrap_or_default();
        self.selector(Some(&mut selector));
        *text = selector.to_string();
    }

    fn metadata(&mut self, metadata: &mut Value, sort: Sort) {
        self.text(sort, metadata.get_mut("name"));
        self.text(Sort::Namespace, metadata.get_mut("namespace"));
        self.text(Sort::Uid, metadata.get_mut("uid"));
        self.labels(metadata.get_mut("labels"));
        self.each(metadata.get_mut("ownerReferences"), |walk, owner| {
            walk.text(Sort::Owner, owner.get_mut("name"));
            walk.text(Sort::Uid, owner.get_mut("uid"));
        });
        // The annotation of a version without Preemptions contains a plan with names; it is ignored, so it is removed.
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.remove(keys::ANNOTATION_PLAN);
        }
    }

    fn pod(&mut self, item: &mut Value) {
        let Some(spec) = item.get_mut("spec") else { return };
        self.text(Sort::Node, spec.get_mut("nodeName"));
        self.optional_class(spec.get_mut("priorityClassName"));
        self.text(Sort::Unit, spec.pointer_mut("/schedulingGroup/podGroupName"));
        self.labels(spec.get_mut("nodeSelector"));
        self.each(spec.get_mut("tolerations"), |walk, toleration| {
            walk.text(Sort::Value, toleration.get_mut("value"));
        });
        for list in ["containers", "initContainers", "volumes", "resourceClaims"] {
            self.each(spec.get_mut(list), |walk, part| {
                walk.text(Sort::Value, part.get_mut("name"));
                walk.text(Sort::Value, part.pointer_mut("/persistentVolumeClaim/claimName"));
            });
        }
        self.each(spec.get_mut("topologySpreadConstraints"), |walk, constraint| {
            walk.selector(constraint.get_mut("labelSelector"));
        });
        self.affinity(spec.get_mut("affinity"));
        let Some(status) = item.get_mut("status") else { return };
        self.text(Sort::Node, status.get_mut("nominatedNodeName"));
        for list in ["containerStatuses", "initContainerStatuses"] {
            self.each(status.get_mut(list), |walk, container| walk.text(Sort::Value, container.get_mut("name")));
        }
    }

    fn affinity(&mut self, affinity: Option<&mut Value>) {
        let Some(affinity) = affinity else { return };
        for side in ["podAffinity", "podAntiAffinity"] {
            self.each(
                affinity.pointer_mut(&format!("/{side}/requiredDuringSchedulingIgnoredDuringExecution")),
                Self::term,
            );
            let preferred = format!("/{side}/preferredDuringSchedulingIgnoredDuringExecution");
            self.each(affinity.pointer_mut(&preferred), |walk, weighted| walk.term(&mut weighted["podAffinityTerm"]));
        }
        let Some(node) = affinity.get_mut("nodeAffinity") else { return };
        // Preferred affinity terms do not affect a plan and would only reveal names.
        node.as_object_mut().map(|map| map.remove("preferredDuringSchedulingIgnoredDuringExecution"));
        self.node_terms(node.pointer_mut("/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms"));
    }

    fn node_terms(&mut self, terms: Option<&mut Value>) {
        self.each(terms, |walk, term| {
            walk.each(term.get_mut("matchExpressions"), Self::rule);
            walk.each(term.get_mut("matchFields"), |walk, rule| {
                walk.each(rule.get_mut("values"), |walk, value| walk.text(Sort::Node, Some(value)));
            });
        });
    }

    fn term(&mut self, term: &mut Value) {
        self.selector(term.get_mut("labelSelector"));
        self.selector(term.get_mut("namespaceSelector"));
        self.each(term.get_mut("namespaces"), |walk, name| walk.text(Sort::Namespace, Some(name)));
    }

    fn group(&mut self, item: &mut Value) {
        if let Some(spec) = item.get_mut("spec") {
            self.optional_class(spec.get_mut("priorityClassName"));
            if let Some(workload) = spec.pointer_mut("/podGroupTemplateRef/workload") {
                self.text(Sort::Workload, workload.get_mut("workloadName"));
                self.text(Sort::Value, workload.get_mut("podGroupTemplateName"));
            }
        }
    }

    /// Renames a stored plan, or a part of one. Names of plans reveal nothing and are kept; sentences contain other
    /// names and are removed.
    fn preemption(&mut self, item: &mut Value) {
        if let Some(status) = item.get_mut("status").and_then(Value::as_object_mut) {
            status.remove("message");
            status.remove("term");
        }
        self.text(Sort::Uid, item["metadata"].get_mut("uid"));
        let Some(plan) = item.get_mut("spec") else { return };
        plan.as_object_mut().map(|map| map.remove("reason"));
        if let Some(preemptor) = plan.get_mut("preemptor") {
            self.text(Sort::Namespace, preemptor.get_mut("namespace"));
            self.text(Sort::Unit, preemptor.get_mut("name"));
            self.text(Sort::Uid, preemptor.get_mut("uid"));
        }
        if let Some(domain) = plan.get_mut("domain") {
            let key = domain["key"].as_str().unwrap_or_default().to_owned();
            self.label(&key, &mut domain["value"]);
        }
        self.each(plan.get_mut("placements"), |walk, placement| {
            walk.text(Sort::Unit, placement.get_mut("pod"));
            walk.text(Sort::Uid, placement.get_mut("uid"));
            walk.text(Sort::Node, placement.get_mut("node"));
        });
        self.each(plan.get_mut("victims"), |walk, victim| {
            victim.as_object_mut().map(|map| map.remove("owner"));
            walk.text(Sort::Namespace, victim.get_mut("namespace"));
            match victim["name"].as_str().and_then(native::own_name).map(str::to_owned) {
                Some(name) => victim["name"] = native::key_name(&(walk.rename)(Sort::Unit, &name)).into(),
                None => walk.text(Sort::Unit, victim.get_mut("name")),
            }
            walk.each(victim.get_mut("pods"), |walk, pod| {
                walk.text(Sort::Unit, pod.get_mut("name"));
                walk.text(Sort::Uid, pod.get_mut("uid"));
                walk.text(Sort::Node, pod.get_mut("node"));
            });
        });
    }

    /// Renames the label values in a label selector.
    fn selector(&mut self, selector: Option<&mut Value>) {
        let Some(selector) = selector else { return };
        self.labels(selector.get_mut("matchLabels"));
        self.each(selector.get_mut("matchExpressions"), Self::rule);
    }

    fn rule(&mut self, rule: &mut Value) {
        let key = rule["key"].as_str().unwrap_or_default().to_owned();
        self.each(rule.get_mut("values"), |walk, value| walk.label(&key, value));
    }

    fn labels(&mut self, labels: Option<&mut Value>) {
        let empty = &mut Map::new();
        for (key, value) in labels.and_then(Value::as_object_mut).unwrap_or(empty) {
            self.label(&key.clone(), value);
        }
    }

    fn label(&mut self, key: &str, value: &mut Value) {
        if self.numeric.contains(key) {
            return;
        }
        let sort = if key == keys::LABEL_POD_GROUP { Sort::Unit } else { Sort::Value };
        self.text(sort, Some(value));
    }

    fn optional_class(&mut self, value: Option<&mut Value>) {
        if let Some(value) = value {
            self.class(value);
        }
    }

    fn class(&mut self, value: &mut Value) {
        if !value.as_str().unwrap_or_default().starts_with("system-") {
            self.text(Sort::Class, Some(value));
        }
    }

    fn text(&mut self, sort: Sort, value: Option<&mut Value>) {
        if let Some(value) = value
            && let Some(text) = value.as_str().filter(|text| !text.is_empty())
        {
            *value = (self.rename)(sort, text).into();
        }
    }

    fn each(&mut self, list: Option<&mut Value>, mut visit: impl FnMut(&mut Self, &mut Value)) {
        for item in list.and_then(Value::as_array_mut).into_iter().flatten() {
            visit(self, item);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide;
    use crate::live::Objects;
    use crate::world::World;
    use giveway_planner::{Decision, ObjectKey, Preemptor, Strategy};
    use serde_json::json;

    /// Returns two nodes, a group that is disrupted as a whole, single pods with a budget, and a pod that selects its
    /// node by label and by name.
    fn objects() -> Vec<Value> {
        let node = |name: &str, zone: &str| {
            json!({"apiVersion": "v1", "kind": "Node",
                "metadata": {"name": name, "uid": format!("u-{name}"), "labels": {"zone": zone, "kubernetes.io/hostname": name, "gen": "7"}},
                "spec": {"taints": [{"key": "team", "value": "secret", "effect": "NoSchedule"}]},
                "status": {"allocatable": {"cpu": "4", "pods": "9"}}})
        };
        let pod = |name: &str, node: Option<&str>, priority: i32, labels: Value, extra: Value| {
            let mut spec = json!({"priority": priority, "containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}],
                "tolerations": [{"key": "team", "operator": "Equal", "value": "secret"}]});
            if let Some(node) = node {
                spec["nodeName"] = node.into();
            }
            if let Value::Object(extra) = extra {
                spec.as_object_mut().unwrap().extend(extra);
            }
            json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": name, "namespace": "bank", "uid": format!("u-{name}"), "labels": labels},
                "spec": spec, "status": {"phase": if node.is_some() { "Running" } else { "Pending" }}})
        };
        let selects = json!({"nodeSelector": {"zone": "vienna"}, "affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{
                "matchExpressions": [{"key": "gen", "operator": "Gt", "values": ["5"]}],
                "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["mozart", "haydn"]}]}]}}}});
        let member =
            json!({"scheduling.giveway.dev/workload": "books", "scheduling.giveway.dev/pod-group-template": "year"});
        vec![
            node("mozart", "vienna"),
            node("haydn", "vienna"),
            node("bach", "leipzig"),
            json!({"apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "PodGroup",
                "metadata": {"name": "books-year", "namespace": "bank"},
                "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, "disruptionMode": "PodGroup", "priority": 5}}),
            json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
                "metadata": {"name": "keep", "namespace": "bank"},
                "spec": {"selector": {"matchLabels": {"app": "ledger"}}}, "status": {"disruptionsAllowed": 0}}),
            pod("books-0", Some("mozart"), 5, member.clone(), json!({})),
            pod("books-1", Some("mozart"), 5, member, json!({})),
            pod("ledger-0", Some("haydn"), 1, json!({"app": "ledger"}), json!({})),
            pod("ledger-1", Some("haydn"), 1, json!({"app": "ledger"}), json!({})),
            pod("idle", Some("bach"), 0, json!({}), json!({})),
            pod("vip", None, 9, json!({}), selects),
        ]
    }

    #[test]
    fn where_groups_are_served_is_the_same_under_other_names() {
        let namespace = |name: &str, team: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": {"team": team}}});
        let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": "giveway-namespaces", "annotations": {
                keys::ANNOTATION_PROTECTED: "bank", keys::ANNOTATION_SERVED: "{\"matchLabels\":{\"team\":\"secret\"}}"}}});
        let mut items = vec![namespace("bank", "secret"), namespace("shop", "other"), policy];
        let served = |items: &[Value]| {
            let names: Vec<String> =
                items[..2].iter().map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect();
            let items = items.to_vec();
            let world = World::new(Objects { source: "test".to_owned(), items, ..Objects::default() }).unwrap();
            let unserved = |name: &String| world.is_unserved(&Preemptor::Group(ObjectKey::new(name, "g")));
            assert_eq!(world.notes, Vec::<String>::new());
            (names.iter().map(unserved).collect::<Vec<_>>(), world.cluster.protection(&names[0]).is_some())
        };
        assert_eq!(served(&items), (vec![false, true], true));
        anonymize(&mut items);
        let text = Value::Array(items.clone()).to_string();
        assert!(!text.contains("secret") && !text.contains("bank"), "{text}");
        assert_eq!(served(&items), (vec![false, true], true));
    }

    fn decision(items: Vec<Value>, key: ObjectKey) -> Decision {
        let world = World::new(Objects { source: "test".to_owned(), items, ..Objects::default() }).unwrap();
        decide::once(&world, &Preemptor::Pod(key), Strategy::default()).decision
    }

    #[test]
    fn a_plan_on_the_renamed_objects_is_the_same_but_for_the_names() {
        let Decision::Preempt(plain) = decision(objects(), ObjectKey::new("bank", "vip")) else { panic!("no plan") };
        let mut items = objects();
        anonymize(&mut items);
        let text = Value::Array(items.clone()).to_string();
        for word in ["mozart", "haydn", "bach", "bank", "vienna", "books", "ledger-", "secret", "vip", "u-", "main"] {
            assert!(!text.contains(&format!("\"{word}")), "{word} is in {text}");
        }
        let vip = items.last().unwrap()["metadata"]["name"].as_str().unwrap().to_owned();
        assert_eq!(vip, "unit-7", "the last of the names: books-0, books-1, books-year, idle, ledger-0, ledger-1, vip");
        let Decision::Preempt(hidden) = decision(items, ObjectKey::new("ns-1", &vip)) else { panic!("no plan") };
        assert_eq!(hidden.cost, plain.cost);
        let kinds = |plan: &giveway_planner::Plan| -> Vec<(i32, bool, usize)> {
            plan.victims.iter().map(|v| (v.priority, v.violates_budget, v.pods.len())).collect()
        };
        assert_eq!(kinds(&hidden), kinds(&plain));
        let nodes = ["bach", "haydn", "mozart"];
        let at = nodes.iter().position(|node| *node == plain.placements[0].node).unwrap();
        assert_eq!(hidden.placements[0].node, format!("node-{}", at + 1));
    }
}
