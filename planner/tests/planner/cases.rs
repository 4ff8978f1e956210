//! What kube-scheduler's own tests expect, as data (`tests/cases/plan`): the same verdict, a valid plan, and victims that
//! cost no more.

use crate::common::*;
use giveway_planner::{Cluster, Context, Decision, ObjectKey, Plan, Preemptor, Strategy};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;

struct Case {
    doc: Value,
    cluster: Cluster,
    preemptor: Preemptor,
}

impl Case {
    fn read(path: &Path) -> Self {
        let doc: Value = serde_yaml_ng::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let mut cluster = Cluster::default();
        cluster.trust_pod_policy = true;
        for object in doc["objects"].as_array().unwrap() {
            add(&mut cluster, &Built(object.clone()));
        }
        let (kind, name) = doc["preemptor"].as_str().unwrap().split_once('/').unwrap();
        let key = ObjectKey::new(doc["namespace"].as_str().unwrap(), name);
        let preemptor = if kind == "pod" { Preemptor::Pod(key) } else { Preemptor::Group(key) };
        Self { doc, cluster, preemptor }
    }

    fn names(&self, list: &Value) -> BTreeSet<String> {
        list.as_array().into_iter().flatten().map(|name| name.as_str().unwrap().to_owned()).collect()
    }

    /// Step 9 without budgets and tie-breaks.
    fn cost(&self, pods: &BTreeSet<String>) -> (Option<i32>, i64, usize) {
        let priority = |name: &String| {
            let key = ObjectKey::new(self.doc["namespace"].as_str().unwrap(), name);
            self.cluster.effective_priority(self.cluster.pod(&key).unwrap())
        };
        let sum = pods.iter().map(|pod| i64::from(priority(pod)) + (1 << 31)).sum();
        (pods.iter().map(priority).max(), sum, pods.len())
    }

    fn judge(&self, decision: &Decision) -> Result<(), String> {
        let expect = &self.doc["expect"];
        let (verdict, plan) = match decision {
            Decision::Fits { .. } => ("fits", None),
            Decision::Preempt(plan) => ("preempt", Some(plan)),
            _ => ("unschedulable", None),
        };
        if expect["verdict"].as_str().is_some_and(|wanted| wanted != verdict) {
            return Err(format!("verdict {verdict}: {decision:?}"));
        }
        let Some(plan) = plan else { return Ok(()) };
        self.valid(plan)?;
        let pods: BTreeSet<String> =
            plan.victims.iter().flat_map(|v| &v.pods).map(|pod| pod.key.name.to_string()).collect();
        if let Some(violations) = expect["budgetViolations"].as_u64()
            && plan.cost.budget_violations as u64 > violations
        {
            return Err(format!("{} budget violations", plan.cost.budget_violations));
        }
        let best_of = expect["bestOf"].as_array().into_iter().flatten().map(|option| &option["victims"]);
        let best = best_of.map(|list| self.cost(&self.names(list))).min();
        let listed = expect["victims"].is_array().then(|| self.cost(&self.names(&expect["victims"])));
        match best.or(listed) {
            Some(wanted) if self.cost(&pods) > wanted => Err(format!("{pods:?} cost more than {wanted:?}")),
            _ if expect["count"].as_u64().is_some_and(|count| pods.len() as u64 > count) => {
                Err(format!("{} victims", pods.len()))
            }
            _ => Ok(()),
        }
    }

    /// Checks that the members fit without all victims, and that every victim is needed.
    fn valid(&self, plan: &Plan) -> Result<(), String> {
        check_plan(&self.cluster, &self.preemptor, plan)
    }
}

#[test]
fn every_case_of_kube_scheduler_is_decided_as_well_or_better() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/cases/plan");
    let mut failures = Vec::new();
    let mut count = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let case = Case::read(&path);
        for strategy in Strategy::ALL {
            let context = Context { strategy, ..Context::default() };
            if let Err(why) = case.judge(&plan(&case.cluster, &case.preemptor, &context)) {
                let name = path.file_name().unwrap().to_string_lossy();
                failures.push(format!("{name} by {}: {why}", strategy.as_str()));
            }
        }
        count += 1;
    }
    assert_eq!(failures, Vec::<String>::new());
    assert!(count >= 42, "only {count} cases were found");
}

#[test]
fn effective_priority_is_the_lower_of_the_group_s_and_the_pod_s() {
    let text = include_str!("../../../tests/cases/units.yaml");
    let all: Vec<Value> = serde_yaml_ng::from_str(text).unwrap();
    for case in all.iter().filter(|case| case["kind"] == "effective_priority") {
        let priority = |value: &Value| i32::try_from(value["priority"].as_i64().unwrap_or(0)).unwrap();
        let mut member = pod("p").priority(priority(&case["pod"]));
        if let Some(group) = case["pod"]["podGroup"].as_str() {
            member = member.group(group);
        }
        let expected = case["expect"]["priority"].as_i64().unwrap();
        let groups = case["podGroupLister"].as_array().into_iter().flatten();
        let groups: Vec<Built> = groups.map(|g| gang(g["name"].as_str().unwrap(), priority(g), 1)).collect();
        let cluster = cluster(groups.iter().chain([&member]));
        let got = cluster.effective_priority(cluster.pod(&key("p")).unwrap());
        // In-tree, the group lends its priority; here a pod has it only if its own priority is at least as high.
        assert_eq!(i64::from(got), expected.min(i64::from(priority(&case["pod"]))), "{}", case["source"]);
        let paid = cluster_of(&groups, member.priority(AMPLE));
        let got = paid.effective_priority(paid.pod(&key("p")).unwrap());
        let lent = groups.iter().any(|group| group.0["metadata"]["name"] == case["pod"]["podGroup"]);
        assert_eq!(i64::from(got), if lent { expected } else { i64::from(AMPLE) }, "{}", case["source"]);
    }
}

fn cluster_of(groups: &[Built], member: Built) -> Cluster {
    cluster(groups.iter().chain([&member]))
}
