//! The webhook and `plan -f` judge the same manifests in the same words, because both use the rules of `giveway-admission`.

#[path = "../../../tests/cases/admission/table.rs"]
mod table;

use crate::common::giveway;
use giveway_admission::judge::Endpoint;
use giveway_admission::view::{ClusterView, Settings};
use giveway_crds::keys::{LABEL_GANG, LABEL_POD_GROUP, LABEL_WORKLOAD};
use giveway_crds::kinds;
use giveway_crds::priority::Class;
use giveway_webhook::admission::Admission;
use giveway_webhook::deadline::Deadline;
use giveway_webhook::lookup::NoLookup;
use giveway_webhook::metrics::Metrics;
use giveway_webhook::view::View;
use giveway_webhook::watch::SharedView;
use k8s_openapi::ByteString;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;
use table::{Case, Said, Table};
use tokio::runtime::Runtime;

const NAMESPACE: &str = "team";

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);

/// The webhook, by the entry that its server calls, and what the API server does around it.
struct ApiServer {
    runtime: Runtime,
    admission: Admission<NoLookup>,
    view: Arc<SharedView>,
}

impl ApiServer {
    /// An API server with these objects.
    fn new(objects: &[Value]) -> Self {
        let mut view = View::new(Settings { namespace: "giveway-system".into(), ..Settings::default() });
        for object in objects {
            let read = "an object of the table can be read";
            match object["kind"].as_str().unwrap() {
                "PriorityClass" => {
                    view.classes.upsert(Class::from_object(&serde_json::from_value(object.clone()).expect(read)));
                }
                "PodGroup" => view.put_group(&serde_json::from_value(object.clone()).expect(read)),
                "Workload" => view.put_workload(&serde_json::from_value(object.clone()).expect(read)),
                other => panic!("{other} is no kind that the rules look up"),
            }
        }
        let view = Arc::new(SharedView::complete(view));
        let metrics = Arc::new(Metrics::default());
        let admission = Admission::new(Arc::clone(&view), NoLookup, metrics, PATIENCE);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { runtime, admission, view }
    }

    #[expect(clippy::unwrap_in_result, reason = "the result is what the webhook says")]
    /// Sends a review, changes the object as the answer says, and returns the warnings.
    fn review(&self, endpoint: Endpoint, (group, resource): (&str, &str), object: &mut Value) -> Said {
        let request = json!({
            "uid": "u-1", "resource": {"group": group, "version": "v1", "resource": resource}, "operation": "CREATE",
            "namespace": object["metadata"]["namespace"].as_str().unwrap_or_default(),
            "userInfo": {"username": "alice", "groups": ["system:authenticated"]}, "object": object, "oldObject": null,
        });
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request});
        let body = review.to_string();
        let client = Ipv4Addr::LOCALHOST.into();
        let answer = self.admission.answer(endpoint, body.as_bytes(), client, Deadline::after(PATIENCE));
        let answer = self.runtime.block_on(answer).unwrap().into_bytes();
        let response = serde_json::from_slice::<Value>(&answer).unwrap()["response"].take();
        if response["allowed"] != true {
            return Err(response["status"]["message"].as_str().unwrap().to_owned());
        }
        if let Some(patch) = response.get("patch") {
            let patch: ByteString = serde_json::from_value(patch.clone()).unwrap();
            let patch: json_patch::Patch = serde_json::from_slice(&patch.0).unwrap();
            json_patch::patch(object, &patch).unwrap();
        }
        let warnings = response["warnings"].as_array().map(Vec::as_slice).unwrap_or_default();
        Ok(warnings.iter().map(|warning| warning.as_str().unwrap().to_owned()).collect())
    }

    /// Reviews by both configurations of webhooks.
    fn both(&self, resource: (&str, &str), object: &mut Value) -> Said {
        let mut warnings = self.review(Endpoint::Mutate, resource, object)?;
        warnings.extend(self.review(Endpoint::Validate, resource, object)?);
        Ok(warnings)
    }

    /// Creates a pod, after the Priority plugin has filled what follows from its class.
    fn pod(&self, mut pod: Value) -> Said {
        let name = pod["spec"]["priorityClassName"].as_str().unwrap_or_default().to_owned();
        let (priority, policy) = {
            let view = self.view.read();
            let class = view.classes().effective(Some(&name)).map_err(|error| error.to_string())?;
            class.map_or((0, "PreemptLowerPriority"), |class| (class.value, class.scheduler_policy.as_str()))
        };
        pod["spec"]["priority"] = json!(priority);
        pod["spec"]["preemptionPolicy"] = json!(policy);
        self.review(Endpoint::Mutate, ("", "pods"), &mut pod)
    }

    /// Creates an owner, and the first pod of its template if it has a single one.
    fn owner(&self, mut owner: Value) -> Said {
        let row = kinds::of_version(owner["apiVersion"].as_str().unwrap(), owner["kind"].as_str().unwrap()).unwrap();
        let keys = [LABEL_GANG, LABEL_POD_GROUP, LABEL_WORKLOAD];
        let labels = |owner: &Value| owner["spec"]["template"]["metadata"]["labels"].clone();
        // The match conditions of the chart.
        let endpoint = if !owner["metadata"]["labels"][LABEL_GANG].is_null() {
            Some(Endpoint::Mutate)
        } else {
            keys.iter().any(|key| !labels(&owner)[key].is_null()).then_some(Endpoint::Templates)
        };
        let mut warnings = BTreeSet::new();
        if let Some(endpoint) = endpoint {
            warnings = self.review(endpoint, (row.group, row.plural), &mut owner)?;
        }
        let Some(template) = owner["spec"].get("template") else { return Ok(warnings) };
        let mut pod = template.clone();
        let name = owner["metadata"]["name"].as_str().unwrap();
        pod["metadata"]["name"] = json!(format!("{name}-0"));
        pod["metadata"]["namespace"] = json!(NAMESPACE);
        let controller = json!({"apiVersion": owner["apiVersion"], "kind": row.kind, "name": name, "uid": "u-1", "controller": true});
        pod["metadata"]["ownerReferences"] = json!([controller]);
        warnings.extend(self.pod(pod).map_err(|words| format!("spec.template.{words}"))?);
        Ok(warnings)
    }

    fn create(&self, case: &Case) -> Said {
        let mut object = case.object.clone();
        match object["kind"].as_str().unwrap() {
            "Pod" => self.pod(object),
            "PriorityClass" => self.both(("scheduling.k8s.io", "priorityclasses"), &mut object),
            "PodGroup" => self.both(("scheduling.giveway.dev", "podgroups"), &mut object),
            "Workload" => self.both(("scheduling.giveway.dev", "workloads"), &mut object),
            _ => self.owner(object),
        }
    }
}

#[expect(clippy::unwrap_in_result, reason = "the result is what the command says")]
/// What `plan -f` says in a cluster with these objects and a node.
fn planned(case: &Case, directory: &tempfile::TempDir, snapshot: &str, index: usize) -> Said {
    let file = directory.path().join(format!("{index}.json")).display().to_string();
    std::fs::write(&file, case.manifest()).unwrap();
    let printed = giveway(&["plan", "-f", &file, "--snapshot", snapshot, "-n", NAMESPACE, "-o", "json"]);
    case.said_by_plan(&file, printed.status, &printed.out, &printed.err)
}

#[test]
fn webhook_and_plan_report_the_same_for_every_manifest() {
    let table = Table::read(NAMESPACE, true);
    let api_server = ApiServer::new(&table.cluster);
    let directory = tempfile::tempdir().unwrap();
    let snapshot = directory.path().join("cluster.json").display().to_string();
    let node = json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"},
        "status": {"allocatable": {"cpu": "4", "pods": "100"}},
    });
    let items = [&table.cluster[..], &[node]].concat();
    std::fs::write(&snapshot, json!({"apiVersion": "v1", "kind": "List", "items": items}).to_string()).unwrap();

    let admitted: Vec<Said> = table.cases.iter().map(|case| api_server.create(case)).collect();
    // Two processes at a time.
    let half = table.cases.len() / 2;
    let plan_all = |cases: &[Case], first: usize| -> Vec<Said> {
        let numbered = cases.iter().enumerate();
        numbered.map(|(index, case)| planned(case, &directory, &snapshot, first + index)).collect()
    };
    let planned: Vec<Said> = std::thread::scope(|scope| {
        let other = scope.spawn(|| plan_all(&table.cases[half..], half));
        let one = plan_all(&table.cases[..half], 0);
        one.into_iter().chain(other.join().unwrap()).collect()
    });

    let compared = table.cases.iter().zip(&admitted).zip(&planned);
    let differences: Vec<String> =
        compared.filter_map(|((case, admitted), planned)| case.difference(admitted, planned)).collect();
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
    let rejected: BTreeSet<&String> = admitted.iter().filter_map(|said| said.as_ref().err()).collect();
    let warned = admitted.iter().filter(|said| said.as_ref().is_ok_and(|warnings| !warnings.is_empty())).count();
    let enough = admitted.len() >= 300 && rejected.len() >= 35 && warned >= 20;
    assert!(enough, "{} manifests, {} different rejections, {warned} with warnings", admitted.len(), rejected.len());
}
