//! The chart: what it renders is accepted, the same every time, and it refuses what would not be safe.

use crate::MINUTE;
use giveway_crds::keys;
use giveway_tests::paths;
use giveway_tests::wait::wait_for;
use giveway_tests::world::World;
use serde_json::{Value, json};
use std::process::Output;
use tokio::process::Command;

/// `helm template` into a namespace, with these values.
async fn render(namespace: &str, values: &[&str]) -> Output {
    let chart = paths::repository().join("helm").display().to_string();
    let mut args = vec!["template", "giveway", &chart, "--namespace", namespace];
    for value in values {
        args.extend(["--set", value]);
    }
    Command::new(paths::control_plane_program("helm").unwrap()).args(args).output().await.unwrap()
}

async fn rendered(values: &[&str]) -> String {
    let output = render("giveway-system", values).await;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The rendered document that has this kind and this name.
fn document<'a>(manifests: &'a str, kind: &str, name: &str) -> &'a str {
    let of_kind = format!("\nkind: {kind}\n");
    let named = [format!("\n  name: {name}\n"), format!("\n  name: \"{name}\"\n")];
    let is_it = |document: &&str| document.contains(&of_kind) && named.iter().any(|name| document.contains(name));
    let found = manifests.split("\n---\n").find(is_it);
    found.unwrap_or_else(|| panic!("no {kind} {name} in:\n{manifests}"))
}

/// The same, read.
fn object(manifests: &str, kind: &str, name: &str) -> Value {
    serde_yaml_ng::from_str(document(manifests, kind, name)).unwrap()
}

async fn refused(namespace: &str, values: &[&str], words: &str) {
    let output = render(namespace, values).await;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains(words), "{values:?} in {namespace}: {said}");
}

#[tokio::test]
async fn the_chart_refuses_what_would_not_be_safe_and_says_what_to_do() {
    for namespace in ["default", "kube-system"] {
        let words = format!(
            "Giveway needs a namespace of its own, not {namespace}: admission leaves its namespace alone, and whoever may create pods there can act as its operator. Install it with --namespace giveway-system --create-namespace"
        );
        refused(namespace, &[], &words).await;
    }
    let one = "guard.failurePolicy: Fail needs webhook.replicas of 2 or more, not 1: while the only one is away, no pod of a guarded class could be preempted. Raise webhook.replicas, or set guard.failurePolicy: Ignore";
    refused("giveway-system", &["guard.failurePolicy=Fail", "webhook.replicas=1"], one).await;
    rendered(&["guard.failurePolicy=Fail", "webhook.replicas=2"]).await;
    rendered(&["guard.failurePolicy=Fail", "webhook.replicas=1", "guard.enabled=false"]).await;
    rendered(&["webhook.replicas=1"]).await;
    refused("giveway-system", &["guard.timeoutSeconds=20"], "at least 5 seconds below guard.timeoutSeconds").await;
    refused("giveway-system", &["networkPolicy.apiServers={10.0.0.1}"], "apiServers").await;
    refused("giveway-system", &["operator.preemptionHistory=a week"], "preemptionHistory").await;
    for (values, words) in [
        (
            &["webhook.port=9090"][..],
            "webhook.port and webhook.metricsPort are both 9090: one of them needs another port",
        ),
        (
            &["operator.hostNetwork=true", "webhook.hostNetwork=true", "operator.metricsPort=9443"],
            "operator.metricsPort is 9443, as a port of the webhook is, and both have hostNetwork: on a node that has both, one of them would not start",
        ),
        (
            &["webhook.replicas=0"],
            "webhook.replicas must be 1 or more, not 0: without it gangs are held for ever, or refused. To run it outside the cluster, set deployments.enabled: false and webhook.url",
        ),
        (&["operator.replicas=0"], "operator.replicas must be 1 or more, not 0"),
        (
            &["operator.podLabels.app\\.kubernetes\\.io/name=mine"],
            "operator.podLabels: app.kubernetes.io/name is the chart's own label, by which Services and budgets find the pods",
        ),
        (
            &["priorityClassQuota.enabled=true", "priorityClassQuota.pods=5"],
            "priorityClassQuota.pods must be 6 or more, not 5: both daemons with one more pod each while they are replaced, and a Job of the chart",
        ),
        (
            &["victims.protectedNamespaces={Billing}"],
            "'/victims/protectedNamespaces/0': 'Billing' does not match pattern",
        ),
        (
            &["traces.endpoint=https://collector/v1/traces"],
            "'/traces/endpoint': 'https://collector/v1/traces' does not match pattern",
        ),
        (&["webhook.timeoutSeconds=2"], "'/webhook/timeoutSeconds': minimum: got 2, want 3"),
        (&["operator.leaseDurationSeconds=3601"], "'/operator/leaseDurationSeconds': maximum: got 3,601, want 3,600"),
        (&["webhook.metricsPort=65536"], "'/webhook/metricsPort': maximum"),
        (&["image.digests.cli=sha256:12"], "'/image/digests/cli': 'sha256:12' does not match pattern"),
        (&["operator.extraArgs={debug}"], "'/operator/extraArgs/0': 'debug' does not match pattern"),
        (&["network.listenOn=::"], "'/network/listenOn': '::' does not match pattern"),
        (
            &["deployments.enabled=false"],
            "deployments.enabled: false needs webhook.url: without it API servers look for the webhook behind a Service, which is not made then, and no pod of a group could be created. Set webhook.url to where your webhook runs, such as https://10.0.0.5:9443",
        ),
        (
            &["deployments.enabled=false", "webhook.url=https://10.0.0.5:9443", "webhook.certManager.enabled=true"],
            "webhook.certManager.enabled: true needs deployments.enabled: true: without it the chart makes no Certificate, so nobody fills caBundle. Set webhook.certManager.enabled: false, and webhook.caBundle to the authority of your webhook's certificate",
        ),
        (
            &["webhook.url=https://10.0.0.5:9443", "webhook.certManager.enabled=true"],
            "webhook.url is https://10.0.0.5:9443, but with webhook.certManager.enabled the certificate is for giveway-webhook.giveway-system.svc: API servers would not accept it. Leave webhook.url empty, or set webhook.certManager.enabled: false",
        ),
        (
            &["namespaces.optIn=true", "namespaces.selector.matchLabels.scheduling\\.giveway\\.dev/enabled=no"],
            "namespaces.selector asks for the label scheduling.giveway.dev/enabled: \"no\", and namespaces.optIn for \"true\": no namespace has both. Leave the label out of namespaces.selector, or set namespaces.optIn: false",
        ),
        (
            &[
                "gangs.kinds={JobSet}",
                "gangs.namespaceSelector.matchLabels.team=a",
                "namespaces.selector.matchLabels.team=ml",
            ],
            "gangs.namespaceSelector asks for the label team: \"a\", and groups are served where it is \"ml\" only (namespaces.selector, namespaces.optIn): no namespace has both. Leave the label out of gangs.namespaceSelector, or give it the same value",
        ),
        (
            &[
                "namespaces.selector.matchExpressions[0].key=team",
                "namespaces.selector.matchExpressions[0].operator=In",
            ],
            "'/namespaces/selector/matchExpressions/0': missing property 'values'",
        ),
        (
            &[
                "gangs.namespaceSelector.matchExpressions[0].key=team",
                "gangs.namespaceSelector.matchExpressions[0].operator=NotIn",
            ],
            "'/gangs/namespaceSelector/matchExpressions/0': missing property 'values'",
        ),
        (
            &[
                "namespaces.selector.matchExpressions[0].key=team",
                "namespaces.selector.matchExpressions[0].operator=Exists",
                "namespaces.selector.matchExpressions[0].values={ml}",
            ],
            "'/namespaces/selector/matchExpressions/0/values': maxItems: got 1, want 0",
        ),
        (&["operator.nodeSelector.pool=1"], "'/operator/nodeSelector/pool': got number, want string"),
        (&["webhook.nodeSelector.pool=1"], "'/webhook/nodeSelector/pool': got number, want string"),
        (
            &["operator.extraEnv[0].name=A", "operator.extraEnv[0].value=1"],
            "'/operator/extraEnv/0/value': got number, want string",
        ),
        (&["operator.leaseName=a_b"], "'/operator/leaseName': 'a_b' does not match pattern"),
        (&["operator.leaseName=null"], "'/operator': missing property 'leaseName'"),
        (&["operator.schedulerNames=null"], "'/operator': missing property 'schedulerNames'"),
        (&["operator.schedulerNames[0]="], "'/operator/schedulerNames/0': minLength: got 0, want 1"),
        (
            &["metrics.prometheusRule.thresholds.certificateDays=null"],
            "'/metrics/prometheusRule/thresholds': missing property 'certificateDays'",
        ),
        (
            &["webhook.certManager.enabled=true", "webhook.certManager.issuerRef.kind=ClusterIssuer"],
            "'/webhook/certManager/issuerRef': missing property 'name'",
        ),
        (&["namespaces=null"], "missing property 'namespaces'"),
        (&["guard.schedulers={a'b}"], "'/guard/schedulers/0': 'a\\'b' does not match pattern"),
        (
            &["namespaces.selector.matchLabels.team=a'b"],
            "'/namespaces/selector/matchLabels/team': 'a\\'b' does not match pattern",
        ),
        (
            &["namespaces.selector.matchLabels.te'am=a"],
            "'/namespaces/selector/matchLabels': additional properties 'te\\'am' not allowed",
        ),
        (
            &[
                "namespaces.selector.matchExpressions[0].key=te'am",
                "namespaces.selector.matchExpressions[0].operator=Exists",
            ],
            "'/namespaces/selector/matchExpressions/0/key': 'te\\'am' does not match pattern",
        ),
        (
            &[
                "namespaces.selector.matchExpressions[0].key=team",
                "namespaces.selector.matchExpressions[0].operator=In",
                "namespaces.selector.matchExpressions[0].values={a'b}",
            ],
            "'/namespaces/selector/matchExpressions/0/values/0': 'a\\'b' does not match pattern",
        ),
        (&["network.listenOn=999.1.1.1"], "'/network/listenOn': '999.1.1.1' does not match pattern"),
        (
            &["networkPolicy.apiServers={10.0.0.1/99}"],
            "'/networkPolicy/apiServers/0': '10.0.0.1/99' does not match pattern",
        ),
        (
            &["networkPolicy.apiServers={10.0.0.256/8}"],
            "'/networkPolicy/apiServers/0': '10.0.0.256/8' does not match pattern",
        ),
        (
            &["networkPolicy.apiServers={fd00::1/129}"],
            "'/networkPolicy/apiServers/0': 'fd00::1/129' does not match pattern",
        ),
        (
            &["gangs.namespaceSelector.matchLabels.team=a"],
            "gangs.namespaceSelector says where gangs.kinds are made gangs, and gangs.kinds names none: name kinds in gangs.kinds, or leave gangs.namespaceSelector empty",
        ),
    ] {
        refused("giveway-system", values, words).await;
    }
    rendered(&["namespaces.selector=null", "gangs.namespaceSelector=null"]).await;
    rendered(&["operator.hostNetwork=true", "webhook.hostNetwork=true"]).await;
    rendered(&[
        "networkPolicy.apiServers={0.0.0.0/0,255.255.255.255/32,::/0,fd00::2/128}",
        "network.listenOn=127.0.0.1",
    ])
    .await;
    rendered(&["guard.schedulers={system:serviceaccount:a:b}"]).await;
    let outside = ["deployments.enabled=false", "webhook.url=https://10.0.0.5:9443"];
    rendered(&[&outside[..], &["operator.replicas=0", "webhook.replicas=0"]].concat()).await;
    // The name of the Service, for which cert-manager's certificate is.
    let name = "webhook.url=https://giveway-webhook.giveway-system.svc:443";
    rendered(&[name, "webhook.certManager.enabled=true"]).await;
}

/// Everything that people ask of a chart.
const ASKED: &[&str] = &[
    "image.digests.operator=sha256:6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b",
    "image.pullSecrets[0].name=registry",
    "victims.protectedNamespaces={kube-system,billing}",
    "traces.endpoint=http://otel-collector.monitoring:4318/v1/traces",
    "namespaces.optIn=true",
    "namespaces.selector.matchLabels.team=ml",
    "namespaces.selector.matchExpressions[0].key=stage",
    "namespaces.selector.matchExpressions[0].operator=NotIn",
    "namespaces.selector.matchExpressions[0].values={test,play}",
    "priorityClassQuota.enabled=true",
    "operator.podLabels.team=platform",
    "operator.podAnnotations.note=kept",
    "operator.extraArgs={--log-level=debug}",
    "operator.extraEnv[0].name=HTTPS_PROXY",
    "operator.extraEnv[0].value=http://proxy.example:3128",
    "victims.evictionsPerMinute.perNamespace=1000000",
    "victims.evictionsPerMinute.perCluster=0",
    "webhook.extraArgs={--log-level=debug}",
    "webhook.hostNetwork=true",
    "webhook.metricsPort=9190",
    "webhook.topologySpreadConstraints[0].maxSkew=1",
    "webhook.topologySpreadConstraints[0].topologyKey=topology.kubernetes.io/zone",
    "webhook.topologySpreadConstraints[0].whenUnsatisfiable=ScheduleAnyway",
];

/// The pod template of a Deployment.
fn template(manifests: &str, name: &str) -> Value {
    object(manifests, "Deployment", name)["spec"]["template"].clone()
}

#[tokio::test]
async fn pods_are_as_the_values_ask() {
    let manifests = rendered(ASKED).await;
    let operator = template(&manifests, "giveway-operator");
    assert_eq!(operator["metadata"]["labels"]["team"], "platform");
    assert_eq!(operator["metadata"]["labels"]["app.kubernetes.io/component"], "operator");
    assert_eq!(operator["metadata"]["annotations"], json!({"note": "kept"}));
    let container = &operator["spec"]["containers"][0];
    let image =
        "ghcr.io/giveway/giveway-operator@sha256:6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b";
    assert_eq!(container["image"], image);
    assert_eq!(container["env"], json!([{"name": "HTTPS_PROXY", "value": "http://proxy.example:3128"}]));
    assert_eq!(operator["spec"]["imagePullSecrets"], json!([{"name": "registry"}]));
    assert!(operator["spec"].get("hostNetwork").is_none(), "{operator:#}");
    let args: Vec<&str> = container["args"].as_array().unwrap().iter().filter_map(|arg| arg.as_str()).collect();
    let limits: Vec<&str> = args.into_iter().filter(|arg| arg.starts_with("--evictions-per-minute")).collect();
    let asked = ["--evictions-per-minute-per-namespace=1000000", "--evictions-per-minute-per-cluster=0"];
    assert_eq!(limits, asked);
    assert!(!rendered(&[]).await.contains("evictions-per-minute"), "no limit is the default");

    let webhook = template(&manifests, "giveway-webhook");
    assert_eq!(webhook["spec"]["hostNetwork"], true);
    assert_eq!(webhook["spec"]["dnsPolicy"], "ClusterFirstWithHostNet");
    let ports = &webhook["spec"]["containers"][0]["ports"];
    assert_eq!(ports[1], json!({"name": "metrics", "containerPort": 9190}));
    let counted = &webhook["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"];
    assert_eq!(counted["app.kubernetes.io/component"], "webhook");
    let quota = document(&manifests, "ResourceQuota", "giveway-priority");
    assert!(quota.contains("pods: \"20\"") && quota.contains("values: [\"system-cluster-critical\"]"), "{quota}");
    // The first is deleted with the chart, before the last Job has a pod.
    let last = object(&manifests, "ResourceQuota", "giveway-rest-priority");
    assert_eq!(last["metadata"]["annotations"]["helm.sh/hook"], "post-delete");
    assert_eq!(last["spec"], object(&manifests, "ResourceQuota", "giveway-priority")["spec"]);
    assert!(!rendered(&[]).await.contains("kind: ResourceQuota"));
}

#[tokio::test]
async fn the_pods_of_the_charts_jobs_are_as_the_operators() {
    let manifests = rendered(&[
        "criticalAddons.enabled=false",
        "image.pullSecrets[0].name=registry",
        "operator.podLabels.team=platform",
        "operator.podAnnotations.note=kept",
        "operator.resources.limits.memory=2Gi",
        "operator.nodeSelector.pool=system",
        "operator.tolerations[0].operator=Exists",
        "operator.hostNetwork=true",
        "operator.extraEnv[0].name=KUBERNETES_SERVICE_HOST",
        "operator.extraEnv[0].value=api.example",
    ])
    .await;
    let operator = template(&manifests, "giveway-operator");
    for name in ["giveway-test", "giveway-uninstall", "giveway-rest", "giveway-taints"] {
        let pod = &object(&manifests, "Job", name)["spec"]["template"];
        assert_eq!(pod["metadata"]["labels"]["team"], "platform", "{name}");
        assert_eq!(pod["metadata"]["annotations"], json!({"note": "kept"}), "{name}");
        let fields =
            ["nodeSelector", "tolerations", "imagePullSecrets", "priorityClassName", "hostNetwork", "dnsPolicy"];
        for field in fields {
            let given = &pod["spec"][field];
            assert!(!given.is_null() && *given == operator["spec"][field], "{name}: {field}: {given}");
        }
        let container = &pod["spec"]["containers"][0];
        assert_eq!(container["resources"]["limits"]["memory"], "2Gi", "{name}");
        assert_eq!(container["env"][0]["value"], "api.example", "{name}");
        for field in ["resources", "env"] {
            assert_eq!(container[field], operator["spec"]["containers"][0][field], "{name}");
        }
    }
}

/// The namespace of `helm test`.
const TEST: &str = "giveway-test-3252bef2";

#[tokio::test]
async fn helms_test_has_a_namespace_of_a_name_that_nobody_else_has() {
    let manifests = rendered(&[]).await;
    let namespace = object(&manifests, "Namespace", TEST);
    let when = &namespace["metadata"]["annotations"]["helm.sh/hook-delete-policy"];
    assert_eq!(when, "hook-succeeded,hook-failed");
    let other = String::from_utf8(render("other", &[]).await.stdout).unwrap();
    assert!(!other.contains(TEST) && other.contains("name: \"giveway-test-"), "each installation has its own");
}

/// The values that are something, and that a schema does not require.
fn holes(schema: &Value, values: &Value, path: &str, found: &mut Vec<String>) {
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    for (key, value) in values.as_object().into_iter().flatten() {
        let (inner, path) = (&schema["properties"][key], format!("{path}{key}"));
        let object = inner["properties"].is_object();
        let empty =
            matches!(value, Value::Null | Value::Bool(false)) || [json!(""), json!([]), json!({})].contains(value);
        if (object || (!empty && !value.is_object())) && !required.contains(&json!(key)) {
            found.push(path.clone());
        }
        if object {
            holes(inner, value, &format!("{path}."), found);
        }
    }
}

#[test]
fn a_value_that_the_chart_cannot_do_without_cannot_be_taken_away() {
    let read = |name: &str| std::fs::read_to_string(paths::repository().join("helm").join(name)).unwrap();
    let schema: Value = serde_json::from_str(&read("values.schema.json")).unwrap();
    let values: Value = serde_yaml_ng::from_str(&read("values.yaml")).unwrap();
    let mut found = Vec::new();
    holes(&schema, &values, "", &mut found);
    // Without these there is a default in the templates, or nothing is asked for.
    let may = [
        "guard.failurePolicy",
        "managedPriorityClasses",
        "mode",
        "operator.priorityClassName",
        "victims.evictionsPerMinute",
        "webhook.priorityClassName",
    ];
    found.sort();
    assert_eq!(found, may);
}

#[tokio::test]
async fn the_namespace_of_helms_test_is_one_that_is_served() {
    let labels = |manifests: &str| object(manifests, "Namespace", TEST)["metadata"]["labels"].clone();
    let usual = labels(&rendered(&[]).await);
    let selector = "namespaces.selector.matchExpressions";
    let asked = labels(
        &rendered(&[
            "namespaces.optIn=true",
            "namespaces.selector.matchLabels.team=ml",
            &format!("{selector}[0].key=stage"),
            &format!("{selector}[0].operator=NotIn"),
            &format!("{selector}[0].values={{test,play}}"),
            &format!("{selector}[1].key=stage"),
            &format!("{selector}[1].operator=In"),
            &format!("{selector}[1].values={{play,live}}"),
            &format!("{selector}[2].key=cost"),
            &format!("{selector}[2].operator=Exists"),
        ])
        .await,
    );
    // What a namespace is called is not its label to choose: helm's Job says that it tries no gang.
    let by_name = "namespaces.selector.matchLabels.kubernetes\\.io/metadata\\.name=billing";
    assert_eq!(labels(&rendered(&[by_name]).await), usual);
    let more = [("scheduling.giveway.dev/enabled", "true"), ("team", "ml"), ("stage", "live"), ("cost", "true")];
    let mut wanted = usual;
    more.iter().for_each(|(key, value)| wanted[key] = json!(value));
    assert_eq!(asked, wanted);
}

#[tokio::test]
async fn on_the_network_of_the_node_an_old_pod_goes_before_a_new_one_comes() {
    let strategy = |manifests: &str, name: &str| object(manifests, "Deployment", name)["spec"]["strategy"].clone();
    let host = rendered(&["operator.hostNetwork=true", "webhook.hostNetwork=true"]).await;
    let first = json!({"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}});
    assert_eq!(strategy(&host, "giveway-operator"), first);
    assert_eq!(strategy(&host, "giveway-webhook"), first);
    let usual = rendered(&[]).await;
    let later = json!({"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}});
    assert_eq!((strategy(&usual, "giveway-operator"), strategy(&usual, "giveway-webhook")), (Value::Null, later));
}

#[tokio::test]
async fn the_daemons_listen_on_the_address_that_the_values_name() {
    let ports = ["--metrics-address", "--address", "--metrics-address"];
    for (values, address) in [(&[][..], "0.0.0.0"), (&["network.listenOn=[::]"], "[::]")] {
        let manifests = rendered(values).await;
        let both = ["giveway-operator", "giveway-webhook"].map(|name| template(&manifests, name));
        let args = both.iter().flat_map(|pod| pod["spec"]["containers"][0]["args"].as_array().unwrap());
        let addresses: Vec<&str> = args.filter_map(Value::as_str).filter(|arg| arg.contains("address=")).collect();
        let wanted = ports.iter().zip([9091, 9443, 9090]).map(|(flag, port)| format!("{flag}={address}:{port}"));
        assert_eq!(addresses, wanted.collect::<Vec<_>>());
    }
}

/// The values of all fields of this name, however deep.
fn fields(value: &Value, name: &str) -> Vec<Value> {
    match value {
        Value::Object(map) => {
            let own = map.get(name).cloned();
            own.into_iter().chain(map.values().flat_map(|value| fields(value, name))).collect()
        }
        Value::Array(list) => list.iter().flat_map(|value| fields(value, name)).collect(),
        _ => Vec::new(),
    }
}

#[tokio::test]
async fn the_notes_and_a_role_know_where_giveway_is_and_by_which_lease_it_leads() {
    let chart = paths::repository().join("helm").display().to_string();
    let mut command = Command::new(paths::control_plane_program("helm").unwrap());
    command.args([
        "install",
        "giveway",
        &chart,
        "--dry-run=client",
        "--namespace",
        "gw",
        "--set",
        "operator.leaseName=mine",
    ]);
    let output = command.env("KUBECONFIG", "/nowhere").output().await.unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    for line in [
        "kubectl giveway check --giveway-namespace gw\n",
        "kubectl giveway adopt priorityclass NAME --giveway-namespace gw\n",
        "kubectl giveway release priorityclass NAME --giveway-namespace gw\n",
        "`kubectl giveway release --all --giveway-namespace gw`",
        "kubectl giveway uninstall --dry-run --giveway-namespace gw --lease-name mine.",
        "then kubectl giveway uninstall --giveway-namespace gw --lease-name mine.",
    ] {
        assert!(said.contains(line), "{line} is not in:\n{said}");
    }
    let role = rendered(&["operator.leaseName=mine"]).await;
    let role = document(&role, "Role", "giveway-switch");
    assert!(role.contains("resources: [leases]\n    resourceNames: [\"mine\"]\n"), "{role}");
}

#[tokio::test]
async fn cert_managers_authority_outlives_what_it_signs_and_an_issuer_of_the_users_needs_none() {
    let own = rendered(&["webhook.certManager.enabled=true"]).await;
    let authority = document(&own, "Certificate", "giveway-webhook-authority");
    for line in
        ["isCA: true", "duration: 87600h", "secretName: giveway-webhook-authority", "name: giveway-webhook-self-signed"]
    {
        assert!(authority.contains(line), "{line} is not in:\n{authority}");
    }
    assert!(document(&own, "Issuer", "giveway-webhook-self-signed").contains("selfSigned: {}"));
    assert!(document(&own, "Issuer", "giveway-webhook").contains("secretName: giveway-webhook-authority"));
    assert!(document(&own, "Certificate", "giveway-webhook").contains("name: giveway-webhook\n"));
    let theirs = rendered(&["webhook.certManager.enabled=true", "webhook.certManager.issuerRef.name=corporate"]).await;
    assert!(!theirs.contains("giveway-webhook-authority") && !theirs.contains("kind: Issuer\nmetadata"), "{theirs}");
}

#[tokio::test]
async fn a_namespace_that_looks_like_a_number_stays_a_name() {
    for values in [&["criticalAddons.schedulerLease=123/kube-scheduler"][..], &["webhook.certManager.enabled=true"]] {
        let output = render("123", values).await;
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let manifests = String::from_utf8(output.stdout).unwrap();
        let objects: Vec<Value> =
            manifests.split("\n---\n").map(|document| serde_yaml_ng::from_str(document).unwrap()).collect();
        let namespaces: Vec<Value> = objects.iter().flat_map(|object| fields(object, "namespace")).collect();
        assert!(namespaces.contains(&json!("123")) && !namespaces.iter().any(Value::is_number), "{namespaces:?}");
    }
}

#[tokio::test]
async fn the_daemons_take_the_arguments_that_the_chart_renders() {
    let certificate =
        ["webhook.certManager.enabled=true", "criticalAddons.stranded=true", "names.acrossNamespaces=true"];
    for values in [&[], ASKED, &certificate, &["network.listenOn=[::]"]] {
        let manifests = rendered(values).await;
        for daemon in ["giveway-operator", "giveway-webhook"] {
            let template = template(&manifests, daemon);
            let args = template["spec"]["containers"][0]["args"].as_array().unwrap();
            let args = args.iter().map(|arg| arg.as_str().unwrap());
            let mut command = Command::new(paths::giveway_program(daemon).unwrap());
            let output = command.args(args).env_clear().env("KUBECONFIG", "/nowhere").output().await.unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            // An argument that is not known ends a daemon with 2, before it looks for an API server.
            assert_eq!(output.status.code(), Some(1), "{values:?}: {daemon}: {said}");
            assert!(said.contains("no API server"), "{daemon}: {said}");
        }
    }
}

#[tokio::test]
async fn the_daemons_ports_are_open_to_whom_the_values_name() {
    let open = rendered(&[]).await;
    let webhook = document(&open, "NetworkPolicy", "giveway-webhook");
    assert!(webhook.contains("port: https") && webhook.contains("port: metrics"), "{webhook}");
    assert!(!webhook.contains("from:"), "{webhook}");
    let operator = document(&open, "NetworkPolicy", "giveway-operator");
    assert!(operator.contains("port: metrics") && !operator.contains("port: https"), "{operator}");

    let values =
        ["networkPolicy.apiServers={10.0.0.2/32,fd00::2/128}", "networkPolicy.metricsFrom[0].ipBlock.cidr=10.0.0.0/16"];
    let named = rendered(&values).await;
    let webhook = document(&named, "NetworkPolicy", "giveway-webhook");
    let (admission, metrics) = webhook.split_once("# Metrics and probes.").unwrap();
    assert!(admission.contains("cidr: 10.0.0.2/32") && admission.contains("cidr: fd00::2/128"), "{webhook}");
    assert!(metrics.contains("cidr: 10.0.0.0/16") && !metrics.contains("10.0.0.2"), "{webhook}");
    assert!(!rendered(&["networkPolicy.enabled=false"]).await.contains("kind: NetworkPolicy"));
}

#[tokio::test]
async fn every_label_and_annotation_of_pods_is_in_the_policies_and_in_the_entry_that_fails_closed() {
    let manifests = rendered(&[]).await;
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

#[tokio::test]
async fn owners_of_gangs_are_read_one_by_one_and_kinds_are_switched_on_by_name() {
    let usual = rendered(&[]).await;
    let operator = document(&usual, "ClusterRole", "giveway-operator");
    for row in giveway_crds::kinds::KINDS {
        let rule = format!("apiGroups: [{}]\n    resources: [{}]\n    verbs: [get]\n", row.group, row.plural);
        assert_eq!(operator.contains(&rule), row.has_groups(), "{}", row.kind);
    }
    assert!(!usual.contains("kinds.owners.giveway.dev"), "no kind is switched on");
    let switched = rendered(&["gangs.kinds={JobSet}", "gangs.namespaceSelector.matchLabels.team=a"]).await;
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
    ])
    .await;
    let webhooks = object(&both, "MutatingWebhookConfiguration", "giveway");
    let mut webhooks = webhooks["webhooks"].as_array().unwrap().iter();
    let selector = &webhooks.find(|entry| entry["name"] == "kinds.owners.giveway.dev").unwrap()["namespaceSelector"];
    assert_eq!(selector["matchLabels"], json!({"team": "ml"}));
    assert_eq!(selector["matchExpressions"][1], json!({"key": "team", "operator": "NotIn", "values": ["play"]}));
    let words = "gangs.kinds: DaemonSet is no kind that Giveway knows: docs/kinds.md lists them";
    refused("giveway-system", &["gangs.kinds={DaemonSet}"], words).await;
    let flagged = rendered(&["jobs.defaultPodFailurePolicy=true"]).await;
    assert!(document(&flagged, "Deployment", "giveway-webhook").contains("--default-pod-failure-policy"));
    assert!(!document(&usual, "Deployment", "giveway-webhook").contains("--default-pod-failure-policy"));
}

#[tokio::test]
async fn critical_add_ons_are_flags_rights_and_policies_of_which_nothing_is_left_when_they_are_switched_off() {
    let usual = rendered(&[]).await;
    let operator = document(&usual, "Deployment", "giveway-operator");
    for flag in [
        "--critical-addons=true",
        "--critical-addons-after=30s",
        "--critical-addons-namespaces=kube-system",
        "--scheduler-lease=kube-system/kube-scheduler",
    ] {
        assert!(operator.contains(&format!("            - {flag}\n")), "{flag} is not in:\n{operator}");
    }
    assert!(!operator.contains("--critical-addons-stranded"), "{operator}");
    let on_nodes = "resources: [nodes]\n    verbs: [get, patch]\n";
    assert!(document(&usual, "ClusterRole", "giveway-operator").contains(on_nodes));
    let lease = document(&usual, "Role", "giveway-operator-scheduler-lease");
    assert!(lease.contains("namespace: \"kube-system\"\n"), "{lease}");
    assert!(lease.contains("resourceNames: [\"kube-scheduler\"]\n    verbs: [get]\n"), "{lease}");
    document(&usual, "RoleBinding", "giveway-operator-scheduler-lease");
    let hook = document(&usual, "Job", "giveway-rest");
    assert!(hook.contains("helm.sh/hook: post-delete\n"), "{hook}");

    let other = rendered(&[
        "criticalAddons.after=2m",
        "criticalAddons.namespaces={kube-system,monitoring}",
        "criticalAddons.stranded=true",
        "criticalAddons.schedulerLease=control/my.scheduler",
    ])
    .await;
    let operator = document(&other, "Deployment", "giveway-operator");
    for flag in [
        "--critical-addons-after=2m",
        "--critical-addons-namespaces=kube-system,monitoring",
        "--critical-addons-stranded",
        "--scheduler-lease=control/my.scheduler",
    ] {
        assert!(operator.contains(&format!("            - {flag}\n")), "{flag} is not in:\n{operator}");
    }
    let lease = document(&other, "Role", "giveway-operator-scheduler-lease");
    assert!(lease.contains("namespace: \"control\"\n") && lease.contains("[\"my.scheduler\"]"), "{lease}");

    let off = rendered(&["criticalAddons.enabled=false"]).await;
    let operator = document(&off, "Deployment", "giveway-operator");
    assert!(operator.contains("            - --critical-addons=false\n"), "{operator}");
    assert!(!operator.contains("--critical-addons-") && !operator.contains("--scheduler-lease"), "{operator}");
    assert!(!document(&off, "ClusterRole", "giveway-operator").contains(on_nodes));
    for name in ["giveway-operator-scheduler-lease", "giveway-nodes", "giveway-critical-pods"] {
        assert!(usual.contains(&format!("name: {name}\n")) && !off.contains(&format!("name: {name}\n")), "{name}");
    }
    // A tenant's annotation is refused all the same, and what was tainted before is removed.
    document(&off, "ValidatingAdmissionPolicy", "giveway-critical-addons");
    let hook = document(&off, "Job", "giveway-taints");
    assert!(hook.contains("helm.sh/hook: post-upgrade,post-rollback\n"), "{hook}");

    for (value, words) in [
        ("criticalAddons.after=soon", "after"),
        ("criticalAddons.enabled=maybe", "enabled"),
        ("criticalAddons.namespaces={}", "namespaces"),
        ("criticalAddons.namespaces={Kube_System}", "namespaces"),
        ("criticalAddons.schedulerLease=kube-scheduler", "schedulerLease"),
        ("criticalAddons.afterwards=30s", "afterwards"),
    ] {
        refused("giveway-system", &[value], words).await;
    }
}

#[tokio::test]
async fn autoscalers_are_asked_by_flags_and_rights_of_which_there_are_none_by_default() {
    let rights = ["resources: [pods]\n    verbs: [create]\n", "provisioningrequests", "podtemplates"];
    let usual = rendered(&[]).await;
    let role = document(&usual, "ClusterRole", "giveway-operator");
    assert!(!usual.contains("--provisioning-") && rights.iter().all(|right| !role.contains(right)), "{role}");
    for (method, flag, given) in
        [("Placeholder", "placeholder", &rights[..1]), ("ProvisioningRequest", "provisioning-request", &rights[1..])]
    {
        let values = [format!("provisioning.method={method}"), "provisioning.first=true".to_owned()];
        let manifests = rendered(&values.each_ref().map(String::as_str)).await;
        let role = document(&manifests, "ClusterRole", "giveway-operator");
        for right in rights {
            assert_eq!(role.contains(right), given.contains(&right), "{method}: {right}");
        }
        let operator = document(&manifests, "Deployment", "giveway-operator");
        let by = format!("--provisioning-method={flag}");
        let image = "--placeholder-image=registry.k8s.io/pause:3.10";
        for flag in [by.as_str(), "--provisioning-after=30s", "--provisioning-first", "--provisioning-limit=256", image]
        {
            assert!(operator.contains(&format!("            - {flag}\n")), "{flag} is not in:\n{operator}");
        }
    }
    refused("giveway-system", &["provisioning.method=Karpenter"], "/provisioning/method").await;
}

#[tokio::test]
async fn names_of_other_namespaces_and_the_history_are_flags_of_the_operator() {
    let usual = rendered(&[]).await;
    let operator = document(&usual, "Deployment", "giveway-operator");
    assert!(operator.contains("--preemption-history=168h") && operator.contains("--preemption-history-limit=1000"));
    assert!(!operator.contains("--names-across-namespaces"), "{operator}");
    let values = ["names.acrossNamespaces=true", "operator.preemptionHistory=24h", "operator.preemptionHistoryLimit=7"];
    let other = rendered(&values).await;
    let operator = document(&other, "Deployment", "giveway-operator");
    for flag in ["--names-across-namespaces", "--preemption-history=24h", "--preemption-history-limit=7"] {
        assert!(operator.contains(flag), "{flag} is not in:\n{operator}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_api_server_accepts_everything_and_finds_no_fault_with_the_policies() {
    let mut world = World::bare().await;
    world.install_crds().await;
    // The second is that of `helm test`, which is made only meanwhile.
    for namespace in ["giveway-system", TEST] {
        world.kubectl(&["create", "namespace", namespace]).await.unwrap();
    }
    let asked = world.plane().directory().join("asked.yaml");
    std::fs::write(&asked, rendered(ASKED).await).unwrap();
    world.kubectl(&["apply", "--dry-run=server", "-f", &asked.display().to_string()]).await.unwrap();
    world
        .apply(&rendered(&["guard.failurePolicy=Fail", "networkPolicy.apiServers={10.0.0.2/32}"]).await)
        .await
        .unwrap();
    // kube-controller-manager checks the types of all expressions.
    let path = "jsonpath={range .items[*]}{.metadata.name} {.metadata.generation} {.status.observedGeneration} {.status.typeChecking}{\"\\n\"}{end}";
    let policies = wait_for("the policies are checked", MINUTE, async || {
        let policies = world.kubectl(&["get", "validatingadmissionpolicies", "-o", path]).await?;
        let checked = |line: &str| line.split(' ').nth(1) == line.split(' ').nth(2);
        if policies.lines().all(checked) { Ok(policies) } else { Err(policies) }
    })
    .await;
    let named = |name: &str| policies.lines().any(|line| line.split(' ').next() == Some(name));
    for part in [
        "bindings",
        "critical-addons",
        "critical-pods",
        "namespaces",
        "nodes",
        "operator",
        "placeholders",
        "pod-groups",
        "pods",
        "preemptions",
        "webhook",
    ] {
        assert!(named(&format!("giveway-{part}")), "{part} is not in:\n{policies}");
    }
    assert!(!policies.contains("arning"), "{policies}");
}
