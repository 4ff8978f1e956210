//! Optional features: the flags, rules and policies that the chart renders for them.

use crate::helm::{document, has_flags, object, pod_template, rejects, rendered};
use giveway_crds::keys;
use giveway_crds::scheduler_config::SchedulerConfig;
use giveway_tests::giveway::chart::CRITICAL_ADDONS;

/// Without a cluster the chart cannot know what an upgrade replaces, so a value that is not set is false.
#[test]
fn critical_add_ons_are_off_by_default_with_their_flags_rules_and_policies() {
    let on = rendered(&[CRITICAL_ADDONS]);
    let operator = document(&on, "Deployment", "giveway-operator");
    let flags = [
        "--critical-addons=true",
        "--critical-addons-namespaces=kube-system",
        "--scheduler-lease=kube-system/kube-scheduler",
    ];
    has_flags(operator, &flags);
    assert!(!operator.contains("--critical-addons-stranded"), "{operator}");
    let on_nodes = "resources: [nodes]\n    verbs: [get, patch]\n";
    for role in ["giveway-operator", "giveway-webhook"] {
        assert!(document(&on, "ClusterRole", role).contains(on_nodes), "{role}");
    }
    has_flags(document(&on, "Deployment", "giveway-webhook"), &["--critical-addons=true"]);
    let lease = document(&on, "Role", "giveway-operator-scheduler-lease");
    assert!(lease.contains("namespace: \"kube-system\"\n"), "{lease}");
    assert!(lease.contains("resourceNames: [\"kube-scheduler\"]\n    verbs: [get]\n"), "{lease}");
    document(&on, "RoleBinding", "giveway-operator-scheduler-lease");
    let hook = document(&on, "Job", "giveway-rest");
    assert!(hook.contains("helm.sh/hook: post-delete\n") && !on.contains("giveway-taints"), "{hook}");

    let other = rendered(&[
        CRITICAL_ADDONS,
        "criticalAddons.namespaces={kube-system,monitoring}",
        "criticalAddons.schedulerLease=control/my.scheduler",
    ]);
    let operator = document(&other, "Deployment", "giveway-operator");
    let flags = ["--critical-addons-namespaces=kube-system,monitoring", "--scheduler-lease=control/my.scheduler"];
    has_flags(operator, &flags);
    let lease = document(&other, "Role", "giveway-operator-scheduler-lease");
    assert!(lease.contains("namespace: \"control\"\n") && lease.contains("[\"my.scheduler\"]"), "{lease}");

    let off = rendered(&[]);
    for value in ["false", "null"] {
        assert_eq!(rendered(&[&format!("criticalAddons.enabled={value}")]), off, "{value}");
    }
    let operator = document(&off, "Deployment", "giveway-operator");
    assert!(operator.contains("            - --critical-addons=false\n"), "{operator}");
    assert!(!operator.contains("--critical-addons-") && !operator.contains("--scheduler-lease"), "{operator}");
    has_flags(document(&off, "Deployment", "giveway-webhook"), &["--critical-addons=false"]);
    for role in ["giveway-operator", "giveway-webhook"] {
        let role = document(&off, "ClusterRole", role);
        assert!(
            !role.contains(on_nodes) && !role.contains("resources: [preemptions]\n    verbs: [list, patch]\n"),
            "{role}"
        );
    }
    for name in ["giveway-operator-scheduler-lease", "giveway-nodes", "giveway-webhook-nodes", "giveway-critical-pods"]
    {
        assert!(on.contains(&format!("name: {name}\n")) && !off.contains(&format!("name: {name}\n")), "{name}");
    }
    // The plugin reads the namespaces in this annotation.
    for (manifests, namespaces) in [(&on, "kube-system"), (&other, "kube-system,monitoring"), (&off, "")] {
        let policy = object(manifests, "ValidatingAdmissionPolicy", "giveway-namespaces");
        assert_eq!(policy["metadata"]["annotations"][keys::ANNOTATION_CRITICAL_NAMESPACES], namespaces);
    }
    // A tenant's annotation is still rejected. A rollback runs the Job that removes existing taints, whatever it replaces.
    document(&off, "ValidatingAdmissionPolicy", "giveway-critical-addons");
    let hook = document(&off, "Job", "giveway-taints");
    assert!(hook.contains("helm.sh/hook: post-rollback\n"), "{hook}");

    for (value, words) in [
        ("criticalAddons.enabled=maybe", "enabled"),
        ("criticalAddons.namespaces={}", "namespaces"),
        ("criticalAddons.namespaces={Kube_System}", "namespaces"),
        ("criticalAddons.schedulerLease=kube-scheduler", "schedulerLease"),
        ("criticalAddons.after=30s", "after"),
    ] {
        rejects("giveway-system", &[value], words);
    }
}

#[test]
fn capacity_requests_have_flags_and_rules_that_are_absent_by_default() {
    let rights = ["resources: [pods]\n    verbs: [create]\n", "provisioningrequests", "podtemplates"];
    let usual = rendered(&[]);
    let role = document(&usual, "ClusterRole", "giveway-operator");
    assert!(!usual.contains("--provisioning-") && rights.iter().all(|right| !role.contains(right)), "{role}");
    for (method, flag, given) in
        [("Placeholder", "placeholder", &rights[..1]), ("ProvisioningRequest", "provisioning-request", &rights[1..])]
    {
        let manifests = rendered(&[&format!("provisioning.method={method}")]);
        let role = document(&manifests, "ClusterRole", "giveway-operator");
        for right in rights {
            assert_eq!(role.contains(right), given.contains(&right), "{method}: {right}");
        }
        let operator = document(&manifests, "Deployment", "giveway-operator");
        let by = format!("--provisioning-method={flag}");
        let image = "--placeholder-image=registry.k8s.io/pause:3.10";
        has_flags(operator, &[by.as_str(), image]);
    }
    rejects("giveway-system", &["provisioning.method=Karpenter"], "/provisioning/method");
}

#[test]
fn names_across_namespaces_and_more_arguments_are_operator_flags() {
    let usual = rendered(&[]);
    let operator = document(&usual, "Deployment", "giveway-operator");
    assert!(!operator.contains("--names-across-namespaces"), "{operator}");
    let values =
        ["names.acrossNamespaces=true", "operator.extraArgs={--preemption-history=24h,--preemption-history-limit=7}"];
    let other = rendered(&values);
    let operator = document(&other, "Deployment", "giveway-operator");
    for flag in ["--names-across-namespaces", "--preemption-history=24h", "--preemption-history-limit=7"] {
        assert!(operator.contains(flag), "{flag} is not in:\n{operator}");
    }
}

#[test]
fn the_operator_and_the_plugin_get_what_giveway_reads_of_the_configuration_of_kube_scheduler() {
    let usual = rendered(&[]);
    assert!(!usual.contains("scheduler-config"), "no file, no flag and no annotation");
    let config = "operator.schedulerConfig";
    let plugins = format!("{config}.profiles[0].pluginConfig");
    let with = |resource: &str| {
        rendered(&[
            &format!("{config}.apiVersion=kubescheduler.config.k8s.io/v1"),
            &format!("{config}.kind=KubeSchedulerConfiguration"),
            &format!("{config}.clientConnection.kubeconfig=secret"),
            &format!("{config}.extenders[0].tlsConfig.keyData=secret"),
            &format!("{config}.extenders[0].managedResources[0].name=acme.com/fpga"),
            &format!("{config}.profiles[0].schedulerName=default-scheduler"),
            &format!("{plugins}[0].name=Own"),
            &format!("{plugins}[0].args.key=secret"),
            &format!("{plugins}[1].name=NodeResourcesFit"),
            &format!("{plugins}[1].args.ignoredResources[0]={resource}"),
            &format!("{plugins}[1].args.scoringStrategy.type=MostAllocated"),
        ])
    };
    let manifests = with("example.com/fpga");
    assert!(!manifests.contains("secret\n") && !manifests.contains("scoringStrategy"), "only what is read");
    has_flags(
        document(&manifests, "Deployment", "giveway-operator"),
        &["--scheduler-config=/scheduler-config/config.json"],
    );
    let policy = object(&manifests, "ValidatingAdmissionPolicy", "giveway-namespaces");
    let text = policy["metadata"]["annotations"][keys::ANNOTATION_SCHEDULER_CONFIG].as_str().unwrap();
    let profile = &SchedulerConfig::parse(text).unwrap().profiles["default-scheduler"];
    assert!(profile.ignores("example.com/fpga") && !profile.ignores("acme.com/fpga"), "{text}");
    // The file of the operator has the same text, and the pods are replaced when it changes.
    let name = |manifests: &str| {
        let operator = pod_template(manifests, "giveway-operator");
        operator["spec"]["volumes"][0]["configMap"]["name"].as_str().unwrap().to_owned()
    };
    let file = object(&manifests, "ConfigMap", &name(&manifests));
    assert_eq!(file["data"]["config.json"], *text);
    assert_ne!(name(&manifests), name(&with("example.com/other")));
    assert!(
        !rendered(&["deployments.enabled=false", "webhook.url=https://10.0.0.5:9443"]).contains("kind: ConfigMap\n"),
        "nothing reads it there"
    );
    rejects("giveway-system", &["operator.schedulerConfig=a: ["], "operator.schedulerConfig: Invalid value");
    rejects("giveway-system", &["operator.schedulerConfig=7"], "/operator/schedulerConfig");
}
