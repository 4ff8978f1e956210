//! The custom resources on an API server without Giveway's webhook: each schema rule with an accepted and a rejected object, and
//! the output of `kubectl get` and `kubectl explain`.

use giveway_crds::{PodGroup, Workload};
use giveway_tests::World;
use giveway_tests::runner::Test;
use giveway_tests::tests;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Resource};
use serde_json::{Value, json};
use std::fmt::Debug;

/// The tests of this file.
pub fn tests() -> Vec<Test> {
    tests![
        own:
            the_schema_of_pod_groups_accepts_valid_specs_and_names_the_fault_of_others,
            immutable_fields_cannot_be_changed_and_other_fields_can,
            the_schema_of_workloads_accepts_valid_specs_and_names_the_fault_of_others,
            kubectl_prints_and_explains_groups_and_reapplying_the_crds_changes_nothing;
    ]
}

/// The expected answer of the API server: success, or a rejection that contains this text.
type Verdict = Result<(), &'static str>;

const ONE_OF: &str = "must specify one of: `basic`, `gang`";
const NOT_BOTH: &str = "exactly one of `basic`, `gang` is required, but multiple fields are set: remove one of them";
const CHOICE: &str = "the choice between `basic` and `gang` is immutable: create another group instead";
const WHOLE_BASIC: &str =
    "disruptionMode `PodGroup` cannot be used with schedulingPolicy `basic`: use `Pod`, or schedulingPolicy `gang`";

fn gang(more: Value) -> Value {
    let mut spec = json!({"schedulingPolicy": {"gang": {"minCount": 2}}});
    merge(&mut spec, more);
    spec
}

fn merge(into: &mut Value, more: Value) {
    if let (Value::Object(into), Value::Object(more)) = (into, more) {
        into.extend(more);
    }
}

/// Creates an object with `dryRun` and compares the answer with the expected one.
async fn try_create<K>(api: &Api<K>, case: &str, object: Value, verdict: Verdict)
where
    K: Resource<Scope = NamespaceResourceScope> + Clone + Debug + serde::de::DeserializeOwned,
{
    let url = format!("{}?dryRun=All&fieldValidation=Strict", api.resource_url());
    let request = http::Request::post(url).header("content-type", "application/json");
    let request = request.body(object.to_string().into_bytes()).unwrap();
    let answer = api.clone().into_client().request::<Value>(request).await;
    compare(case, answer.map(|_| ()), verdict);
}

/// Returns true if a message contains this text. Kubernetes 1.33 prints the type of an invalid value instead of the value.
fn contains_text(message: &str, text: &str) -> bool {
    let with_type = |type_: &&str| {
        let (path, rest) = text.split_once("Invalid value: ")?;
        let (_, rule) = rest.split_once(": ")?;
        message.contains(&format!("{path}Invalid value: \"{type_}\": {rule}")).then_some(())
    };
    message.contains(text) || ["integer", "string", "object"].iter().any(|type_| with_type(type_).is_some())
}

fn compare(case: &str, answer: Result<(), kube::Error>, verdict: Verdict) {
    match (answer, verdict) {
        (Ok(()), Ok(())) => {}
        (Err(kube::Error::Api(status)), Err(text)) => {
            assert!(contains_text(&status.message, text), "{case}: {text:?} is not in {:?}", status.message);
            assert_eq!(status.code, 422, "{case}: {}", status.message);
        }
        (answer, verdict) => panic!("{case}: expected {verdict:?}, got {answer:?}"),
    }
}

async fn the_schema_of_pod_groups_accepts_valid_specs_and_names_the_fault_of_others() {
    let world = World::bare().await;
    world.install_crds().await;
    let api: Api<PodGroup> = world.kit().api();
    let policy = |policy: Value| json!({"schedulingPolicy": policy});
    let cases: Vec<(&str, Value, Verdict)> = vec![
        ("a gang", gang(json!({})), Ok(())),
        ("a basic group", policy(json!({"basic": {}})), Ok(())),
        ("no policy", json!({}), Err("spec.schedulingPolicy: Required value")),
        ("an empty policy", policy(json!({})), Err(ONE_OF)),
        ("both policies", policy(json!({"basic": {}, "gang": {"minCount": 1}})), Err(NOT_BOTH)),
        ("minCount 1", policy(json!({"gang": {"minCount": 1}})), Ok(())),
        (
            "minCount 0",
            policy(json!({"gang": {"minCount": 0}})),
            Err("minCount in body should be greater than or equal to 1"),
        ),
        (
            "minCount -3",
            policy(json!({"gang": {"minCount": -3}})),
            Err("minCount in body should be greater than or equal to 1"),
        ),
        ("no minCount", policy(json!({"gang": {}})), Err("spec.schedulingPolicy.gang.minCount: Required value")),
        (
            "minCount above int32",
            policy(json!({"gang": {"minCount": 2_147_483_648_i64}})),
            Err("spec.schedulingPolicy.gang.minCount"),
        ),
        ("a whole gang", gang(json!({"disruptionMode": "PodGroup"})), Ok(())),
        ("a gang pod by pod", gang(json!({"disruptionMode": "Pod"})), Ok(())),
        ("an unknown mode", gang(json!({"disruptionMode": "Some"})), Err("Unsupported value: \"Some\"")),
        (
            "a whole basic group",
            json!({"schedulingPolicy": {"basic": {}}, "disruptionMode": "PodGroup"}),
            Err(WHOLE_BASIC),
        ),
        ("a basic group pod by pod", json!({"schedulingPolicy": {"basic": {}}, "disruptionMode": "Pod"}), Ok(())),
        ("evictions for all members", gang(json!({"preemptFor": "AllMembers"})), Ok(())),
        ("evictions for minCount", gang(json!({"preemptFor": "MinCount"})), Ok(())),
        ("evictions for some", gang(json!({"preemptFor": "Some"})), Err("preemptFor: Unsupported value: \"Some\"")),
        ("null for an optional field", gang(json!({"priorityClassName": null, "schedulingConstraints": null})), Ok(())),
        (
            "evictions for all members of a basic group",
            json!({"schedulingPolicy": {"basic": {}}, "preemptFor": "AllMembers"}),
            Err("preemptFor cannot be used with schedulingPolicy `basic`"),
        ),
        ("a policy Never", gang(json!({"preemptionPolicy": "Never"})), Ok(())),
        ("an unknown policy", gang(json!({"preemptionPolicy": "Often"})), Err("Unsupported value: \"Often\"")),
        ("a delay of a day", gang(json!({"preemptionDelaySeconds": 86400})), Ok(())),
        ("no delay", gang(json!({"preemptionDelaySeconds": 0})), Ok(())),
        (
            "a delay of more than a day",
            gang(json!({"preemptionDelaySeconds": 86401})),
            Err("should be less than or equal to 86400"),
        ),
        ("a negative delay", gang(json!({"preemptionDelaySeconds": -1})), Err("should be greater than or equal to 0")),
        ("a class of 253 characters", gang(json!({"priorityClassName": "c".repeat(253)})), Ok(())),
        (
            "a class of 254 characters",
            gang(json!({"priorityClassName": "c".repeat(254)})),
            Err("spec.priorityClassName: Too long"),
        ),
        (
            "a template reference",
            gang(json!({"podGroupTemplateRef": {"workload": {"workloadName": "w", "podGroupTemplateName": "t"}}})),
            Ok(()),
        ),
        (
            "a template reference without a template",
            gang(json!({"podGroupTemplateRef": {"workload": {"workloadName": "w"}}})),
            Err("spec.podGroupTemplateRef.workload.podGroupTemplateName: Required value"),
        ),
        (
            "a template reference to an empty workload",
            gang(json!({"podGroupTemplateRef": {"workload": {"workloadName": "", "podGroupTemplateName": "t"}}})),
            Err("spec.podGroupTemplateRef.workload.workloadName"),
        ),
    ];
    for (case, spec, verdict) in cases {
        try_create(&api, case, object("PodGroup", "group", &spec), verdict).await;
    }
    for (case, more, verdict) in constraints() {
        try_create(&api, case, object("PodGroup", "group", &gang(more)), verdict).await;
    }
    let mut basic = policy(json!({"basic": {}}));
    merge(&mut basic, topology("rack"));
    try_create(&api, "a basic group in a domain", object("PodGroup", "group", &basic), Err(TOPOLOGY_BASIC)).await;
    let spec = gang(json!({}));
    try_create(&api, "a name of 63 characters", object("PodGroup", &"n".repeat(63), &spec), Ok(())).await;
    let long = "metadata.name: must be no more than 63 characters, because pods name their group in a label: use a shorter name";
    try_create(&api, "a name of 64 characters", object("PodGroup", &"n".repeat(64), &spec), Err(long)).await;
}

fn object(kind: &str, name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "scheduling.giveway.dev/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec})
}

/// Creates the object, patches it, and compares the answer to the patch with the expected one.
async fn try_change<K>(api: &Api<K>, kind: &str, number: usize, change: Change)
where
    K: Resource + Clone + Debug + serde::Serialize + serde::de::DeserializeOwned,
    K::DynamicType: Default,
{
    let (case, before, patch, verdict) = change;
    let name = format!("{}-{number}", kind.to_lowercase());
    let before: K = serde_json::from_value(object(kind, &name, &before)).unwrap();
    api.create(&PostParams::default(), &before).await.unwrap();
    let answer = api.patch(&name, &PatchParams::default(), &Patch::Merge(json!({"spec": patch}))).await;
    compare(case, answer.map(|_| ()), verdict);
}

type Change = (&'static str, Value, Value, Verdict);

async fn immutable_fields_cannot_be_changed_and_other_fields_can() {
    let world = World::bare().await;
    world.install_crds().await;
    let basic = json!({"schedulingPolicy": {"basic": {}}});
    let reference =
        |name: &str| json!({"podGroupTemplateRef": {"workload": {"workloadName": name, "podGroupTemplateName": "t"}}});
    let groups: Vec<Change> = vec![
        ("minCount", gang(json!({})), json!({"schedulingPolicy": {"gang": {"minCount": 5}}}), Ok(())),
        ("gang to basic", gang(json!({})), json!({"schedulingPolicy": {"gang": null, "basic": {}}}), Err(CHOICE)),
        ("basic to gang", basic, json!({"schedulingPolicy": {"basic": null, "gang": {"minCount": 1}}}), Err(CHOICE)),
        ("the mode", gang(json!({})), json!({"disruptionMode": "PodGroup"}), Err("disruptionMode: field is immutable")),
        ("the class", gang(json!({"priorityClassName": "a"})), json!({"priorityClassName": "b"}), Err(CLASS)),
        ("the class, removed", gang(json!({"priorityClassName": "a"})), json!({"priorityClassName": null}), Err(CLASS)),
        (
            "a class where there is a priority already",
            gang(json!({"priority": 5})),
            json!({"priorityClassName": "a"}),
            Err(CLASS),
        ),
        ("the class, filled in", gang(json!({})), json!({"priorityClassName": "a", "priority": 7}), Ok(())),
        ("the priority", gang(json!({"priority": 5})), json!({"priority": 6}), Err("priority: field is immutable")),
        (
            "the priority, removed",
            gang(json!({"priority": 5})),
            json!({"priority": null}),
            Err("priority: field is immutable"),
        ),
        ("the priority, filled in", gang(json!({})), json!({"priority": 6}), Ok(())),
        (
            "the preemption policy",
            gang(json!({"preemptionPolicy": "Never"})),
            json!({"preemptionPolicy": "PreemptLowerPriority"}),
            Err("preemptionPolicy: field is immutable"),
        ),
        ("the preemption policy, filled in", gang(json!({})), json!({"preemptionPolicy": "Never"}), Ok(())),
        ("evictions for more", gang(json!({})), json!({"preemptFor": "AllMembers"}), Ok(())),
        ("evictions for fewer", gang(json!({"preemptFor": "AllMembers"})), json!({"preemptFor": null}), Ok(())),
        ("the delay", gang(json!({"preemptionDelaySeconds": 1})), json!({"preemptionDelaySeconds": 2}), Ok(())),
        ("the template reference", gang(reference("a")), reference("b"), Err(REFERENCE)),
        ("the template reference, removed", gang(reference("a")), json!({"podGroupTemplateRef": null}), Err(REFERENCE)),
        ("the template reference, added", gang(json!({})), reference("a"), Err(REFERENCE)),
        ("the same template reference", gang(reference("a")), reference("a"), Ok(())),
    ];
    let api: Api<PodGroup> = world.kit().api();
    for (number, change) in groups.into_iter().chain(constraint_changes(gang)).enumerate() {
        try_change(&api, "PodGroup", number, change).await;
    }

    let one = |more: Value| {
        let mut template = json!({"name": "t", "schedulingPolicy": {"gang": {"minCount": 2}}});
        merge(&mut template, more);
        json!({"podGroupTemplates": [template]})
    };
    let owner = |name: &str| json!({"controllerRef": {"apiGroup": "batch", "kind": "Job", "name": name}});
    let owned = |name: &str| {
        let mut spec = one(json!({}));
        merge(&mut spec, owner(name));
        spec
    };
    let first = json!({"name": "t", "schedulingPolicy": {"gang": {"minCount": 2}}});
    let second = json!({"name": "u", "schedulingPolicy": {"basic": {}}});
    let two = json!({"podGroupTemplates": [&first, &second]});
    let workloads: Vec<Change> = vec![
        ("minCount", one(json!({})), one(json!({"schedulingPolicy": {"gang": {"minCount": 3}}})), Ok(())),
        ("the choice", one(json!({})), one(json!({"schedulingPolicy": {"basic": {}}})), Err(CHOICE)),
        (
            "the mode",
            one(json!({})),
            one(json!({"disruptionMode": "PodGroup"})),
            Err("disruptionMode: field is immutable"),
        ),
        ("evictions for more", one(json!({})), one(json!({"preemptFor": "AllMembers"})), Ok(())),
        ("the class", one(json!({"priorityClassName": "a"})), one(json!({"priorityClassName": "b"})), Err(CLASS)),
        ("the class, filled in", one(json!({})), one(json!({"priorityClassName": "b"})), Ok(())),
        ("the priority", one(json!({"priority": 1})), one(json!({"priority": 2})), Err("priority: field is immutable")),
        ("the priority, filled in", one(json!({})), one(json!({"priority": 2})), Ok(())),
        ("one more template", one(json!({})), two.clone(), Ok(())),
        ("the templates in another order", two.clone(), json!({"podGroupTemplates": [&second, &first]}), Ok(())),
        ("one template less", two.clone(), one(json!({})), Err(TEMPLATES)),
        ("no template", two, json!({"podGroupTemplates": []}), Err(TEMPLATES)),
        ("another name of a template", one(json!({})), json!({"podGroupTemplates": [second]}), Err(TEMPLATES)),
        ("the owner", owned("a"), owner("b"), Err("controllerRef: field is immutable")),
        ("the owner, removed", owned("a"), json!({"controllerRef": null}), Err("controllerRef: field is immutable")),
        ("the owner, added", one(json!({})), owner("a"), Err("controllerRef: field is immutable")),
    ];
    let api: Api<Workload> = world.kit().api();
    for (number, change) in workloads.into_iter().chain(constraint_changes(one)).enumerate() {
        try_change(&api, "Workload", number, change).await;
    }
}

const TOPOLOGY: &str = "schedulingConstraints: field is immutable: create another ";
const TOPOLOGY_BASIC: &str = "schedulingConstraints.topology cannot be used with schedulingPolicy `basic`, whose pods are not gated: use schedulingPolicy `gang`";
const LABEL_KEY: &str = "must be the key of a node label, such as topology.kubernetes.io/zone: a name of at most 63";

/// Returns a topology constraint with this label key.
fn topology(key: &str) -> Value {
    json!({"schedulingConstraints": {"topology": [{"key": key}]}})
}

/// Returns topology constraints with the expected answer of the API server.
fn constraints() -> Vec<(&'static str, Value, Verdict)> {
    vec![
        ("a domain", topology("example.com/rack"), Ok(())),
        ("a domain without a prefix", topology("rack"), Ok(())),
        ("no domain", json!({"schedulingConstraints": {"topology": []}}), Ok(())),
        ("no constraint", json!({"schedulingConstraints": {}}), Ok(())),
        (
            "two domains",
            json!({"schedulingConstraints": {"topology": [{"key": "rack"}, {"key": "zone"}]}}),
            Err("schedulingConstraints.topology: Too many: 2: must have at most 1 item"),
        ),
        (
            "no key",
            json!({"schedulingConstraints": {"topology": [{}]}}),
            Err("schedulingConstraints.topology[0].key: Required value"),
        ),
        ("an empty key", topology(""), Err(LABEL_KEY)),
        (
            "a key with a space",
            topology("my rack"),
            Err("schedulingConstraints.topology[0].key: Invalid value: \"my rack\": must be"),
        ),
        ("a key with two slashes", topology("a/b/c"), Err(LABEL_KEY)),
        ("a key with a prefix in capitals", topology("Example.com/rack"), Err(LABEL_KEY)),
        ("a key that ends in a dot", topology("rack."), Err(LABEL_KEY)),
        ("a name of 63 characters", topology(&"n".repeat(63)), Ok(())),
        ("a name of 64 characters", topology(&"n".repeat(64)), Err(LABEL_KEY)),
        ("a prefix of 253 characters", topology(&format!("{}/rack", "p".repeat(253))), Ok(())),
        ("a prefix of 254 characters", topology(&format!("{}/rack", "p".repeat(254))), Err(LABEL_KEY)),
        ("a key of 318 characters", topology(&"k".repeat(318)), Err("schedulingConstraints.topology[0].key: Too long")),
    ]
}

/// Returns changes of the topology constraint of an object; `with` puts a constraint into the spec or its template.
fn constraint_changes(with: impl Fn(Value) -> Value) -> Vec<Change> {
    let none = json!({"schedulingConstraints": null});
    vec![
        ("the domain", with(topology("rack")), with(topology("zone")), Err(TOPOLOGY)),
        ("the domain, added", with(json!({})), with(topology("rack")), Err(TOPOLOGY)),
        ("the domain, removed", with(topology("rack")), with(none), Err(TOPOLOGY)),
        ("the same domain", with(topology("rack")), with(topology("rack")), Ok(())),
    ]
}

const CLASS: &str = "priorityClassName: field is immutable";
const TEMPLATES: &str = "podGroupTemplates: templates cannot be removed: keep them all, or create another Workload";
const REFERENCE: &str = "podGroupTemplateRef: field is immutable";

async fn the_schema_of_workloads_accepts_valid_specs_and_names_the_fault_of_others() {
    let world = World::bare().await;
    world.install_crds().await;
    let api: Api<Workload> = world.kit().api();
    let named = |name: &str| json!({"name": name, "schedulingPolicy": {"basic": {}}});
    let many = |count: usize| (0..count).map(|index| named(&format!("t{index}"))).collect::<Vec<Value>>();
    let templates = |templates: Value| json!({"podGroupTemplates": templates});
    let with = |more: Value| {
        let mut template = json!({"name": "t", "schedulingPolicy": {"gang": {"minCount": 2}}});
        merge(&mut template, more);
        json!({"podGroupTemplates": [template]})
    };
    let owner = |owner: Value| {
        let mut spec = with(json!({}));
        merge(&mut spec, json!({"controllerRef": owner}));
        spec
    };
    let cases: Vec<(&str, Value, Verdict)> = vec![
        ("eight templates", templates(json!(many(8))), Ok(())),
        ("nine templates", templates(json!(many(9))), Err("spec.podGroupTemplates: Too many: 9: must have at most 8")),
        ("no templates", json!({}), Err("spec.podGroupTemplates: Required value")),
        ("the same name twice", templates(json!([named("a"), named("a")])), Err("Duplicate value")),
        ("a name that is no label", templates(json!([named("A_b")])), Err("spec.podGroupTemplates[0].name")),
        ("a name of 63 characters", templates(json!([named(&"n".repeat(63))])), Ok(())),
        (
            "a name of 64 characters",
            templates(json!([named(&"n".repeat(64))])),
            Err("Too long: may not be more than 63"),
        ),
        ("an empty name", templates(json!([named("")])), Err("spec.podGroupTemplates[0].name")),
        ("a gang", with(json!({})), Ok(())),
        ("no policy", templates(json!([{"name": "t"}])), Err("podGroupTemplates[0].schedulingPolicy: Required value")),
        ("an empty policy", with(json!({"schedulingPolicy": {}})), Err(ONE_OF)),
        ("both policies", with(json!({"schedulingPolicy": {"basic": {}, "gang": {"minCount": 1}}})), Err(NOT_BOTH)),
        (
            "minCount 0",
            with(json!({"schedulingPolicy": {"gang": {"minCount": 0}}})),
            Err("minCount in body should be greater than or equal to 1"),
        ),
        ("a whole gang", with(json!({"disruptionMode": "PodGroup"})), Ok(())),
        (
            "a whole basic template",
            with(json!({"schedulingPolicy": {"basic": {}}, "disruptionMode": "PodGroup"})),
            Err(WHOLE_BASIC),
        ),
        ("an owner", owner(json!({"apiGroup": "batch", "kind": "Job", "name": "j"})), Ok(())),
        ("an owner of the core group", owner(json!({"kind": "Pod", "name": "p"})), Ok(())),
        ("an owner without a name", owner(json!({"kind": "Pod"})), Err("spec.controllerRef.name: Required value")),
        ("an owner without a kind", owner(json!({"name": "p"})), Err("spec.controllerRef.kind: Required value")),
    ];
    for (case, spec, verdict) in cases {
        try_create(&api, case, object("Workload", "workload", &spec), verdict).await;
    }
    for (case, more, verdict) in constraints() {
        try_create(&api, case, object("Workload", "workload", &with(more)), verdict).await;
    }
    let mut basic = named("t");
    merge(&mut basic, topology("rack"));
    let basic = templates(json!([basic]));
    try_create(&api, "a basic template in a domain", object("Workload", "workload", &basic), Err(TOPOLOGY_BASIC)).await;
}

async fn kubectl_prints_and_explains_groups_and_reapplying_the_crds_changes_nothing() {
    let world = World::bare().await;
    world.install_crds().await;
    let again = world.kubectl(&["apply", "-f", "crds/"]).await.unwrap();
    assert_eq!(again.matches("unchanged").count(), 3, "{again}");

    let api: Api<PodGroup> = world.kit().api();
    let spec = gang(json!({"priority": 1000, "disruptionMode": "PodGroup"}));
    let group: PodGroup = serde_json::from_value(object("PodGroup", "train", &spec)).unwrap();
    api.create(&PostParams::default(), &group).await.unwrap();
    let defaulted: PodGroup = serde_json::from_value(object("PodGroup", "other", &gang(json!({})))).unwrap();
    api.create(&PostParams::default(), &defaulted).await.unwrap();
    let status = json!({"status": {
        "observedGeneration": 1,
        "pods": {"total": 2, "gated": 1, "scheduled": 1, "ready": 0, "succeeded": 0, "failed": 0},
        "preemptedBy": {"kind": "PodGroup", "namespace": "default", "name": "other", "uid": "u"},
        "conditions": [{
            "type": "Scheduled", "status": "False", "reason": "WaitingForPreemption",
            "message": "Waiting.", "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1
        }],
        "preemption": {
            "name": "p-1", "state": "Evicting", "victims": 3, "message": "3 pods are evicted."
        }
    }});
    api.patch_status("train", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();

    let rows = |text: &str| -> Vec<Vec<String>> {
        text.lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
    };
    let plain = rows(&world.kubectl(&["get", "gpg"]).await.unwrap());
    assert_eq!(plain[0], ["NAME", "MODE", "MIN", "SCHEDULED", "PODS", "PRIORITY", "STATUS", "AGE"]);
    assert_eq!(plain[1][..3], ["other", "Pod", "2"], "the mode is defaulted");
    assert_eq!(plain[2][..7], ["train", "PodGroup", "2", "1", "2", "1000", "WaitingForPreemption"]);
    let wide = rows(&world.kubectl(&["get", "gpg", "train", "-o", "wide"]).await.unwrap());
    assert_eq!(wide[0][7..], ["AGE", "PLAN", "VICTIMS", "PREEMPTED-BY"]);
    assert_eq!(wide[1][8..], ["Evicting", "3", "other"]);
    let category = world.kubectl(&["get", "giveway"]).await.unwrap();
    assert!(category.contains("podgroup.scheduling.giveway.dev/train"), "{category}");
    assert_eq!(world.kubectl(&["get", "gwl"]).await.unwrap(), "");

    let explained = world.kubectl(&["explain", "gpg.spec"]).await.unwrap();
    for field in
        ["schedulingPolicy", "schedulingConstraints", "disruptionMode", "priorityClassName", "preemptionDelaySeconds"]
    {
        assert!(explained.contains(field), "{field} is missing in:\n{explained}");
    }
    for word in ["exactly one of `basic: {}`", "Immutable.", "-required-", "enum: Pod, PodGroup"] {
        assert!(explained.contains(word), "{word} is missing in:\n{explained}");
    }
    let policy = world.kubectl(&["explain", "gwl.spec.podGroupTemplates.schedulingPolicy.gang"]).await.unwrap();
    assert!(policy.contains("How many pods must fit before any of them starts"), "{policy}");
}
