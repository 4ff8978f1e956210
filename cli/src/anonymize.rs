//! Replaces names in objects.
//!
//! The names of each sort are numbered in their sort order: equal names stay equal, the order by name (the last
//! tie-breaker of the planner) is preserved, and a plan differs only in names. The [table of kinds](giveway_cluster::objects::kinds) says
//! for each field how it is written; a text that has no mark there is not written. Kept are keys of labels and taints, names of resources,
//! quantities, times, priorities, words that the API server validates, `system-*` classes and the namespace `kube-system`.

use crate::world::names_in;
use giveway_cluster::objects::fields::Field;
use giveway_cluster::objects::kinds::{KindFields, SCHEDULER_CONFIG, in_snapshots};
use giveway_cluster::objects::mark::Mark;
use giveway_crds::kinds::KINDS;
use giveway_crds::{keys, membership, native};
use serde::de::DeserializeSeed as _;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// What a name is the name of. Names of different sorts are numbered separately, and are never compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum NameSort {
    Namespace,
    Node,
    /// Pods and PodGroups, whose order is compared across the two kinds.
    Unit,
    Owner,
    /// Kinds of owners, and their versions.
    OwnerKind,
    Class,
    Budget,
    Workload,
    Scheduler,
    Gate,
    Address,
    /// Label values, values of taints, and names inside a pod.
    Value,
    Uid,
}

impl NameSort {
    /// Returns the word with which every new name of this sort begins: `node` in `node-07`.
    fn prefix(self) -> &'static str {
        match self {
            Self::Namespace => "ns",
            Self::Node => "node",
            Self::Unit => "unit",
            Self::Owner => "owner",
            Self::OwnerKind => "kind",
            Self::Class => "class",
            Self::Budget => "budget",
            Self::Workload => "workload",
            Self::Scheduler => "scheduler",
            Self::Gate => "gate",
            Self::Address => "address",
            Self::Value => "value",
            Self::Uid => "uid",
        }
    }
}

/// Replaces the names in objects of a snapshot (of nodes, pods, namespaces and so on) by numbered ones, and removes kinds and fields
/// that the planner does not read.
pub(crate) fn anonymize(items: &mut Vec<Value>) {
    items.retain_mut(keep_snapshot_fields);
    items.iter_mut().for_each(replace_group_labels);
    items.iter_mut().filter(|item| item["kind"] == "Pod").for_each(name_ephemeral_claims);
    let mut names: BTreeMap<NameSort, BTreeSet<String>> = BTreeMap::new();
    let (numeric, uids) = (numeric_labels(items), preemptor_uids(items));
    for item in items.iter_mut() {
        let mut collect = |sort, name: &str| {
            names.entry(sort).or_default().insert(name.to_owned());
            name.to_owned()
        };
        NameVisitor { rename: &mut collect, numeric: &numeric, uids: &uids }.item(item);
    }
    let tables: BTreeMap<NameSort, BTreeMap<String, String>> =
        names.into_iter().map(|(sort, names)| (sort, numbered(sort, names))).collect();
    for item in items {
        let mut replace =
            |sort, name: &str| tables.get(&sort).and_then(|t| t.get(name)).cloned().unwrap_or_else(|| name.to_owned());
        NameVisitor { rename: &mut replace, numeric: &numeric, uids: &uids }.item(item);
    }
}

/// Returns which fields snapshots contain of the kind that `kind` and `apiVersion` of the object name; `None` if snapshots do not
/// contain the kind.
fn row_of(item: &Value) -> Option<&'static KindFields> {
    in_snapshots(item["apiVersion"].as_str()?, item["kind"].as_str()?)
}

/// Removes the fields of an object that snapshots do not contain. Returns false for an object of a kind that snapshots do not contain.
fn keep_snapshot_fields(item: &mut Value) -> bool {
    let Some(row) = row_of(item) else { return false };
    // Decoding a value cannot fail.
    *item = row.object().for_snapshots().deserialize(item.take()).unwrap_or_default();
    true
}

/// Returns for each old name its new name, such as `node-07`; the new names have the order of the old ones. The namespace `kube-system`
/// keeps its name.
fn numbered(sort: NameSort, names: BTreeSet<String>) -> BTreeMap<String, String> {
    let width = names.len().to_string().len();
    // Annotations make pods in this namespace critical add-ons, so its name is kept, and names sorted before it remain
    // before it.
    let kept = (sort == NameSort::Namespace && names.contains(SYSTEM)).then_some(SYSTEM);
    let name = |(index, name): (usize, String)| {
        let first = if kept.is_some_and(|kept| name.as_str() < kept) { "a-" } else { "" };
        let new = format!("{first}{}-{:0width$}", sort.prefix(), index + 1);
        let new = kept.filter(|kept| *kept == name).map_or(new, str::to_owned);
        (name, new)
    };
    names.into_iter().enumerate().map(name).collect()
}

/// Replaces the three labels of a pod that together name its PodGroup by the single label that admission derives from them: the parts
/// of the name cannot be renamed consistently.
fn replace_group_labels(item: &mut Value) {
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

/// Returns the keys of the node labels that node affinity compares as numbers (`Gt`, `Lt`): their values are kept.
fn numeric_labels(items: &[Value]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let of = |item: &Value| {
        let own = [REQUIRED_NODE_TERMS, VOLUME_NODE_TERMS].map(|path| item.pointer(path).cloned());
        own.into_iter().flatten().chain(added_node_terms(item)).collect::<Vec<_>>()
    };
    let terms: Vec<Value> = items.iter().flat_map(of).filter_map(|list| list.as_array().cloned()).flatten().collect();
    for rule in terms.iter().filter_map(|term| term["matchExpressions"].as_array()).flatten() {
        if let (Some(key), Some("Gt" | "Lt")) = (rule["key"].as_str(), rule["operator"].as_str()) {
            found.insert(key.to_owned());
        }
    }
    found
}

/// Returns the lists of node selector terms that the configuration of kube-scheduler adds to every pod (`addedAffinity`). The chart
/// writes that configuration to an annotation of `item`; without the annotation, the list is empty.
fn added_node_terms(item: &Value) -> Vec<Value> {
    let text = item["metadata"]["annotations"][keys::ANNOTATION_SCHEDULER_CONFIG].as_str();
    let config = text.map(parsed_config).unwrap_or_default();
    let profiles = config["profiles"].as_array().into_iter().flatten();
    let plugins = profiles.filter_map(|profile| profile["pluginConfig"].as_array()).flatten();
    plugins.filter_map(|plugin| plugin["args"].pointer(ADDED_NODE_TERMS).cloned()).collect()
}

/// Parses a configuration of kube-scheduler that is written as JSON; null if it is invalid.
fn parsed_config(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_default()
}

/// Returns the UIDs of the preemptors of all Preemptions among the objects: a taint that reserves a node for a preemptor has its UID as
/// value.
fn preemptor_uids(items: &[Value]) -> BTreeSet<String> {
    let plans = items.iter().filter(|item| item["kind"] == "Preemption");
    plans.filter_map(|plan| Some(plan.pointer("/spec/preemptor/uid")?.as_str()?.to_owned())).collect()
}

/// The namespace whose name is kept.
const SYSTEM: &str = "kube-system";

const REQUIRED_NODE_TERMS: &str =
    "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";

const ADDED_NODE_TERMS: &str = "/addedAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";

const VOLUME_NODE_TERMS: &str = "/spec/nodeAffinity/required/nodeSelectorTerms";

/// Replaces each ephemeral volume of a pod, whose claim has a name that is derived from the pod's, by a volume that names the claim, so
/// that the claim can be renamed.
fn name_ephemeral_claims(item: &mut Value) {
    let pod = item["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    for volume in item.pointer_mut("/spec/volumes").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(volume) = volume.as_object_mut()
            && volume.remove("ephemeral").is_some_and(|source| !source.is_null())
        {
            let claim = format!("{pod}-{}", volume.get("name").and_then(Value::as_str).unwrap_or_default());
            volume.insert("persistentVolumeClaim".to_owned(), json!({ "claimName": claim }));
        }
    }
}

/// Words of annotations and conditions that Giveway reads. Any other word means the same as another one.
const WORDS: [&str; 13] = [
    "",
    "true",
    "false",
    "Never",
    "PreemptLowerPriority",
    "Pod",
    "PodGroup",
    "Unschedulable",
    "SchedulingGated",
    "SchedulerError",
    "Infeasible",
    "Deferred",
    "PreemptionByScheduler",
];

/// Kinds of owners that every cluster has.
const OWNERS: [&str; 9] = [
    "Node",
    "Job",
    "CronJob",
    "ReplicaSet",
    "Deployment",
    "StatefulSet",
    "DaemonSet",
    "ReplicationController",
    "PodGroup",
];

/// Addresses that name no host.
const WILDCARDS: [&str; 4] = ["0.0.0.0", "127.0.0.1", "::", "::1"];

/// Returns true for a kind or `apiVersion` that many clusters have: of Kubernetes itself, of Giveway, or of a workload controller that
/// Giveway knows.
fn is_usual(text: &str) -> bool {
    let group = |version: &str| version.split_once('/').map_or_else(String::new, |(group, _)| group.to_owned());
    match text.split_once('/') {
        Some((of_text, _)) => {
            let is_of_kubernetes = !of_text.contains('.') || of_text.ends_with(".k8s.io") || of_text == keys::GROUP;
            is_of_kubernetes || KINDS.iter().any(|row| group(&row.api_version()) == of_text)
        }
        None => text == "v1" || OWNERS.contains(&text) || KINDS.iter().any(|row| row.kind == text),
    }
}

/// Returns true if a value contains no text that could be a name: a number, a boolean, null, or an empty list or map.
fn is_plain(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
        Value::String(_) => false,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

/// Visits the fields of objects, and passes every name in them to `rename`.
struct NameVisitor<'a> {
    rename: &'a mut dyn FnMut(NameSort, &str) -> String,
    numeric: &'a BTreeSet<String>,
    uids: &'a BTreeSet<String>,
}

impl NameVisitor<'_> {
    /// Replaces every name in an object by its new name, and removes texts that could be names and that the planner does not read.
    fn item(&mut self, item: &mut Value) {
        if let Some(row) = row_of(item) {
            self.visit_fields(row.object(), item);
        }
    }

    /// Replaces the names in the fields of an object, or of each object in a list. `known` says which of its fields snapshots contain;
    /// other fields are removed.
    fn visit_fields(&mut self, known: &Field, value: &mut Value) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.visit_fields(known, item)),
            Value::Object(fields) => {
                fields.retain(|name, value| known.field(name).is_some_and(|known| self.visit_field(known, value)));
            }
            other => clear(other),
        }
    }

    /// Replaces the names in the value of one field, which `known` describes. Returns true if snapshots contain the field.
    fn visit_field(&mut self, known: &Field, value: &mut Value) -> bool {
        match known.mark {
            Some(mark) => self.rename_value(mark, value),
            None if known.fields.is_empty() => return known.in_snapshots && is_plain(value),
            None => self.visit_fields(known, value),
        }
        known.in_snapshots
    }

    /// Replaces the names in a value. `mark` says what the value is: a name of a certain sort, a map of labels, a label selector and so
    /// on.
    fn rename_value(&mut self, mark: Mark, value: &mut Value) {
        match mark {
            Mark::Verbatim => {}
            Mark::Labels => self.labels(value),
            Mark::Rules => self.each(value, Self::requirement),
            Mark::Domain => self.domain(value),
            Mark::Pods => {
                if let Value::Object(map) = value {
                    *map =
                        std::mem::take(map).into_iter().map(|(k, v)| ((self.rename)(NameSort::Unit, &k), v)).collect();
                }
            }
            mark => self.each(value, |walk, value| match value {
                Value::String(text) if !text.is_empty() => *text = walk.renamed(mark, text),
                Value::String(_) => {}
                other => clear(other),
            }),
        }
    }

    /// Returns the text that replaces `text`, the value of a field. `mark` says what the value names: a node, a class, an owner and so
    /// on.
    fn renamed(&mut self, mark: Mark, text: &str) -> String {
        let sort = match mark {
            Mark::Namespace => NameSort::Namespace,
            Mark::Node => NameSort::Node,
            Mark::Unit => NameSort::Unit,
            Mark::Owner => NameSort::Owner,
            Mark::Budget => NameSort::Budget,
            Mark::Workload => NameSort::Workload,
            Mark::Uid => NameSort::Uid,
            Mark::Taint if self.uids.contains(text) => NameSort::Uid,
            Mark::Value | Mark::Taint => NameSort::Value,
            Mark::OwnerKind if !is_usual(text) => NameSort::OwnerKind,
            Mark::Class if !text.starts_with("system-") => NameSort::Class,
            Mark::Scheduler if text != "default-scheduler" => NameSort::Scheduler,
            Mark::Gate if text != keys::GATE => NameSort::Gate,
            Mark::Address if !WILDCARDS.contains(&text) => NameSort::Address,
            Mark::OwnerKind | Mark::Class | Mark::Scheduler | Mark::Gate | Mark::Address => return text.to_owned(),
            Mark::Word if WORDS.contains(&text) || text.parse::<i64>().is_ok() => return text.to_owned(),
            Mark::Group => {
                return match native::own_name(text) {
                    Some(name) => native::key_name(&(self.rename)(NameSort::Unit, name)),
                    None => (self.rename)(NameSort::Unit, text),
                };
            }
            Mark::Namespaces => {
                let renamed = names_in(text).map(|name| (self.rename)(NameSort::Namespace, name));
                return renamed.collect::<Vec<_>>().join(",");
            }
            Mark::Selector => return self.selector(text),
            Mark::SchedulerConfig => return self.scheduler_config(text),
            Mark::Word | Mark::Verbatim | Mark::Labels | Mark::Rules | Mark::Domain | Mark::Pods => {
                return "other".to_owned();
            }
        };
        (self.rename)(sort, text)
    }

    /// Takes a label selector as JSON, and returns it with renamed label values. An invalid selector becomes an empty one.
    fn selector(&mut self, text: &str) -> String {
        let parsed: Map<String, Value> = serde_json::from_str(text).unwrap_or_default();
        let mut selector = Map::new();
        for (name, mut value) in parsed {
            match name.as_str() {
                "matchLabels" => self.labels(&mut value),
                "matchExpressions" => self.each(&mut value, Self::requirement),
                _ => continue,
            }
            selector.insert(name, value);
        }
        Value::Object(selector).to_string()
    }

    /// Takes a configuration of kube-scheduler as JSON, and returns it with renamed names and with only the fields that Giveway reads.
    /// An invalid configuration becomes `null`.
    fn scheduler_config(&mut self, text: &str) -> String {
        let mut config = parsed_config(text);
        self.visit_fields(SCHEDULER_CONFIG.object(), &mut config);
        config.to_string()
    }

    /// Renames the values of one requirement of a label selector (`key`, `operator`, `values`).
    fn requirement(&mut self, rule: &mut Value) {
        let Value::Object(fields) = rule else { return clear(rule) };
        fields.retain(|name, _| matches!(name.as_str(), "key" | "operator" | "values"));
        let key = fields.get("key").and_then(Value::as_str).unwrap_or_default().to_owned();
        if let Some(values) = fields.get_mut("values") {
            self.each(values, |walk, value| walk.label(&key, value));
        }
    }

    /// Renames the label value of a stored topology domain (`key`, `value`); the key stays.
    fn domain(&mut self, domain: &mut Value) {
        let Value::Object(fields) = domain else { return clear(domain) };
        fields.retain(|name, _| matches!(name.as_str(), "key" | "value"));
        let key = fields.get("key").and_then(Value::as_str).unwrap_or_default().to_owned();
        if let Some(value) = fields.get_mut("value") {
            self.label(&key, value);
        }
    }

    /// Renames the values of a map of labels; the keys stay.
    fn labels(&mut self, labels: &mut Value) {
        match labels {
            Value::Object(labels) => labels.iter_mut().for_each(|(key, value)| self.label(key, value)),
            other => clear(other),
        }
    }

    /// Renames the value of the label `key`. A number stays if node affinity compares this label as a number.
    fn label(&mut self, key: &str, value: &mut Value) {
        let Value::String(text) = value else { return clear(value) };
        let is_number = self.numeric.contains(key) && text.parse::<i64>().is_ok();
        if !text.is_empty() && !is_number {
            let sort = if key == keys::LABEL_POD_GROUP { NameSort::Unit } else { NameSort::Value };
            *text = (self.rename)(sort, text);
        }
    }

    /// Calls `visit` with a value, or with each item if it is a list.
    fn each(&mut self, value: &mut Value, mut visit: impl FnMut(&mut Self, &mut Value)) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| visit(self, item)),
            value => visit(self, value),
        }
    }
}

/// Sets a value to null that is not of the expected type and may contain a text: a text, or a list or map that is not empty.
fn clear(value: &mut Value) {
    if !is_plain(value) {
        *value = Value::Null;
    }
}

#[cfg(test)]
#[path = "../../cluster/tests/maximal/mod.rs"]
mod maximal;

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
            let world = World::new(Objects { source: "test".to_owned(), items, ..Objects::default() }, false).unwrap();
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

    #[test]
    fn the_configuration_of_kube_scheduler_is_the_same_under_other_names() {
        let rule =
            |key: &str, operator: &str, value: &str| json!({"key": key, "operator": operator, "values": [value]});
        let terms = json!([{"matchExpressions": [rule("zone", "In", "vienna"), rule("gen", "Gt", "5")],
            "matchFields": [rule("metadata.name", "In", "haydn")]}]);
        let config = json!({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": "secret"},
            "profiles": [{"schedulerName": "default-scheduler", "pluginConfig": [{"name": "NodeAffinity", "args": {
                "addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}}]},
                {"schedulerName": "secret-scheduler"}]});
        let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": "giveway-namespaces", "annotations": {
                keys::ANNOTATION_PROTECTED: "", keys::ANNOTATION_SCHEDULER_CONFIG: config.to_string()}}});
        let mut items = objects();
        let vip = items.last_mut().unwrap();
        (vip["spec"]["nodeSelector"], vip["spec"]["affinity"]) = (json!({}), json!({}));
        items.push(policy);
        let node = |items: &[Value], namespace: &str, name: &str| {
            let Decision::Preempt(plan) = decision(items.to_vec(), ObjectKey::new(namespace, name)) else {
                panic!("no plan")
            };
            plan.placements[0].node.to_string()
        };
        assert_eq!(node(&items, "bank", "vip"), "haydn");
        anonymize(&mut items);
        let text = Value::Array(items.clone()).to_string();
        assert!(!["secret", "vienna", "haydn"].iter().any(|word| text.contains(word)), "{text}");
        assert_eq!(node(&items, "ns-1", "unit-7"), "node-2");
    }

    fn decision(items: Vec<Value>, key: ObjectKey) -> Decision {
        let world = World::new(Objects { source: "test".to_owned(), items, ..Objects::default() }, false).unwrap();
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

    #[test]
    fn what_any_user_may_write_is_replaced_the_same_everywhere() {
        let pod = |name: &str| {
            json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": name, "namespace": "bank", "uid": name, "annotations": {
                        keys::ANNOTATION_THRESHOLD: "7", keys::ANNOTATION_PREEMPTION_POLICY: "secret", "acme.com/note": "secret"},
                    "ownerReferences": [{"apiVersion": "acme.com/v1", "kind": "SecretJob", "name": "secret", "uid": "o", "controller": true}]},
                "spec": {"schedulerName": "secret-scheduler", "schedulingGates": [{"name": keys::GATE}, {"name": "acme.com/secret"}],
                    "containers": [{"name": "c", "image": "secret", "env": [{"name": "A", "value": "secret"}],
                        "ports": [{"hostPort": 80, "hostIP": "10.1.2.3"}, {"hostPort": 81, "hostIP": "0.0.0.0"}]}]},
                "status": {"phase": "Pending", "message": "secret", "conditions": [
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "secret"},
                    {"type": "Ready", "status": "False", "reason": "secret"}, {"type": "acme.com/secret", "status": "True"}]}})
        };
        let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "secret"}});
        let mut items = vec![pod("a"), other, pod("b")];
        anonymize(&mut items);
        let text = Value::Array(items.clone()).to_string().to_lowercase();
        assert!(!text.contains("secret") && !text.contains("acme") && !text.contains("10.1.2.3"), "{text}");
        assert_eq!(items.len(), 2);
        for item in &items {
            assert_eq!(item["spec"]["schedulerName"], "scheduler-1");
            assert_eq!(item["spec"]["schedulingGates"], json!([{"name": keys::GATE}, {"name": "gate-1"}]));
            let owner = &item["metadata"]["ownerReferences"][0];
            assert_eq!((&owner["apiVersion"], &owner["kind"]), (&json!("kind-2"), &json!("kind-1")));
            let ports = json!([{"hostPort": 80, "hostIP": "address-1"}, {"hostPort": 81, "hostIP": "0.0.0.0"}]);
            assert_eq!(item["spec"]["containers"][0]["ports"], ports);
            let annotations = json!({keys::ANNOTATION_THRESHOLD: "7", keys::ANNOTATION_PREEMPTION_POLICY: "other"});
            assert_eq!(item["metadata"]["annotations"], annotations);
            let reasons: Vec<_> =
                item["status"]["conditions"].as_array().unwrap().iter().map(|c| &c["reason"]).collect();
            assert_eq!(reasons, ["Unschedulable", "other"]);
        }
    }

    #[test]
    fn owners_that_many_clusters_have_keep_their_kind() {
        for usual in [
            "v1",
            "apps/v1",
            "batch/v1",
            "jobset.x-k8s.io/v1alpha2",
            "Job",
            "ReplicaSet",
            "JobSet",
            "RayCluster",
            "ray.io/v1",
        ] {
            assert!(is_usual(usual), "{usual}");
        }
        for other in ["acme.com/v1", "AcmeJob", "k8s.io.acme.com/v1"] {
            assert!(!is_usual(other), "{other}");
        }
    }

    /// Sets every text of an object.
    fn fill(value: &mut Value) {
        match value {
            Value::String(text) => *text = "canary".to_owned(),
            Value::Array(items) => items.iter_mut().for_each(fill),
            Value::Object(fields) => fields.values_mut().for_each(fill),
            _ => {}
        }
    }

    /// Returns the names of the fields whose value is still this text.
    fn unchanged(value: &Value, name: &str, found: &mut BTreeSet<String>) {
        match value {
            Value::String(text) if text == "canary" => drop(found.insert(name.to_owned())),
            Value::Array(items) => items.iter().for_each(|item| unchanged(item, name, found)),
            Value::Object(fields) => fields.iter().for_each(|(name, value)| unchanged(value, name, found)),
            _ => {}
        }
    }

    #[test]
    fn of_the_texts_of_a_pod_only_keys_and_validated_words_stay() {
        let mut pod = maximal::pod();
        fill(&mut pod);
        (pod["apiVersion"], pod["kind"]) = (json!("v1"), json!("Pod"));
        for (condition, name) in pod["status"]["conditions"].as_array_mut().unwrap().iter_mut().zip(["Ready", "Other"])
        {
            condition["type"] = json!(name);
        }
        let mut items = vec![pod];
        anonymize(&mut items);
        let mut found = BTreeSet::new();
        unchanged(&items[0], "", &mut found);
        let words = [
            // Keys, and names of resources.
            "key",
            "matchLabelKeys",
            "mismatchLabelKeys",
            "topologyKey",
            // Words that the API server validates.
            "action",
            "effect",
            "nodeAffinityPolicy",
            "nodeTaintsPolicy",
            "operator",
            "phase",
            "preemptionPolicy",
            "protocol",
            "restartPolicy",
            "status",
            "whenUnsatisfiable",
            // Keys of quantities.
            "cpu",
            // Times.
            "creationTimestamp",
            "deletionTimestamp",
            "lastTransitionTime",
            "startTime",
        ];
        assert_eq!(found, words.iter().map(|word| (*word).to_owned()).collect());
    }
}
