//! Rescue of critical add-ons: the three steps, pods that are not evicted, and random clusters compared with every possible choice.

use crate::common::world::for_all;
use crate::common::{Built, add, budget, cluster, gang, key, node, pod};
use giveway_planner::rescue::{self, Eviction, Terms, feasible_node, must_stay};
use giveway_planner::{Cluster, Context, ObjectKey, Rescue, SmolStr, Step};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::{bool, option};
use serde_json::json;
use std::collections::BTreeSet;

const CRITICAL: &str = "scheduling.giveway.dev/critical-addon";

fn terms() -> Terms {
    Terms { namespaces: BTreeSet::from(["default".to_owned()]), stranded: false }
}

fn stranded() -> Terms {
    Terms { stranded: true, ..terms() }
}

/// A critical add-on by its annotation, of ordinary priority.
fn addon(name: &str) -> Built {
    pod(name).annotation(CRITICAL, "true")
}

fn grace(built: Built, seconds: i64) -> Built {
    built.set("/spec/terminationGracePeriodSeconds", json!(seconds))
}

/// A pod that runs, with a controller and no grace.
fn low(name: &str, on: &str) -> Built {
    let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "r", "uid": "u", "controller": true}]);
    grace(pod(name).on(on).set("/metadata/ownerReferences", owner), 0)
}

fn daemon(built: Built, on: &str) -> Built {
    let owner = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": true}]);
    pinned(built, on).set("/metadata/ownerReferences", owner)
}

fn pinned(built: Built, on: &str) -> Built {
    let term = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [on]}]});
    let required = json!({"nodeSelectorTerms": [term]});
    built.set("/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution", required)
}

fn with_port(mut built: Built) -> Built {
    built.0["spec"]["containers"][0]["ports"] = json!([{"containerPort": 53, "hostPort": 53}]);
    built
}

fn decide(cluster: &Cluster, terms: &Terms) -> Rescue {
    giveway_planner::rescue(cluster, &key("dns"), terms, &Context::default())
}

fn eviction(cluster: &Cluster, terms: &Terms) -> Eviction {
    match decide(cluster, terms) {
        Rescue::Evict(eviction) => *eviction,
        Rescue::Hopeless(why) => panic!("hopeless: {why}"),
        other => panic!("{other:?}"),
    }
}

fn hopeless(cluster: &Cluster, terms: &Terms) -> String {
    match decide(cluster, terms) {
        Rescue::Hopeless(why) => why.to_string(),
        other => panic!("{other:?}"),
    }
}

fn names(eviction: &Eviction) -> Vec<&str> {
    let mut names: Vec<&str> = eviction.plan.victims.iter().map(|unit| unit.key.name.as_str()).collect();
    names.sort_unstable();
    names
}

#[test]
fn each_step_is_taken_only_when_the_one_before_frees_no_node() {
    let third = [node("n3", 1), low("guarded", "n3").label("app", "web"), budget("web", "web", 0)];
    let second = [node("n2", 2), grace(low("slow-a", "n2"), 11), grace(low("slow-b", "n2"), 3600)];
    let first = [node("n1", 4), low("a", "n1"), low("b", "n1"), low("c", "n1"), low("d", "n1")];
    let wants = |cpus: &str| vec![addon("dns").asks("cpu", cpus)];
    let world = |parts: &[&[Built]]| cluster(&parts.concat());
    // Three pods without grace weigh less than one whose grace is shortened, and that less than a violated budget.
    let found = eviction(&world(&[&third, &second, &first, &wants("1")]), &terms());
    assert_eq!((found.step, names(&found)), (Step::Gentle, vec!["a"]));
    let found = eviction(&world(&[&third, &second, &first, &wants("3")]), &terms());
    assert_eq!((found.step, names(&found)), (Step::Gentle, vec!["a", "b", "c"]));
    let found = eviction(&world(&[&third, &second, &wants("1")]), &terms());
    assert_eq!((found.step, found.shortened, names(&found)), (Step::ShorterGrace, 1, vec!["slow-a"]));
    let found = eviction(&world(&[&third, &wants("1")]), &terms());
    assert_eq!((found.step, found.plan.cost.budget_violations, names(&found)), (Step::Any, 1, vec!["guarded"]));
    assert_eq!(found.plan.strategy, "critical-addon");
}

#[test]
fn within_a_step_pods_count_first_then_places_elsewhere_then_requests_then_controllers_then_names() {
    let alone = |built: Built| built.set("/metadata/ownerReferences", json!([]));
    let objects = |rest: Vec<Built>| cluster(&[vec![addon("dns").asks("cpu", "2")], rest].concat());
    let one = objects(vec![
        node("n1", 2),
        low("a", "n1"),
        low("b", "n1"),
        node("n2", 3),
        low("large", "n2").asks("cpu", "3"),
    ]);
    assert_eq!(names(&eviction(&one, &terms())), ["large"], "one pod rather than two");
    let smaller = objects(vec![
        node("n1", 3),
        low("large", "n1").asks("cpu", "3"),
        node("n2", 3),
        low("small", "n2").asks("cpu", "2"),
        low("rest", "n2"),
    ]);
    assert_eq!(names(&eviction(&smaller, &terms())), ["small"]);
    let owned = objects(vec![
        node("n1", 2),
        alone(low("alone", "n1").asks("cpu", "2")),
        node("n2", 2),
        low("owned", "n2").asks("cpu", "2"),
    ]);
    assert_eq!(names(&eviction(&owned, &terms())), ["owned"]);
    let named =
        objects(vec![node("n1", 2), low("z", "n1").asks("cpu", "2"), node("n2", 2), low("a", "n2").asks("cpu", "2")]);
    assert_eq!(names(&eviction(&named, &terms())), ["z"], "by the name of the node");
}

#[test]
fn two_alike_pods_are_evicted_rather_than_the_one_that_frees_most_with_another() {
    let low = |name: &str, cpus: &str| low(name, "n1").asks("cpu", cpus);
    let objects = [node("n1", 7), addon("dns").asks("cpu", "4"), low("large", "3"), low("a", "2"), low("b", "2")];
    assert_eq!(
        names(&eviction(&cluster(&objects), &terms())),
        ["a", "b"],
        "both pairs are two pods, this one requests less"
    );
}

#[test]
fn a_pod_that_fits_elsewhere_is_evicted_before_a_smaller_one_that_does_not() {
    let only_n1 = |built: Built| built.set("/spec/nodeSelector", json!({"hostname": "n1"}));
    let objects = [
        addon("dns").asks("cpu", "2").set("/spec/tolerations", json!([])),
        node("n1", 5),
        only_n1(low("stays", "n1").asks("cpu", "2")),
        low("movable", "n1").asks("cpu", "3"),
        node("n2", 3).set("/spec/taints", json!([{"key": "batch", "effect": "NoSchedule"}])),
    ];
    let tolerates = json!([{"key": "batch", "operator": "Exists"}]);
    let mut all = objects.to_vec();
    all[3] = all[3].clone().set("/spec/tolerations", tolerates);
    assert_eq!(names(&eviction(&cluster(&all), &terms())), ["movable"]);
    assert_eq!(
        names(&eviction(&cluster(&objects), &terms())),
        ["stays"],
        "if it fits nowhere else the smaller one is evicted"
    );
}

#[test]
fn critical_pods_those_of_daemonsets_and_static_ones_stay() {
    let system = low("system", "n1").priority(2_000_000_000);
    let mirror = low("static", "n1").annotation("kubernetes.io/config.mirror", "x");
    let other = grace(addon("other").on("n1"), 0);
    let objects = [addon("dns"), node("n1", 4), system, mirror, other, daemon(low("agent", "n1"), "n1")];
    let mut all = cluster(&objects);
    assert_eq!(
        hopeless(&all, &terms()),
        "No node can be freed for it, so no pod is evicted. The nearest is n1: without the 0 pods there that may be evicted it still lacks 1 cpu; 4 pods there cannot be evicted."
    );
    let elsewhere = Terms { namespaces: BTreeSet::from(["kube-system".to_owned()]), stranded: false };
    assert_eq!(names(&eviction(&all, &elsewhere)), ["other"], "an annotation counts only where the administrator says");
    // An owner reference that any user can set does not protect a pod that can run on another node.
    let owner = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": true}]);
    add(&mut all, &low("agent", "n1").set("/metadata/ownerReferences", owner));
    assert_eq!(names(&eviction(&all, &terms())), ["agent"]);
}

#[test]
fn a_stranded_pod_displaces_its_equals_only_if_all_of_them_fit_elsewhere_at_the_same_time() {
    let system = |built: Built| built.priority(2_000_000_000);
    let dns = |cpus: &str| daemon(system(pod("dns")).asks("cpu", cpus), "n1");
    let world = |cpus: &str, spare: usize| {
        let running = [system(low("a", "n1")), system(low("b", "n1")), node("n1", 2)];
        cluster(running.iter().chain(&[dns(cpus), node("n2", spare)]))
    };
    assert!(hopeless(&world("1", 2), &terms()).starts_with("No node can be freed for it, so no pod is evicted."));
    assert_eq!(names(&eviction(&world("1", 1), &stranded())), ["a"]);
    assert_eq!(names(&eviction(&world("2", 2), &stranded())), ["a", "b"]);
    let why = hopeless(&world("2", 1), &stranded());
    assert_eq!(
        why,
        "No node can be freed for it, so no pod is evicted. The nearest is n1: without the 2 pods there that may be evicted it would fit, but the critical pods among them would not all fit on other nodes; 0 pods there cannot be evicted. 1 node(s) didn't match Pod's node affinity/selector."
    );
    // An add-on that could run on another node if that had enough capacity is not stranded.
    let mut free = world("1", 1);
    add(&mut free, &system(pod("dns")).asks("cpu", "2"));
    assert!(matches!(decide(&free, &stranded()), Rescue::Hopeless(_)));
}

#[test]
fn no_pod_is_evicted_if_evictions_do_not_help() {
    let running = [node("n1", 1), low("a", "n1")];
    let with = |built: Built| cluster(running.iter().chain(std::iter::once(&built)));
    let selector = addon("dns").set("/spec/nodeSelector", json!({"disk": "ssd"}));
    assert_eq!(
        hopeless(&with(selector), &terms()),
        "It fits on no node, even with all pods evicted, so no pod is evicted: 1 node(s) didn't match Pod's node affinity/selector."
    );
    let volume = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]);
    assert_eq!(
        hopeless(&with(addon("dns").set("/spec/volumes", volume)), &terms()),
        "No pod is evicted for it, because eviction may not help: where it can run depends on claim c, which was not found."
    );
    assert_eq!(
        hopeless(&with(addon("dns").asks("cpu", "3")), &terms()),
        "No node can be freed for it, so no pod is evicted. The nearest is n1: without the 1 pod there that may be evicted it still lacks 2 cpu; 0 pods there cannot be evicted."
    );
    assert_eq!(hopeless(&cluster(&[addon("dns")]), &terms()), "There is no node.");
}

#[test]
fn ports_and_anti_affinity_with_victims_are_cured() {
    let taken = [node("n1", 4), with_port(low("holder", "n1")), low("innocent", "n1"), with_port(addon("dns"))];
    assert_eq!(names(&eviction(&cluster(&taken), &terms())), ["holder"]);
    let term = json!({"topologyKey": "hostname", "labelSelector": {"matchLabels": {"app": "noisy"}}});
    let apart = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
    let dns = addon("dns").set("/spec/affinity/podAntiAffinity", apart);
    let noisy = [node("n1", 4), low("noisy", "n1").label("app", "noisy"), low("innocent", "n1"), dns];
    assert_eq!(names(&eviction(&cluster(&noisy), &terms())), ["noisy"]);
}

#[test]
fn a_group_is_evicted_with_its_member_and_all_its_pods_count() {
    let group = gang("train", 0, 1).whole();
    let member = |name: &str, on: &str| low(name, on).group("train");
    let objects = [addon("dns"), group, node("n1", 1), member("m-0", "n1"), node("n2", 1), member("m-1", "n2")];
    let found = eviction(&cluster(&objects), &terms());
    assert_eq!((names(&found), found.plan.cost.victim_pods), (vec!["train"], 2));
    let two = [node("n3", 1).offers("cpu", "2"), low("a", "n3")];
    let single =
        eviction(&cluster(objects.iter().chain(&two[..1]).chain(&[low("b", "n3").asks("cpu", "2")])), &terms());
    assert_eq!(names(&single), ["b"], "one pod rather than a group of two");
    let critical = member("m-1", "n2").priority(2_000_000_000);
    let kept = cluster(objects[..5].iter().chain(std::iter::once(&critical)));
    assert!(matches!(decide(&kept, &terms()), Rescue::Hopeless(_)), "with a critical member the group stays");
}

#[test]
fn a_guaranteed_budget_holds_against_an_ordinary_priority_and_not_against_a_critical_one() {
    let running = [node("n1", 1), low("db", "n1").label("app", "db").threshold(2_000_000_000), budget("db", "db", 0)];
    let with = |built: Built| cluster(running.iter().chain(std::iter::once(&built)));
    assert_eq!(
        hopeless(&with(addon("dns").priority(1_000_000_000)), &terms()),
        "No node can be freed for it, so no pod is evicted. The nearest is n1: without the 1 pod there that may be evicted it would fit, but too many of them belong to budget default/db, which allows 0 more disruptions to preemptors below 2000000000; 0 pods there cannot be evicted."
    );
    let found = eviction(&with(pod("dns").priority(2_000_000_000)), &terms());
    assert_eq!((found.step, names(&found)), (Step::Any, vec!["db"]));
}

#[test]
fn no_pod_is_evicted_if_a_node_is_or_becomes_feasible() {
    let mut all = cluster(&[addon("dns"), node("n1", 1), low("a", "n1")]);
    assert_eq!(feasible_node(&all, &key("dns"), &Context::default()), None);
    add(&mut all, &low("a", "n1").terminating());
    assert_eq!(decide(&all, &terms()), Rescue::Fits("n1".into()));
    add(&mut all, &node("n0", 1));
    assert_eq!(decide(&all, &terms()), Rescue::Fits("n0".into()));
    assert_eq!(feasible_node(&all, &key("dns"), &Context::default()).as_deref(), Some("n0"));
    add(&mut all, &addon("dns").on("n0"));
    assert_eq!(decide(&all, &terms()), Rescue::Nothing);
}

#[test]
fn a_plan_is_checked_against_the_pods_that_must_stay_now() {
    let mut all = cluster(&[addon("dns"), node("n1", 1), low("a", "n1")]);
    let victims = BTreeSet::from([SmolStr::new("uid-a"), SmolStr::new("uid-gone")]);
    assert_eq!(must_stay(&all, &key("dns"), &victims, &terms()), None);
    add(&mut all, &low("a", "n1").annotation(CRITICAL, "true"));
    assert_eq!(must_stay(&all, &key("dns"), &victims, &terms()).map(|pod| &pod.key), Some(&key("a")));
}

#[test]
fn a_pod_under_two_budgets_can_only_be_deleted_which_is_the_third_step() {
    let both = |name: &str| low(name, "n1").label("app", "web").label("tier", "web");
    let tier = json!({"matchLabels": {"tier": "web"}});
    let budgets = [budget("app", "web", 5), budget("tier", "-", 5).set("/spec/selector", tier)];
    let objects = [addon("dns"), node("n1", 1), both("tangled"), node("n2", 1), grace(low("slow", "n2"), 30)];
    let found = eviction(&cluster(objects.iter().chain(&budgets)), &terms());
    assert_eq!((found.step, names(&found)), (Step::ShorterGrace, vec!["slow"]));
    let found = eviction(&cluster(objects[..3].iter().chain(&budgets)), &terms());
    assert_eq!((found.step, names(&found)), (Step::Any, vec!["tangled"]));
}

#[test]
fn a_pod_that_takes_too_long_to_terminate_is_not_waited_for() {
    let all = cluster(&[addon("dns"), node("n1", 2), low("going", "n1").terminating(), low("a", "n1")]);
    assert_eq!(decide(&all, &terms()), Rescue::Fits("n1".into()));
    let context = Context { lingering: BTreeSet::from([SmolStr::new("uid-going")]), ..Context::default() };
    match rescue::rescue(&all, &key("dns"), &terms(), &context) {
        Rescue::Evict(found) => assert_eq!(names(&found), ["a"]),
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_pod_of_a_daemonset_protects_no_group() {
    let member = |name: &str, on: &str| low(name, on).group("train");
    let group = gang("train", 0, 1).whole();
    let objects = [addon("dns"), group, node("n1", 1), member("m-0", "n1"), node("n2", 1)];
    let shield = daemon(low("shield", "n2"), "n2").group("train");
    let found = eviction(&cluster(objects.iter().chain(std::iter::once(&shield))), &terms());
    assert_eq!((names(&found), found.plan.cost.victim_pods), (vec!["train"], 2));
}

#[test]
fn nominations_of_pods_with_the_same_priority_for_kube_scheduler_are_respected() {
    let nominated = pod("other").priority(100).nominated("n2");
    let all = cluster(&[addon("dns"), node("n1", 1), low("a", "n1"), node("n2", 1), nominated]);
    assert_eq!(names(&eviction(&all, &terms())), ["a"], "n2 is free, and reserved");
}

/// A running pod of a random cluster.
#[derive(Clone, Debug)]
struct Running {
    node: usize,
    cpus: usize,
    grace: i64,
    app: usize,
    controlled: bool,
    group: Option<usize>,
    guarded: bool,
    port: bool,
    /// 0: critical; 1: of a DaemonSet; others: ordinary.
    special: usize,
}

/// A random cluster; pod `dns` requests `cpus`, and the host port if `port`.
#[derive(Clone, Debug)]
struct Small {
    nodes: Vec<usize>,
    running: Vec<Running>,
    budgets: Vec<usize>,
    cpus: usize,
    port: bool,
    critical: bool,
    /// True if it can run on the first node only.
    pinned: bool,
    stranded: bool,
}

const PRIORITY: i32 = 2_000_000_000;

fn smalls() -> impl proptest::strategy::Strategy<Value = Small> {
    let one = (
        (0..4usize, 1..=3usize, prop_oneof![Just(0i64), Just(10), Just(30)], 0..3usize),
        (bool::weighted(0.7), option::weighted(0.3, 0..2usize), bool::weighted(0.2), bool::weighted(0.2), 0..9usize),
    );
    let running = |((node, cpus, grace, app), (controlled, group, guarded, port, special))| Running {
        node,
        cpus,
        grace,
        app,
        controlled,
        group,
        guarded,
        port,
        special,
    };
    let addon = (1..=5usize, bool::weighted(0.2), bool::weighted(0.4), bool::weighted(0.3), bool::ANY);
    (vec(1..=7usize, 1..=4), vec(one.prop_map(running), 3..=14), vec(0..3usize, 3), addon).prop_map(
        |(nodes, all, budgets, (cpus, port, critical, pinned, stranded))| {
            let mut free = nodes.clone();
            let mut ports = vec![false; nodes.len()];
            let mut running = Vec::new();
            for pod in all {
                let node = pod.node % nodes.len();
                if free[node] >= pod.cpus && !(pod.port && ports[node]) {
                    free[node] -= pod.cpus;
                    ports[node] |= pod.port;
                    running.push(Running { node, ..pod });
                }
            }
            Small { nodes, running, budgets, cpus, port, critical, pinned, stranded }
        },
    )
}

/// What a choice weighs: step, disturbances, pods, homeless, requests (in CPUs), uncontrolled, node, names.
type Heft = (i32, usize, usize, usize, usize, usize, usize, Vec<String>);

impl Small {
    fn objects(&self) -> Vec<Built> {
        let mut all: Vec<Built> = (0..self.nodes.len()).map(|n| node(&format!("n{n}"), self.nodes[n])).collect();
        for (b, allowed) in self.budgets.iter().enumerate() {
            all.push(budget(&format!("b{b}"), &b.to_string(), i32::try_from(*allowed).unwrap()));
        }
        all.extend((0..2).map(|g| gang(&format!("g{g}"), PRIORITY, 1).whole()));
        for (p, it) in self.running.iter().enumerate() {
            let on = format!("n{}", it.node);
            let mut built = grace(pod(&name(p)).on(&on).asks("cpu", &it.cpus.to_string()), it.grace);
            built = built.label("app", &it.app.to_string());
            if it.controlled {
                built = low(&name(p), &on).asks("cpu", &it.cpus.to_string()).label("app", &it.app.to_string());
                built = grace(built, it.grace);
            }
            built = if it.port { with_port(built) } else { built };
            built = if it.guarded { built.threshold(PRIORITY) } else { built };
            built = match it.special {
                0 => built.priority(PRIORITY),
                1 => daemon(built, &on),
                _ => built.priority(100),
            };
            if let Some(group) = self.group_of(p) {
                built = built.label("scheduling.giveway.dev/pod-group", &format!("g{group}"));
            }
            all.push(built);
        }
        let mut dns = addon("dns").asks("cpu", &self.cpus.to_string());
        dns = if self.port { with_port(dns) } else { dns };
        dns = if self.critical { dns.priority(PRIORITY) } else { dns };
        all.push(if self.pinned { pinned(dns, "n0") } else { dns });
        all
    }

    /// Pods of a DaemonSet are in no group here.
    fn group_of(&self, pod: usize) -> Option<usize> {
        self.running[pod].group.filter(|_| self.running[pod].special != 1)
    }

    fn only_node(&self) -> bool {
        self.pinned || self.nodes.len() == 1
    }

    fn may_evict(&self, unit: &[usize]) -> bool {
        unit.iter().all(|p| match self.running[*p].special {
            0 => self.stranded && self.only_node() && self.critical && self.group_of(*p).is_none(),
            1 => false,
            _ => true,
        })
    }

    fn free(&self, node: usize, gone: &[usize]) -> i64 {
        let used = (0..self.running.len()).filter(|p| self.running[*p].node == node && !gone.contains(p));
        let used: usize = used.map(|p| self.running[p].cpus).sum();
        i64::try_from(self.nodes[node]).unwrap() - i64::try_from(used).unwrap()
    }

    fn port_taken(&self, node: usize, gone: &[usize]) -> bool {
        (0..self.running.len()).any(|p| self.running[p].node == node && self.running[p].port && !gone.contains(&p))
    }

    fn fits(&self, node: usize, gone: &[usize]) -> bool {
        (!self.pinned || node == 0)
            && self.free(node, gone) >= i64::try_from(self.cpus).unwrap()
            && !(self.port && self.port_taken(node, gone))
    }

    fn place_elsewhere(&self, p: usize, without: usize) -> bool {
        let pod = &self.running[p];
        (0..self.nodes.len()).filter(|n| *n != without).any(|n| {
            let own: &[usize] = if pod.port { &[p] } else { &[] };
            self.free(n, own) >= i64::try_from(pod.cpus).unwrap() && !(pod.port && self.port_taken(n, own))
        })
    }

    /// Returns true if all of these fit at the same time, the largest placed first, each on the first node where it fits.
    fn all_elsewhere(&self, pods: &[usize], gone: &[usize], without: usize) -> bool {
        let mut order = pods.to_vec();
        order.sort_by_key(|p| (std::cmp::Reverse(self.running[*p].cpus), name(*p)));
        let mut free: Vec<i64> = (0..self.nodes.len()).map(|n| self.free(n, gone)).collect();
        let mut ports: Vec<bool> = (0..self.nodes.len()).map(|n| self.port_taken(n, gone)).collect();
        order.into_iter().all(|p| {
            let (cpus, port) = (i64::try_from(self.running[p].cpus).unwrap(), self.running[p].port);
            let place = (0..free.len()).find(|n| *n != without && free[*n] >= cpus && !(port && ports[*n]));
            place.inspect(|n| (free[*n], ports[*n]) = (free[*n] - cpus, ports[*n] || port)).is_some()
        })
    }

    fn heft(&self, node: usize, units: &[Vec<usize>]) -> Option<Heft> {
        let mut evicted: Vec<usize> = units.iter().flatten().copied().collect();
        evicted.sort_by_key(|p| name(*p));
        if !self.fits(node, &evicted) {
            return None;
        }
        let of = |b: usize| evicted.iter().filter(move |p| self.running[**p].app == b);
        let broken: usize = (0..3).map(|b| of(b).count().saturating_sub(self.budgets[b])).sum();
        // A unit of which one pod is guarded is guarded as a whole.
        let guarded = |b: usize| {
            units.iter().any(|unit| {
                unit.iter().any(|p| self.running[*p].guarded) && unit.iter().any(|p| self.running[*p].app == b)
            })
        };
        if !self.critical && (0..3).any(|b| guarded(b) && of(b).count() > self.budgets[b]) {
            return None;
        }
        let critical: Vec<usize> = evicted.iter().copied().filter(|p| self.running[*p].special == 0).collect();
        if critical.iter().any(|p| !self.place_elsewhere(*p, node)) || !self.all_elsewhere(&critical, &evicted, node) {
            return None;
        }
        let shortened = evicted.iter().filter(|p| self.running[**p].grace > 10).count();
        let step = if broken > 0 {
            3
        } else if shortened > 0 {
            2
        } else {
            1
        };
        let mut names: Vec<String> = units.iter().map(|unit| self.unit_name(unit)).collect();
        names.sort();
        Some((
            step,
            broken + shortened,
            evicted.len(),
            evicted.iter().filter(|p| !self.place_elsewhere(**p, node)).count(),
            evicted.iter().map(|p| self.running[*p].cpus).sum(),
            evicted.iter().filter(|p| !self.running[**p].controlled && self.running[**p].special != 1).count(),
            node,
            names,
        ))
    }

    fn unit_name(&self, unit: &[usize]) -> String {
        self.group_of(unit[0]).map_or_else(|| name(unit[0]), |group| format!("g{group}"))
    }

    fn units(&self) -> Vec<Vec<usize>> {
        let pods = 0..self.running.len();
        let mut units: Vec<Vec<usize>> =
            pods.clone().filter(|p| self.group_of(*p).is_none()).map(|p| vec![p]).collect();
        units.extend((0..2).map(|g| pods.clone().filter(|p| self.group_of(*p) == Some(g)).collect::<Vec<_>>()));
        units.retain(|unit| !unit.is_empty() && self.may_evict(unit));
        units
    }

    /// Every choice on every node, tried one by one.
    fn best(&self) -> Option<Heft> {
        let mut best: Option<Heft> = None;
        for node in 0..self.nodes.len() {
            let touches = |unit: &Vec<usize>| unit.iter().any(|p| self.running[*p].node == node);
            let units: Vec<Vec<usize>> = self.units().into_iter().filter(touches).collect();
            for mask in 0..1usize << units.len() {
                let chosen: Vec<Vec<usize>> =
                    units.iter().enumerate().filter(|(u, _)| mask & (1 << u) != 0).map(|(_, u)| u.clone()).collect();
                let heft = self.heft(node, &chosen);
                if heft.is_some() && (best.is_none() || heft < best) {
                    best = heft;
                }
            }
        }
        best
    }
}

fn name(pod: usize) -> String {
    format!("p{pod:02}")
}

#[test]
fn in_random_clusters_step_and_victims_are_those_of_the_exhaustive_oracle() {
    let evicted = for_all(2000, 11, smalls(), |small| {
        let all = cluster(&small.objects());
        let terms = Terms { stranded: small.stranded, ..terms() };
        let found = rescue::rescue(&all, &ObjectKey::new("default", "dns"), &terms, &Context::default());
        let wanted = small.best();
        match (&found, wanted) {
            (Rescue::Fits(_), Some(wanted)) => prop_assert_eq!(wanted.2, 0, "no eviction is needed"),
            (Rescue::Hopeless(_), wanted) => prop_assert_eq!(wanted, None),
            (Rescue::Evict(found), Some(wanted)) => {
                prop_assert_eq!(found.step.number(), wanted.0);
                prop_assert_eq!(names(found), wanted.7);
                prop_assert_eq!(&found.plan.placements[0].node, &format!("n{}", wanted.6));
                prop_assert_eq!(found.plan.cost.victim_pods, wanted.2);
                return Ok(true);
            }
            other => prop_assert!(false, "{:?}", other),
        }
        Ok(false)
    });
    assert!(evicted >= 400, "only {evicted} of the clusters needed evictions");
}
