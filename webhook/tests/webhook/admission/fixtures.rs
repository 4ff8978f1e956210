//! A small cluster, requests against it, and what can be asserted of a verdict.

use giveway_admission::judge::{Endpoint, judge};
use giveway_admission::request::Operation;
use giveway_admission::verdict::{Denial, Verdict, VerdictOutcome};
use giveway_admission::view::Settings;
use giveway_crds::kinds::KINDS;
use giveway_crds::policy::PreemptionPolicy;
use giveway_crds::priority::Class;
use giveway_webhook::review;
use giveway_webhook::view::View;
use serde_json::{Value, json};

/// An empty cluster.
pub fn empty() -> View {
    View::new(Settings { namespace: "giveway-system".into(), manage_new_classes: false, ..Settings::default() })
}

/// Classes `plain` (10), `polite` (15, Never), `managed` (20), `managed-never` (30), `guarded` (40, threshold 1000),
/// `system-cluster-critical`; groups `gang` and `basic` of class `managed`, `plain-gang` of class `plain`, `classless`;
/// workload `work` with templates `gang` (class `managed`) and `basic`. All in namespace `team`.
pub fn cluster() -> View {
    let mut view = empty();
    view.classes.upsert(class("plain", 10));
    view.classes.upsert(Class { scheduler_policy: PreemptionPolicy::Never, ..class("polite", 15) });
    view.classes.upsert(managed("managed", 20, PreemptionPolicy::PreemptLowerPriority));
    view.classes.upsert(managed("managed-never", 30, PreemptionPolicy::Never));
    view.classes.upsert(Class { threshold: Some("1000".into()), ..class("guarded", 40) });
    view.classes.upsert(class("system-cluster-critical", 2_000_000_000));
    for (name, policy, class) in [
        ("gang", gang(), Some("managed")),
        ("basic", json!({"basic": {}}), Some("managed")),
        ("plain-gang", gang(), Some("plain")),
        ("classless", gang(), None),
    ] {
        let mut spec = json!({"schedulingPolicy": policy});
        if let Some(class) = class {
            spec["priorityClassName"] = json!(class);
        }
        view.put_group(&serde_json::from_value(group_object(name, spec)).unwrap());
    }
    let templates = json!([
        {"name": "gang", "schedulingPolicy": gang(), "priorityClassName": "managed"},
        {"name": "basic", "schedulingPolicy": {"basic": {}}},
    ]);
    view.put_workload(&serde_json::from_value(workload_object("work", templates)).unwrap());
    view
}

/// The same, with `plain` as the default class.
pub fn cluster_with_default() -> View {
    let mut view = cluster();
    view.classes.upsert(Class { global_default: true, ..class("plain", 10) });
    view
}

pub fn class(name: &str, value: i32) -> Class {
    Class {
        name: name.into(),
        value,
        global_default: false,
        scheduler_policy: PreemptionPolicy::PreemptLowerPriority,
        managed: false,
        managed_policy: None,
        threshold: None,
    }
}

pub fn managed(name: &str, value: i32, policy: PreemptionPolicy) -> Class {
    Class {
        scheduler_policy: PreemptionPolicy::Never,
        managed: true,
        managed_policy: Some(policy),
        ..class(name, value)
    }
}

pub fn gang() -> Value {
    json!({"gang": {"minCount": 2}})
}

pub fn group_object(name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "PodGroup",
        "metadata": {"namespace": "team", "name": name}, "spec": spec,
    })
}

pub fn workload_object(name: &str, templates: Value) -> Value {
    json!({
        "apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "Workload",
        "metadata": {"namespace": "team", "name": name}, "spec": {"podGroupTemplates": templates},
    })
}

/// A pod as it reaches webhooks: the Priority plugin has filled `priority` and `preemptionPolicy`.
pub fn pod(labels: Value, annotations: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"namespace": "team", "name": "p", "labels": labels, "annotations": annotations},
        "spec": {
            "containers": [{"name": "c", "image": "i"}],
            "priority": 0, "preemptionPolicy": "PreemptLowerPriority",
        },
    })
}

/// A pod of a class, with what the Priority plugin computes from it.
pub fn pod_of(view: &View, class: &str, labels: Value, annotations: Value) -> Value {
    let mut pod = pod(labels, annotations);
    let class = view.classes.get(class).unwrap();
    pod["spec"]["priorityClassName"] = json!(class.name);
    pod["spec"]["priority"] = json!(class.value);
    pod["spec"]["preemptionPolicy"] = json!(class.scheduler_policy.as_str());
    pod
}

/// A request as tests write it. It reaches the rules as bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    pub operation: Operation,
    pub resource: GroupResource,
    pub sub_resource: Option<String>,
    pub namespace: Option<String>,
    pub user_info: UserInfo,
    pub object: Value,
    pub old_object: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub struct GroupResource {
    pub group: String,
    pub resource: String,
}

#[derive(Clone, Debug, PartialEq)]
pub struct UserInfo {
    pub username: Option<String>,
    pub groups: Vec<String>,
}

impl Request {
    /// The review that holds this request.
    pub fn body(&self) -> Vec<u8> {
        let request = json!({
            "uid": "u-1",
            "resource": {"group": self.resource.group, "version": "v1", "resource": self.resource.resource},
            "subResource": self.sub_resource, "namespace": self.namespace, "operation": self.operation.as_str(),
            "userInfo": {"username": self.user_info.username, "groups": self.user_info.groups},
            "object": self.object, "oldObject": self.old_object,
        });
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
        serde_json::to_vec(&review).unwrap()
    }
}

/// A request of user `alice` in namespace `team`; classes have no namespace.
pub fn request(operation: Operation, resource: &str, object: Value, old_object: Value) -> Request {
    let group = match resource {
        "pods" => "",
        "priorityclasses" => "scheduling.k8s.io",
        of_table if KINDS.iter().any(|row| row.plural == of_table) => {
            KINDS.iter().find(|row| row.plural == of_table).unwrap().group
        }
        _ => "scheduling.giveway.dev",
    };
    let namespace = if resource == "priorityclasses" { "" } else { "team" };
    Request {
        operation,
        resource: GroupResource { group: group.into(), resource: resource.into() },
        sub_resource: None,
        namespace: Some(namespace.into()),
        user_info: UserInfo { username: Some("alice".into()), groups: vec!["system:authenticated".into()] },
        object,
        old_object,
    }
}

pub fn create(resource: &str, object: Value) -> Request {
    request(Operation::Create, resource, object, Value::Null)
}

pub fn update(resource: &str, object: Value, old_object: Value) -> Request {
    request(Operation::Update, resource, object, old_object)
}

/// The verdict of the mutating rules. Asserts what an API server relies on that calls a webhook twice: the object with
/// the patch applied gets no further patch, and the same verdict.
pub fn mutate(request: &Request, view: &View) -> Verdict {
    let verdict = judged(Endpoint::Mutate, request, view);
    if let VerdictOutcome::Changed(_) = verdict.outcome {
        let again = Request { object: patched(request, &verdict), ..request.clone() };
        let second = judged(Endpoint::Mutate, &again, view);
        assert_eq!(second.outcome, VerdictOutcome::Allowed, "a second mutation must change nothing");
        assert_eq!(second.notes, verdict.notes, "the second time");
    }
    verdict
}

/// The verdict of the rules for owners whose templates name a group or ask for a gang themselves.
pub fn of_templates(request: &Request, view: &View) -> Verdict {
    judged(Endpoint::Templates, request, view)
}

pub fn validate(request: &Request, view: &View) -> Verdict {
    judged(Endpoint::Validate, request, view)
}

fn judged(endpoint: Endpoint, request: &Request, view: &View) -> Verdict {
    let body = request.body();
    judge(endpoint, &review::decode(&body).unwrap(), view)
}

/// The object after mutation, by way of the patch, as the API server applies it.
pub fn mutated(request: &Request, view: &View) -> Value {
    patched(request, &mutate(request, view))
}

fn patched(request: &Request, verdict: &Verdict) -> Value {
    let answer = review::encode("u-1", verdict).into_bytes();
    let response = serde_json::from_slice::<Value>(&answer).unwrap()["response"].take();
    assert_eq!(response["allowed"], json!(true), "{response}");
    let mut object = request.object.clone();
    if let Some(patch) = response.get("patch") {
        assert_eq!(response["patchType"], json!("JSONPatch"));
        let bytes: k8s_openapi::ByteString = serde_json::from_value(patch.clone()).unwrap();
        let patch: json_patch::Patch = serde_json::from_slice(&bytes.0).unwrap();
        json_patch::patch(&mut object, &patch).unwrap();
    }
    object
}

/// Why a verdict refuses.
pub fn refusal(verdict: Verdict) -> Denial {
    match verdict.outcome {
        VerdictOutcome::Refused(refusal) => refusal,
        outcome => panic!("expected a refusal, got {outcome:?}"),
    }
}

/// Asserts that a request is refused with this code and message.
#[track_caller]
pub fn assert_refused(verdict: Verdict, code: u16, message: &str) {
    let refusal = refusal(verdict);
    assert_eq!((refusal.code, refusal.message.as_str()), (code, message));
}

/// Asserts that a request is allowed as it is, without a warning.
#[track_caller]
pub fn assert_untouched(verdict: &Verdict) {
    assert_eq!(verdict.outcome, VerdictOutcome::Allowed);
    assert_eq!(verdict.notes.warnings, Vec::<String>::new());
}
