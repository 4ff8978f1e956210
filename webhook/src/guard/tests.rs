//! From a review to its response: delays, claims, events and metrics.

use super::testing::{Cluster, merged, of_group, running, threshold};
use super::*;
use claim::Stored;
use giveway_admission::rules::guard::facts::{Allowance, RequestedVictim};
use serde_json::{Value, json};
use std::sync::Mutex;
use std::time::Instant;
use tokio_util::sync::CancellationToken;

const LONG: Duration = Duration::from_secs(60);

/// Ledger with prepared answers by budget; records the calls.
struct Scripted {
    /// The pod as it is stored.
    stored: Result<Option<Value>, String>,
    answers: Vec<(&'static str, LedgerAnswer)>,
    calls: Arc<Mutex<Vec<String>>>,
}

impl Ledger for Scripted {
    async fn read(&self, namespace: &str, pod: &str, _: Deadline) -> Result<Option<Stored>, String> {
        self.calls.lock().unwrap().push(format!("read {namespace}/{pod}"));
        let stored = self.stored.clone()?;
        Ok(stored.map(|stored| serde_json::from_value(stored).unwrap()))
    }

    async fn claim(
        &self,
        namespace: &str,
        budget: &str,
        pod: &RequestedVictim,
        guaranteed: bool,
        _: Deadline,
    ) -> LedgerAnswer {
        let call = format!("claim {namespace}/{budget} for {} guaranteed={guaranteed}", pod.name);
        self.calls.lock().unwrap().push(call);
        let answer = self.answers.iter().find(|(name, _)| *name == budget);
        answer.map_or(LedgerAnswer::Made, |(_, claim)| claim.clone())
    }

    async fn release(&self, namespace: &str, budget: &str, pod: &RequestedVictim) {
        self.calls.lock().unwrap().push(format!("release {namespace}/{budget} for {}", pod.name));
    }

    async fn mark(&self, namespace: &str, group: &str, pod: &RequestedVictim, _: Deadline) -> Result<(), String> {
        self.calls.lock().unwrap().push(format!("mark {} in {namespace}/{group}", pod.uid));
        match group {
            "full" => Err("status.preemptedPods: Too many: 65: must have at most 64 items".to_owned()),
            _ => Ok(()),
        }
    }
}

struct Scene {
    guard: Arc<Guard<Scripted>>,
    view: Arc<SharedView>,
    metrics: Arc<Metrics>,
    notices: mpsc::Receiver<EventDraft>,
    calls: Arc<Mutex<Vec<String>>>,
    end: CancellationToken,
}

/// Returns the victim as kube-scheduler stores it before it deletes it.
fn victim() -> Value {
    merged(running("api-1", threshold("5000")), announced())
}

fn scene(cluster: Cluster, delay: Duration, most: usize, answers: Vec<(&'static str, LedgerAnswer)>) -> Scene {
    scene_of(Ok(Some(victim())), cluster, delay, most, answers)
}

fn scene_of(
    stored: Result<Option<Value>, String>,
    cluster: Cluster,
    delay: Duration,
    most: usize,
    answers: Vec<(&'static str, LedgerAnswer)>,
) -> Scene {
    let (metrics, end, view) =
        (Arc::new(Metrics::default()), CancellationToken::new(), Arc::new(SharedView::complete(cluster.0)));
    let delays = RejectionDelays::new(delay, delay, most, end.clone(), metrics.guard.clone());
    let calls = Arc::default();
    let ledger = Scripted { stored, answers, calls: Arc::clone(&calls) };
    let (sender, notices) = crate::notice::queue();
    let guard = Guard::new(Arc::clone(&view), ledger, delays, sender, Arc::clone(&metrics), Duration::from_millis(20));
    Scene { guard: Arc::new(guard), view, metrics, notices, calls, end }
}

fn announced() -> Value {
    json!({"status": {"conditions": [
        {"type": "Ready", "status": "True"},
        {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler",
         "message": "default-scheduler: preempting to accommodate a higher priority pod"},
    ]}})
}

fn review(operation: &str, change: Value) -> Vec<u8> {
    let old = running("api-1", threshold("5000"));
    let new = merged(old.clone(), announced());
    let (object, old, sub) = match operation {
        "DELETE" => (Value::Null, new, ""),
        _ => (new, old, "status"),
    };
    let request = json!({
        "uid": "r-1", "resource": {"group": "", "version": "v1", "resource": "pods"}, "subResource": sub,
        "namespace": "web", "name": "api-1", "operation": operation,
        "userInfo": {"username": "system:kube-scheduler"}, "object": object, "oldObject": old,
    });
    let review = json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": merged(request, change),
    });
    serde_json::to_vec(&review).unwrap()
}

fn refusing() -> Cluster {
    Cluster::new().waits("vip", 1000, json!({})).budget("api", 0, json!({}))
}

fn permitting() -> Cluster {
    Cluster::new().waits("vip", 1000, json!({})).budget("api", 1, json!({}))
}

fn soon() -> Deadline {
    Deadline::after(LONG)
}

fn json_of(answer: ReviewResponse) -> Value {
    serde_json::from_slice(&answer.into_bytes()).unwrap()
}

fn message(answer: &Value) -> &str {
    assert_eq!(answer["response"]["allowed"], json!(false), "{answer}");
    assert_eq!(answer["response"]["status"]["code"], json!(403));
    answer["response"]["status"]["message"].as_str().unwrap()
}

fn allowed(answer: &Value) -> bool {
    assert_eq!(answer["response"]["uid"], json!("r-1"));
    answer["response"]["allowed"].as_bool().unwrap()
}

impl Scene {
    async fn ask(&self, body: Vec<u8>) -> Value {
        json_of(self.guard.answer(body.into(), soon()).await.unwrap())
    }

    fn calls(&self) -> Vec<String> {
        self.calls.lock().unwrap().clone()
    }

    fn counts(&self, name: &str) -> bool {
        self.metrics.encode().lines().any(|line| line == name)
    }
}

#[tokio::test]
async fn mark_and_deletion_are_rejected_with_a_delay_and_reported_on_victim_and_preemptor() {
    let mut scene = scene(refusing(), Duration::from_millis(120), 10, vec![]);
    for operation in ["UPDATE", "DELETE"] {
        let start = Instant::now();
        let answer = scene.ask(review(operation, json!({}))).await;
        assert!(start.elapsed() >= Duration::from_millis(120), "{operation} was answered after {:?}", start.elapsed());
        let why = "Preemption of pod web/api-1 (priority 10) is refused: budget web/api allows 0 more disruptions to preemptors below 5000; the highest pending preemptor is pod default/vip with priority 1000.";
        let vip = "a pod of another namespace (UID uid-vip)";
        assert_eq!(
            message(&answer),
            why.replace("pod default/vip", vip),
            "the response contains no name of another namespace"
        );
        let (victim, preemptor) = (scene.notices.try_recv().unwrap(), scene.notices.try_recv().unwrap());
        // Neither event contains names of the other's namespace.
        assert!(victim.about.name == "api-1" && victim.related.is_none() && preemptor.related.is_none());
        assert_eq!((preemptor.about.name.as_str(), preemptor.about.namespace.as_str()), ("vip", "default"));
        let vip = preemptor.about.uid;
        assert_eq!(victim.note, why.replace("pod default/vip", &format!("a pod of another namespace (UID {vip})")));
        let note = why.replace("budget web/api", "its budget");
        let note = note.replace("pod web/api-1", &format!("a pod of another namespace (UID {})", victim.about.uid));
        assert_eq!((preemptor.note, preemptor.reason), (note, Reason::GuaranteedBudget));
    }
    assert!(scene.counts("giveway_webhook_guard_decisions_total{verdict=\"guaranteed_budget\"} 2"));
    assert!(scene.counts("giveway_webhook_guard_denials_delayed_total 2"));
    assert!(scene.counts("giveway_webhook_guard_delayed_denials 0"));
}

#[tokio::test]
async fn a_permitted_victim_is_claimed_and_answered_without_a_delay() {
    let scene = scene(permitting(), LONG, 10, vec![]);
    assert!(allowed(&scene.ask(review("DELETE", json!({}))).await));
    assert_eq!(scene.calls(), ["read web/api-1", "claim web/api for api-1 guaranteed=true"]);
    assert!(scene.counts("giveway_webhook_guard_decisions_total{verdict=\"permitted\"} 1"));
    assert!(scene.counts("giveway_webhook_guard_claims_total{result=\"made\"} 1"));
}

#[tokio::test]
async fn if_one_budget_has_no_allowance_left_the_claims_of_the_others_are_released() {
    let cluster = permitting().budget("z", 1, json!({}));
    let spent = Allowance::from_object(&super::testing::budget("z", 0, json!({}))).unwrap();
    let scene = scene(cluster, Duration::from_millis(50), 10, vec![("z", LedgerAnswer::Spent(Box::new(spent)))]);
    let answer = scene.ask(review("DELETE", json!({}))).await;
    assert!(message(&answer).contains("budget web/z allows 0 more disruptions to preemptors below 5000"), "{answer}");
    let calls = [
        "read web/api-1",
        "claim web/api for api-1 guaranteed=true",
        "claim web/z for api-1 guaranteed=true",
        "release web/api for api-1",
    ];
    // The claim is released while the rejection is delayed.
    assert_eq!(scene.calls(), calls);
}

#[tokio::test]
async fn at_most_eight_budgets_of_a_victim_are_written() {
    let cluster = (0..1000).fold(permitting(), |cluster, n| cluster.budget(&format!("b{n}"), 1, json!({})));
    let guarded = scene(cluster.clone(), Duration::from_millis(50), 10, vec![]);
    let answer = guarded.ask(review("DELETE", json!({}))).await;
    assert!(message(&answer).contains("more than 8 budgets select it"), "{answer}");
    assert_eq!(guarded.calls(), ["read web/api-1"]);
    let reached = scene(cluster.waits("boss", 5000, json!({})), LONG, 10, vec![]);
    assert!(allowed(&reached.ask(review("DELETE", json!({}))).await));
    assert_eq!(reached.calls().len(), 1 + decide::MOST_CLAIMS);
}

#[tokio::test]
async fn a_failed_claim_rejects_only_preemptions_of_guarded_victims() {
    let failed = || vec![("api", LedgerAnswer::Failed("the API server is down".to_owned()))];
    let guarded = scene(permitting(), Duration::from_millis(50), 10, failed());
    let answer = guarded.ask(review("DELETE", json!({}))).await;
    assert!(message(&answer).contains("budget web/api cannot be updated (the API server is down)"), "{answer}");
    let reached = scene(permitting().waits("boss", 5000, json!({})), LONG, 10, failed());
    assert!(allowed(&reached.ask(review("DELETE", json!({}))).await));
}

#[tokio::test]
async fn a_mark_is_judged_without_claiming_a_disruption() {
    let scene = scene(permitting(), LONG, 10, vec![]);
    assert!(allowed(&scene.ask(review("UPDATE", json!({}))).await));
    assert_eq!(scene.calls(), Vec::<String>::new(), "any client could have posted the review");
    assert!(scene.counts("giveway_webhook_guard_decisions_total{verdict=\"permitted\"} 1"));
}

#[tokio::test]
async fn a_deletion_of_an_unmarked_pod_claims_no_disruption() {
    let quiet = || Ok(Some(running("api-1", threshold("5000"))));
    let guarded = scene_of(quiet(), permitting(), Duration::from_millis(50), 10, vec![]);
    let answer = guarded.ask(review("DELETE", json!({}))).await;
    assert!(
        message(&answer).contains(
            "kube-scheduler has not set the condition DisruptionTarget (reason PreemptionByScheduler) on the pod"
        ),
        "{answer}"
    );
    assert_eq!(guarded.calls(), ["read web/api-1"]);
    let reached = scene_of(quiet(), permitting().waits("boss", 5000, json!({})), LONG, 10, vec![]);
    assert!(allowed(&reached.ask(review("DELETE", json!({}))).await), "no budget is guaranteed against this preemptor");
    assert_eq!(reached.calls(), ["read web/api-1"]);
}

#[tokio::test]
async fn a_permitted_deletion_is_marked_in_a_pod_group_in_mode_pod_group() {
    let scene_in = |group: &str, stored: Value| {
        let cluster =
            Cluster::new().waits("vip", 1000, json!({})).has(merged(running("api-1", json!({})), of_group(group)));
        let cluster = cluster.group("web", "together", Some(10), "PodGroup").group("web", "full", Some(10), "PodGroup");
        let cluster = cluster.group("web", "single", Some(10), "Pod").native("web", "native", 10);
        let stored = merged(merged(running("api-1", json!({})), of_group(group)), stored);
        scene_of(Ok(Some(stored)), cluster, LONG, 10, vec![])
    };
    let deletion = |group: &str, change: Value| {
        let labels = json!({"metadata": {"labels": {giveway_crds::keys::LABEL_POD_GROUP: group}}});
        review("DELETE", merged(json!({"oldObject": labels}), change))
    };
    let marked = scene_in("together", announced());
    assert!(allowed(&marked.ask(deletion("together", json!({}))).await));
    assert_eq!(marked.calls(), ["read web/api-1", "mark uid-api-1 in web/together"]);
    assert!(marked.counts("giveway_webhook_guard_marks_total{result=\"made\"} 1"));

    let full = scene_in("full", announced());
    assert!(allowed(&full.ask(deletion("full", json!({}))).await), "the deletion does not depend on the mark");
    assert!(full.counts("giveway_webhook_guard_marks_total{result=\"failed\"} 1"));

    let forged = scene_in("together", json!({}));
    assert!(allowed(&forged.ask(deletion("together", json!({}))).await));
    assert_eq!(forged.calls(), ["read web/api-1"], "the stored pod has no announcement: the review was forged");

    let cluster = Cluster::new().waits("vip", 1000, json!({})).group("web", "together", Some(10), "PodGroup");
    let unread = scene_of(Err("the API server is down".to_owned()), cluster, LONG, 10, vec![]);
    assert!(allowed(&unread.ask(deletion("together", json!({}))).await), "no guaranteed budget selects the pod");
    assert_eq!(unread.calls(), ["read web/api-1"], "a pod that was not read is not marked");

    for (case, group, change) in [
        ("dry run", "together", json!({"dryRun": true})),
        ("mode Pod", "single", json!({})),
        ("native group", "native", json!({"oldObject": {"spec": {"schedulingGroup": {"podGroupName": "native"}}}})),
        ("no such group", "unknown", json!({})),
        (
            "second deletion",
            "together",
            json!({"oldObject": {"metadata": {"deletionTimestamp": "2026-01-01T00:02:00Z"}}}),
        ),
    ] {
        let scene = scene_in(group, announced());
        assert!(allowed(&scene.ask(deletion(group, change)).await), "{case}");
        assert_eq!(scene.calls(), Vec::<String>::new(), "{case}");
    }
    let announces = scene_in("together", json!({}));
    let labels = json!({"metadata": {"labels": {giveway_crds::keys::LABEL_POD_GROUP: "together"}}});
    let review = review("UPDATE", json!({"object": labels, "oldObject": labels}));
    assert!(allowed(&announces.ask(review).await));
    assert_eq!(announces.calls(), Vec::<String>::new(), "only the deletion is marked");
}

#[tokio::test]
async fn claims_are_made_for_the_stored_pod_not_for_that_of_the_review() {
    let stored = merged(victim(), json!({"metadata": {"labels": {"app": "other"}}}));
    let cluster = permitting().budget("z", 1, json!({"spec": {"selector": {"matchLabels": {"app": "other"}}}}));
    let scene = scene_of(Ok(Some(stored)), cluster, LONG, 10, vec![]);
    assert!(allowed(&scene.ask(review("DELETE", json!({}))).await));
    assert_eq!(
        scene.calls(),
        ["read web/api-1", "claim web/z for api-1 guaranteed=true"],
        "only the budget that selects the stored pod"
    );
}

#[tokio::test]
async fn a_deleted_or_recreated_pod_claims_no_disruption() {
    for stored in [Ok(None), Ok(Some(merged(victim(), json!({"metadata": {"uid": "uid-new"}}))))] {
        let scene = scene_of(stored, permitting(), LONG, 10, vec![]);
        assert!(allowed(&scene.ask(review("DELETE", json!({}))).await));
        assert_eq!(scene.calls(), ["read web/api-1"]);
    }
}

#[tokio::test]
async fn a_guarded_pod_that_cannot_be_read_is_not_preempted() {
    let away = || Err("the API server is down".to_owned());
    let guarded = scene_of(away(), permitting(), Duration::from_millis(50), 10, vec![]);
    let answer = guarded.ask(review("DELETE", json!({}))).await;
    let nameless = "Preemption of the pod is refused: the webhook cannot read the pod from the API server: try again.";
    assert_eq!(message(&answer), nameless);
    assert!(guarded.counts("giveway_webhook_guard_denials_delayed_total 0"), "the pod may be no victim");
    let reached = scene_of(away(), permitting().waits("boss", 5000, json!({})), LONG, 10, vec![]);
    assert!(allowed(&reached.ask(review("DELETE", json!({}))).await));
}

#[tokio::test]
async fn a_forged_review_occupies_no_slot_creates_no_event_and_learns_no_name() {
    let other = merged(victim(), json!({"metadata": {"uid": "uid-new"}}));
    let unread = "Preemption of the pod is refused: the webhook cannot read the pod from the API server: try again.";
    let unknown = "Preemption of the pod is refused: no pod with this name and UID exists.";
    for (stored, why) in [(Ok(None), unknown), (Ok(Some(other)), unknown), (Err("away".to_owned()), unread)] {
        let mut scene = scene_of(stored, refusing(), LONG, 10, vec![]);
        for (operation, dry_run) in [("UPDATE", false), ("DELETE", false), ("DELETE", true)] {
            let start = Instant::now();
            let answer = scene.ask(review(operation, json!({"dryRun": dry_run}))).await;
            assert_eq!(message(&answer), why);
            assert!(start.elapsed() < LONG / 2, "{:?}", start.elapsed());
        }
        assert!(scene.notices.try_recv().is_err());
        assert!(scene.counts("giveway_webhook_guard_denials_delayed_total 0"));
        assert!(scene.counts("giveway_webhook_guard_immediate_denials_total 0"));
        assert_eq!(scene.calls(), ["read web/api-1"; 3]);
    }
}

#[tokio::test]
async fn a_rejection_is_based_on_the_stored_pod() {
    // The review claims that the budget selects the pod, but the stored pod is not selected.
    let stored = merged(victim(), json!({"metadata": {"labels": {"app": "other"}}}));
    let scene = scene_of(Ok(Some(stored)), refusing(), LONG, 10, vec![]);
    assert!(allowed(&scene.ask(review("UPDATE", json!({}))).await));
}

#[tokio::test]
async fn a_rejection_is_sent_before_the_deadline_of_its_request() {
    let scene = scene(refusing(), LONG, 10, vec![]);
    let start = Instant::now();
    let deadline = Deadline::after(Duration::from_millis(100));
    let answer = json_of(scene.guard.answer(review("UPDATE", json!({})).into(), deadline).await.unwrap());
    assert!(!allowed(&answer));
    assert!((100..10_000).contains(&start.elapsed().as_millis()), "{:?}", start.elapsed());
}

#[tokio::test]
async fn rejections_above_the_bound_are_sent_at_once() {
    let scene = scene(refusing(), LONG, 0, vec![]);
    assert!(!allowed(&scene.ask(review("UPDATE", json!({}))).await));
    assert!(scene.counts("giveway_webhook_guard_immediate_denials_total 1"));
    assert!(scene.counts("giveway_webhook_guard_denials_delayed_total 0"));
}

#[tokio::test]
async fn a_delayed_rejection_becomes_a_permission_when_the_watch_shows_a_preemptor() {
    let scene = scene(Cluster::new(), LONG, 10, vec![]);
    let guard = Arc::clone(&scene.guard);
    let asking =
        tokio::spawn(async move { json_of(guard.answer(review("UPDATE", json!({})).into(), soon()).await.unwrap()) });
    while scene.metrics.guard.delayed.get() == 0 {
        tokio::task::yield_now().await;
    }
    scene.view.write(|view| *view = permitting().0);
    assert!(allowed(&asking.await.unwrap()));
    assert_eq!(scene.metrics.guard.delayed.get(), 0);
}

#[tokio::test]
async fn a_shutdown_sends_delayed_rejections() {
    let scene = scene(refusing(), LONG, 10, vec![]);
    let guard = Arc::clone(&scene.guard);
    let asking =
        tokio::spawn(async move { json_of(guard.answer(review("UPDATE", json!({})).into(), soon()).await.unwrap()) });
    while scene.metrics.guard.delayed.get() == 0 {
        tokio::task::yield_now().await;
    }
    scene.end.cancel();
    let answer = tokio::time::timeout(LONG / 2, asking).await.expect("the rejection is sent").unwrap();
    assert!(!allowed(&answer), "the preemption is still rejected");
}

#[tokio::test]
async fn a_dry_run_changes_nothing_and_is_not_delayed() {
    let mut permits = scene(permitting(), LONG, 10, vec![]);
    assert!(allowed(&permits.ask(review("DELETE", json!({"dryRun": true}))).await));
    assert_eq!(permits.calls(), Vec::<String>::new());
    assert!(permits.notices.try_recv().is_err());
    let mut refuses = scene(refusing(), LONG, 10, vec![]);
    assert!(!allowed(&refuses.ask(review("UPDATE", json!({"dryRun": true}))).await));
    assert!(refuses.notices.try_recv().is_err());
}

#[tokio::test]
async fn an_incomplete_view_is_left_to_the_failure_policy() {
    let scene = scene(refusing(), LONG, 10, vec![]);
    let blind = SharedView::new(refusing().0.settings);
    let (sender, _receiver) = crate::notice::queue();
    let (metrics, end) = (Arc::clone(&scene.metrics), CancellationToken::new());
    let delays = RejectionDelays::new(LONG, LONG, 1, end, metrics.guard.clone());
    let ledger = Scripted { stored: Ok(None), answers: vec![], calls: Arc::default() };
    let guard = Guard::new(Arc::new(blind), ledger, delays, sender, metrics, Duration::from_millis(20));
    assert_eq!(guard.answer(review("UPDATE", json!({})).into(), soon()).await, Err(NotReady));
    assert!(scene.counts("giveway_webhook_guard_decisions_total{verdict=\"not_ready\"} 1"));
}

#[tokio::test]
async fn requests_outside_of_the_guard_are_allowed_without_a_decision() {
    let scene = scene(Cluster::new(), LONG, 10, vec![]);
    for change in [
        json!({"namespace": "kube-system"}),
        json!({"namespace": "giveway-system"}),
        json!({"operation": "CREATE"}),
        json!({"subResource": "binding"}),
        json!({"resource": {"group": "apps"}}),
    ] {
        assert!(allowed(&scene.ask(review("UPDATE", change.clone())).await), "{change}");
    }
    assert!(!scene.metrics.encode().contains("guard_decisions_total{"), "none of the requests causes a decision");
    let odd = scene.ask(b"no review".to_vec()).await;
    assert_eq!(odd["response"]["status"]["message"], json!("the body is not JSON: expected ident at line 1 column 2"));
}
