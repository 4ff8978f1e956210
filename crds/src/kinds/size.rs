//! How many pods of a group start together, from the fields of its owner.

use super::Kind;
use serde_json::Value;
use std::collections::BTreeMap;

/// The rule of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// `parallelism`, or `completions` where these are fewer, of the Job's spec at this pointer.
    Job {
        /// JSON pointer to the spec.
        path: &'static str,
    },
    /// The number at this pointer.
    Field {
        /// JSON pointer to it.
        path: &'static str,
        /// What counts where it is not set.
        default: i64,
    },
    /// Of a JobSet: each of `spec.replicatedJobs` by itself, as of a Job.
    ReplicatedJobs,
    /// The sum of `replicas` over the values of the map at this pointer.
    Replicas {
        /// JSON pointer to the map.
        path: &'static str,
        /// When the field at this pointer has this value, what the map has under this key comes later and is not counted.
        late: Option<(&'static str, &'static str, &'static str)>,
    },
    /// Of a RayCluster: the head, and the workers of every group that is not suspended.
    Ray,
    /// What is made from it says so.
    OfChild,
}

/// How many pods start together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// In every group of the owner.
    Every(i32),
    /// By the first thing that tells the replica.
    ByPart(BTreeMap<String, i32>),
}

impl Sizes {
    /// Of an owner of this kind. Numbers are limited to what a count can be; 0 means that it asks for no pods now.
    pub fn of(row: &Kind, owner: &Value) -> Self {
        match row.size {
            Size::ReplicatedJobs => {
                let jobs = owner.pointer("/spec/replicatedJobs").and_then(Value::as_array);
                let sizes = jobs.into_iter().flatten().filter_map(|job| {
                    let spec = job.pointer("/template/spec").unwrap_or(&Value::Null);
                    Some((job["name"].as_str()?.to_owned(), count(job_size(spec))))
                });
                Self::ByPart(sizes.collect())
            }
            Size::Job { path } => Self::Every(count(job_size(owner.pointer(path).unwrap_or(&Value::Null)))),
            Size::Field { path, default } => {
                Self::Every(count(owner.pointer(path).and_then(Value::as_i64).unwrap_or(default)))
            }
            Size::Replicas { path, late } => Self::Every(count(replicas(owner, path, late))),
            Size::Ray => Self::Every(count(ray(&owner["spec"]))),
            Size::OfChild => Self::Every(0),
        }
    }

    /// Of the group with these parts; `None` when it asks for no pods now, or has no such part.
    pub fn of_group(&self, replica: &[String]) -> Option<i32> {
        let size = match self {
            Self::Every(size) => *size,
            Self::ByPart(sizes) => *sizes.get(replica.first()?)?,
        };
        (size > 0).then_some(size)
    }
}

/// Of a Job's spec, 1 where nothing is said.
fn job_size(spec: &Value) -> i64 {
    let parallelism = spec["parallelism"].as_i64().unwrap_or(1);
    spec["completions"].as_i64().map_or(parallelism, |completions| completions.min(parallelism))
}

fn replicas(owner: &Value, path: &str, late: Option<(&str, &str, &str)>) -> i64 {
    let comes_late = |name: &str| {
        late.is_some_and(|(field, value, key)| {
            key == name && owner.pointer(field).and_then(Value::as_str) == Some(value)
        })
    };
    let specs = owner.pointer(path).and_then(Value::as_object).into_iter().flatten();
    let counted = specs.filter(|(name, _)| !comes_late(name));
    counted.fold(0, |sum, (_, spec)| sum.saturating_add(spec["replicas"].as_i64().unwrap_or(1).max(0)))
}

/// The head, and of each group of workers as many as Ray needs to begin: with its autoscaler `minReplicas`, without it
/// `replicas`, and never more than `maxReplicas`; each of them is `numOfHosts` pods.
fn ray(spec: &Value) -> i64 {
    let scaled = spec["enableInTreeAutoscaling"] == true;
    let groups = spec["workerGroupSpecs"].as_array().into_iter().flatten();
    groups.filter(|group| group["suspend"] != true).fold(1, |sum: i64, group| {
        let least = group["minReplicas"].as_i64().unwrap_or(0).max(0);
        let most = group["maxReplicas"].as_i64().unwrap_or(i64::MAX).max(0);
        let replicas = if scaled { least } else { group["replicas"].as_i64().unwrap_or(least).max(least) };
        let hosts = group["numOfHosts"].as_i64().unwrap_or(1).max(1);
        sum.saturating_add(replicas.min(most).saturating_mul(hosts))
    })
}

fn count(number: i64) -> i32 {
    i32::try_from(number.max(0)).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::KINDS;
    use serde_json::json;

    fn size(kind: &str, spec: Value, replica: &[&str]) -> Option<i32> {
        let row = KINDS.iter().find(|row| row.kind == kind)?;
        let replica: Vec<String> = replica.iter().map(|part| (*part).to_owned()).collect();
        Sizes::of(row, &json!({ "spec": spec })).of_group(&replica)
    }

    #[test]
    fn a_job_starts_as_many_as_run_at_once() {
        assert_eq!(size("Job", json!({}), &[]), Some(1));
        assert_eq!(size("Job", json!({"parallelism": 8}), &[]), Some(8));
        assert_eq!(size("Job", json!({"parallelism": 8, "completions": 4}), &[]), Some(4));
        assert_eq!(size("Job", json!({"parallelism": 8, "completions": 100}), &[]), Some(8));
        assert_eq!(size("Job", json!({"parallelism": 0}), &[]), None);
    }

    #[test]
    fn a_jobset_has_a_size_for_each_of_its_replicated_jobs() {
        let jobs = json!({"replicatedJobs": [
            {"name": "leader", "template": {"spec": {}}},
            {"name": "workers", "replicas": 4, "template": {"spec": {"parallelism": 8, "completions": 8}}}
        ]});
        assert_eq!(size("JobSet", jobs.clone(), &["leader", "0"]), Some(1));
        assert_eq!(size("JobSet", jobs.clone(), &["workers", "3"]), Some(8));
        assert_eq!(size("JobSet", jobs, &["others", "0"]), None);
    }

    #[test]
    fn sets_have_their_replicas_and_their_size() {
        assert_eq!(size("StatefulSet", json!({"replicas": 3}), &[]), Some(3));
        assert_eq!(size("StatefulSet", json!({}), &[]), Some(1));
        assert_eq!(
            size("LeaderWorkerSet", json!({"replicas": 9, "leaderWorkerTemplate": {"size": 4}}), &["2"]),
            Some(4)
        );
    }

    #[test]
    fn a_ray_cluster_starts_with_its_head_and_the_workers_that_are_always_there() {
        let groups = json!([
            {"replicas": 4, "minReplicas": 2, "maxReplicas": 10, "numOfHosts": 2},
            {"replicas": 1},
            {"replicas": 7, "suspend": true}
        ]);
        assert_eq!(size("RayCluster", json!({"workerGroupSpecs": groups}), &[]), Some(1 + 8 + 1));
        let scaled = json!({"workerGroupSpecs": groups, "enableInTreeAutoscaling": true});
        assert_eq!(size("RayCluster", scaled, &[]), Some(1 + 4));
    }

    #[test]
    fn a_ray_cluster_has_no_more_workers_than_it_may_have() {
        let groups = json!([{"replicas": 8, "minReplicas": 1, "maxReplicas": 4, "numOfHosts": 2}]);
        assert_eq!(size("RayCluster", json!({"workerGroupSpecs": groups}), &[]), Some(1 + 8));
        let groups = json!([{"replicas": 3, "minReplicas": 3, "maxReplicas": 0}]);
        let scaled = json!({"workerGroupSpecs": groups, "enableInTreeAutoscaling": true});
        assert_eq!(size("RayCluster", scaled, &[]), Some(1));
    }

    #[test]
    fn training_jobs_start_all_their_replicas_but_a_launcher_that_waits() {
        let specs = json!({"Master": {}, "Worker": {"replicas": 7}});
        assert_eq!(size("PyTorchJob", json!({"pytorchReplicaSpecs": specs}), &[]), Some(8));
        let specs = json!({"Launcher": {"replicas": 1}, "Worker": {"replicas": 4}});
        assert_eq!(size("MPIJob", json!({"mpiReplicaSpecs": specs}), &[]), Some(5));
        let waits = json!({"mpiReplicaSpecs": specs, "launcherCreationPolicy": "WaitForWorkersReady"});
        assert_eq!(size("MPIJob", waits, &[]), Some(4));
    }

    #[test]
    fn numbers_that_no_count_can_be_are_limited() {
        assert_eq!(size("StatefulSet", json!({"replicas": i64::MAX}), &[]), Some(i32::MAX));
        assert_eq!(size("StatefulSet", json!({"replicas": -3}), &[]), None);
        let huge = json!({"workerGroupSpecs": [{"replicas": i64::MAX, "numOfHosts": i64::MAX}]});
        assert_eq!(size("RayCluster", huge, &[]), Some(i32::MAX));
    }
}
