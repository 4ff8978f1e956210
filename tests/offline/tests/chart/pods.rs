//! The pods of the Deployments and Jobs of the chart, and the arguments of the daemons.

use crate::helm::{document, object, pod_template, rendered};
use giveway_tests::giveway::chart::EVERY_VALUE;
use giveway_tests::paths;
use serde_json::{Value, json};
use std::process::Command;

#[test]
fn pods_have_the_fields_in_the_values() {
    let manifests = rendered(EVERY_VALUE);
    let operator = pod_template(&manifests, "giveway-operator");
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
    assert!(!rendered(&[]).contains("evictions-per-minute"), "no limit is the default");

    let webhook = pod_template(&manifests, "giveway-webhook");
    assert_eq!(webhook["spec"]["hostNetwork"], true);
    assert_eq!(webhook["spec"]["dnsPolicy"], "ClusterFirstWithHostNet");
    let ports = &webhook["spec"]["containers"][0]["ports"];
    assert_eq!(ports[1], json!({"name": "metrics", "containerPort": 9190}));
    let counted = &webhook["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"];
    assert_eq!(counted["app.kubernetes.io/component"], "webhook");
    let quota = document(&manifests, "ResourceQuota", "giveway-priority");
    assert!(quota.contains("pods: \"20\"") && quota.contains("values: [\"system-cluster-critical\"]"), "{quota}");
    // Helm deletes the first quota with the chart, before the last Job has created its pod.
    let last = object(&manifests, "ResourceQuota", "giveway-rest-priority");
    assert_eq!(last["metadata"]["annotations"]["helm.sh/hook"], "post-delete");
    assert_eq!(last["spec"], object(&manifests, "ResourceQuota", "giveway-priority")["spec"]);
    assert!(!rendered(&[]).contains("kind: ResourceQuota"));
    let many = rendered(&["priorityClassQuota.enabled=true", "operator.replicas=10", "webhook.replicas=9"]);
    assert_eq!(object(&many, "ResourceQuota", "giveway-priority")["spec"]["hard"]["pods"], "22");
}

#[test]
fn pods_of_jobs_have_the_pod_fields_of_the_operator() {
    let manifests = rendered(&[
        "image.pullSecrets[0].name=registry",
        "pods.labels.team=platform",
        "pods.annotations.note=kept",
        "operator.resources.limits.memory=2Gi",
        "pods.nodeSelector.pool=system",
        "pods.tolerations[0].operator=Exists",
        "pods.env[0].name=KUBERNETES_SERVICE_HOST",
        "pods.env[0].value=api.example",
    ]);
    let operator = pod_template(&manifests, "giveway-operator");
    for name in ["giveway-test", "giveway-uninstall", "giveway-rest", "giveway-taints"] {
        let pod = &object(&manifests, "Job", name)["spec"]["template"];
        assert_eq!(pod["metadata"]["labels"]["team"], "platform", "{name}");
        assert_eq!(pod["metadata"]["annotations"], json!({"note": "kept"}), "{name}");
        for field in ["nodeSelector", "tolerations", "imagePullSecrets", "priorityClassName"] {
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

#[test]
fn two_pods_of_each_daemon_run_on_different_nodes_if_possible_and_are_drained_one_after_the_other() {
    let usual = rendered(&[]);
    for name in ["giveway-operator", "giveway-webhook"] {
        let deployment = object(&usual, "Deployment", name);
        assert_eq!(deployment["spec"]["replicas"], 2, "{name}");
        let affinity = &deployment["spec"]["template"]["spec"]["affinity"]["podAntiAffinity"];
        let preferred = &affinity["preferredDuringSchedulingIgnoredDuringExecution"][0]["podAffinityTerm"];
        assert_eq!(preferred["topologyKey"], "kubernetes.io/hostname", "{name}");
        let budget = object(&usual, "PodDisruptionBudget", name);
        assert_eq!(budget["spec"]["maxUnavailable"], 1, "{name}");
        assert_eq!(budget["spec"]["selector"], deployment["spec"]["selector"], "{name}");
        assert_eq!(preferred["labelSelector"], deployment["spec"]["selector"], "{name}");
    }
    let one = rendered(&["operator.replicas=1"]);
    assert!(pod_template(&one, "giveway-operator")["spec"].get("affinity").is_none());
    assert_eq!(one.matches("\nkind: PodDisruptionBudget\n").count(), 1, "that of the webhook");
}

#[test]
fn with_host_network_an_old_pod_terminates_before_a_new_pod_starts() {
    let strategy = |manifests: &str, name: &str| object(manifests, "Deployment", name)["spec"]["strategy"].clone();
    let host = rendered(&["webhook.hostNetwork=true"]);
    let first = json!({"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}});
    assert_eq!((strategy(&host, "giveway-operator"), strategy(&host, "giveway-webhook")), (Value::Null, first));
    let usual = rendered(&[]);
    let later = json!({"rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}});
    assert_eq!((strategy(&usual, "giveway-operator"), strategy(&usual, "giveway-webhook")), (Value::Null, later));
}

#[test]
fn daemons_listen_on_the_address_in_the_values() {
    let ports = ["--metrics-address", "--address", "--metrics-address"];
    for (values, address) in [(&[][..], "0.0.0.0"), (&["network.listenOn=[::]"], "[::]")] {
        let manifests = rendered(values);
        let both = ["giveway-operator", "giveway-webhook"].map(|name| pod_template(&manifests, name));
        let args = both.iter().flat_map(|pod| pod["spec"]["containers"][0]["args"].as_array().unwrap());
        let addresses: Vec<&str> = args.filter_map(Value::as_str).filter(|arg| arg.contains("address=")).collect();
        let wanted = ports.iter().zip([9091, 9443, 9090]).map(|(flag, port)| format!("{flag}={address}:{port}"));
        assert_eq!(addresses, wanted.collect::<Vec<_>>());
    }
}

#[test]
fn daemons_accept_the_rendered_arguments() {
    let certificate = ["webhook.certManager.enabled=true", "names.acrossNamespaces=true"];
    for values in [&[], EVERY_VALUE, &certificate, &["network.listenOn=[::]"]] {
        let manifests = rendered(values);
        for daemon in ["giveway-operator", "giveway-webhook"] {
            let template = pod_template(&manifests, daemon);
            let args = template["spec"]["containers"][0]["args"].as_array().unwrap();
            let args = args.iter().map(|arg| arg.as_str().unwrap());
            let mut command = Command::new(paths::giveway_program(daemon).unwrap());
            let output = command.args(args).env_clear().env("KUBECONFIG", "/nowhere").output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            // For an unknown argument a daemon would exit with status 2, before it connects to an API server.
            assert_eq!(output.status.code(), Some(1), "{values:?}: {daemon}: {said}");
            assert!(said.contains("no API server"), "{daemon}: {said}");
        }
    }
}
