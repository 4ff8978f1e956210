//! How many pods of a group start together, from the fields of its owner.

use super::OwnerKind;
use serde_json::Value;
use std::collections::BTreeMap;

/// How the size of a group is derived from its owner, for one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// For a Job: `parallelism`, or `completions` if that is lower, less the indexes that have failed permanently.
    Job,
    /// The number at this pointer.
    Field {
        /// JSON pointer to it.
        path: &'static str,
        /// Default of the field.
        default: i64,
    },
    /// For a JobSet: each of `spec.replicatedJobs` on its own, as for a Job. Only the Job that is created knows which
    /// indexes have failed.
    ReplicatedJobs,
    /// The sum of `replicas` over the values of the map at this pointer.
    Replicas {
        /// JSON pointer to the map.
        path: &'static str,
        /// If the field at the first pointer has this value, the map's entry with this key starts later and is not
        /// counted.
        late: Option<(&'static str, &'static str, &'static str)>,
    },
    /// For a RayCluster: the head, and the workers of every group that is not suspended.
    Ray,
    /// The created child object has the size.
    OfChild,
}

/// Size of one of the groups, according to the fields of its owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields {
    /// Number of pods that start together; 0 if the owner asks for none now.
    start: i32,
    /// Maximum that an annotation may request; a gang with more would stay gated forever.
    most: i32,
    /// Number of pods that have to finish, if the controller creates that many in total, regardless of how many run at
    /// once.
    completions: Option<i32>,
    /// Number of pods that have finished, if the owner counts them.
    finished: Option<i32>,
}

impl Fields {
    /// Returns the size of a group whose owner asks for `start` pods, and does not recreate them after they have finished.
    fn starting(start: i64) -> Self {
        Self { start: count(start), most: count(start), ..Self::default() }
    }
}

/// Size of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupSize {
    /// How many pods start together.
    pub start: i32,
    /// Number of pods that may finish and are replaced by new ones: they do not reduce the number of needed members.
    pub replaced: i32,
    /// Number of pods that have finished, if the owner counts them.
    pub finished: Option<i32>,
}

/// Number of pods that start together, for the groups of one owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sizes {
    /// The same in every group of the owner.
    Every(Fields),
    /// By the first value that identifies the replica.
    ByPart(BTreeMap<String, Fields>),
    /// The kind of the owner is not in the table.
    Unknown,
}

impl Sizes {
    /// Returns the sizes of an owner whose groups each start `start` pods together.
    pub fn every(start: i32) -> Self {
        Self::Every(Fields::starting(start.into()))
    }

    /// Returns the group size in the annotation that pods of owners of this kind have for it; `None` if the kind has no such annotation, or
    /// the pod's is missing or invalid. `annotation` returns the value of an annotation.
    pub fn of_pod<'a>(row: &OwnerKind, annotation: impl Fn(&str) -> Option<&'a str>) -> Option<i32> {
        annotation(row.size_of_pod?)?.parse().ok().filter(|size| *size > 0)
    }

    /// Returns how many pods start together in each group of this owner, according to its fields. A size of 0 means that the
    /// owner asks for no pods now.
    pub fn of(row: &OwnerKind, owner: &Value) -> Self {
        match row.size {
            Size::ReplicatedJobs => {
                let jobs = owner.pointer("/spec/replicatedJobs").and_then(Value::as_array);
                let sizes = jobs
                    .into_iter()
                    .flatten()
                    .filter_map(|job| Some((job["name"].as_str()?.to_owned(), of_job(&job["template"]["spec"], None))));
                Self::ByPart(sizes.collect())
            }
            Size::Job => Self::Every(of_job(&owner["spec"], Some(&owner["status"]))),
            Size::Field { path, default } => {
                Self::Every(Fields::starting(owner.pointer(path).and_then(Value::as_i64).unwrap_or(default)))
            }
            Size::Replicas { path, late } => Self::Every(Fields::starting(replicas(owner, path, late))),
            Size::Ray => Self::Every(ray(&owner["spec"])),
            Size::OfChild => Self::Every(Fields::default()),
        }
    }

    /// Returns the size of one group of the owner; `replica` has the values that identify its replica. `asked` is the size in the
    /// annotation, which can only lower it: an owner with groups of several sizes has one annotation for all of them.
    /// `None` if the owner asks for no pods now, or has no such replica.
    pub fn of_group(&self, replica: &[String], asked: Option<i32>) -> Option<GroupSize> {
        let fields = match self {
            Self::Every(fields) => *fields,
            Self::ByPart(sizes) => *sizes.get(replica.first()?)?,
            Self::Unknown => Fields { start: asked?, most: i32::MAX, ..Fields::default() },
        };
        let start = if fields.start > 0 { asked.unwrap_or(fields.start).min(fields.most) } else { 0 };
        let replaced = fields.completions.map_or(0, |completions| completions.saturating_sub(start).max(0));
        (start > 0).then_some(GroupSize { start, replaced, finished: fields.finished })
    }
}

/// Returns the size of the group of a Job with this spec and status: its parallelism (1 if not set), or its completions if
/// these are fewer. Indexes that have failed permanently, which the status lists, are subtracted from the completions.
fn of_job(spec: &Value, status: Option<&Value>) -> Fields {
    let failed = status.map_or(0, |status| indexes(&status["failedIndexes"]));
    let finished = status.map(|status| count(status["succeeded"].as_i64().unwrap_or(0)));
    let parallelism = spec["parallelism"].as_i64().unwrap_or(1);
    let completions = spec["completions"].as_i64().map(|completions| completions.saturating_sub(failed));
    let start = completions.map_or(parallelism, |completions| completions.min(parallelism));
    Fields { completions: completions.map(count), finished, ..Fields::starting(start) }
}

/// Returns how many indexes a list such as `1,3-5` (the form of a Job's `failedIndexes`) contains; 0 if it is no text.
fn indexes(text: &Value) -> i64 {
    let number = |text: &str| text.trim().parse::<u32>().ok().map(i64::from);
    let parts = text.as_str().unwrap_or_default().split(',').map(|part| match part.split_once('-') {
        Some((first, last)) => number(first).zip(number(last)).map_or(0, |(first, last)| (last - first + 1).max(0)),
        None => i64::from(number(part).is_some()),
    });
    parts.fold(0, i64::saturating_add)
}

/// Returns the sum of `replicas` of all items of the map at `path`, such as the replica specs of a PyTorchJob. `late` is the path of
/// a field, a value, and the key of an item that is not counted if the field has that value.
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

/// Returns the size of the group of a RayCluster with this spec: the head, and of each group of workers as many as Ray needs to start:
/// `minReplicas` with its autoscaler, otherwise `replicas`, and at most `maxReplicas`; each replica has `numOfHosts`
/// pods. The autoscaler may add more later.
fn ray(spec: &Value) -> Fields {
    let scaled = spec["enableInTreeAutoscaling"] == true;
    let groups = spec["workerGroupSpecs"].as_array().into_iter().flatten();
    let (start, most) =
        groups.filter(|group| group["suspend"] != true).fold((1, 1), |(start, most): (i64, i64), group| {
            let least = group["minReplicas"].as_i64().unwrap_or(0).max(0);
            let limit = group["maxReplicas"].as_i64().unwrap_or(i64::MAX).max(0);
            let asked = group["replicas"].as_i64().unwrap_or(least).max(least);
            let (replicas, later) =
                if scaled { (least.min(limit), limit) } else { (asked.min(limit), asked.min(limit)) };
            let hosts = group["numOfHosts"].as_i64().unwrap_or(1).max(1);
            (start.saturating_add(replicas.saturating_mul(hosts)), most.saturating_add(later.saturating_mul(hosts)))
        });
    Fields { start: count(start), most: count(most), ..Fields::default() }
}

/// Limits a number of pods to the range from 0 to the largest `i32`.
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
        Sizes::of(row, &json!({ "spec": spec })).of_group(&replica, None).map(|size| size.start)
    }

    fn replaced(kind: &str, spec: Value, replica: &[&str], asked: Option<i32>) -> Option<i32> {
        let row = KINDS.iter().find(|row| row.kind == kind)?;
        let replica: Vec<String> = replica.iter().map(|part| (*part).to_owned()).collect();
        Sizes::of(row, &json!({ "spec": spec })).of_group(&replica, asked).map(|size| size.replaced)
    }

    #[test]
    fn the_size_of_a_job_is_its_parallelism() {
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
    fn a_job_replaces_finished_pods_until_the_last_ones_start_together() {
        assert_eq!(replaced("Job", json!({"parallelism": 8, "completions": 20}), &[], None), Some(12));
        assert_eq!(replaced("Job", json!({"parallelism": 8, "completions": 20}), &[], Some(6)), Some(14));
        assert_eq!(replaced("Job", json!({"parallelism": 8, "completions": 4}), &[], None), Some(0));
        assert_eq!(replaced("Job", json!({"parallelism": 8}), &[], None), Some(0), "the first one to succeed ends it");
        let jobs =
            json!({"replicatedJobs": [{"name": "w", "template": {"spec": {"parallelism": 2, "completions": 5}}}]});
        assert_eq!(replaced("JobSet", jobs, &["w", "0"], None), Some(3));
        assert_eq!(replaced("StatefulSet", json!({"replicas": 3}), &[], None), Some(0));
    }

    #[test]
    fn a_failed_index_reduces_the_size() {
        let row = KINDS.iter().find(|row| row.kind == "Job").unwrap();
        let of = |completions: i32, failed: &str| {
            let spec = json!({"parallelism": 8, "completions": completions, "backoffLimitPerIndex": 1});
            let job = json!({"spec": spec, "status": {"failedIndexes": failed}});
            Sizes::of(row, &job).of_group(&[], None).map(|size| (size.start, size.replaced))
        };
        assert_eq!(of(8, ""), Some((8, 0)));
        assert_eq!(of(8, "2"), Some((7, 0)));
        assert_eq!(of(8, "1,3-5"), Some((4, 0)));
        assert_eq!(of(20, "1,3-5"), Some((8, 8)));
        assert_eq!(of(8, "0-7"), None);
        assert_eq!(of(8, "5-3,x,-,4294967296"), Some((8, 0)), "nothing that a Job writes");
    }

    #[test]
    fn a_job_counts_the_pods_that_have_succeeded_and_other_owners_do_not() {
        let finished = |kind: &str, owner: Value| {
            let row = KINDS.iter().find(|row| row.kind == kind).unwrap();
            Sizes::of(row, &owner).of_group(&["w".to_owned()], None).unwrap().finished
        };
        let spec = json!({"parallelism": 4, "completions": 5000});
        assert_eq!(finished("Job", json!({"spec": spec, "status": {"succeeded": 4321}})), Some(4321));
        assert_eq!(
            finished("Job", json!({"spec": spec, "status": {"succeeded": -1}})),
            Some(0),
            "nothing that a Job writes"
        );
        assert_eq!(finished("Job", json!({ "spec": spec })), Some(0));
        let jobs = json!({"replicatedJobs": [{"name": "w", "template": {"spec": spec}}]});
        assert_eq!(finished("JobSet", json!({ "spec": jobs })), None);
        assert_eq!(finished("StatefulSet", json!({"spec": {"replicas": 3}})), None);
    }

    #[test]
    fn the_annotation_lowers_the_size_and_never_raises_it() {
        let of = |kind: &str, spec: Value, replica: &[&str], asked: i32| {
            let row = KINDS.iter().find(|row| row.kind == kind)?;
            let replica: Vec<String> = replica.iter().map(|part| (*part).to_owned()).collect();
            Sizes::of(row, &json!({ "spec": spec })).of_group(&replica, Some(asked)).map(|size| size.start)
        };
        let jobs = json!({"replicatedJobs": [
            {"name": "leader", "template": {"spec": {}}},
            {"name": "workers", "template": {"spec": {"parallelism": 8, "completions": 8}}}
        ]});
        assert_eq!(
            of("JobSet", jobs.clone(), &["leader", "0"], 4),
            Some(1),
            "it starts, though the workers start with four"
        );
        assert_eq!(of("JobSet", jobs, &["workers", "0"], 4), Some(4));
        assert_eq!(of("Job", json!({"parallelism": 0}), &[], 4), None);
        let ray = |scaled: bool, asked: i32| {
            let groups = json!([{"replicas": 3, "minReplicas": 1, "maxReplicas": 10}]);
            of("RayCluster", json!({"workerGroupSpecs": groups, "enableInTreeAutoscaling": scaled}), &[], asked)
        };
        assert_eq!((ray(false, 3), ray(false, 9)), (Some(3), Some(4)));
        assert_eq!((ray(true, 9), ray(true, 99)), (Some(9), Some(11)), "Ray may make that many");
        assert_eq!(Sizes::Unknown.of_group(&[], Some(4)), Some(GroupSize { start: 4, replaced: 0, finished: None }));
        assert_eq!(Sizes::Unknown.of_group(&[], None), None);
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
    fn the_size_of_a_ray_cluster_is_its_head_and_its_minimum_of_workers() {
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
    fn the_size_of_a_ray_cluster_respects_its_maximum_of_workers() {
        let groups = json!([{"replicas": 8, "minReplicas": 1, "maxReplicas": 4, "numOfHosts": 2}]);
        assert_eq!(size("RayCluster", json!({"workerGroupSpecs": groups}), &[]), Some(1 + 8));
        let groups = json!([{"replicas": 3, "minReplicas": 3, "maxReplicas": 0}]);
        let scaled = json!({"workerGroupSpecs": groups, "enableInTreeAutoscaling": true});
        assert_eq!(size("RayCluster", scaled, &[]), Some(1));
    }

    #[test]
    fn the_size_of_a_leader_worker_set_replica_is_read_from_its_pod() {
        let row = |kind: &str| KINDS.iter().find(|row| row.kind == kind).unwrap();
        let says = |kind: &str, text: &'static str| {
            Sizes::of_pod(row(kind), |key| (key == "leaderworkerset.sigs.k8s.io/size").then_some(text))
        };
        assert_eq!(says("LeaderWorkerSet", "4"), Some(4));
        assert_eq!(
            (says("LeaderWorkerSet", "0"), says("LeaderWorkerSet", "many"), says("Job", "4")),
            (None, None, None)
        );
    }

    #[test]
    fn the_size_of_a_training_job_is_all_its_replicas_without_a_waiting_launcher() {
        let specs = json!({"Master": {}, "Worker": {"replicas": 7}});
        assert_eq!(size("PyTorchJob", json!({"pytorchReplicaSpecs": specs}), &[]), Some(8));
        let specs = json!({"Launcher": {"replicas": 1}, "Worker": {"replicas": 4}});
        assert_eq!(size("MPIJob", json!({"mpiReplicaSpecs": specs}), &[]), Some(5));
        let waits = json!({"mpiReplicaSpecs": specs, "launcherCreationPolicy": "WaitForWorkersReady"});
        assert_eq!(size("MPIJob", waits, &[]), Some(4));
    }

    #[test]
    fn counts_are_limited_to_valid_numbers() {
        assert_eq!(size("StatefulSet", json!({"replicas": i64::MAX}), &[]), Some(i32::MAX));
        assert_eq!(size("StatefulSet", json!({"replicas": -3}), &[]), None);
        let huge = json!({"workerGroupSpecs": [{"replicas": i64::MAX, "numOfHosts": i64::MAX}]});
        assert_eq!(size("RayCluster", huge, &[]), Some(i32::MAX));
    }
}
