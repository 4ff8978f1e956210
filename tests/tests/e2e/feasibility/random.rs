//! Random small clusters: nodes, bound pods and test pods, with every constraint that the filters support.
//!
//! All choices follow from a seed. Slots share one real cluster and must not affect each other: each has its own topology keys,
//! host names, namespaces and node selector, and pod affinity across namespaces selects by the label `slot`.

use giveway_tests::random::Random;
use serde_json::{Value, json};

/// Returns the namespaces of a slot.
pub fn namespaces(slot: usize) -> [Value; 2] {
    let namespace = |name: &str, team: &str| {
        let labels = json!({"slot": slot.to_string(), "team": team});
        json!({"metadata": {"name": format!("s{slot}-{name}"), "labels": labels}})
    };
    [namespace("one", "red"), namespace("two", "blue")]
}

pub fn node_name(slot: usize, index: usize) -> String {
    format!("s{slot}-n{index}")
}

/// Name of a resource that only this node offers: a request for it pins a pod to the node without affinity.
pub fn pin(node: &str) -> String {
    format!("pin.test/{node}")
}

/// Returns a node with random capacity, which stays the same in all rounds.
pub fn node(slot: usize, index: usize, random: &mut Random) -> Value {
    let name = node_name(slot, index);
    let mut offers = json!({
        "cpu": random.pick(&["2", "4", "3500m", "8"]), "memory": random.pick(&["4Gi", "1Gi", "2G", "8Gi"]),
        "pods": random.pick(&["2", "3", "5", "110"]), "ephemeral-storage": "10Gi"
    });
    offers[pin(&name)] = json!("1000");
    if random.percent(60) {
        offers["example.com/gpu"] = json!(random.pick(&["0", "1", "2", "4"]));
    }
    if random.percent(40) {
        offers["hugepages-2Mi"] = json!("64Mi");
    }
    json!({
        "metadata": {"name": name, "annotations": {"kwok.x-k8s.io/node": "fake"}, "labels": {"slot": slot.to_string()}},
        "status": {"allocatable": offers, "capacity": offers}
    })
}

/// Number of volumes in each namespace of a slot, each bound to a claim of its own.
pub const VOLUMES: usize = 3;

/// Returns a volume and its claim in a namespace of a slot, bound to each other. The volume is accessible from some nodes only.
pub fn volume(slot: usize, namespace: &str, number: usize, random: &mut Random) -> [Value; 2] {
    let (claim, volume) = (format!("data-{number}"), format!("{namespace}-data-{number}"));
    let modes = json!(["ReadWriteMany"]);
    let mut rule = || match random.below(5) {
        0 | 1 => json!({"key": format!("zone.s{slot}"), "operator": "In", "values": [random.pick(&["z0", "z1"])]}),
        2 => json!({"key": format!("rack.s{slot}"), "operator": "In", "values": ["r0", random.pick(&["r1", "r2"])]}),
        3 => json!({"key": format!("rack.s{slot}"), "operator": "NotIn", "values": ["r0"]}),
        _ => json!({"key": "disk", "operator": "Exists"}),
    };
    let mut terms = vec![json!({"matchExpressions": [rule()]})];
    if number == 0 {
        terms.push(json!({"matchExpressions": [rule(), rule()]}));
    }
    [
        json!({"metadata": {"name": volume}, "spec": {"capacity": {"storage": "1Gi"}, "accessModes": modes,
            "nfs": {"server": "nfs.test", "path": "/"}, "claimRef": {"namespace": namespace, "name": claim},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}}),
        json!({"metadata": {"name": claim, "namespace": namespace}, "spec": {"accessModes": modes, "volumeName": volume,
            "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}}}),
    ]
}

/// Label key of the zones of a slot's nodes.
pub fn zone_key(slot: usize) -> String {
    format!("zone.s{slot}")
}

/// Returns a merge patch with random labels, taints and `unschedulable` of a node.
pub fn node_patch(slot: usize, index: usize, random: &mut Random) -> Value {
    let mut labels = json!({"slot": slot.to_string()});
    let mut label = |key: String, percent: usize, values: &[&str], random: &mut Random| {
        labels[key] = if random.percent(percent) { json!(random.pick(values)) } else { Value::Null };
    };
    let name = node_name(slot, index);
    label("kubernetes.io/hostname".to_owned(), 95, &[&name], random);
    label(zone_key(slot), 90, &["z0", "z1"], random);
    label(format!("rack.s{slot}"), 75, &["r0", "r1", "r2"], random);
    label("disk".to_owned(), 60, &["ssd", "hdd"], random);
    label("cores".to_owned(), 80, &["4", "16", "007", "many"], random);
    let cordoned = random.percent(8);
    let mut taints = Vec::new();
    if cordoned {
        taints.push(json!({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}));
    }
    if random.percent(25) {
        let effect = random.pick(&["NoSchedule", "NoSchedule", "NoExecute", "PreferNoSchedule"]);
        taints.push(json!({"key": "dedicated", "value": random.pick(&["web", "gpu", ""]), "effect": effect}));
    }
    json!({"metadata": {"labels": labels}, "spec": {"unschedulable": cordoned, "taints": taints}})
}

/// Generates pods of a slot.
pub struct Pods<'r> {
    pub slot: usize,
    /// Whether pods may have pod-level resources; older versions of Kubernetes drop them.
    pub with_resources: bool,
    pub random: &'r mut Random,
}

impl Pods<'_> {
    /// Returns a pod that is already bound to a node and tolerates all `NoExecute` taints.
    pub fn occupant(&mut self, name: &str, node: &str) -> Value {
        let mut pod = self.base(name);
        pod["spec"]["nodeName"] = json!(node);
        pod["spec"]["tolerations"] = json!([{"operator": "Exists", "effect": "NoExecute"}]);
        if self.random.percent(40) {
            self.ports(&mut pod);
        }
        if self.random.percent(20) {
            pod["spec"]["affinity"]["podAntiAffinity"] = self.terms(false);
        }
        pod
    }

    /// Returns a gated pod, which is nominated later.
    pub fn nominee(&mut self, name: &str) -> Value {
        let mut pod = self.base(name);
        pod["spec"]["priorityClassName"] = json!(self.random.pick(&["below", "same", "above"]));
        pod["spec"]["schedulingGates"] = json!([{"name": "test/held"}]);
        if self.random.percent(30) {
            self.ports(&mut pod);
        }
        if self.random.percent(25) {
            pod["spec"]["affinity"]["podAntiAffinity"] = self.terms(false);
        }
        pod
    }

    /// Returns a test pod of priority 50 and with preemption policy `Never`.
    pub fn candidate(&mut self, name: &str) -> Value {
        let mut pod = self.base(name);
        pod["spec"]["priorityClassName"] = json!("probe");
        pod["spec"]["priority"] = json!(50);
        let slot = self.slot.to_string();
        pod["spec"]["nodeSelector"] = json!({"slot": slot});
        if self.random.percent(10) {
            pod["spec"]["nodeSelector"]["disk"] = json!(self.random.pick(&["ssd", "hdd"]));
        }
        if self.random.percent(30) {
            pod["spec"]["affinity"]["nodeAffinity"] = self.node_affinity();
        }
        if self.random.percent(30) {
            pod["spec"]["affinity"]["podAffinity"] = self.terms(true);
        }
        if self.random.percent(35) {
            pod["spec"]["affinity"]["podAntiAffinity"] = self.terms(false);
        }
        if self.random.percent(40) {
            pod["spec"]["topologySpreadConstraints"] = self.spread();
        }
        if self.random.percent(45) {
            self.ports(&mut pod);
        }
        if self.random.percent(25) {
            let claim = json!({"claimName": format!("data-{}", self.random.below(VOLUMES))});
            pod["spec"]["volumes"] = json!([{"name": "data", "persistentVolumeClaim": claim}]);
        }
        if self.random.percent(50) {
            let count = 1 + self.random.below(2);
            pod["spec"]["tolerations"] = (0..count).map(|_| self.toleration()).collect();
        }
        pod
    }

    fn base(&mut self, name: &str) -> Value {
        let namespace = if self.random.percent(75) { "one" } else { "two" };
        let mut labels = json!({"app": self.random.pick(&["a", "b", "c"]), "slot": self.slot.to_string()});
        if self.random.percent(70) {
            labels["tier"] = json!(self.random.pick(&["x", "y"]));
        }
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": name, "namespace": format!("s{}-{namespace}", self.slot), "labels": labels},
            "spec": {"containers": [self.container("c")]}
        });
        let spec = &mut pod["spec"];
        if self.random.percent(25) {
            spec["containers"] = json!([spec["containers"][0], self.container("d")]);
        }
        if self.random.percent(25) {
            let mut inits = vec![self.container("i"), self.container("j")];
            for init in &mut inits {
                if self.random.percent(50) {
                    init["restartPolicy"] = json!("Always");
                }
            }
            spec["initContainers"] = json!(inits);
        }
        if self.random.percent(8) {
            spec["runtimeClassName"] = json!("heavy");
            spec["overhead"] = json!({"cpu": "250m", "memory": "64Mi"});
        }
        if self.random.percent(8) {
            let amount = json!({"cpu": self.random.pick(&["6", "7500m"])});
            spec["resources"] = json!({(self.random.pick(&["requests", "limits"])): amount});
        }
        if !self.with_resources {
            spec.as_object_mut().expect("a spec is an object").remove("resources");
        }
        pod
    }

    fn container(&mut self, name: &str) -> Value {
        let mut requests = json!({});
        let mut limits = json!({});
        if self.random.percent(85) {
            requests["cpu"] = json!(self.random.pick(&["100m", "0.25", "1", "1500m", "0", "0.0005"]));
        }
        if self.random.percent(60) {
            requests["memory"] = json!(self.random.pick(&["64Mi", "0.5Gi", "100M", "1e9", "600m"]));
        }
        if self.random.percent(10) {
            requests["ephemeral-storage"] = json!(self.random.pick(&["1Gi", "6Gi"]));
        }
        if self.random.percent(15) {
            limits["memory"] = json!("2Gi");
        }
        if self.random.percent(12) {
            limits["example.com/gpu"] = json!(self.random.pick(&["1", "2", "0"]));
        }
        if self.random.percent(5) {
            limits["hugepages-2Mi"] = json!("32Mi");
            requests["cpu"] = json!("100m");
        }
        json!({"name": name, "image": "i", "resources": {"requests": requests, "limits": limits}})
    }

    fn ports(&mut self, pod: &mut Value) {
        let mut port = json!({"containerPort": 80, "hostPort": 8080 + self.random.below(2)});
        if self.random.percent(30) {
            port["protocol"] = json!(self.random.pick(&["TCP", "UDP", "SCTP"]));
        }
        if self.random.percent(40) {
            port["hostIP"] = json!(self.random.pick(&["10.0.0.1", "10.0.0.2", "0.0.0.0", "127.0.0.1"]));
        }
        pod["spec"]["containers"][0]["ports"] = json!([port]);
        if self.random.percent(10) {
            pod["spec"]["hostNetwork"] = json!(true);
            pod["spec"]["containers"][0]["ports"] = json!([{"containerPort": 8080}]);
        }
    }

    fn node_affinity(&mut self) -> Value {
        let rack = format!("rack.s{}", self.slot);
        let random = &mut *self.random;
        let mut rule = || match random.below(7) {
            0 => json!({"key": "disk", "operator": "In", "values": ["ssd", "tape"]}),
            1 => json!({"key": "disk", "operator": "NotIn", "values": ["hdd"]}),
            2 => json!({"key": rack, "operator": "Exists"}),
            3 => json!({"key": "disk", "operator": "DoesNotExist"}),
            4 => json!({"key": "cores", "operator": "Gt", "values": [random.pick(&["3", "4", "0007"])]}),
            5 => json!({"key": "cores", "operator": "Lt", "values": [random.pick(&["16", "17", "0"])]}),
            _ => json!({"key": rack, "operator": "In", "values": ["r0", "r1"]}),
        };
        let mut terms = vec![json!({"matchExpressions": [rule(), rule()]}), json!({"matchExpressions": [rule()]})];
        let node = node_name(self.slot, self.random.below(4));
        match self.random.below(6) {
            0 => drop(terms.pop()),
            1 => drop(terms.remove(0)),
            2 => terms[0]["matchFields"] = json!([{"key": "metadata.name", "operator": "NotIn", "values": [node]}]),
            3 => terms[0] = json!({"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}),
            4 => terms[0] = json!({}),
            _ => {}
        }
        json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}})
    }

    fn key(&mut self) -> String {
        let own = ["zone", "rack", "zone"].get(self.random.below(4));
        own.map_or_else(|| "kubernetes.io/hostname".to_owned(), |key| format!("{key}.s{}", self.slot))
    }

    /// Returns a label selector or `Null`, and whether it selects by `tier`.
    fn selector(&mut self) -> (Value, bool) {
        let app = self.random.pick(&["a", "b", "c"]);
        match self.random.below(12) {
            0..=4 => (json!({"matchLabels": {"app": app}}), false),
            5 | 6 => (json!({"matchExpressions": [{"key": "app", "operator": "In", "values": [app, "b"]}]}), false),
            7 => (json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [app]}]}), false),
            8 => (json!({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}), true),
            9 => {
                let tier = json!({"key": "tier", "operator": "DoesNotExist"});
                (json!({"matchLabels": {"app": app}, "matchExpressions": [tier]}), true)
            }
            10 => (json!({}), false),
            _ => (Value::Null, true),
        }
    }

    fn terms(&mut self, near: bool) -> Value {
        let count = if self.random.percent(25) { 2 } else { 1 };
        let terms: Vec<Value> = (0..count).map(|_| self.term(near)).collect();
        json!({"requiredDuringSchedulingIgnoredDuringExecution": terms})
    }

    fn term(&mut self, near: bool) -> Value {
        let (mut selector, tier) = self.selector();
        if near && selector.is_object() {
            selector["matchLabels"]["slot"] = json!(self.slot.to_string());
        }
        let mut term = json!({"topologyKey": self.key()});
        if !selector.is_null() {
            term["labelSelector"] = selector;
        }
        match self.random.below(8) {
            0 => term["namespaces"] = json!([format!("s{}-two", self.slot)]),
            1 => term["namespaceSelector"] = json!({}),
            2 => term["namespaceSelector"] = json!({"matchLabels": {"team": self.random.pick(&["red", "blue", "no"])}}),
            3 => {
                let rule = json!({"key": "team", "operator": "NotIn", "values": [self.random.pick(&["red", "blue"])]});
                term["namespaceSelector"] = json!({"matchExpressions": [rule]});
                term["namespaces"] = json!([format!("s{}-{}", self.slot, self.random.pick(&["one", "two"]))]);
            }
            _ => {}
        }
        if !tier && self.random.percent(30) {
            term[self.random.pick(&["matchLabelKeys", "mismatchLabelKeys"])] = json!(["tier"]);
        }
        term
    }

    fn spread(&mut self) -> Value {
        let mut constraints: Vec<Value> = Vec::new();
        for _ in 0..if self.random.percent(30) { 2 } else { 1 } {
            let (selector, tier) = self.selector();
            let key = self.key();
            if constraints.iter().any(|other| other["topologyKey"] == json!(key)) {
                continue;
            }
            let shared = key == "kubernetes.io/hostname";
            let must = if self.random.percent(90) { "DoNotSchedule" } else { "ScheduleAnyway" };
            let mut constraint =
                json!({"topologyKey": key, "maxSkew": 1 + self.random.below(2), "whenUnsatisfiable": must});
            if !selector.is_null() {
                constraint["labelSelector"] = selector;
            }
            if must == "DoNotSchedule" && self.random.percent(35) {
                constraint["minDomains"] = json!(1 + self.random.below(4));
            }
            if self.random.percent(40) {
                // With policy `Ignore` and a key that all nodes have, the nodes of other slots would count.
                let policy = if shared { "Honor" } else { self.random.pick(&["Honor", "Ignore"]) };
                constraint["nodeAffinityPolicy"] = json!(policy);
            }
            if self.random.percent(40) {
                constraint["nodeTaintsPolicy"] = json!(self.random.pick(&["Honor", "Ignore"]));
            }
            if !tier && self.random.percent(35) {
                constraint["matchLabelKeys"] = json!(["tier"]);
            }
            constraints.push(constraint);
        }
        json!(constraints)
    }

    fn toleration(&mut self) -> Value {
        match self.random.below(7) {
            0 => json!({"operator": "Exists"}),
            1 => json!({"key": "dedicated", "operator": "Exists"}),
            2 => json!({"key": "dedicated", "operator": "Exists", "effect": "NoExecute"}),
            3 => json!({"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}),
            4 => json!({"key": "dedicated", "operator": "Equal", "value": "", "effect": "NoSchedule"}),
            _ => json!({"key": "dedicated", "value": self.random.pick(&["web", "gpu"])}),
        }
    }
}
