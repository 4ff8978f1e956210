//! Admission: the policies, the webhook configuration, and the kinds for which the webhook creates gangs.

use crate::helm::{document, object, rejects, rendered};
use giveway_crds::keys;
use serde_json::json;

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
    let (entry, _) = entry.split_once("  - name: jobs.giveway.dev").unwrap();
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
    let words = "gangs.kinds: DaemonSet is no kind that Giveway knows: docs/kinds.md lists them";
    rejects("giveway-system", &["gangs.kinds={DaemonSet}"], words);
    let flagged = rendered(&["jobs.defaultPodFailurePolicy=true"]);
    assert!(document(&flagged, "Deployment", "giveway-webhook").contains("--default-pod-failure-policy"));
    assert!(!document(&usual, "Deployment", "giveway-webhook").contains("--default-pod-failure-policy"));
}
