//! Feasibility of a pod, filter by filter. Every test has one pod and one node.

use crate::common::*;
use giveway_planner::{Cluster, Decision};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

/// Returns `Ok` if the pod fits beside the others on the node, or else the sentence that says why it does not.
fn fits(node: Built, others: &[Built], pod: Built) -> Result<(), String> {
    let mut all = vec![node, pod];
    all.extend_from_slice(others);
    match decide(&cluster(&all), &for_pod("p")) {
        Decision::Fits { .. } => Ok(()),
        Decision::Unschedulable(why) => Err(why.to_string()),
        other => panic!("{other:?}"),
    }
}

fn refused(result: Result<(), String>, part: &str) {
    let sentence = result.expect_err(part);
    assert!(sentence.contains(part), "{sentence}");
}

fn tainted(effect: &str) -> Built {
    node("a", 1).set("/spec/taints", json!([{"key": "k", "value": "v", "effect": effect}]))
}

#[test]
fn a_taint_keeps_pods_away_that_do_not_tolerate_it() {
    refused(fits(tainted("NoSchedule"), &[], pod("p")), "1 node(s) had untolerated taint {k: v}.");
    refused(fits(tainted("NoExecute"), &[], pod("p")), "untolerated taint {k: v}");
    assert_eq!(fits(tainted("PreferNoSchedule"), &[], pod("p")), Ok(()));
    let tolerates = |toleration: Value| {
        fits(tainted("NoSchedule"), &[], pod("p").set("/spec/tolerations", json!([toleration]))).is_ok()
    };
    assert!(tolerates(json!({"key": "k", "value": "v", "effect": "NoSchedule"})));
    assert!(tolerates(json!({"key": "k", "operator": "Equal", "value": "v"})));
    assert!(tolerates(json!({"key": "k", "operator": "Exists"})));
    assert!(tolerates(json!({"operator": "Exists"})));
    assert!(!tolerates(json!({"key": "k", "value": "w"})));
    assert!(!tolerates(json!({"key": "other", "operator": "Exists"})));
    assert!(!tolerates(json!({"key": "k", "operator": "Exists", "effect": "NoExecute"})));
    assert!(!tolerates(json!({"key": "k", "operator": "Matches", "value": "v"})), "an operator that is not known");
}

/// As in kube-scheduler since 1.35, where the feature `TaintTolerationComparisonOperators` is enabled.
#[test]
fn a_toleration_compares_numbers_with_the_value_of_a_taint() {
    let tolerates = |taint: &str, operator: &str, value: &str| {
        let node = node("a", 1).set("/spec/taints", json!([{"key": "k", "value": taint, "effect": "NoSchedule"}]));
        let toleration = json!([{"key": "k", "operator": operator, "value": value}]);
        fits(node, &[], pod("p").set("/spec/tolerations", toleration)).is_ok()
    };
    for (taint, operator, value, expected) in [
        ("950", "Gt", "900", true),
        ("900", "Gt", "900", false),
        ("1000", "Gt", "900", true),
        ("-5", "Lt", "0", true),
        ("0", "Lt", "0", false),
        ("950", "Lt", "900", false),
        ("0950", "Gt", "900", false),
        ("+950", "Gt", "900", false),
        ("950", "Gt", "0900", false),
        ("", "Lt", "900", false),
        ("high", "Gt", "900", false),
        ("9223372036854775808", "Gt", "900", false),
    ] {
        assert_eq!(tolerates(taint, operator, value), expected, "{taint} {operator} {value}");
    }
}

#[test]
fn a_node_must_declare_the_features_that_a_pod_needs_if_some_node_declares_any() {
    let declares = |features: Value| node("a", 1).set("/status/declaredFeatures", features);
    let rules = json!([{"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [3]}}]);
    let mut restarts = pod("p");
    restarts.0["spec"]["containers"][0]["restartPolicyRules"] = rules;
    let host = pod("p").set("/spec/hostNetwork", json!(true)).set("/spec/hostUsers", json!(false));
    for (pod, feature) in
        [(restarts, "RestartAllContainersOnContainerExits"), (host, "UserNamespacesHostNetworkSupport")]
    {
        assert_eq!(fits(declares(json!([feature, "Other"])), &[], pod.clone()), Ok(()), "{feature}");
        assert_eq!(fits(node("a", 1), &[], pod.clone()), Ok(()), "a cluster that does not compare features");
        refused(fits(declares(json!(["Other"])), &[], pod.clone()), "1 node(s) didn't match Pod's required features.");
        let elsewhere = node("b", 0).set("/status/declaredFeatures", json!([feature]));
        refused(
            fits(node("a", 1), std::slice::from_ref(&elsewhere), pod.clone()),
            "1 node(s) didn't match Pod's required features.",
        );
        // The same in another order of events.
        let mut cluster = cluster(&[pod, node("a", 1), elsewhere]);
        assert!(matches!(decide(&cluster, &for_pod("p")), Decision::Unschedulable(_)));
        cluster.remove_node("b");
        assert!(matches!(decide(&cluster, &for_pod("p")), Decision::Fits { .. }));
    }
    assert_eq!(fits(declares(json!(["Other"])), &[], pod("p")), Ok(()));
}

#[test]
fn a_cordoned_node_takes_only_pods_that_tolerate_it() {
    let cordoned = || node("a", 1).set("/spec/unschedulable", json!(true));
    refused(fits(cordoned(), &[], pod("p")), "1 node(s) were unschedulable.");
    let toleration = json!([{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]);
    assert_eq!(fits(cordoned(), &[], pod("p").set("/spec/tolerations", toleration)), Ok(()));
}

#[test]
fn a_node_selector_must_match() {
    let zoned = || node("a", 1).label("zone", "one");
    let selecting = |zone: &str| pod("p").set("/spec/nodeSelector", json!({"zone": zone}));
    assert_eq!(fits(zoned(), &[], selecting("one")), Ok(()));
    refused(fits(zoned(), &[], selecting("two")), "1 node(s) didn't match Pod's node affinity/selector.");
}

#[test]
fn required_node_affinity_must_match_one_term_in_all_its_requirements() {
    let labelled = || node("a", 1).label("zone", "one").label("cores", "16");
    let matches = |terms: Value| {
        let affinity =
            json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}});
        fits(labelled(), &[], pod("p").set("/spec/affinity", affinity)).is_ok()
    };
    let rule = |key: &str, operator: &str, values: Value| json!({"key": key, "operator": operator, "values": values});
    for (key, operator, values, expected) in [
        ("zone", "In", json!(["one", "two"]), true),
        ("zone", "In", json!(["two"]), false),
        ("rack", "In", json!(["one"]), false),
        ("zone", "NotIn", json!(["two"]), true),
        ("zone", "NotIn", json!(["one"]), false),
        ("rack", "NotIn", json!(["one"]), true),
        ("zone", "Exists", json!([]), true),
        ("rack", "Exists", json!([]), false),
        ("zone", "DoesNotExist", json!([]), false),
        ("rack", "DoesNotExist", json!([]), true),
        ("cores", "Gt", json!(["15"]), true),
        ("cores", "Gt", json!(["16"]), false),
        ("cores", "Lt", json!(["17"]), true),
        ("cores", "Lt", json!(["16"]), false),
        ("zone", "Gt", json!(["1"]), false),
        ("rack", "Lt", json!(["1"]), false),
        ("cores", "Sideways", json!(["1"]), false),
    ] {
        let term = json!([{"matchExpressions": [rule(key, operator, values.clone())]}]);
        assert_eq!(matches(term), expected, "{key} {operator} {values}");
    }
    let (yes, no) = (rule("zone", "Exists", json!([])), rule("rack", "Exists", json!([])));
    assert!(!matches(json!([{"matchExpressions": [yes, no]}])), "all requirements of a term");
    assert!(matches(json!([{"matchExpressions": [no]}, {"matchExpressions": [yes]}])), "any term");
    assert!(!matches(json!([{}])), "an empty term matches nothing");
    assert!(matches(json!([{"matchFields": [rule("metadata.name", "In", json!(["a"]))]}])));
    assert!(!matches(json!([{"matchFields": [rule("metadata.name", "In", json!(["b"]))]}])));
}

#[test]
fn a_port_of_the_node_is_taken_once() {
    let with = |name: &str, port: Value| {
        pod(name).set("/spec/containers", json!([{"name": "c", "image": "i", "ports": [port]}]))
    };
    let clash =
        |mine: Value, theirs: Value| fits(node("a", 4), &[with("other", theirs).on("a")], with("p", mine)).is_err();
    let tcp = json!({"containerPort": 80, "hostPort": 80});
    assert!(clash(tcp.clone(), tcp.clone()));
    assert!(!clash(tcp.clone(), json!({"containerPort": 80, "hostPort": 81})));
    assert!(!clash(tcp.clone(), json!({"containerPort": 80})));
    assert!(!clash(tcp.clone(), json!({"containerPort": 80, "hostPort": 80, "protocol": "UDP"})));
    assert!(clash(tcp.clone(), json!({"containerPort": 80, "hostPort": 80, "hostIP": "10.0.0.1"})));
    let one = json!({"containerPort": 80, "hostPort": 80, "hostIP": "10.0.0.1"});
    assert!(!clash(one, json!({"containerPort": 80, "hostPort": 80, "hostIP": "10.0.0.2"})));
    let result = fits(node("a", 4), &[with("other", tcp.clone()).priority(9).on("a")], with("p", tcp));
    refused(result, "1 node(s) didn't have free ports for the requested pod ports.");
}

#[test]
fn what_a_pod_does_not_ask_for_does_not_matter() {
    let overcommitted = node("a", 1).offers("memory", "1Gi");
    let hog = pod("hog").asks("memory", "2Gi").asks("cpu", "0").priority(9).on("a");
    assert_eq!(fits(overcommitted, &[hog], pod("p")), Ok(()));
}

#[test]
fn the_number_of_pods_is_limited() {
    let small = node("a", 8).offers("pods", "1");
    refused(fits(small, &[pod("other").priority(9).on("a")], pod("p")), "Missing 1 pods.");
}

/// The CPUs that a pod requests, found by trying nodes of all sizes.
fn cpus(pod: Built) -> usize {
    (0..64).find(|cpus| fits(node("a", *cpus), &[], pod.clone()).is_ok()).unwrap()
}

fn container(name: &str, cpu: &str) -> Value {
    json!({"name": name, "image": "i", "resources": {"requests": {"cpu": cpu}}})
}

fn sidecar(name: &str, cpu: &str) -> Value {
    let mut sidecar = container(name, cpu);
    sidecar["restartPolicy"] = json!("Always");
    sidecar
}

#[test]
fn requests_are_counted_as_the_scheduler_counts_them() {
    let both = json!([container("a", "1"), container("b", "2")]);
    let two = || pod("p").set("/spec/containers", both.clone());
    assert_eq!(cpus(two()), 3, "containers add up");
    let init = |list: Value| two().set("/spec/initContainers", list);
    assert_eq!(cpus(init(json!([container("i", "2"), container("j", "2")]))), 3, "init containers run one by one");
    assert_eq!(cpus(init(json!([container("i", "5")]))), 5, "a large init container counts instead");
    assert_eq!(cpus(init(json!([sidecar("s", "2")]))), 5, "a sidecar runs beside the containers");
    assert_eq!(cpus(init(json!([sidecar("s", "2"), container("i", "4")]))), 6, "and beside later init containers");
    assert_eq!(cpus(init(json!([container("i", "4"), sidecar("s", "2")]))), 5, "but not beside earlier ones");
    assert_eq!(cpus(two().set("/spec/overhead", json!({"cpu": "2"}))), 5, "overhead is added");
    assert_eq!(cpus(two().set("/spec/resources", json!({"requests": {"cpu": "7"}}))), 7, "pod-level requests replace");
    assert_eq!(
        cpus(
            two().set("/spec/resources", json!({"requests": {"cpu": "7"}})).set("/spec/overhead", json!({"cpu": "1"}))
        ),
        8,
        "overhead is added to them"
    );
}

/// CPUs that count for a pod with two containers of 1 CPU while its status reports these values.
fn cpus_while_resized(first: Value, second: Value, conditions: Value) -> usize {
    let statuses = [("a", first), ("b", second)].map(|(name, mut status)| {
        status["name"] = json!(name);
        for (key, value) in
            [("image", json!("i")), ("imageID", json!("")), ("ready", json!(true)), ("restartCount", json!(0))]
        {
            status[key] = value;
        }
        status
    });
    let resizing = pod("other")
        .priority(9)
        .on("a")
        .set("/spec/containers", json!([container("a", "1"), container("b", "1")]))
        .set("/status/containerStatuses", json!(statuses))
        .set("/status/conditions", conditions);
    let others = [resizing];
    (0..64).find(|cpus| fits(node("a", *cpus), &others, pod("p")).is_ok()).unwrap() - 1
}

#[test]
fn while_a_pod_is_resized_as_a_whole_its_largest_amount_counts() {
    let cpus = |status: Value, conditions: Value| {
        let resized = pod("other").priority(9).on("a").set("/spec/resources", json!({"requests": {"cpu": "2"}}));
        let status = status.as_object().unwrap().iter();
        let resized = status.fold(resized, |pod, (name, value)| pod.set(&format!("/status/{name}"), value.clone()));
        let others = [resized.set("/status/conditions", conditions)];
        (0..64).find(|cpus| fits(node("a", *cpus), &others, pod("p")).is_ok()).unwrap() - 1
    };
    let reported = |in_force: &str, granted: &str| json!({"resources": {"requests": {"cpu": in_force}}, "allocatedResources": {"cpu": granted}});
    let pending = |reason: &str| json!([{"type": "PodResizePending", "status": "True", "reason": reason}]);
    assert_eq!(cpus(json!({}), json!([])), 2);
    assert_eq!(cpus(reported("5", "3"), json!([])), 5, "more is in force");
    assert_eq!(cpus(reported("3", "4"), json!([])), 4, "more was granted");
    assert_eq!(cpus(reported("1", "1"), pending("Deferred")), 2, "what is asked for may still come");
    assert_eq!(cpus(reported("1", "1"), pending("Infeasible")), 1, "what is asked for never comes");
    assert_eq!(
        cpus(json!({"allocatedResources": {"cpu": "4"}}), json!([])),
        2,
        "a version that does not resize whole pods"
    );
}

#[test]
fn while_containers_are_resized_the_largest_total_counts() {
    let granted = |cpu: &str| json!({"allocatedResources": {"cpu": cpu}});
    let in_force = |cpu: &str, granted: &str| json!({"allocatedResources": {"cpu": granted}, "resources": {"requests": {"cpu": cpu}}});
    let none = || json!([]);
    assert_eq!(cpus_while_resized(json!({}), json!({}), none()), 2);
    assert_eq!(cpus_while_resized(granted("3"), granted("1"), none()), 4, "more was granted");
    assert_eq!(cpus_while_resized(granted("3"), granted("0"), none()), 3, "of the pod, and not container by container");
    assert_eq!(cpus_while_resized(in_force("5", "1"), granted("1"), none()), 6, "more is in force");
    let pending = |reason: &str| json!([{"type": "PodResizePending", "status": "True", "reason": reason}]);
    let less = || (granted("500m"), granted("500m"));
    assert_eq!(cpus_while_resized(less().0, less().1, pending("Deferred")), 2, "what is asked for may still come");
    assert_eq!(cpus_while_resized(less().0, less().1, pending("Infeasible")), 1, "what is asked for never comes");
}

#[test]
fn limits_without_requests_are_requests_also_in_a_template() {
    let limited = json!([{"name": "c", "image": "i", "resources": {"limits": {"cpu": "3"}}}]);
    assert_eq!(cpus(pod("p").set("/spec/containers", limited)), 3);
    let resources = json!({"limits": {"cpu": "4", "memory": "1Gi"}});
    assert_eq!(cpus(pod("p").set("/spec/resources", resources.clone())), 1, "the container asks for 1");
    let silent = json!([{"name": "c", "image": "i"}]);
    assert_eq!(cpus(pod("p").set("/spec/containers", silent).set("/spec/resources", resources)), 4);
}

#[test]
fn what_is_too_large_to_count_is_an_error_that_names_the_field() {
    let error = |pod: Built| {
        let pod: Pod = serde_json::from_value(pod.0).unwrap();
        Cluster::default().upsert_pod(&pod).unwrap_err().to_string()
    };
    let huge = "99999999999999999999999999999";
    assert_eq!(
        error(pod("p").set("/spec/containers", json!([container("a", huge), container("b", huge)]))),
        "Pod default/p: spec.containers[1]: Invalid value: \"cpu\": asks for more of this resource than can be counted"
    );
    assert!(error(pod("p").asks("memory", "1e30")).contains("spec.containers[0].resources.requests[memory]"));
    assert!(error(pod("p").asks("memory", "-1")).contains("must be greater than or equal to 0"));
    let largest = pod("p").asks("memory", "8Ei");
    assert_eq!(fits(node("a", 1).offers("memory", "16Ei"), &[], largest.clone()), Ok(()));
    refused(
        fits(node("a", 1).offers("memory", "8Ei"), &[pod("o").asks("memory", "1").on("a").priority(9)], largest),
        "Missing",
    );
}

#[test]
fn fractions_are_rounded_up() {
    let half = |name: &str| pod(name).asks("cpu", "500m").asks("example.com/fraction", "500m");
    let offering = node("a", 1).offers("example.com/fraction", "1");
    assert_eq!(fits(offering.clone(), &[], half("p")), Ok(()));
    refused(fits(offering, &[half("other").priority(9).on("a")], half("p")), "Missing 1 example.com/fraction.");
}

#[test]
fn ended_pods_use_no_capacity() {
    let ended = pod("other").priority(9).on("a").set("/status/phase", json!("Succeeded"));
    assert_eq!(fits(node("a", 1), &[ended], pod("p")), Ok(()));
}

fn affine(kind: &str, app: &str, name: &str) -> Built {
    let term = json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": app}}});
    let affinity = json!({kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}});
    pod(name).set("/spec/affinity", affinity)
}

#[test]
fn anti_affinity_keeps_apart_from_both_sides_and_across_the_domain() {
    let zoned = |name: &str, zone: &str| node(name, 4).label("zone", zone);
    let db = pod("db").label("app", "db").priority(9).on("b");
    let two = |zone: &str| vec![zoned("b", zone), db.clone()];
    let hater = || affine("podAntiAffinity", "db", "p");
    refused(fits(zoned("a", "one"), &two("one"), hater()), "node(s) didn't satisfy pod anti-affinity rules");
    assert_eq!(fits(zoned("a", "one"), &two("two"), hater()), Ok(()));
    let hating = affine("podAntiAffinity", "web", "h").priority(9).on("a");
    refused(fits(zoned("a", "one"), std::slice::from_ref(&hating), pod("p").label("app", "web")), "anti-affinity");
    assert_eq!(fits(zoned("a", "one"), &[hating], pod("p").label("app", "db")), Ok(()));
}

#[test]
fn affinity_needs_a_matching_pod_in_the_domain_or_the_pod_itself_as_the_first() {
    let zoned = || node("a", 4).label("zone", "one");
    let db = pod("db").label("app", "db").priority(9).on("a");
    assert_eq!(fits(zoned(), std::slice::from_ref(&db), affine("podAffinity", "db", "p")), Ok(()));
    refused(fits(zoned(), &[], affine("podAffinity", "db", "p")), "1 node(s) didn't match pod affinity rules.");
    assert_eq!(fits(zoned(), &[], affine("podAffinity", "db", "p").label("app", "db")), Ok(()));
    refused(fits(node("a", 4), &[db], affine("podAffinity", "db", "p")), "pod affinity rules");
}
