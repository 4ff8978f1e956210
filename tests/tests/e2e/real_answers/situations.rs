//! Situations in which the API server or another component rejects, refuses or loses a request of the operator.

use super::requests::{Aim, MEMBER, Request};
use super::table::{Answer, Seen};
use crate::MINUTE;
use giveway_crds::keys::GATE;
use giveway_tests::audit::OPERATOR;
use giveway_tests::cluster::{Kit, PodBuilder, PodHandle, Shaped as _};
use giveway_tests::denials::Rule;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use k8s_openapi::api::admissionregistration::v1::{ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding};
use k8s_openapi::api::core::v1::{Namespace, Pod, ResourceQuota};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// The words of policies and webhooks.
const WORDS: &str = "not during the trading day";
/// Reasons that a policy may give.
const REASONS: [&str; 2] = ["Forbidden", "RequestEntityTooLarge"];
/// The reason for which an API server itself uses each code.
const USUAL: [(u16, &str); 7] = [
    (403, "Forbidden"),
    (404, "NotFound"),
    (409, "Conflict"),
    (429, "TooManyRequests"),
    (500, "InternalError"),
    (503, "ServiceUnavailable"),
    (504, "Timeout"),
];

/// The answers so far.
struct Recorder<'a> {
    world: &'a World,
    operator: Client,
    uid: String,
    seen: Vec<Seen>,
}

/// Creates each situation in turn and returns the answers to the operator's requests.
pub async fn record(world: &mut World) -> Vec<Seen> {
    let node = world.nodes(1).create().await.remove(0);
    let (kit, ending) = (world.kit(), world.namespace("ending").await);
    world.namespace("empty").await;
    let victim = create_pods(&kit, &node).await;
    create_pods(&ending, &node).await;
    create_policies(world).await;
    // From now on the statuses of budgets, quotas and namespaces are those that the test writes.
    world.plane().process("kube-controller-manager").unwrap().kill();
    let operator = world.client_of(OPERATOR).await;
    let mut recorder = Recorder { world, operator, uid: victim.uid.clone(), seen: Vec::new() };
    recorder.objects(&node).await;
    recorder.policies().await;
    recorder.webhooks().await;
    recorder.lost_webhooks().await;
    recorder.rights_and_quotas().await;
    recorder.terminating_namespace().await;
    recorder.budgets().await;
    recorder.seen
}

/// Creates a running victim and a gated member, and returns the victim.
async fn create_pods(kit: &Kit, node: &str) -> PodHandle {
    let gated = json!({"schedulingGates": [{"name": GATE}]});
    PodBuilder::new(kit.clone(), MEMBER).pod_spec(gated).create().await;
    PodBuilder::new(kit.clone(), "web-0").label("app", "web").on(node).create().await
}

/// Creates policies that deny requests of one user each: `policy`, one for each reason, and one whose expression fails.
async fn create_policies(world: &World) {
    let denies = |user: &str| format!("request.userInfo.username != '{user}'");
    let targets = json!([
        {"apiGroups": [""], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["pods/eviction"]},
        {"apiGroups": [""], "apiVersions": ["*"], "operations": ["UPDATE"], "resources": ["pods", "pods/status"]},
        {"apiGroups": [""], "apiVersions": ["*"], "operations": ["DELETE"], "resources": ["pods"]}
    ]);
    let evictions = json!([targets[0]]);
    let message = json!({"expression": denies("policy"), "message": WORDS});
    create_policy(world, "no-change", &targets, message).await;
    for reason in REASONS {
        let user = reason.to_lowercase();
        let validation = json!({"expression": denies(&user), "message": WORDS, "reason": reason});
        create_policy(world, &format!("no-change-{user}"), &evictions, validation).await;
    }
    let fails = format!("{} || object.metadata.labels['missing'] == 'x'", denies("failing"));
    create_policy(world, "fails", &evictions, json!({"expression": fails, "message": WORDS})).await;
}

async fn create_policy(world: &World, name: &str, rules: &Value, validation: Value) {
    let policy = json!({
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": "Fail", "matchConstraints": {"resourceRules": rules}, "validations": [validation]
        }
    });
    let binding = json!({
        "metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}
    });
    let policy: ValidatingAdmissionPolicy = serde_json::from_value(policy).unwrap();
    let binding: ValidatingAdmissionPolicyBinding = serde_json::from_value(binding).unwrap();
    Api::all(world.client()).create(&PostParams::default(), &policy).await.unwrap();
    Api::all(world.client()).create(&PostParams::default(), &binding).await.unwrap();
}

impl Recorder<'_> {
    /// Records the answers to these requests of the operator.
    async fn note(&mut self, situation: &str, aim: &Aim, requests: &[Request]) {
        let client = self.operator.clone();
        self.note_of(&client, situation, aim, requests).await;
    }

    async fn note_of(&mut self, client: &Client, situation: &str, aim: &Aim, requests: &[Request]) {
        for request in requests {
            let answer = self.stable(aim.send(*request, client).await);
            self.seen.push(Seen { situation: situation.to_owned(), request: request.name(), answer });
        }
    }

    /// Waits until the answer to a request contains these words.
    async fn wait_for_words(&self, client: &Client, aim: &Aim, request: Request, words: &str) {
        wait_for(&format!("the API server answers {words:?}"), MINUTE, async || {
            let answer = aim.send(request, client).await;
            if answer.message.contains(words) { Ok(()) } else { Err(format!("{answer:?}")) }
        })
        .await;
    }

    /// Replaces what differs from run to run.
    fn stable(&self, mut answer: Answer) -> Answer {
        let stable = |text: &str| {
            let text = digits_after(&text.replace(&self.uid, "UID"), "https://127.0.0.1:", "PORT");
            digits_after(&digits_after(&text, "tcp 127.0.0.1:", "PORT"), "/deny-", "N")
        };
        answer.message = stable(&answer.message);
        for cause in &mut answer.causes {
            cause.message = stable(&cause.message);
        }
        answer
    }

    async fn objects(&mut self, node: &str) {
        let aim = Aim::default();
        self.note("nothing is in the way", &aim, &[&Request::ABOUT_A_POD[..], &[Request::Create]].concat()).await;
        let nowhere = Aim { namespace: "empty".to_owned(), ..aim.clone() };
        self.note("the pod does not exist", &nowhere, &Request::ABOUT_A_POD).await;
        let another = Aim { uid: Some("ANOTHER".to_owned()), ..aim.clone() };
        self.note("the pod has another UID", &another, &Request::ABOUT_A_POD).await;
        self.create_terminating(node).await;
        let leaving = Aim { victim: "leaving-0".to_owned(), ..aim.clone() };
        self.note("the pod is terminating", &leaving, &[Request::Evict, Request::Delete]).await;
        let bound = Aim { member: "web-0".to_owned(), ..aim.clone() };
        self.note("the pod is bound", &bound, &[Request::Nominate]).await;
        let old = Aim { version: Some("1".to_owned()), ..aim.clone() };
        self.note("the resourceVersion is old", &old, &[Request::Ungate]).await;
        let invalid = Aim { gates: json!([{"name": "late"}]), ..aim };
        self.note("the change is invalid", &invalid, &[Request::Ungate]).await;
    }

    /// Creates a running pod that a finalizer keeps, and deletes it.
    async fn create_terminating(&self, node: &str) {
        let mut pod = self.world.pod("leaving-0").on(node).build();
        pod.metadata.finalizers = Some(vec!["example.com/keep".to_owned()]);
        let kit = self.world.kit();
        let pod = kit.api::<Pod>().create(&PostParams::default(), &pod).await.unwrap();
        let handle = PodHandle::new(kit, &pod);
        handle.wait_running(MINUTE).await;
        handle.delete().await;
    }

    async fn policies(&mut self) {
        let aim = Aim::default();
        let client = self.world.client_of("policy").await;
        self.wait_for_words(&client, &aim, Request::Evict, WORDS).await;
        self.note_of(&client, "a policy denies", &aim, &Request::ABOUT_A_POD).await;
        for reason in REASONS {
            let client = self.world.client_of(&reason.to_lowercase()).await;
            self.wait_for_words(&client, &aim, Request::Evict, WORDS).await;
            let situation = format!("a policy denies with the reason {reason}");
            self.note_of(&client, &situation, &aim, &[Request::Evict]).await;
        }
        let client = self.world.client_of("failing").await;
        self.wait_for_words(&client, &aim, Request::Evict, "resulted in error").await;
        self.note_of(&client, "the expression of a policy fails", &aim, &[Request::Evict]).await;
    }

    async fn webhooks(&mut self) {
        let aim = Aim::default();
        let every = Rule::evictions().and(Rule::pod_deletions()).and(Rule::pod_updates()).and(Rule::pod_statuses());
        let denial = self.world.deny(every.with_status(json!({"message": WORDS}))).await;
        self.note("a webhook denies without a code", &aim, &Request::ABOUT_A_POD).await;
        denial.change_status(json!({}));
        self.note("a webhook denies without words", &aim, &[Request::Evict]).await;
        for code in [400, 403, 404, 409, 422, 429, 500, 503, 504] {
            denial.change_status(json!({"code": code, "message": WORDS}));
            let patched = matches!(code, 403 | 404 | 409 | 429 | 500 | 503);
            let requests: &[Request] = if patched { &[Request::Evict, Request::Ungate] } else { &[Request::Evict] };
            self.note(&format!("a webhook denies with {code}"), &aim, requests).await;
        }
        for (code, reason) in USUAL {
            denial.change_status(json!({"code": code, "reason": reason, "message": WORDS}));
            let situation = format!("a webhook denies with {code} and the reason {reason}");
            self.note(&situation, &aim, &[Request::Evict]).await;
        }
        for (situation, status) in unusual_statuses() {
            denial.change_status(status);
            self.note(situation, &aim, &[Request::Evict]).await;
        }
        denial.end().await;
    }

    async fn lost_webhooks(&mut self) {
        let aim = Aim::default();
        let requests = [Request::Evict, Request::Ungate];
        let both = || Rule::evictions().and(Rule::pod_updates());
        let denial = self.world.deny(both().unreachable()).await;
        self.note("a webhook cannot be reached", &aim, &requests).await;
        denial.end().await;
        let denial = self.world.deny(both().late(Duration::from_secs(30), 1)).await;
        self.note("a webhook does not answer in time", &aim, &requests).await;
        denial.end().await;
    }

    async fn rights_and_quotas(&mut self) {
        let aim = Aim::default();
        let without_rights = self.world.client_in("stranger", &[]).await;
        self.note_of(&without_rights, "RBAC does not permit it", &aim, &Request::ABOUT_A_POD).await;
        let quotas: Api<ResourceQuota> = self.world.kit().api();
        let quota = json!({"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}});
        quotas.create(&PostParams::default(), &serde_json::from_value(quota).unwrap()).await.unwrap();
        let counted = Patch::Merge(json!({"status": {"hard": {"pods": "0"}, "used": {"pods": "0"}}}));
        quotas.patch_status("none", &PatchParams::default(), &counted).await.unwrap();
        self.wait_for_words(&self.operator, &aim, Request::Create, "exceeded quota").await;
        let requests = [Request::Create, Request::Evict, Request::Ungate];
        self.note("a quota is exhausted", &aim, &requests).await;
        quotas.delete("none", &DeleteParams::default()).await.unwrap();
    }

    async fn terminating_namespace(&mut self) {
        let aim = Aim { namespace: "ending".to_owned(), ..Aim::default() };
        let namespaces: Api<Namespace> = Api::all(self.world.client());
        namespaces.delete("ending", &DeleteParams::default()).await.unwrap();
        self.wait_for_words(&self.operator, &aim, Request::Create, "is being terminated").await;
        let requests = [Request::Evict, Request::Create, Request::Delete, Request::Ungate];
        self.note("the namespace is terminating", &aim, &requests).await;
    }

    async fn budgets(&mut self) {
        let one = |allowed: u32, healthy: u32| json!({"disruptionsAllowed": allowed, "currentHealthy": healthy});
        let both = [Request::Evict, Request::Delete];
        self.budget("a budget allows the eviction", Some(one(1, 2)), &[Request::Evict]).await;
        self.budget("a budget allows no disruption", Some(one(0, 1)), &both).await;
        let used_up = "a budget has been synchronized without a disruption left";
        self.budget(used_up, Some(one(0, 2)), &[Request::Evict]).await;
        let mut failed = one(0, 1);
        failed["conditions"] = json!([{
            "type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed", "observedGeneration": 1,
            "message": "found no controllers for pod \"web-0\"", "lastTransitionTime": "2026-01-01T00:00:00Z"
        }]);
        self.budget("a budget could not be synchronized", Some(failed), &[Request::Evict]).await;
        self.budget("the status of a budget is not written yet", None, &[Request::Evict]).await;
        let mut many = one(1, 2);
        let evicted = (0..2001).map(|number| (format!("pod-{number}"), "2026-01-01T00:00:00Z"));
        many["disruptedPods"] = json!(evicted.collect::<BTreeMap<_, _>>());
        let crowded = "a budget counts more than 2000 pods that were evicted";
        self.budget(crowded, Some(many), &[Request::Evict]).await;
        self.create_budget("also", Some(one(1, 2))).await;
        self.budget("two budgets select the pod", Some(one(1, 2)), &both).await;
    }

    /// Records the answers while there is a budget `web` with this status.
    async fn budget(&mut self, situation: &str, status: Option<Value>, requests: &[Request]) {
        self.create_budget("web", status).await;
        self.note(situation, &Aim::default(), requests).await;
        let budgets: Api<PodDisruptionBudget> = self.world.kit().api();
        budgets.delete("web", &DeleteParams::default()).await.unwrap();
    }

    async fn create_budget(&self, name: &str, status: Option<Value>) {
        let budgets: Api<PodDisruptionBudget> = self.world.kit().api();
        let spec = json!({"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}});
        let budget = serde_json::from_value(json!({"metadata": {"name": name}, "spec": spec})).unwrap();
        budgets.create(&PostParams::default(), &budget).await.unwrap();
        if let Some(mut status) = status {
            status["observedGeneration"] = json!(1);
            status["desiredHealthy"] = json!(1);
            status["expectedPods"] = json!(2);
            let patch = Patch::Merge(json!({"status": status}));
            budgets.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
        }
    }
}

/// Returns statuses of webhooks with details, or with the words of other components.
fn unusual_statuses() -> [(&'static str, Value); 5] {
    let budget = "Cannot evict pod as it would violate the pod's disruption budget.";
    let two = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
    let cause = "The disruption budget web needs 1 healthy pods and has 1 currently";
    [
        (
            "a webhook denies with 429 and retryAfterSeconds",
            json!({"code": 429, "reason": "TooManyRequests", "message": WORDS, "details": {"retryAfterSeconds": 30}}),
        ),
        (
            "a webhook denies with a cause of its own",
            json!({"code": 403, "reason": "Forbidden", "message": WORDS, "details": {"causes": [
                {"reason": "TradingDay", "message": "until 17:30", "field": "spec.calendar"}
            ]}}),
        ),
        (
            "a webhook denies with the cause and the words of a budget",
            json!({"code": 429, "reason": "TooManyRequests", "message": budget, "details": {"causes": [
                {"reason": "DisruptionBudget", "message": cause}
            ]}}),
        ),
        ("a webhook denies with the words of two budgets", json!({"code": 500, "message": two})),
        (
            "a webhook denies with the words of another UID",
            json!({
                "code": 409, "reason": "Conflict",
                "message": "the UID in the precondition (a) does not match the UID in record (b)"
            }),
        ),
    ]
}

/// Replaces the digits that follow `mark`.
fn digits_after(text: &str, mark: &str, instead: &str) -> String {
    let mut parts = text.split(mark);
    let mut replaced = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        replaced += mark;
        replaced += instead;
        replaced += part.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    replaced
}
