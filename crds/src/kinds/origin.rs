//! Derives the owner and the group of a pod from its labels and its controller.

use super::{KINDS, OwnerKind, OwnerLink, name, of_version};
use crate::keys::{LABEL_GANG, LABEL_POD_GROUP};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

/// The controller of a pod, from its owner references.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Controller<'a> {
    /// Its `apiVersion`.
    pub api_version: &'a str,
    /// Its kind.
    pub kind: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its UID.
    pub uid: &'a str,
}

/// The fields of a pod from which its origin is derived.
pub struct PodFacts<'a, L> {
    /// Its name; `None` if the API server has not generated it yet.
    pub name: Option<&'a str>,
    /// Returns the value of a label.
    pub label: L,
    /// Its controller.
    pub controller: Option<Controller<'a>>,
}

/// Owner of a pod, and the group that follows from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodOrigin {
    /// The row of the table; `None` for a controller whose kind is not in the table.
    pub row: Option<&'static OwnerKind>,
    /// `apiVersion` of the owner.
    pub api_version: String,
    /// Kind of the owner.
    pub kind: String,
    /// Name of the owner, in the pod's namespace.
    pub owner: String,
    /// UID of the owner, if the pod contains it.
    pub uid: Option<String>,
    /// Values that identify the replica: one for each replica label of the row.
    pub replica: Vec<String>,
    /// Name of the group.
    pub group: String,
}

/// Error: a pod asks for a gang, and neither its labels nor a controller identify its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "metadata.labels[{}]: Invalid value: \"true\": the pod has no controller that could be the owner of a gang: name its group \
     in the label {} instead",
    LABEL_GANG,
    LABEL_POD_GROUP
)]
pub struct OriginError;

/// Returns the owner of a pod, and the group that follows from it, according to the table of kinds. A controller whose kind is not in
/// the table is the owner too.
///
/// # Errors
/// No row of the table identifies an owner, and the pod has no controller.
pub fn of_pod(pod: &Pod) -> Result<PodOrigin, OriginError> {
    let owner = pod.owner_references().iter().find(|owner| owner.controller == Some(true));
    let controller = owner.map(|owner| Controller {
        api_version: &owner.api_version,
        kind: &owner.kind,
        name: &owner.name,
        uid: &owner.uid,
    });
    let label = |key: &str| pod.labels().get(key).map(String::as_str);
    of(&PodFacts { name: pod.metadata.name.as_deref(), label, controller })
}

/// Returns the owner of the pod with these fields, and the group that follows from it, according to the table of kinds. A controller
/// whose kind is not in the table is the owner too.
///
/// # Errors
/// No row of the table identifies an owner, and the pod has no controller.
pub fn of<'a, L: Fn(&str) -> Option<&'a str>>(pod: &PodFacts<'a, L>) -> Result<PodOrigin, OriginError> {
    if let Some(found) = KINDS.iter().find_map(|row| by_row(row, pod)) {
        return Ok(found);
    }
    let controller = pod.controller.ok_or(OriginError)?;
    Ok(PodOrigin {
        row: None,
        api_version: controller.api_version.to_owned(),
        kind: controller.kind.to_owned(),
        owner: controller.name.to_owned(),
        uid: Some(controller.uid.to_owned()),
        replica: Vec::new(),
        group: name::of(controller.name, &[]),
    })
}

/// Returns the owner of a pod and its group if the pod's labels or controller identify an owner of the kind `row`; otherwise `None`.
fn by_row<'a, L: Fn(&str) -> Option<&'a str>>(row: &'static OwnerKind, pod: &PodFacts<'a, L>) -> Option<PodOrigin> {
    let given = |key: &str| (pod.label)(key).filter(|value| !value.is_empty());
    let own = pod.controller.filter(|c| of_version(c.api_version, c.kind).is_some_and(|kind| kind == row));
    let owner = match row.owner_link {
        OwnerLink::ByController => own?.name,
        OwnerLink::ByLabel(key) => given(key)?,
        OwnerLink::ByLabelWhere(key, other, values) => {
            given(other).filter(|value| values.contains(value))?;
            given(key)?
        }
        OwnerLink::ByChild(_) => return None,
    };
    let ordinal = || pod.name?.rsplit_once('-').map(|(_, number)| number).filter(|n| n.parse::<u32>().is_ok());
    let replica: Option<Vec<String>> = row
        .replica
        .iter()
        .map(|key| given(key).or_else(|| row.replica_is_ordinal.then(ordinal).flatten()).map(str::to_owned))
        .collect();
    let replica = replica?;
    Some(PodOrigin {
        row: Some(row),
        api_version: own
            .map(|own| own.api_version)
            .filter(|given| is_plain(given))
            .map_or_else(|| row.api_version(), str::to_owned),
        kind: row.kind.to_owned(),
        owner: owner.to_owned(),
        uid: own.map(|own| own.uid).or_else(|| given(row.uid?)).map(str::to_owned),
        group: name::of(owner, &replica),
        replica,
    })
}

/// Returns true if the version in `api_version` has only lower-case letters and digits and begins with `v`. The pod's creator
/// writes it, and it becomes part of a request path.
fn is_plain(api_version: &str) -> bool {
    let version = api_version.rsplit_once('/').map_or(api_version, |(_, version)| version);
    version.starts_with('v') && version.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_that_would_change_the_request_path_is_rejected() {
        for (given, asked) in [
            ("batch/v1", "batch/v1"),
            ("batch/v1beta1", "batch/v1beta1"),
            ("batch/v1%2Fnamespaces%2Fother%2Fjobs%2Fx?", "batch/v1"),
            ("batch/..", "batch/v1"),
            ("batch/v1#", "batch/v1"),
        ] {
            let own = Controller { api_version: given, ..JOB };
            let pod = PodFacts { name: None, label: |_: &str| None, controller: Some(own) };
            assert_eq!(of(&pod).unwrap().api_version, asked, "{given}");
        }
    }

    const JOB: Controller<'_> = Controller { api_version: "batch/v1", kind: "Job", name: "train", uid: "u1" };

    fn origin(
        name: &str,
        labels: &[(&str, &'static str)],
        controller: Option<Controller<'_>>,
    ) -> Result<PodOrigin, OriginError> {
        let label = |key: &str| labels.iter().find(|(each, _)| *each == key).map(|(_, value)| *value);
        let controller = controller.map(|c| Controller { ..c });
        of(&PodFacts { name: Some(name), label, controller })
    }

    fn fields_of(found: &PodOrigin) -> (&str, &str, &str, Option<&str>) {
        (&found.kind, &found.owner, &found.group, found.uid.as_deref())
    }

    #[test]
    fn a_pod_of_a_job_belongs_to_the_group_of_the_job() {
        let found = origin("train-x", &[("batch.kubernetes.io/job-name", "train")], Some(JOB)).unwrap();
        assert_eq!(fields_of(&found), ("Job", "train", "train", Some("u1")));
        assert_eq!(found.api_version, "batch/v1");
    }

    #[test]
    fn a_pod_of_a_jobset_belongs_to_the_group_of_its_job() {
        let labels = [
            ("jobset.sigs.k8s.io/jobset-name", "train"),
            ("jobset.sigs.k8s.io/replicatedjob-name", "workers"),
            ("jobset.sigs.k8s.io/job-index", "3"),
            ("jobset.sigs.k8s.io/jobset-uid", "root"),
        ];
        let found = origin("train-workers-3-0-x", &labels, Some(JOB)).unwrap();
        assert_eq!(fields_of(&found), ("JobSet", "train", "train-workers-3", Some("root")));
        assert_eq!(found.api_version, "jobset.x-k8s.io/v1alpha2");
        let half = origin("train-workers-3-0-x", &labels[..1], Some(JOB)).unwrap();
        assert_eq!(fields_of(&half), ("Job", "train", "train", Some("u1")), "half of the labels identify no owner");
    }

    #[test]
    fn a_leader_belongs_to_the_group_of_its_workers_before_it_has_their_label() {
        let set = Controller { api_version: "apps/v1", kind: "StatefulSet", name: "serve", uid: "s" };
        let leader = origin("serve-2", &[("leaderworkerset.sigs.k8s.io/name", "serve")], Some(set)).unwrap();
        let labels = [("leaderworkerset.sigs.k8s.io/name", "serve"), ("leaderworkerset.sigs.k8s.io/group-index", "2")];
        let worker = origin("serve-2-1", &labels, Some(Controller { name: "serve-2", ..set })).unwrap();
        assert_eq!(fields_of(&leader), ("LeaderWorkerSet", "serve", "serve-2", None));
        assert_eq!(fields_of(&worker), fields_of(&leader));
    }

    #[test]
    fn the_pods_of_a_ray_cluster_and_of_training_jobs_are_one_group_each() {
        let ray = Controller { api_version: "ray.io/v1", kind: "RayCluster", name: "job-abcde", uid: "r" };
        let labels = [("ray.io/cluster", "job-abcde"), ("ray.io/node-type", "head")];
        let found = origin("job-abcde-head-x", &labels, Some(ray)).unwrap();
        assert_eq!(fields_of(&found), ("RayCluster", "job-abcde", "job-abcde", Some("r")));
        let torch = Controller { api_version: "kubeflow.org/v1", kind: "PyTorchJob", name: "ddp", uid: "p" };
        let labels = [
            ("training.kubeflow.org/job-name", "ddp"),
            ("training.kubeflow.org/operator-name", "pytorchjob-controller"),
        ];
        assert_eq!(
            fields_of(&origin("ddp-master-0", &labels, Some(torch)).unwrap()),
            ("PyTorchJob", "ddp", "ddp", Some("p"))
        );
        let labels =
            [("training.kubeflow.org/job-name", "pi"), ("training.kubeflow.org/operator-name", "mpi-operator")];
        let launcher = Controller { name: "pi-launcher", ..JOB };
        assert_eq!(fields_of(&origin("pi-launcher-x", &labels, Some(launcher)).unwrap()), ("MPIJob", "pi", "pi", None));
        let worker = Controller { api_version: "kubeflow.org/v1", kind: "MPIJob", name: "pi", uid: "m" };
        let worker = origin("pi-worker-0", &labels, Some(worker)).unwrap();
        assert_eq!(
            (fields_of(&worker), worker.api_version.as_str()),
            (("MPIJob", "pi", "pi", Some("m")), "kubeflow.org/v1")
        );
    }

    #[test]
    fn the_cleanup_pod_of_a_ray_cluster_is_no_member() {
        let labels = [("ray.io/cluster", "job-abcde"), ("ray.io/node-type", "redis-cleanup")];
        let job = Controller { name: "job-abcde-redis-cleanup", ..JOB };
        let found = origin("job-abcde-redis-cleanup-x", &labels, Some(job)).unwrap();
        assert_eq!(fields_of(&found), ("Job", "job-abcde-redis-cleanup", "job-abcde-redis-cleanup", Some("u1")));
    }

    #[test]
    fn a_controller_of_an_unknown_kind_names_the_group_and_a_pod_without_a_controller_has_none() {
        let set = Controller { api_version: "apps/v1", kind: "ReplicaSet", name: "web-5d", uid: "w" };
        let found = origin("web-5d-x", &[], Some(set)).unwrap();
        assert_eq!((fields_of(&found), found.row), (("ReplicaSet", "web-5d", "web-5d", Some("w")), None));
        assert_eq!(
            origin("bare", &[], None).unwrap_err().to_string(),
            "metadata.labels[scheduling.giveway.dev/gang]: Invalid value: \"true\": the pod has no controller that could be the \
             owner of a gang: name its group in the label scheduling.giveway.dev/pod-group instead"
        );
    }
}
