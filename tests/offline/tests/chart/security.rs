//! Security contexts of the rendered pods, against the rules of the Pod Security level `restricted` and of OpenShift's
//! SecurityContextConstraints `restricted-v2`; and the rights of the Jobs.

use crate::helm::{object, pods, rendered, rendered_for};
use giveway_tests::giveway::chart::CRITICAL_ADDONS;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;

/// The kinds of volumes that both allow.
const VOLUMES: [&str; 8] =
    ["configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"];
/// The users of a namespace, as OpenShift chooses them.
const USERS: RangeInclusive<i64> = 1_000_650_000..=1_000_659_999;

fn containers(pod: &Value) -> Vec<&Value> {
    ["initContainers", "containers"].into_iter().flat_map(|list| pod[list].as_array().into_iter().flatten()).collect()
}

/// Returns the fields of a pod that the Pod Security level `restricted` rejects.
fn rejected_by_restricted(pod: &Value) -> BTreeSet<&'static str> {
    let mut found = BTreeSet::new();
    let mut rule = |field: &'static str, holds: bool| {
        if !holds {
            found.insert(field);
        }
    };
    for field in ["hostNetwork", "hostPID", "hostIPC"] {
        rule(field, pod[field] != true);
    }
    for volume in pod["volumes"].as_array().into_iter().flatten() {
        let mut sources = volume.as_object().unwrap().keys().filter(|key| *key != "name");
        rule("volumes", sources.all(|source| VOLUMES.contains(&source.as_str())));
    }
    let security = &pod["securityContext"];
    rule("sysctls", security["sysctls"].is_null());
    for container in containers(pod) {
        let own = &container["securityContext"];
        let effective = |field: &str| if own[field].is_null() { &security[field] } else { &own[field] };
        let is = |value: &Value, allowed: &[&str]| value.as_str().is_some_and(|text| allowed.contains(&text));
        let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
        rule("privileged", own["privileged"] != true);
        rule("procMount", own["procMount"].is_null());
        rule("seLinuxOptions", effective("seLinuxOptions").is_null());
        rule("allowPrivilegeEscalation", own["allowPrivilegeEscalation"] == false);
        rule("runAsNonRoot", effective("runAsNonRoot") == true);
        rule("runAsUser", effective("runAsUser") != 0);
        rule("seccompProfile", is(&effective("seccompProfile")["type"], &["RuntimeDefault", "Localhost"]));
        let capabilities = &own["capabilities"];
        rule("capabilities.drop", list(&capabilities["drop"]).iter().any(|name| name == "ALL"));
        rule("capabilities.add", list(&capabilities["add"]).iter().all(|name| name == "NET_BIND_SERVICE"));
        rule("hostPort", list(&container["ports"]).iter().all(|port| port["hostPort"].is_null()));
    }
    found
}

/// Returns the fields of a pod that the SCC `restricted-v2` rejects in a namespace with the users [`USERS`].
fn rejected_by_restricted_v2(pod: &Value) -> BTreeSet<&'static str> {
    let mut found = rejected_by_restricted(pod);
    let contexts = containers(pod).into_iter().map(|container| &container["securityContext"]);
    for context in contexts.chain([&pod["securityContext"]]) {
        for field in ["runAsUser", "fsGroup"] {
            let allowed = context[field].as_i64().is_some_and(|id| USERS.contains(&id));
            if !context[field].is_null() && !allowed {
                found.insert(field);
            }
        }
        let seccomp = &context["seccompProfile"]["type"];
        if !seccomp.is_null() && seccomp != "RuntimeDefault" {
            found.insert("seccompProfile");
        }
    }
    found
}

/// Returns a pod that both accept.
fn accepted() -> Value {
    json!({
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "containers": [{
            "ports": [{"containerPort": 9443}],
            "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}
        }],
        "volumes": [{"name": "tls", "secret": {"secretName": "tls"}}]
    })
}

#[test]
fn the_rules_reject_each_field_that_is_not_restricted() {
    assert_eq!(rejected_by_restricted_v2(&accepted()), BTreeSet::new());
    let breaches = [
        ("hostNetwork", "", json!({"hostNetwork": true})),
        ("hostPID", "", json!({"hostPID": true})),
        ("volumes", "", json!({"volumes": [{"name": "root", "hostPath": {"path": "/"}}]})),
        ("sysctls", "/securityContext", json!({"sysctls": [{"name": "kernel.shm_rmid_forced", "value": "0"}]})),
        ("runAsNonRoot", "/securityContext", json!({"runAsNonRoot": null})),
        ("seccompProfile", "/securityContext", json!({"seccompProfile": {"type": "Unconfined"}})),
        ("runAsUser", "/securityContext", json!({"runAsUser": 0})),
        ("seLinuxOptions", "/securityContext", json!({"seLinuxOptions": {"type": "spc_t"}})),
        ("hostPort", "/containers/0", json!({"ports": [{"containerPort": 9443, "hostPort": 9443}]})),
        ("privileged", "/containers/0/securityContext", json!({"privileged": true})),
        ("procMount", "/containers/0/securityContext", json!({"procMount": "Unmasked"})),
        ("allowPrivilegeEscalation", "/containers/0/securityContext", json!({"allowPrivilegeEscalation": null})),
        ("capabilities.drop", "/containers/0/securityContext", json!({"capabilities": {"drop": ["NET_RAW"]}})),
        (
            "capabilities.add",
            "/containers/0/securityContext",
            json!({"capabilities": {"drop": ["ALL"], "add": ["KILL"]}}),
        ),
    ];
    for (field, place, change) in breaches {
        let mut pod = accepted();
        let target = pod.pointer_mut(place).unwrap().as_object_mut().unwrap();
        target.extend(change.as_object().unwrap().clone());
        assert_eq!(rejected_by_restricted(&pod), BTreeSet::from([field]), "{pod:#}");
    }
    for (field, change) in [
        ("runAsUser", json!({"runAsUser": 65532})),
        ("fsGroup", json!({"fsGroup": 65532})),
        ("seccompProfile", json!({"seccompProfile": {"type": "Localhost", "localhostProfile": "own.json"}})),
    ] {
        let mut pod = accepted();
        pod["securityContext"].as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        assert_eq!(rejected_by_restricted(&pod), BTreeSet::new(), "{pod:#}");
        assert_eq!(rejected_by_restricted_v2(&pod), BTreeSet::from([field]), "{pod:#}");
    }
}

#[test]
fn restricted_v2_accepts_every_pod_of_the_chart() {
    let jobs = ["giveway-rest", "giveway-taints", "giveway-test", "giveway-uninstall"];
    let everything = ["webhook.certManager.enabled=true"];
    let all: BTreeSet<String> = pods(&rendered(&everything)).into_iter().map(|(name, _)| name).collect();
    let expected = ["giveway-operator", "giveway-webhook"].into_iter().chain(jobs).map(str::to_owned);
    assert_eq!(all, expected.collect());
    let in_range = ["security.runAsUser=1000650001"];
    for (values, manifests) in [
        ("the default", rendered(&[])),
        ("all pods", rendered(&everything)),
        ("a user of the namespace", rendered(&in_range)),
        ("aks", rendered_for("aks")),
        ("gke", rendered_for("gke")),
        ("openshift", rendered_for("openshift")),
    ] {
        for (name, pod) in pods(&manifests) {
            assert_eq!(rejected_by_restricted_v2(&pod), BTreeSet::new(), "{values}: {name}: {pod:#}");
        }
    }
}

#[test]
fn host_network_is_all_that_restricted_rejects_with_the_values_for_eks() {
    for (name, pod) in pods(&rendered_for("eks")) {
        let expected = if name == "giveway-webhook" { BTreeSet::from(["hostNetwork"]) } else { BTreeSet::new() };
        assert_eq!(rejected_by_restricted(&pod), expected, "{name}: {pod:#}");
    }
}

#[test]
fn pods_have_a_user_only_if_the_values_have_one() {
    let security = |values: &[&str]| -> Vec<Value> {
        pods(&rendered(values)).into_iter().map(|(_, pod)| pod["securityContext"].clone()).collect()
    };
    let without = json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
    for values in [&[][..], &["security.runAsUser=null"]] {
        assert!(security(values).iter().all(|context| *context == without), "{values:?}");
    }
    let with = json!({
        "runAsNonRoot": true, "runAsUser": 1_000_650_001, "runAsGroup": 1_000_650_001, "fsGroup": 1_000_650_001,
        "seccompProfile": {"type": "RuntimeDefault"}
    });
    let chosen = security(&["security.runAsUser=1000650001"]);
    assert!(chosen.iter().all(|context| *context == with), "{chosen:#?}");
}

#[test]
fn the_jobs_that_change_objects_may_delete_their_own_bindings_and_do_so() {
    let manifests = rendered(&[]);
    for (name, kinds) in [
        ("giveway-uninstall", &[("ClusterRole", "clusterrolebindings"), ("Role", "rolebindings")][..]),
        ("giveway-rest", &[("ClusterRole", "clusterrolebindings"), ("Role", "rolebindings")]),
        ("giveway-taints", &[("ClusterRole", "clusterrolebindings")]),
    ] {
        let job = &object(&manifests, "Job", name)["spec"];
        assert_eq!(job["backoffLimit"], 0, "{name}: a second pod would have no rights");
        let command = job["template"]["spec"]["containers"][0]["command"].as_array().unwrap();
        assert_eq!(*command.last().unwrap(), format!("--own-binding={name}"));
        for (kind, resource) in kinds {
            let role = object(&manifests, kind, name);
            let rules = role["rules"].as_array().unwrap();
            let group = json!(["rbac.authorization.k8s.io"]);
            let of_rbac: Vec<&Value> = rules.iter().filter(|rule| rule["apiGroups"] == group).collect();
            let own =
                json!({"apiGroups": group, "resources": [resource], "resourceNames": [name], "verbs": ["delete"]});
            assert_eq!(of_rbac, [&own], "{kind} {name}");
        }
    }
    assert_eq!(object(&manifests, "Job", "giveway-test")["spec"]["backoffLimit"], 3);
}

/// Returns what an account may do by the roles that are bound to it, as `VERB RESOURCE.GROUP`.
fn rights(manifests: &str, account: &str) -> BTreeSet<String> {
    let documents: Vec<Value> = manifests.split("\n---\n").map(|text| serde_yaml_ng::from_str(text).unwrap()).collect();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let texts =
        |value: &Value| -> Vec<String> { list(value).iter().map(|text| text.as_str().unwrap().to_owned()).collect() };
    let is_bound = |binding: &&Value| list(&binding["subjects"]).iter().any(|subject| subject["name"] == account);
    let mut found = BTreeSet::new();
    for binding in documents.iter().filter(is_bound) {
        let reference = |field: &str| binding["roleRef"][field].as_str().unwrap();
        for rule in list(&object(manifests, reference("kind"), reference("name"))["rules"]) {
            for group in texts(&rule["apiGroups"]) {
                let group = if group.is_empty() { group } else { format!(".{group}") };
                for resource in texts(&rule["resources"]) {
                    found.extend(texts(&rule["verbs"]).iter().map(|verb| format!("{verb} {resource}{group}")));
                }
            }
        }
    }
    assert!(!found.is_empty(), "{account} has no rights");
    found
}

/// Returns the rights of an account to write.
fn writes(values: &[&str], account: &str) -> BTreeSet<String> {
    let mut all = rights(&rendered(values), account);
    all.retain(|right| !["get ", "list ", "watch "].iter().any(|read| right.starts_with(read)));
    all
}

/// Returns the resources of which an account may list all objects, or those that a rule names.
fn lists(values: &[&str], account: &str) -> BTreeSet<String> {
    rights(&rendered(values), account)
        .iter()
        .filter_map(|right| right.strip_prefix("list ").map(str::to_owned))
        .collect()
}

fn set<const N: usize>(texts: [&str; N]) -> BTreeSet<String> {
    texts.map(str::to_owned).into()
}

/// What `docs/security.md` says about a stolen token of the operator.
#[test]
fn the_operator_may_write_and_list_only_what_the_page_about_security_names() {
    let account = "giveway-operator";
    let always = set([
        "create events.events.k8s.io",
        "create leases.coordination.k8s.io",
        "create podgroups.scheduling.giveway.dev",
        "create pods/eviction",
        "create preemptions.scheduling.giveway.dev",
        "delete podgroups.scheduling.giveway.dev",
        "delete pods",
        "delete preemptions.scheduling.giveway.dev",
        "patch events.events.k8s.io",
        "patch podgroups.scheduling.giveway.dev",
        "patch podgroups/status.scheduling.giveway.dev",
        "patch pods",
        "patch pods/status",
        "patch preemptions.scheduling.giveway.dev",
        "patch preemptions/status.scheduling.giveway.dev",
        "patch workloads/status.scheduling.giveway.dev",
        "update leases.coordination.k8s.io",
    ]);
    let certificates = set([
        "create secrets",
        "patch mutatingwebhookconfigurations.admissionregistration.k8s.io",
        "patch validatingwebhookconfigurations.admissionregistration.k8s.io",
        "update secrets",
    ]);
    assert_eq!(writes(&["webhook.certManager.enabled=true"], account), always);
    let usual = &always | &certificates;
    assert_eq!(writes(&[], account), usual);
    assert_eq!(writes(&[CRITICAL_ADDONS], account), &usual | &set(["patch nodes"]));
    assert_eq!(writes(&["provisioning.method=Placeholder"], account), &usual | &set(["create pods"]));
    let requests = set([
        "create podtemplates",
        "create provisioningrequests.autoscaling.x-k8s.io",
        "delete provisioningrequests.autoscaling.x-k8s.io",
    ]);
    assert_eq!(writes(&["provisioning.method=ProvisioningRequest"], account), &usual | &requests);

    let read = set([
        "configmaps",
        "csidrivers.storage.k8s.io",
        "csinodes.storage.k8s.io",
        "deviceclasses.resource.k8s.io",
        "events.events.k8s.io",
        "namespaces",
        "nodes",
        "persistentvolumeclaims",
        "persistentvolumes",
        "poddisruptionbudgets.policy",
        "podgroups.scheduling.giveway.dev",
        "podgroups.scheduling.k8s.io",
        "pods",
        "preemptions.scheduling.giveway.dev",
        "priorityclasses.scheduling.k8s.io",
        "resourceclaims.resource.k8s.io",
        "resourceslices.resource.k8s.io",
        "storageclasses.storage.k8s.io",
        "workloads.scheduling.giveway.dev",
    ]);
    assert_eq!(lists(&["webhook.certManager.enabled=true"], account), read);
    let named = [
        "endpointslices.discovery.k8s.io",
        "mutatingwebhookconfigurations.admissionregistration.k8s.io",
        "secrets",
        "validatingwebhookconfigurations.admissionregistration.k8s.io",
    ];
    assert_eq!(lists(&[], account), &read | &set(named));
}

/// What `docs/security.md` says about a stolen token of the webhook.
#[test]
fn the_webhook_may_write_and_list_only_what_the_page_about_security_names() {
    let account = "giveway-webhook";
    let (without_guard, with_add_ons) = (["guard.enabled=false"], [CRITICAL_ADDONS]);
    let events = set(["create events.events.k8s.io", "patch events.events.k8s.io"]);
    assert_eq!(writes(&without_guard, account), events);
    let guard = set(["patch podgroups/status.scheduling.giveway.dev", "update poddisruptionbudgets/status.policy"]);
    let usual = &events | &guard;
    assert_eq!(writes(&[], account), usual);
    let nodes = set(["patch nodes", "patch preemptions.scheduling.giveway.dev"]);
    assert_eq!(writes(&with_add_ons, account), &usual | &nodes);

    let read = set([
        "podgroups.scheduling.giveway.dev",
        "priorityclasses.scheduling.k8s.io",
        "secrets",
        "workloads.scheduling.giveway.dev",
    ]);
    assert_eq!(lists(&without_guard, account), read);
    let usual = &read | &set(["poddisruptionbudgets.policy", "podgroups.scheduling.k8s.io", "pods"]);
    assert_eq!(lists(&[], account), usual);
    assert_eq!(lists(&with_add_ons, account), &usual | &set(["preemptions.scheduling.giveway.dev"]));
}

/// What `docs/security.md` says about the accounts of the chart's Jobs.
#[test]
fn the_jobs_may_write_only_what_the_page_about_security_names() {
    let bindings =
        set(["delete clusterrolebindings.rbac.authorization.k8s.io", "delete rolebindings.rbac.authorization.k8s.io"]);
    let classes = set([
        "create configmaps",
        "create priorityclasses.scheduling.k8s.io",
        "delete configmaps",
        "delete priorityclasses.scheduling.k8s.io",
    ]);
    assert_eq!(writes(&[], "giveway-uninstall"), &bindings | &classes);
    let rest = set([
        "delete configmaps",
        "delete leases.coordination.k8s.io",
        "delete pods",
        "delete provisioningrequests.autoscaling.x-k8s.io",
        "delete secrets",
        "patch nodes",
        "patch podgroups.scheduling.giveway.dev",
        "patch pods",
        "patch pods/status",
    ]);
    assert_eq!(writes(&[], "giveway-rest"), &bindings | &rest);
    let own = set(["delete clusterrolebindings.rbac.authorization.k8s.io", "patch nodes"]);
    assert_eq!(writes(&[], "giveway-taints"), own);
    let test = set([
        "create podgroups.scheduling.giveway.dev",
        "create pods",
        "create priorityclasses.scheduling.k8s.io",
        "delete podgroups.scheduling.giveway.dev",
        "delete pods",
    ]);
    assert_eq!(writes(&[], "giveway-test"), test);
    // helm deletes this account at the end of `helm test`, also after a failure of the Job, which is a later hook of the same event.
    let manifests = rendered(&[]);
    for kind in ["ServiceAccount", "ClusterRoleBinding", "RoleBinding"] {
        let annotations = &object(&manifests, kind, "giveway-test")["metadata"]["annotations"];
        assert_eq!(annotations["helm.sh/hook"], "test", "{kind}");
        assert_eq!(annotations["helm.sh/hook-delete-policy"], "before-hook-creation,hook-succeeded", "{kind}");
    }
}
