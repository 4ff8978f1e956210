//! Admission: the policies, the webhook configuration, and the kinds for which the webhook creates gangs.

use crate::helm::{document, object, rejects, rendered};
use giveway_crds::keys;
use giveway_tests::giveway::chart::CRITICAL_ADDONS;
use serde_json::{Value, json};
use std::collections::BTreeSet;

#[test]
fn policies_and_the_fail_closed_webhook_cover_every_label_and_annotation_of_pods() {
    let manifests = rendered(&[]);
    let policy = |name: &str| document(&manifests, "ValidatingAdmissionPolicy", name).to_owned();
    let (pods, bindings) = (policy("giveway-pods"), policy("giveway-bindings"));
    for key in keys::GROUP_LABELS.iter().chain([&keys::LABEL_GANG, &keys::LABEL_PLACEHOLDER]) {
        let place = format!("metadata.?labels[?'{key}']");
        assert!(pods.contains(&place) && bindings.contains(&place), "{key}");
    }
    let webhooks = document(&manifests, "MutatingWebhookConfiguration", "giveway");
    let (_, closed) = webhooks.split_once("name: annotated.pods.giveway.dev").unwrap();
    for key in [
        keys::ANNOTATION_PREEMPTION_POLICY,
        keys::ANNOTATION_THRESHOLD,
        keys::ANNOTATION_MIN_COUNT,
        keys::ANNOTATION_DISRUPTION_MODE,
    ] {
        let place = format!("metadata.?annotations[?'{key}']");
        assert!(pods.contains(&place) && bindings.contains(&place) && closed.contains(&place), "{key}");
    }
}

#[test]
fn no_mutating_webhook_requires_the_name_of_an_object() {
    let manifests = rendered(&["managedPriorityClasses=all"]);
    let webhooks = document(&manifests, "MutatingWebhookConfiguration", "giveway");
    assert!(webhooks.contains("!object.metadata.?name.orValue('').startsWith('system-')"));
    assert!(
        !webhooks.contains("object.metadata.name"),
        "with generateName it does not exist yet, and the condition fails"
    );
}

/// Returns the name of each policy about updates by one of Giveway's own accounts, with message and expression of its validations.
fn policies_about_own_updates(manifests: &str) -> Vec<(String, Vec<(String, String)>)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let about_own_updates = |policy: &Value| {
        let rules = policy["spec"]["matchConstraints"]["resourceRules"].as_array().unwrap();
        let mut conditions = policy["spec"]["matchConditions"].as_array().into_iter().flatten();
        let own = "request.userInfo.username == 'system:serviceaccount:giveway-system:giveway-";
        rules.iter().flat_map(|rule| rule["operations"].as_array().unwrap()).any(|operation| operation == "UPDATE")
            && conditions.any(|condition| text(&condition["expression"]).starts_with(own))
    };
    let documents = manifests.split("\n---\n").filter(|text| text.contains("\nkind: ValidatingAdmissionPolicy\n"));
    let policies = documents.map(|text| serde_yaml_ng::from_str::<Value>(text).unwrap()).filter(about_own_updates);
    let mut found: Vec<(String, Vec<(String, String)>)> = policies
        .map(|policy| {
            let validations = policy["spec"]["validations"].as_array().unwrap().iter();
            let validations = validations.map(|one| (text(&one["message"]), text(&one["expression"]))).collect();
            (text(&policy["metadata"]["name"]), validations)
        })
        .collect();
    found.sort();
    found
}

#[test]
fn in_its_own_updates_giveway_allows_what_another_plugin_adds_to_metadata() {
    let policies = policies_about_own_updates(&rendered(&[CRITICAL_ADDONS]));
    let names: Vec<&str> = policies.iter().map(|(name, _)| name.as_str()).collect();
    let expected = [
        "giveway-nodes",
        "giveway-operator",
        "giveway-operator-groups",
        "giveway-operator-webhooks",
        "giveway-webhook",
        "giveway-webhook-nodes",
    ];
    assert_eq!(names, expected);
    for (name, validations) in &policies {
        let of = |part: &str| {
            let mut with = validations.iter().filter(|(message, _)| message.starts_with(part));
            with.find(|(message, _)| message.contains(" may ")).map(|(_, expression)| expression.as_str())
        };
        let metadata = of("metadata: ").unwrap_or_else(|| panic!("{name} compares no metadata"));
        assert!(metadata.contains(r#""labels","annotations""#), "{name}: {metadata}");
        let own_finalizer = name == "giveway-operator-groups";
        assert_eq!(metadata.contains("finalizers"), own_finalizer, "{name}: other finalizers are as before");
        assert_eq!(of("metadata.finalizers: ").is_some(), own_finalizer, "{name}");
        let labels = of("metadata.labels: ").unwrap_or_else(|| panic!("{name} compares no labels"));
        let own_keys = name == "giveway-operator";
        let all_stay = "labelsBefore.all(k, variables.labels[?k] == variables.labelsBefore[?k])";
        let but_own = "labelsBefore.all(k, k.startsWith('scheduling.giveway.dev/') || variables.labels[?k]";
        assert!(labels.contains(if own_keys { but_own } else { all_stay }), "{name}: {labels}");
        assert_eq!(labels.contains("|| k in variables.labelsBefore)"), !own_keys, "{name}: {labels}");
        assert_eq!(of("metadata.annotations: ").is_none(), own_keys, "{name}: annotations of Giveway are as before");
        // No other rule compares all labels or annotations.
        for (message, expression) in validations {
            let whole = ["object.metadata.?labels ==", "object.metadata.?annotations =="];
            assert!(!whole.iter().any(|words| expression.contains(words)), "{name}: {message}: {expression}");
        }
    }
}

/// Returns the names of the roles whose rules contain this resource of Giveway, and the rendered roles.
fn roles_with(manifests: &str, resource: &str) -> Vec<(String, Value)> {
    let documents = manifests.split("\n---\n").filter(|text| text.contains("\nkind: ClusterRole\n"));
    let roles = documents.map(|text| serde_yaml_ng::from_str::<Value>(text).unwrap());
    let contains = |rule: &Value| {
        let of_giveway = rule["apiGroups"] == json!(["scheduling.giveway.dev"]);
        of_giveway && rule["resources"].as_array().unwrap().iter().any(|one| one == resource || one == "*")
    };
    let found = roles.filter(|role| role["rules"].as_array().unwrap().iter().any(contains));
    found.map(|role| (role["metadata"]["name"].as_str().unwrap().to_owned(), role)).collect()
}

#[test]
fn policies_check_rights_that_exist_in_rbac_only_and_that_one_role_for_users_grants() {
    let manifests = rendered(&[]);
    let mut checks = 0;
    for (_, check) in manifests.lines().filter_map(|line| line.split_once("authorizer.group('scheduling.giveway.dev')"))
    {
        let invented = [".resource('podgroups').subresource('breakglass').", ".resource('namespaces')."];
        assert!(invented.iter().any(|right| check.starts_with(right)), "{check}");
        checks += 1;
    }
    assert!(checks >= 4, "{checks}");
    for (resource, name) in [("podgroups/breakglass", "giveway-break-glass"), ("namespaces", "giveway-namespace-admin")]
    {
        let roles = roles_with(&manifests, resource);
        let [(found, role)] = roles.as_slice() else { panic!("{resource}: {roles:?}") };
        assert_eq!(found, name);
        let labels = role["metadata"]["labels"].as_object().unwrap();
        assert!(!labels.keys().any(|key| key.contains("aggregate-to")), "{name} is part of no other role: {labels:?}");
    }
}

#[test]
fn a_kept_node_is_open_to_namespaces_of_critical_add_ons_and_to_the_uid_of_its_add_on() {
    for (values, namespaces) in [
        (&[CRITICAL_ADDONS][..], r#"["kube-system"]"#),
        (&[CRITICAL_ADDONS, "criticalAddons.namespaces={monitoring}"], r#"["kube-system","monitoring"]"#),
        (&[CRITICAL_ADDONS, "criticalAddons.namespaces={kube-system,monitoring}"], r#"["kube-system","monitoring"]"#),
    ] {
        let policy = object(&rendered(values), "ValidatingAdmissionPolicy", "giveway-kept-nodes");
        let condition = &policy["spec"]["matchConditions"][2];
        assert_eq!(condition["name"], "is-not-where-critical-add-ons-are");
        assert_eq!(condition["expression"], format!("!(request.?namespace.orValue('') in {namespaces})"));
        let expression = policy["spec"]["validations"][0]["expression"].as_str().unwrap();
        assert!(
            expression.ends_with("|| object.metadata.?uid.orValue('') == params.spec.preemptor.uid"),
            "{expression}"
        );
        assert!(!expression.contains("preemptor.name"), "another pod can have the name: {expression}");
    }
}

#[test]
fn the_operator_may_only_get_owners_of_gangs_and_kinds_are_enabled_by_name() {
    let usual = rendered(&[]);
    let operator = document(&usual, "ClusterRole", "giveway-operator");
    for row in giveway_crds::kinds::KINDS {
        let rule = format!("apiGroups: [{}]\n    resources: [{}]\n    verbs: [get]\n", row.group, row.plural);
        assert_eq!(operator.contains(&rule), row.has_groups(), "{}", row.kind);
    }
    assert!(!usual.contains("kinds.owners.giveway.dev"), "no kind is enabled by default");
    let switched = rendered(&["gangs.kinds={JobSet}", "gangs.namespaceSelector.matchLabels.team=a"]);
    let (_, entry) = switched.split_once("name: kinds.owners.giveway.dev").unwrap();
    let (entry, _) = entry.split_once("  - name: templates.owners.giveway.dev").unwrap();
    assert!(entry.contains("matchLabels:\n        team: a\n") && entry.contains("resources: [jobsets]"), "{entry}");
    assert!(!entry.contains("resources: [jobs]"), "{entry}");
    let both = rendered(&[
        "gangs.kinds={JobSet}",
        "gangs.namespaceSelector.matchExpressions[0].key=team",
        "gangs.namespaceSelector.matchExpressions[0].operator=NotIn",
        "gangs.namespaceSelector.matchExpressions[0].values={play}",
        "namespaces.selector.matchLabels.team=ml",
    ]);
    let webhooks = object(&both, "MutatingWebhookConfiguration", "giveway");
    let mut webhooks = webhooks["webhooks"].as_array().unwrap().iter();
    let selector = &webhooks.find(|entry| entry["name"] == "kinds.owners.giveway.dev").unwrap()["namespaceSelector"];
    assert_eq!(selector["matchLabels"], json!({"team": "ml"}));
    assert_eq!(selector["matchExpressions"][1], json!({"key": "team", "operator": "NotIn", "values": ["play"]}));
    let webhooks = object(&usual, "MutatingWebhookConfiguration", "giveway");
    let mut webhooks = webhooks["webhooks"].as_array().unwrap().iter();
    let templates = webhooks.find(|entry| entry["name"] == "templates.owners.giveway.dev").unwrap();
    assert_eq!(templates["clientConfig"]["service"]["path"], json!("/templates"));
    assert_eq!(templates["failurePolicy"], json!("Ignore"), "no pod depends on it");
    assert_eq!(templates["rules"].as_array().unwrap().len(), giveway_crds::kinds::KINDS.len());
    let condition = templates["matchConditions"][1]["expression"].as_str().unwrap();
    for row in giveway_crds::kinds::KINDS {
        assert!(condition.contains(&format!("request.resource.resource == '{}'", row.plural)), "{condition}");
    }
    let words = "gangs.kinds: DaemonSet is no kind that Giveway knows: docs/reference/kinds.md lists them";
    rejects("giveway-system", &["gangs.kinds={DaemonSet}"], words);
    for (value, flag) in [
        ("jobs.defaultPodFailurePolicy=true", "--default-pod-failure-policy"),
        ("jobs.defaultBackoffLimitPerIndex=true", "--default-backoff-limit-per-index"),
    ] {
        assert!(document(&rendered(&[value]), "Deployment", "giveway-webhook").contains(flag));
        assert!(!document(&usual, "Deployment", "giveway-webhook").contains(flag));
    }
}

/// Returns the rendered entries of a webhook configuration: the name and the entry.
fn entries(manifests: &str, kind: &str) -> Vec<(String, Value)> {
    let configuration = object(manifests, kind, "giveway");
    let entries = configuration["webhooks"].as_array().unwrap().iter();
    entries.map(|entry| (entry["name"].as_str().unwrap().to_owned(), entry.clone())).collect()
}

#[test]
fn entries_that_fail_open_wait_for_three_seconds_and_others_for_ten() {
    for values in ["gangs.kinds={Job}", "guard.failurePolicy=Fail"] {
        let manifests = rendered(&[values]);
        let mut open = Vec::new();
        for kind in ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"] {
            for (name, entry) in entries(&manifests, kind).into_iter().filter(|(name, _)| name != "guard.giveway.dev") {
                let fails_open = entry["failurePolicy"] == "Ignore";
                assert_eq!(entry["timeoutSeconds"], if fails_open { 3 } else { 10 }, "{values}: {name}");
                open.extend(fails_open.then_some(name));
            }
        }
        assert_eq!(open, ["pods.giveway.dev", "templates.owners.giveway.dev"], "{values}");
    }
}

/// What `docs/security.md` says about a stolen key of the webhook: which requests it can answer.
#[test]
fn entries_match_no_object_of_kube_system_and_of_the_own_namespace_and_only_kinds_of_gangs() {
    let mut kinds: BTreeSet<String> = giveway_crds::kinds::KINDS.iter().map(|row| row.plural.to_owned()).collect();
    kinds.extend(["podgroups", "pods", "pods/status", "priorityclasses", "workloads"].map(str::to_owned));
    let excluded = json!({
        "key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", "giveway-system"]
    });
    for values in [&[][..], &["gangs.kinds={Job}", "namespaces.selector.matchLabels.team=ml"]] {
        let (manifests, mut matched) = (rendered(values), BTreeSet::new());
        for kind in ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"] {
            for (name, entry) in entries(&manifests, kind) {
                for rule in entry["rules"].as_array().unwrap() {
                    let resources = rule["resources"].as_array().unwrap().iter();
                    matched.extend(resources.map(|resource| resource.as_str().unwrap().to_owned()));
                    if rule["resources"] == json!(["priorityclasses"]) {
                        assert_eq!(rule["scope"], "Cluster", "{name}");
                    } else {
                        assert_eq!(rule["scope"], "Namespaced", "{name}");
                        assert_eq!(entry["namespaceSelector"]["matchExpressions"][0], excluded, "{values:?}: {name}");
                    }
                }
            }
        }
        assert_eq!(matched, kinds, "{values:?}");
    }
}

#[test]
fn the_guard_is_called_only_for_victims_with_a_threshold_or_of_a_group() {
    for policy in ["Ignore", "Fail"] {
        let manifests = rendered(&[&format!("guard.failurePolicy={policy}")]);
        let mut entries = entries(&manifests, "ValidatingWebhookConfiguration");
        entries.retain(|(_, entry)| entry["clientConfig"]["service"]["path"] == "/guard");
        let [(name, entry)] = entries.as_slice() else { panic!("{entries:?}") };
        assert_eq!((name.as_str(), &entry["failurePolicy"]), ("guard.giveway.dev", &json!(policy)));
        let conditions = entry["matchConditions"].as_array().unwrap();
        let expected = format!(
            "oldObject.metadata.?annotations[?'{}'].hasValue() || oldObject.metadata.?labels[?'{}'].hasValue()",
            keys::ANNOTATION_THRESHOLD,
            keys::LABEL_POD_GROUP
        );
        assert_eq!(conditions.last().unwrap()["expression"], json!(expected), "{policy}");
    }
}

#[test]
fn pods_of_groups_are_judged_as_they_are_stored_by_an_entry_that_fails_closed() {
    let entries = entries(&rendered(&["namespaces.selector.matchLabels.team=ml"]), "ValidatingWebhookConfiguration");
    let (_, entry) = entries.iter().find(|(name, _)| name == "members.pods.giveway.dev").unwrap();
    assert_eq!(entry["failurePolicy"], "Fail");
    assert_eq!(entry["rules"][0]["resources"], json!(["pods"]));
    assert_eq!(entry["rules"][0]["operations"], json!(["CREATE"]), "other requests cannot change what it checks");
    assert_eq!(entry["clientConfig"]["service"]["path"], "/validate");
    assert_eq!(entry["namespaceSelector"]["matchLabels"], json!({"team": "ml"}));
    assert_eq!(entry.get("objectSelector"), None);
    let [condition] = entry["matchConditions"].as_array().unwrap().as_slice() else { panic!("{entry}") };
    let condition = condition["expression"].as_str().unwrap();
    for key in [keys::LABEL_POD_GROUP, keys::LABEL_WORKLOAD, keys::LABEL_GANG] {
        assert!(condition.contains(&format!("metadata.?labels[?'{key}']")), "{key}: {condition}");
    }
    assert!(condition.contains(keys::GATE), "{condition}");
}

#[test]
fn annotations_of_classes_are_compared_with_the_class_of_the_pod_as_it_is_stored() {
    let manifests = rendered(&[]);
    let annotations = [keys::ANNOTATION_THRESHOLD, keys::ANNOTATION_PREEMPTION_POLICY];
    for name in ["giveway-class-annotations", "giveway-classless-pods"] {
        let policy = object(&manifests, "ValidatingAdmissionPolicy", name);
        let spec = &policy["spec"];
        assert_eq!(spec["failurePolicy"], "Fail", "{name}");
        let conditions = spec["matchConditions"].as_array().unwrap();
        let expressions: Vec<&str> = conditions.iter().map(|one| one["expression"].as_str().unwrap()).collect();
        let expected = annotations.map(|key| format!("object.metadata.?annotations[?'{key}'].hasValue()")).join(" || ");
        assert_eq!(expressions[0], expected, "{name}: pods without these annotations do not match");
        assert!(expressions.contains(&"!(request.namespace in ['kube-system', 'giveway-system'])"), "{name}");
        let validations = spec["validations"].as_array().unwrap();
        assert_eq!(validations.len(), annotations.len(), "{name}");
        for (key, validation) in annotations.iter().zip(validations) {
            assert!(validation["expression"].as_str().unwrap().contains(key), "{name}: {validation}");
        }
    }
    let policy = object(&manifests, "ValidatingAdmissionPolicy", "giveway-class-annotations");
    assert_eq!(policy["spec"]["paramKind"], json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}));
    for validation in policy["spec"]["validations"].as_array().unwrap() {
        let expression = validation["expression"].as_str().unwrap();
        let of_the_pod = "params.metadata.name != object.spec.priorityClassName || ";
        assert!(expression.starts_with(of_the_pod), "only the pod's own class counts: {expression}");
    }
    let binding = object(&manifests, "ValidatingAdmissionPolicyBinding", "giveway-class-annotations");
    assert_eq!(binding["spec"]["paramRef"], json!({"selector": {}, "parameterNotFoundAction": "Deny"}));
    assert_eq!(binding["spec"]["validationActions"], json!(["Deny"]));
}
