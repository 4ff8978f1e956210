//! The CEL rules of the schemas: each rejects an object or a change, and accepts the changes that are permitted. End-to-end tests try them on
//! API servers (`tests/tests/e2e/crds.rs`).

use super::cel::evaluate;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Returns the schema of a kind.
fn schema(kind: &str) -> Value {
    let crd = giveway_crds::all_crds().into_iter().find(|crd| crd.spec.names.kind == kind).unwrap();
    let schema = crd.spec.versions[0].schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
    serde_json::to_value(schema.unwrap()).unwrap()
}

fn rules(schema: &Value) -> impl Iterator<Item = (&str, &str)> {
    let rules = schema["x-kubernetes-validations"].as_array().into_iter().flatten();
    rules.map(|rule| (rule["rule"].as_str().unwrap(), rule["message"].as_str().unwrap()))
}

/// Sets the defaults of absent fields, as the API server does before it evaluates rules.
fn set_defaults(schema: &Value, value: &mut Value) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        if value.get(name).is_none() && field.get("default").is_some() {
            value[name] = field["default"].clone();
        }
        if let Some(value) = value.get_mut(name) {
            set_defaults(field, value);
        }
    }
    value.as_array_mut().into_iter().flatten().for_each(|item| set_defaults(&schema["items"], item));
}

/// Returns the messages of the rules that an object breaks. Rules about a change are evaluated if there is an old object; the items of a list
/// are compared with the old items only if the list is a map.
fn broken(schema: &Value, new: &Value, old: Option<&Value>, found: &mut Vec<String>) {
    let mut variables = BTreeMap::from([("self".to_owned(), new.clone())]);
    variables.extend(old.map(|old| ("oldSelf".to_owned(), old.clone())));
    for (rule, message) in rules(schema).filter(|(rule, _)| old.is_some() || !rule.contains("oldSelf")) {
        if evaluate(rule, &variables) != Ok(Value::Bool(true)) {
            found.push(message.to_owned());
        }
    }
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(value) = new.get(name) {
            broken(field, value, old.and_then(|old| old.get(name)), found);
        }
    }
    let key = schema["x-kubernetes-list-map-keys"][0].as_str();
    for item in new.as_array().into_iter().flatten() {
        let same = |old: &&Value| key.is_some_and(|key| old[key] == item[key]);
        let old = old.and_then(Value::as_array).and_then(|items| items.iter().find(same));
        broken(&schema["items"], item, old, found);
    }
}

/// A kind, the spec before and after a change (equal if it is created), and the message of the rule that is broken, if any.
type Case = (&'static str, Value, Value, &'static str);

fn gang(more: &Value) -> Value {
    let mut spec = json!({"schedulingPolicy": {"gang": {"minCount": 2}}});
    json_merge(&mut spec, more);
    spec
}

fn json_merge(into: &mut Value, more: &Value) {
    for (name, value) in more.as_object().into_iter().flatten() {
        into[name] = value.clone();
    }
}

const IMMUTABLE_CLASS: &str = "priorityClassName: field is immutable";
const CHOICE: &str = "the choice between `basic` and `gang` is immutable: create another group instead";

/// Returns cases that PodGroups and templates have in common, as specs.
fn common() -> Vec<(Value, Value, &'static str)> {
    let topology = |key: &str| json!({"schedulingConstraints": {"topology": [{"key": key}]}});
    let basic = |more: &Value| {
        let mut spec = json!({"schedulingPolicy": {"basic": {}}});
        json_merge(&mut spec, more);
        spec
    };
    let created = |spec: Value, message: &'static str| (spec.clone(), spec, message);
    let changed = |before: Value, after: Value, message: &'static str| (gang(&before), gang(&after), message);
    vec![
        created(gang(&json!({})), ""),
        created(basic(&json!({})), ""),
        created(basic(&json!({"disruptionMode": "Pod"})), ""),
        created(json!({"schedulingPolicy": {}}), "must specify one of: `basic`, `gang`"),
        created(
            json!({"schedulingPolicy": {"basic": {}, "gang": {"minCount": 1}}}),
            "exactly one of `basic`, `gang` is required, but multiple fields are set: remove one of them",
        ),
        created(
            basic(&json!({"disruptionMode": "PodGroup"})),
            "disruptionMode `PodGroup` cannot be used with schedulingPolicy `basic`: use `Pod`, or schedulingPolicy `gang`",
        ),
        created(
            basic(&topology("rack")),
            "schedulingConstraints.topology cannot be used with schedulingPolicy `basic`, whose pods are not gated: use schedulingPolicy `gang`",
        ),
        created(
            basic(&json!({"preemptFor": "MinCount"})),
            "preemptFor cannot be used with schedulingPolicy `basic`, whose pods are placed one by one: leave it out, or use schedulingPolicy `gang`",
        ),
        (gang(&json!({})), basic(&json!({})), CHOICE),
        (basic(&json!({})), gang(&json!({})), CHOICE),
        changed(json!({}), json!({"schedulingPolicy": {"gang": {"minCount": 5}}}), ""),
        changed(json!({}), json!({"disruptionMode": "Pod"}), ""),
        changed(json!({}), json!({"disruptionMode": "PodGroup"}), "disruptionMode: field is immutable"),
        changed(json!({"priorityClassName": "a"}), json!({"priorityClassName": "b"}), IMMUTABLE_CLASS),
        changed(json!({"priorityClassName": "a"}), json!({}), IMMUTABLE_CLASS),
        changed(json!({"priority": 5}), json!({"priority": 5, "priorityClassName": "a"}), IMMUTABLE_CLASS),
        changed(json!({}), json!({"priority": 5, "priorityClassName": "a"}), ""),
        changed(json!({"priority": 5}), json!({"priority": 6}), "priority: field is immutable"),
        changed(json!({"priority": 5}), json!({}), "priority: field is immutable"),
        changed(json!({}), json!({"preemptFor": "AllMembers"}), ""),
        changed(topology("rack"), topology("rack"), ""),
    ]
}

fn cases() -> Vec<Case> {
    let topology = |key: &str| json!({"schedulingConstraints": {"topology": [{"key": key}]}});
    let reference =
        |name: &str| json!({"podGroupTemplateRef": {"workload": {"workloadName": name, "podGroupTemplateName": "t"}}});
    let mut cases: Vec<Case> = Vec::new();
    for (before, after, message) in common() {
        let template = |spec: &Value| {
            let mut template = json!({"name": "t"});
            json_merge(&mut template, spec);
            json!({"podGroupTemplates": [template]})
        };
        cases.push(("Workload", template(&before), template(&after), message));
        cases.push(("PodGroup", before, after, message));
    }
    let mut group =
        |before: &Value, after: &Value, message| cases.push(("PodGroup", gang(before), gang(after), message));
    let elsewhere = "schedulingConstraints: field is immutable: create another group instead";
    for (before, after) in
        [(topology("rack"), topology("zone")), (json!({}), topology("rack")), (topology("rack"), json!({}))]
    {
        group(&before, &after, elsewhere);
    }
    for (before, after) in [(reference("a"), reference("b")), (reference("a"), json!({})), (json!({}), reference("a"))]
    {
        group(&before, &after, "podGroupTemplateRef: field is immutable");
    }
    let policy = |policy: &str| json!({"preemptionPolicy": policy});
    group(&policy("Never"), &policy("PreemptLowerPriority"), "preemptionPolicy: field is immutable");
    group(&json!({}), &policy("Never"), "");
    group(&json!({}), &json!({"preemptionDelaySeconds": 3}), "");

    let named = |names: &[&str], more: &Value| -> Value {
        let template = |name: &&str| {
            let mut template = json!({"name": name, "schedulingPolicy": {"gang": {"minCount": 2}}});
            json_merge(&mut template, more);
            template
        };
        json!({"podGroupTemplates": names.iter().map(template).collect::<Vec<Value>>()})
    };
    let owned = |name: &str| {
        let mut spec = named(&["a"], &json!({}));
        spec["controllerRef"] = json!({"apiGroup": "batch", "kind": "Job", "name": name});
        spec
    };
    let mut workload = |before: Value, after: Value, message| cases.push(("Workload", before, after, message));
    let plain = |names: &[&str]| named(names, &json!({}));
    let removed = "podGroupTemplates: templates cannot be removed: keep them all, or create another Workload";
    workload(plain(&["a", "b"]), plain(&["b", "a", "c"]), "");
    workload(plain(&["a", "b"]), plain(&["a"]), removed);
    workload(plain(&["a"]), plain(&["b"]), removed);
    let elsewhere = "schedulingConstraints: field is immutable: create another template instead";
    workload(named(&["a"], &topology("rack")), named(&["a"], &topology("zone")), elsewhere);
    for (before, after) in [(owned("a"), owned("b")), (owned("a"), plain(&["a"])), (plain(&["a"]), owned("a"))] {
        workload(before, after, "controllerRef: field is immutable");
    }
    let plan = |reason: &str| json!({"cause": "Preemptor", "reason": reason});
    cases.push(("Preemption", plan("a"), plan("a"), ""));
    cases.push(("Preemption", plan("a"), plan("b"), "spec: field is immutable: a plan is made once"));
    cases
}

/// Returns the messages of the rules that a change breaks.
fn broken_by(kind: &str, name: &str, before: &Value, after: &Value) -> Vec<String> {
    let (schema, mut found) = (schema(kind), Vec::new());
    let object = |spec: &Value| {
        let mut object = json!({"metadata": {"name": name}, "spec": spec});
        set_defaults(&schema, &mut object);
        object
    };
    broken(&schema, &object(after), Some(&object(before)), &mut found);
    found
}

const LONG_NAME: &str =
    "metadata.name: must be no more than 63 characters, because pods name their group in a label: use a shorter name";

#[test]
fn each_case_breaks_the_rule_that_it_names_and_no_other() {
    for (kind, before, after, message) in cases() {
        let wanted: Vec<&str> = Some(message).filter(|message| !message.is_empty()).into_iter().collect();
        assert_eq!(broken_by(kind, "x", &before, &after), wanted, "{kind}: {before} -> {after}");
    }
    let spec = gang(&json!({}));
    assert_eq!(broken_by("PodGroup", &"n".repeat(63), &spec, &spec), [""; 0]);
    assert_eq!(broken_by("PodGroup", &"n".repeat(64), &spec, &spec), [LONG_NAME]);
}

fn messages(schema: &Value, found: &mut BTreeSet<String>) {
    found.extend(rules(schema).map(|(_, message)| message.to_owned()));
    schema["properties"].as_object().into_iter().flatten().for_each(|(_, field)| messages(field, found));
    if schema["items"].is_object() {
        messages(&schema["items"], found);
    }
}

#[test]
fn every_rule_has_a_case_that_breaks_it() {
    for kind in ["PodGroup", "Preemption", "Workload"] {
        let mut missing = BTreeSet::new();
        messages(&schema(kind), &mut missing);
        for (_, _, _, message) in cases().into_iter().filter(|case| case.0 == kind) {
            missing.remove(message);
        }
        missing.remove(LONG_NAME);
        // The pattern of label keys has its tests in `constraints.rs`.
        missing.retain(|message| !message.starts_with("must be the key of a node label"));
        assert_eq!(missing, BTreeSet::new(), "{kind}");
    }
}
