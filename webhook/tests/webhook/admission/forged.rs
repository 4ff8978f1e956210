//! Reviews that a client without credentials forges for a namespace of others: no verdict names owners, templates or other
//! groups of that namespace.

use super::fixtures::*;
use giveway_admission::verdict::VerdictOutcome;
use giveway_admission::view::GroupView;
use giveway_crds::keys::{LABEL_GANG, LABEL_POD_GROUP, LABEL_TEMPLATE, LABEL_WORKLOAD};
use giveway_webhook::view::View;
use serde_json::{Value, json};

/// A part of every name that no forged review may learn.
const SECRET: &str = "secret";

/// A cluster in which other users' groups, owners and templates have this part in their names.
fn with_secrets() -> View {
    let mut view = cluster();
    let group =
        GroupView { gang: true, class_name: Some("managed".into()), priority: Some(20), ..GroupView::default() };
    let of_template = GroupView { template: Some(("secret-w".into(), "secret-t".into())), ..group.clone() };
    let of_owner = GroupView { made_for: Some(("StatefulSet".into(), "secret-o".into())), ..group.clone() };
    let groups = view.groups.entry("team".into()).or_default();
    groups.extend([("work-gang".into(), of_template), ("train".into(), of_owner), ("secret-g".into(), group)]);
    let templates = view.workloads.entry("team".into()).or_default().entry("work".into()).or_default();
    templates.insert("secret-t".into(), GroupView::default());
    view
}

/// A pod with these labels and this owner.
fn owned(labels: Value, owner: &str) -> Value {
    let mut pod = pod(labels, json!({}));
    let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": "u", "controller": true});
    pod["metadata"]["ownerReferences"] = json!([owner]);
    pod
}

#[test]
fn no_verdict_on_a_forged_review_names_owners_templates_or_other_groups() {
    let view = with_secrets();
    let by_template = |template: &str| json!({LABEL_WORKLOAD: "work", LABEL_TEMPLATE: template});
    let low = |labels: Value| pod_of(&view, "plain", labels, json!({}));
    let pods = [
        // The group of this name was created from another template, and for another owner.
        pod(by_template("gang"), json!({})),
        owned(json!({LABEL_GANG: "true"}), "train"),
        // Neither the template nor the workload exists.
        pod(by_template("none"), json!({})),
        pod(json!({LABEL_WORKLOAD: "none", LABEL_TEMPLATE: "none"}), json!({})),
        // A class below the group's.
        low(json!({LABEL_POD_GROUP: "train"})),
        low(by_template("gang")),
        pod(json!({LABEL_POD_GROUP: "none"}), json!({})),
    ];
    let reference = json!({"workload": {"workloadName": "work", "podGroupTemplateName": "none"}});
    let group = group_object("g", json!({"schedulingPolicy": gang(), "podGroupTemplateRef": reference}));
    let workload = workload_object("work", json!([{"name": "gang", "schedulingPolicy": gang()}]));
    let mut requests: Vec<Request> = pods.into_iter().map(|pod| create("pods", pod)).collect();
    requests.push(create("podgroups", group.clone()));
    requests.push(update("podgroups", group.clone(), group));
    requests.push(create("workloads", workload.clone()));
    requests.push(update("workloads", workload.clone(), workload));
    for request in &requests {
        for verdict in [mutate(request, &view), validate(request, &view)] {
            let text = format!("{verdict:?}");
            assert!(!text.contains(SECRET), "{}: {text}", request.object);
        }
    }
    let refused =
        requests.iter().filter(|request| matches!(mutate(request, &view).outcome, VerdictOutcome::Refused(_)));
    assert!(refused.count() >= 4, "the rules with messages about other objects ran");
}
