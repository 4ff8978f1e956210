//! The handlers behind the three paths, and what holds for each of their answers.

use crate::recorded::Endpoint;
use giveway_admission::judge::Endpoint as Phase;
use giveway_admission::rules::guard::facts::{PodObject, RequestedVictim};
use giveway_admission::view::Settings;
use giveway_crds::policy::PreemptionPolicy;
use giveway_crds::priority::Class;
use giveway_webhook::admission::Admission;
use giveway_webhook::deadline::Deadline;
use giveway_webhook::guard::Guard;
use giveway_webhook::guard::claim::{Ledger, LedgerAnswer};
use giveway_webhook::guard::delay::RejectionDelays;
use giveway_webhook::lookup::NoLookup;
use giveway_webhook::metrics::Metrics;
use giveway_webhook::notice;
use giveway_webhook::view::View;
use giveway_webhook::watch::SharedView;
use proptest::test_runner::TestCaseError;
use serde_json::{Value, json};
use std::cell::Cell;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio_util::sync::CancellationToken;

/// Counts nothing.
struct NoLedger;

impl Ledger for NoLedger {
    async fn read(&self, _: &str, _: &str, _: Deadline) -> Result<Option<PodObject<true>>, String> {
        Ok(None)
    }

    async fn claim(&self, _: &str, _: &str, _: &RequestedVictim, _: bool, _: Deadline) -> LedgerAnswer {
        LedgerAnswer::Made
    }

    async fn release(&self, _: &str, _: &str, _: &RequestedVictim) {}

    async fn mark(&self, _: &str, _: &str, _: &RequestedVictim, _: Deadline) -> Result<(), String> {
        Ok(())
    }
}

/// How many answers there were of each sort.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    allowed: u32,
    changed: u32,
    refused: u32,
}

/// The handlers, with the cluster that the recorded reviews belong to.
pub struct Handler {
    runtime: Runtime,
    admission: Admission<NoLookup>,
    guard: Guard<NoLedger>,
    metrics: Arc<Metrics>,
    tally: Cell<Tally>,
}

fn view() -> View {
    let settings = Settings { namespace: "giveway-system".into(), manage_new_classes: true, ..Settings::default() };
    let mut view = View::new(settings);
    for (name, value, threshold) in [("high", 1000, None), ("plain", 5, None), ("guarded-300", 100, Some("300"))] {
        view.classes.upsert(Class {
            name: name.to_owned(),
            value,
            global_default: false,
            scheduler_policy: PreemptionPolicy::Never,
            managed: true,
            managed_policy: Some(PreemptionPolicy::PreemptLowerPriority),
            threshold: threshold.map(str::to_owned),
        });
    }
    for (namespace, name, class) in [("default", "loose", "high"), ("slot-05", "s05-r05-web-0", "guarded-300")] {
        let spec = json!({"schedulingPolicy": {"gang": {"minCount": 2}}, "priorityClassName": class, "priority": 1000});
        let group = json!({
            "apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "PodGroup",
            "metadata": {"namespace": namespace, "name": name}, "spec": spec,
        });
        view.put_group(&serde_json::from_value(group).unwrap());
    }
    let templates =
        json!([{"name": "worker", "schedulingPolicy": {"gang": {"minCount": 2}}, "priorityClassName": "high"}]);
    let workload = json!({
        "apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": "Workload",
        "metadata": {"namespace": "default", "name": "serve"}, "spec": {"podGroupTemplates": templates},
    });
    view.put_workload(&serde_json::from_value(workload).unwrap());
    view
}

fn failed(what: &str, answer: &Value) -> TestCaseError {
    TestCaseError::fail(format!("{what}: {answer}"))
}

impl Handler {
    pub fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (shared, metrics) = (Arc::new(SharedView::complete(view())), Arc::new(Metrics::default()));
        let admission = Admission::new(Arc::clone(&shared), NoLookup, Arc::clone(&metrics), Duration::ZERO);
        let at_once =
            RejectionDelays::new(Duration::ZERO, Duration::ZERO, 1, CancellationToken::new(), metrics.guard.clone());
        let (notices, _) = notice::queue();
        let guard = Guard::new(shared, NoLedger, at_once, notices, Arc::clone(&metrics), Duration::ZERO);
        Self { runtime, admission, guard, metrics, tally: Cell::default() }
    }

    pub fn undecodable(&self) -> u64 {
        self.metrics.undecodable.get()
    }

    pub fn tally(&self) -> String {
        format!("{:?}, {} undecodable", self.tally.get(), self.undecodable())
    }

    fn answer(&self, endpoint: Endpoint, body: &[u8]) -> Result<Value, TestCaseError> {
        let (client, deadline) = (Ipv4Addr::LOCALHOST.into(), Deadline::after(Duration::from_secs(30)));
        let answer = self.runtime.block_on(async {
            match endpoint {
                Endpoint::Mutate => self.admission.answer(Phase::Mutate, body, client, deadline).await,
                Endpoint::Validate => self.admission.answer(Phase::Validate, body, client, deadline).await,
                Endpoint::Guard => self.guard.answer(body.to_vec().into(), deadline).await,
            }
        });
        let answer = answer.map_err(|_| TestCaseError::fail("no answer"))?.into_bytes();
        serde_json::from_slice(&answer).map_err(|error| TestCaseError::fail(format!("the answer is no JSON: {error}")))
    }

    /// Sends a body, and checks its answer. Where keys are `unique`, the answer carries the uid of the request.
    pub fn check(&self, endpoint: Endpoint, body: &[u8], unique: bool) -> Result<(), TestCaseError> {
        let answer = self.answer(endpoint, body)?;
        let response = &answer["response"];
        let review: Option<Value> = serde_json::from_slice(body).ok();
        let uid = review.as_ref().and_then(|review| review.pointer("/request/uid")).and_then(Value::as_str);
        let (version, kind) = (&answer["apiVersion"], &answer["kind"]);
        if (version, kind) != (&json!("admission.k8s.io/v1"), &json!("AdmissionReview")) {
            return Err(failed("no review", &answer));
        }
        if !response["uid"].is_string() || (unique && uid.is_some_and(|uid| response["uid"] != uid)) {
            return Err(failed("another uid", &answer));
        }
        if self.metrics.panics.get() > 0 {
            return Err(failed("a panic", &answer));
        }
        let mut tally = self.tally.get();
        match (&response["allowed"], response.get("patch")) {
            (Value::Bool(true), None) => tally.allowed += 1,
            (Value::Bool(true), Some(patch)) => {
                tally.changed += 1;
                if let Some(review) = review {
                    self.check_patch(endpoint, review, patch)?;
                }
            }
            (Value::Bool(false), None) => {
                tally.refused += 1;
                check_status(&response["status"], &answer)?;
            }
            _ => return Err(failed("neither allowed nor refused", &answer)),
        }
        self.tally.set(tally);
        Ok(())
    }

    /// The patch can be applied, and the object that it makes gets no further one.
    fn check_patch(&self, endpoint: Endpoint, mut review: Value, patch: &Value) -> Result<(), TestCaseError> {
        let patch = decoded(patch);
        let object = &mut review["request"]["object"];
        json_patch::patch(object, &patch).map_err(|error| failed(&format!("{error}: {patch}"), object))?;
        let again = self.answer(endpoint, review.to_string().as_bytes())?;
        match (&again["response"]["allowed"], again["response"].get("patch")) {
            (Value::Bool(true), None) => Ok(()),
            _ => Err(failed("another answer the second time", &again)),
        }
    }
}

fn decoded(patch: &Value) -> json_patch::Patch {
    let bytes: k8s_openapi::ByteString = serde_json::from_value(patch.clone()).unwrap();
    serde_json::from_slice(&bytes.0).unwrap()
}

fn check_status(status: &Value, answer: &Value) -> Result<(), TestCaseError> {
    let message = status["message"].as_str().unwrap_or_default();
    let known = matches!(status["code"].as_u64(), Some(400 | 403 | 422));
    match known && status["status"] == "Failure" && !message.is_empty() && message.len() < 2100 {
        true => Ok(()),
        false => Err(failed("a refusal without a reason", answer)),
    }
}
