//! The protocol: whatever the bytes are, the answer is a well-formed review.

use super::fixtures::*;
use giveway_admission::judge::Endpoint;
use giveway_admission::notice::{EventDraft, EventObject};
use giveway_admission::verdict::{Denial, Notes, Reference, Verdict, VerdictOutcome};
use giveway_admission::view::ClusterView;
use giveway_crds::condition::Reason;
use giveway_crds::keys::LABEL_POD_GROUP;
use giveway_webhook::admission::{Admission, NotReady};
use giveway_webhook::deadline::Deadline;
use giveway_webhook::lookup::{Lookup, NoLookup};
use giveway_webhook::metrics::Metrics;
use giveway_webhook::notice;
use giveway_webhook::view::{LookedUp, View};
use giveway_webhook::watch::SharedView;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

/// How long anything may take in these tests.
const PATIENCE: Duration = Duration::from_secs(30);

/// Address of the client.
const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

fn admission<L: Lookup>(view: Arc<SharedView>, lookup: L) -> Admission<L> {
    Admission::new(view, lookup, Arc::new(Metrics::default()), Duration::from_millis(20))
}

/// The answer of `/mutate`, as JSON.
async fn asked<L: Lookup>(admission: &Admission<L>, body: &[u8]) -> Result<Value, NotReady> {
    let answer = admission.answer(Endpoint::Mutate, body, CLIENT, Deadline::after(PATIENCE)).await?;
    Ok(serde_json::from_slice(&answer.into_bytes()).unwrap())
}

async fn answer(body: &[u8]) -> Value {
    asked(&admission(Arc::new(SharedView::complete(cluster())), NoLookup), body).await.unwrap()
}

fn review(request: Value) -> Vec<u8> {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).to_string().into_bytes()
}

fn pod_request(object: Value) -> Vec<u8> {
    review(json!({
        "uid": "u-9", "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"}, "namespace": "team", "operation": "CREATE",
        "userInfo": {"username": "alice"}, "object": object, "oldObject": null, "dryRun": false, "options": {},
    }))
}

#[tokio::test]
async fn an_undecodable_request_gets_a_well_formed_refusal_with_the_uid_where_there_is_one() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let cases: Vec<(&str, Vec<u8>, &str, &str)> = vec![
        ("empty", vec![], "", "the body is empty: send an AdmissionReview"),
        ("not JSON", b"hello".to_vec(), "", "the body is not JSON: expected value at line 1 column 1"),
        ("not UTF-8", vec![0xff, 0xfe, 0x00], "", "the body is not JSON"),
        ("cut off", pod_request(json!({}))[..80].to_vec(), "", "the body is not JSON: EOF while parsing"),
        ("too deep", deep.into_bytes(), "", "the body is not JSON: recursion limit exceeded"),
        (
            "another type",
            b"[1]".to_vec(),
            "",
            "apiVersion and kind are \"\" and \"\": must be \"admission.k8s.io/v1\" and \"AdmissionReview\"",
        ),
        (
            "another version",
            br#"{"apiVersion":"admission.k8s.io/v1beta1","kind":"AdmissionReview","request":{"uid":"u-3"}}"#.to_vec(),
            "u-3",
            "apiVersion and kind are \"admission.k8s.io/v1beta1\" and \"AdmissionReview\": must be",
        ),
        ("no request", review(Value::Null), "", "request: Required value: the AdmissionReview has no request"),
        ("request of a wrong type", review(json!(7)), "", "request: invalid type: integer `7`"),
        ("no operation", review(json!({"uid": "u-4", "resource": {}})), "u-4", "request: missing field `operation`"),
        (
            "unknown operation",
            review(json!({"uid": "u-5", "resource": {}, "operation": "PATCH"})),
            "u-5",
            "request.operation: unknown variant `PATCH`",
        ),
        (
            "user of a wrong type",
            review(json!({"uid": "u-6", "resource": {}, "operation": "CREATE", "userInfo": {"username": 5}})),
            "u-6",
            "request.userInfo.username: invalid type: integer `5`",
        ),
        (
            "uid of a wrong type",
            review(json!({"uid": 5, "resource": {}, "operation": "CREATE"})),
            "",
            "request.uid: invalid type: integer `5`",
        ),
    ];
    for (name, body, uid, message) in cases {
        let review = answer(&body).await;
        assert_eq!(
            (&review["apiVersion"], &review["kind"]),
            (&json!("admission.k8s.io/v1"), &json!("AdmissionReview"))
        );
        let response = &review["response"];
        assert_eq!((&response["uid"], &response["allowed"]), (&json!(uid), &json!(false)), "{name}");
        assert_eq!(
            (&response["status"]["code"], &response["status"]["reason"]),
            (&json!(400), &json!("BadRequest")),
            "{name}"
        );
        let got = response["status"]["message"].as_str().unwrap();
        assert!(got.starts_with(message), "{name}: {got}");
    }
}

#[tokio::test]
async fn a_decodable_request_is_answered_with_a_patch_and_its_uid() {
    let review = answer(&pod_request(pod(json!({LABEL_POD_GROUP: "gang"}), json!({})))).await;
    let response = &review["response"];
    assert_eq!((&response["uid"], &response["allowed"]), (&json!("u-9"), &json!(true)));
    assert_eq!(response["patchType"], json!("JSONPatch"));
    assert!(response["patch"].is_string(), "base64, as the protocol has it");
}

#[tokio::test]
async fn a_rejection_has_a_code_and_a_reason_and_a_warning_has_its_text() {
    let review = answer(&pod_request(pod(json!({LABEL_POD_GROUP: ""}), json!({})))).await;
    let status = &review["response"]["status"];
    assert_eq!(
        (&status["status"], &status["code"], &status["reason"]),
        (&json!("Failure"), &json!(422), &json!("Invalid"))
    );

    let view = cluster();
    let pod = pod_of(&view, "guarded", json!({LABEL_POD_GROUP: "gang"}), json!({}));
    let review = answer(&pod_request(pod)).await;
    assert!(
        review["response"]["warnings"][0].as_str().unwrap().contains("is above the priority of pod group gang, 20")
    );
}

#[tokio::test]
async fn a_huge_object_is_judged_like_any_other() {
    let mut pod = pod(json!({LABEL_POD_GROUP: "gang"}), json!({}));
    pod["metadata"]["annotations"]["note"] = json!("x".repeat(3 << 20));
    assert_eq!(answer(&pod_request(pod)).await["response"]["allowed"], json!(true));
}

#[tokio::test]
async fn a_panic_of_a_rule_is_a_refusal_with_code_500_and_the_next_request_is_answered() {
    let shared = Arc::new(SharedView::complete(cluster()));
    let metrics = Arc::new(Metrics::default());
    let broken = Admission::new(Arc::clone(&shared), NoLookup, Arc::clone(&metrics), Duration::from_millis(20))
        .with_rule(|_, _, _| panic!("a rule that panics, on purpose"));
    let body = pod_request(pod(json!({}), json!({})));
    let review = asked(&broken, &body).await.unwrap();
    assert_eq!(review["response"]["uid"], json!("u-9"));
    assert_eq!(review["response"]["status"]["code"], json!(500));
    let message = review["response"]["status"]["message"].as_str().unwrap();
    assert_eq!(message, "Giveway's webhook failed on this request; its log says where: please report it");
    assert!(metrics.encode().contains("giveway_webhook_panics_total 1"));
    let healthy = asked(&admission(shared, NoLookup), &body).await.unwrap();
    assert_eq!(healthy["response"]["allowed"], json!(true));
}

#[tokio::test]
async fn no_request_is_judged_before_the_view_is_complete() {
    let shared = Arc::new(SharedView::new(empty().settings));
    let got = asked(&admission(shared, NoLookup), &pod_request(pod(json!({}), json!({})))).await;
    assert_eq!(got, Err(NotReady));
}

/// Finds everything that the full cluster has, after something else has happened.
struct Late<F> {
    full: View,
    meanwhile: F,
}

impl<F: Fn() + Send + Sync + 'static> Lookup for Late<F> {
    async fn fetch(&self, missing: &BTreeSet<Reference>, _: IpAddr, _: Deadline) -> LookedUp {
        (self.meanwhile)();
        let mut found = LookedUp::default();
        for reference in missing {
            match reference {
                Reference::Class(name) => found.classes.extend(self.full.classes.get(name).cloned()),
                Reference::PodGroup { namespace, name } => {
                    let group = self.full.group(namespace, name).map(Cow::into_owned);
                    found
                        .groups
                        .entry(namespace.clone())
                        .or_default()
                        .extend(group.map(|group| (name.as_str().into(), group)));
                }
                Reference::Workload { .. } => {}
            }
        }
        found
    }
}

fn patch_of(review: &Value) -> String {
    let patch: k8s_openapi::ByteString = serde_json::from_value(review["response"]["patch"].clone()).unwrap();
    String::from_utf8(patch.0).unwrap()
}

#[tokio::test]
async fn an_object_that_the_watch_has_not_delivered_is_looked_up() {
    let shared = Arc::new(SharedView::complete(empty()));
    let admission = admission(shared, Late { full: cluster(), meanwhile: || () });
    let object = pod(json!({LABEL_POD_GROUP: "basic"}), json!({}));
    let review = asked(&admission, &pod_request(object)).await.unwrap();
    let patch = patch_of(&review);
    assert!(patch.contains(r#""path":"/spec/priorityClassName","value":"managed""#), "{patch}");
    assert!(!patch.contains("schedulingGates"), "members of a basic group are not gated: {patch}");
}

#[tokio::test]
async fn a_looked_up_object_is_used_for_its_own_request_only() {
    let shared = Arc::new(SharedView::complete(empty()));
    let admission = admission(Arc::clone(&shared), Late { full: cluster(), meanwhile: || () });
    let object = pod(json!({LABEL_POD_GROUP: "basic"}), json!({}));
    asked(&admission, &pod_request(object)).await.unwrap();
    assert_eq!(*shared.read(), empty(), "the view is the watches' alone");
}

#[tokio::test]
async fn a_looked_up_object_never_overrides_a_later_one_of_the_watch() {
    let shared = Arc::new(SharedView::complete(empty()));
    let watched = Arc::clone(&shared);
    let meanwhile = move || {
        watched.write(|view| {
            let spec = json!({"schedulingPolicy": gang(), "priorityClassName": "plain"});
            view.put_group(&serde_json::from_value(group_object("basic", spec)).unwrap());
            view.classes.upsert(class("plain", 10));
        });
    };
    let admission = admission(shared, Late { full: cluster(), meanwhile });
    let object = pod(json!({LABEL_POD_GROUP: "basic"}), json!({}));
    let patch = patch_of(&asked(&admission, &pod_request(object)).await.unwrap());
    assert!(patch.contains(r#""path":"/spec/priorityClassName","value":"plain""#), "{patch}");
    assert!(patch.contains("schedulingGates"), "the group is a gang now: {patch}");
}

/// Never finds anything, and never says so.
struct Silent;

impl Lookup for Silent {
    async fn fetch(&self, _: &BTreeSet<Reference>, _: IpAddr, deadline: Deadline) -> LookedUp {
        deadline.limit(std::future::pending::<()>()).await;
        LookedUp::default()
    }
}

#[tokio::test]
async fn a_request_is_answered_by_its_deadline_whatever_is_looked_up_for_it() {
    let admission = admission(Arc::new(SharedView::complete(empty())), Silent);
    let body = pod_request(pod(json!({LABEL_POD_GROUP: "missing"}), json!({})));
    let deadline = Deadline::after(Duration::from_millis(180));
    let answered = admission.answer(Endpoint::Mutate, &body, CLIENT, deadline);
    let answer = tokio::time::timeout(PATIENCE, answered).await.expect("long before").unwrap().into_bytes();
    let review: Value = serde_json::from_slice(&answer).unwrap();
    assert!(patch_of(&review).contains("schedulingGates"), "the pod is judged without the missing object");
}

#[tokio::test]
async fn dry_runs_and_rejections_create_no_event() {
    let (sender, mut notices) = notice::queue();
    let shared = Arc::new(SharedView::complete(cluster()));
    let admission = admission(shared, NoLookup).with_notices(sender).with_rule(|_, request, _| {
        let object = |name: &str| EventObject {
            api_version: "batch/v1".to_owned(),
            kind: "Job",
            namespace: "team".to_owned(),
            name: name.to_owned(),
            uid: name.to_owned(),
        };
        let (about, note) = (object(&request.uid), "why".to_owned());
        let reason = Reason::GangLabelTooLate;
        let event = EventDraft { about, related: None, reason, action: "IgnoringLabel", note };
        let outcome = match &*request.uid {
            "refused" => VerdictOutcome::Refused(Denial { code: 422, message: "no".to_owned() }),
            _ => VerdictOutcome::Allowed,
        };
        Verdict { outcome, notes: Notes { events: vec![event], ..Notes::default() } }
    });
    for (uid, dry_run) in [("dry", true), ("refused", false), ("done", false)] {
        let resource = json!({"group": "batch", "resource": "jobs"});
        let request = json!({"uid": uid, "resource": resource, "operation": "UPDATE", "dryRun": dry_run});
        admission.answer(Endpoint::Mutate, &review(request), CLIENT, Deadline::after(PATIENCE)).await.unwrap();
    }
    assert_eq!(notices.try_recv().unwrap().about.name, "done");
    assert!(notices.try_recv().is_err());
}

#[tokio::test]
async fn requests_are_counted_with_bounded_labels() {
    let metrics = Arc::new(Metrics::default());
    let shared = Arc::new(SharedView::complete(cluster()));
    let admission = Admission::new(shared, NoLookup, Arc::clone(&metrics), Duration::from_millis(20))
        .with_rule(|_, _, _| Verdict::default());
    for resource in ["pods", "made-up-1", "made-up-2"] {
        let request = json!({"uid": "u", "resource": {"group": "", "resource": resource}, "operation": "CREATE"});
        admission.answer(Endpoint::Validate, &review(request), CLIENT, Deadline::after(PATIENCE)).await.unwrap();
    }
    let text = metrics.encode();
    let line = |kind: &str, count: u32| {
        format!(
            r#"giveway_webhook_requests_total{{endpoint="validate",kind="{kind}",operation="CREATE",allowed="true",code="200"}} {count}"#
        )
    };
    assert!(text.contains(&line("pods", 1)), "{text}");
    assert!(text.contains(&line("other", 2)), "{text}");
}
