//! Native PodGroups: how they are evicted, and that Giveway does not preempt for them.

use crate::common::*;
use giveway_crds::native;
use giveway_planner::{Cluster, Decision, UnitKind};

/// Two nodes of two CPUs, full of the four members `a0` to `a3` of native group `a`, whose own priority is 5.
fn full_of_a_group(group: &Built) -> Cluster {
    let members = (0..4).map(|i| pod(&format!("a{i}")).native("a").priority(5).on(if i < 2 { "n1" } else { "n2" }));
    let nodes = [node("n1", 2), node("n2", 2)];
    cluster(nodes.iter().chain([group]).chain(&members.collect::<Vec<_>>()))
}

fn with_gang(mut cluster: Cluster, priority: i32, size: usize) -> Cluster {
    waiting_gang("train", priority, size).iter().for_each(|object| add(&mut cluster, object));
    cluster
}

#[test]
fn a_native_group_of_mode_all_is_evicted_together_also_when_one_pod_would_suffice() {
    let cluster = with_gang(full_of_a_group(&native_group("a", 10, "all")), 100, 1);
    let plan = planned(decide(&cluster, &for_group("train")));
    assert_eq!(victims(&plan), ["scheduling.k8s.io/a"]);
    let victim = &plan.victims[0];
    assert_eq!((victim.kind, victim.priority, victim.pods.len()), (UnitKind::PodGroup, 10, 4));
}

#[test]
fn a_native_group_of_mode_single_is_evicted_pod_by_pod() {
    let cluster = with_gang(full_of_a_group(&native_group("a", 10, "single")), 100, 1);
    let plan = planned(decide(&cluster, &for_group("train")));
    check_plan(&cluster, &for_group("train"), &plan).unwrap();
    assert_eq!((plan.victims.len(), plan.victims[0].kind, plan.victims[0].priority), (1, UnitKind::Pod, 10));
}

#[test]
fn the_priority_of_a_native_group_counts_for_its_pods_whatever_their_own() {
    for mode in ["all", "single"] {
        let above = with_gang(full_of_a_group(&native_group("a", 100, mode)), 100, 1);
        let decision = decide(&above, &for_group("train"));
        assert!(matches!(decision, Decision::Unschedulable(_)), "{mode}: its pods' 5 does not count: {decision:?}");
        let below = with_gang(full_of_a_group(&native_group("a", 3, mode)), 4, 1);
        let plan = planned(decide(&below, &for_group("train")));
        assert_eq!(plan.victims[0].priority, 3, "{mode}: neither does it protect");
    }
}

#[test]
fn a_pod_that_names_a_native_group_which_does_not_exist_is_a_pod_with_its_own_priority() {
    let of_none = pod("p").native("nowhere").priority(5).on("n1");
    let plain = pod("q").priority(5).on("n1");
    let cluster = with_gang(cluster([&node("n1", 2), &of_none, &plain]), 6, 1);
    let plan = planned(decide(&cluster, &for_group("train")));
    assert_eq!(plan.victims[0].kind, UnitKind::Pod);
    let preferred = with_gang(self::cluster([&node("n1", 2), &of_none.clone().priority(4), &plain]), 6, 1);
    assert_eq!(victims(&planned(decide(&preferred, &for_group("train")))), ["p"], "its own priority counts");
    // Of two equal pods the later name is evicted first; the name of a group does not make a pod more important.
    let (late, early) = (pod("z").native("nowhere").priority(5).on("n1"), pod("b").priority(5).on("n1"));
    let equals = with_gang(self::cluster([&node("n1", 2), &late, &early]), 6, 1);
    assert_eq!(victims(&planned(decide(&equals, &for_group("train")))), ["z"]);
}

#[test]
fn a_native_group_and_ours_of_one_name_are_two_groups() {
    let ours = gang("a", 50, 1).whole();
    let of_ours = pod("ours").group("a").priority(50).on("n1");
    let of_native = pod("theirs").native("a").priority(5).on("n1");
    let both = pod("both").group("a").native("a").priority(50).on("n2");
    let objects = [node("n1", 2), node("n2", 1), ours, native_group("a", 10, "all"), of_ours, of_native, both];
    let cluster = with_gang(cluster(&objects), 60, 1);
    let plan = planned(decide(&cluster, &for_group("train")));
    assert_eq!(victims(&plan), ["scheduling.k8s.io/a"]);
    let pods: Vec<&str> = plan.victims[0].pods.iter().map(|pod| pod.key.name.as_str()).collect();
    assert_eq!(pods, ["both", "theirs"], "a pod with both is the native group's");
}

#[test]
fn no_pod_is_evicted_for_a_member_of_a_native_group() {
    let low = pod("low").priority(1).on("n1");
    let native = native_group("a", 100, "single");
    for objects in [vec![node("n1", 1), low.clone(), native], vec![node("n1", 1), low]] {
        let mut cluster = cluster(&objects);
        cluster.trust_pod_policy = true;
        add(&mut cluster, &pod("waits").native("a").priority(100));
        let decision = decide(&cluster, &for_pod("waits"));
        assert!(matches!(decision, Decision::Unschedulable(_)), "{decision:?}");
        let group = giveway_planner::Preemptor::Group(key(&native::key_name("a")));
        let decision = decide(&cluster, &group);
        assert!(!matches!(decision, Decision::Preempt(_)), "{decision:?}");
    }
}

#[test]
fn creating_deleting_or_changing_a_native_group_changes_the_priority_that_counts() {
    let mut cluster = full_of_a_group(&native_group("a", 10, "all"));
    let priority = |cluster: &Cluster| cluster.effective_priority(cluster.pod(&key("a0")).unwrap());
    assert_eq!(priority(&cluster), 10);
    assert_eq!(cluster.native_groups().collect::<Vec<_>>(), [key("a")]);
    assert!(cluster.remove_native_group(&key("a")) && !cluster.remove_native_group(&key("a")));
    assert_eq!((priority(&cluster), cluster.native_groups().count()), (5, 0));
    let mut of_class = native_group("a", 0, "all");
    of_class.0["spec"]["priority"] = serde_json::Value::Null;
    add(&mut cluster, &of_class.set("/spec/priorityClassName", "high".into()));
    assert_eq!(priority(&cluster), 5, "a class that does not exist gives nothing");
    let class = serde_json::from_value(serde_json::json!({"metadata": {"name": "high"}, "value": 70})).unwrap();
    cluster.upsert_class(&class);
    assert_eq!(priority(&cluster), 70);
}
