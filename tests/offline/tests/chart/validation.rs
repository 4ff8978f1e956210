//! Values that the chart rejects, and values that its schema requires.

use crate::helm::{rejects, rendered};
use giveway_tests::paths;
use serde_json::{Value, json};

#[test]
fn unsafe_values_are_rejected_with_a_remedy() {
    for namespace in ["default", "kube-system"] {
        let words = format!(
            "Giveway needs a namespace of its own, not {namespace}: admission ignores the pods of its own namespace, and every user who may create pods there can act as its operator. Install it with --namespace giveway-system --create-namespace"
        );
        rejects(namespace, &[], &words);
    }
    let one = "guard.failurePolicy: Fail needs webhook.replicas of 2 or more, not 1: while the only webhook is down, kube-scheduler could preempt no pod that the guard protects. Raise webhook.replicas, or set guard.failurePolicy: Ignore";
    rejects("giveway-system", &["guard.failurePolicy=Fail", "webhook.replicas=1"], one);
    rendered(&["guard.failurePolicy=Fail", "webhook.replicas=2"]);
    rendered(&["guard.failurePolicy=Fail", "webhook.replicas=1", "guard.enabled=false"]);
    rendered(&["webhook.replicas=1"]);
    rejects("giveway-system", &["guard.holdSeconds=4"], "additional properties 'holdSeconds' not allowed");
    rejects("giveway-system", &["networkPolicy.apiServers={10.0.0.1}"], "apiServers");
    for (values, words) in [
        (
            &["webhook.port=9090"][..],
            "webhook.port and webhook.metricsPort are both 9090: give one of them another port",
        ),
        (
            &["webhook.replicas=0"],
            "webhook.replicas must be 1 or more, not 0: without a replica, pods of gangs stay gated or are rejected. To run it outside the cluster, set deployments.enabled: false and webhook.url",
        ),
        (&["operator.replicas=0"], "operator.replicas must be 1 or more, not 0"),
        (
            &["pods.labels.app\\.kubernetes\\.io/name=mine"],
            "pods.labels: app.kubernetes.io/name is the chart's own label, by which Services and budgets find the pods",
        ),
        (
            &["victims.protectedNamespaces={Billing}"],
            "'/victims/protectedNamespaces/0': 'Billing' does not match pattern",
        ),
        (&["webhook.metricsPort=65536"], "'/webhook/metricsPort': maximum"),
        (&["security.runAsUser=0"], "'/security/runAsUser': minimum: got 0, want 1"),
        (
            &["webhook.configurationAnnotations.a=true"],
            "'/webhook/configurationAnnotations/a': got boolean, want string",
        ),
        (&["image.digests.cli=sha256:12"], "'/image/digests/cli': 'sha256:12' does not match pattern"),
        (&["operator.extraArgs={debug}"], "'/operator/extraArgs/0': 'debug' does not match pattern"),
        (&["network.listenOn=::"], "'/network/listenOn': '::' does not match pattern"),
        (
            &["deployments.enabled=false"],
            "deployments.enabled: false needs webhook.url: without it API servers call the webhook through a Service that the chart does not create, and no pod of a group can be created. Set webhook.url to the address of your webhook, such as https://10.0.0.5:9443",
        ),
        (
            &["deployments.enabled=false", "webhook.url=https://10.0.0.5:9443", "webhook.certManager.enabled=true"],
            "webhook.certManager.enabled: true needs deployments.enabled: true: without it the chart creates no Certificate, so cert-manager does not fill caBundle. Set webhook.certManager.enabled: false, and webhook.caBundle to the authority of your webhook's certificate",
        ),
        (
            &["webhook.url=https://10.0.0.5:9443", "webhook.certManager.enabled=true"],
            "webhook.url is https://10.0.0.5:9443, but with webhook.certManager.enabled the certificate is for giveway-webhook.giveway-system.svc: API servers would not accept it. Leave webhook.url empty, or set webhook.certManager.enabled: false",
        ),
        (
            &[
                "gangs.kinds={JobSet}",
                "gangs.namespaceSelector.matchLabels.team=a",
                "namespaces.selector.matchLabels.team=ml",
            ],
            "gangs.namespaceSelector asks for the label team: \"a\", and groups are served where it is \"ml\" only (namespaces.selector): no namespace has both. Leave the label out of gangs.namespaceSelector, or give it the same value",
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
        (&["pods.nodeSelector.pool=1"], "'/pods/nodeSelector/pool': got number, want string"),
        (&["pods.env[0].name=A", "pods.env[0].value=1"], "'/pods/env/0/value': got number, want string"),
        (&["operator.leaseName=other"], "additional properties 'leaseName' not allowed"),
        (&["operator.schedulerNames=null"], "'/operator': missing property 'schedulerNames'"),
        (&["operator.schedulerNames[0]="], "'/operator/schedulerNames/0': minLength: got 0, want 1"),
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
            "gangs.namespaceSelector has no effect without gangs.kinds: list kinds in gangs.kinds, or leave gangs.namespaceSelector empty",
        ),
    ] {
        rejects("giveway-system", values, words);
    }
    rendered(&["namespaces.selector=null", "gangs.namespaceSelector=null"]);
    rendered(&[
        "networkPolicy.apiServers={0.0.0.0/0,255.255.255.255/32,::/0,fd00::2/128}",
        "network.listenOn=127.0.0.1",
    ]);
    rendered(&["guard.schedulers={system:serviceaccount:a:b}"]);
    let outside = ["deployments.enabled=false", "webhook.url=https://10.0.0.5:9443"];
    rendered(&[&outside[..], &["operator.replicas=0", "webhook.replicas=0"]].concat());
    // The name of the Service, for which cert-manager issues the certificate.
    let name = "webhook.url=https://giveway-webhook.giveway-system.svc:443";
    rendered(&[name, "webhook.certManager.enabled=true"]);
}

/// Appends the paths of values that are set by default although the schema does not require them.
fn optional_values(schema: &Value, values: &Value, path: &str, found: &mut Vec<String>) {
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
            optional_values(inner, value, &format!("{path}."), found);
        }
    }
}

#[test]
fn the_schema_requires_every_value_that_the_templates_need() {
    let read = |name: &str| std::fs::read_to_string(paths::repository().join("helm").join(name)).unwrap();
    let schema: Value = serde_json::from_str(&read("values.schema.json")).unwrap();
    let values: Value = serde_yaml_ng::from_str(&read("values.yaml")).unwrap();
    let mut found = Vec::new();
    optional_values(&schema, &values, "", &mut found);
    // The templates have a default for these, or omit what they configure.
    let optional = [
        "guard.failurePolicy",
        "managedPriorityClasses",
        "mode",
        "pods.priorityClassName",
        "victims.evictionsPerMinute",
    ];
    found.sort();
    assert_eq!(found, optional);
}

/// Returns the number of values: a map counts as its entries, anything else and an empty map as one.
fn count_of_values(value: &Value) -> usize {
    match value.as_object().filter(|map| !map.is_empty()) {
        Some(map) => map.values().map(count_of_values).sum(),
        None => 1,
    }
}

#[test]
fn the_chart_has_at_most_70_values() {
    let text = std::fs::read_to_string(paths::repository().join("helm/values.yaml")).unwrap();
    let count = count_of_values(&serde_yaml_ng::from_str(&text).unwrap());
    assert!(
        count > 50 && count <= 70,
        "{count} values: use an argument in extraArgs, or a default that fits every cluster"
    );
}
