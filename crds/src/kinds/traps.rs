//! Settings of an owner with which its gang never starts: its controller creates the other pods only after one of them
//! has started, and no pod of a gang starts before all of them exist. Admission and the CLI use the same check.

use super::size::Size;
use super::templates::Grouped;
use super::{OwnerKind, Trap, job};
use crate::brief::shorten;
use crate::json::{Json, Text, fields, places};
use std::cell::OnceCell;

/// A setting with which a gang never starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// Path of the field or annotation.
    pub field: String,
    /// Its value, shortened.
    pub value: String,
    /// Why no gang starts, and what to do.
    pub detail: String,
}

impl Obstacle {
    /// Returns the message for a rejected owner with this setting, in the form of the API server's own errors.
    pub fn refusal(&self) -> String {
        format!("{}: Invalid value: {:?}: {}", self.field, self.value, self.detail)
    }

    /// Returns the warning for an owner of this kind (such as `StatefulSet`) that is stored already with this setting.
    pub fn warning(&self, kind: &str) -> String {
        format!("{}: {:?}: the gang of this {kind} does not start: {}", self.field, self.value, self.detail)
    }
}

/// Returns the first setting of an owner with which a gang of these pod templates never starts; `None` if there is none. A gang of one pod
/// can always start.
pub fn obstacle<'a, J: Json<'a>>(row: &OwnerKind, owner: J, templates: &[Grouped<J>]) -> Option<Obstacle> {
    let gangs: Vec<_> = templates.iter().filter(|each| each.is_gang && each.min_count != Some(1)).collect();
    row.traps.iter().find_map(|trap| match trap {
        _ if gangs.is_empty() => None,
        Trap::Value { field, value, is_default, instead } => {
            let said = fields::value::<Text<'a>>(owner, field).filter(|said| !said.is_empty());
            said.map_or(*is_default, |said| &*said == *value).then(|| Obstacle {
                field: (*field).to_owned(),
                value: (*value).to_owned(),
                detail: format!(
                    "each pod would wait until the one before it is ready, and no pod of a gang starts before all of \
                     them fit: use {instead:?}"
                ),
            })
        }
        Trap::Annotation { key, unless, on, why } => {
            let sizes = OnceCell::new();
            let pods = |gang: usize| sizes.get_or_init(|| sizes_of(row, owner, &gangs)).get(gang).copied();
            let found = on.iter().flat_map(|pattern| places(owner, pattern)).find_map(|place| {
                let value = place.at(&["annotations", *key])?;
                let holder = place.path.split_last().map_or(&[][..], |(_, holder)| holder);
                let is_trap = !unless.is_some_and(|other| place.at(&["annotations", other]).is_some());
                let mut below = gangs.iter().enumerate().filter(|(_, each)| each.place.path.starts_with(holder));
                below.find(|(gang, _)| pods(*gang) > Some(1)).filter(|_| is_trap)?;
                Some((format!("{}.annotations[{key}]", place.named()), value))
            });
            found.map(|(field, value)| Obstacle {
                field,
                value: shorten(&value.read::<Text<'a>>().unwrap_or_default()).into_owned(),
                detail: format!(
                    "{why}, and no pod of a gang gets a node before all of them exist: remove the annotation; to keep \
                     the pods in one topology domain, create a PodGroup with schedulingConstraints"
                ),
            })
        }
    })
}

/// Returns, for each of these pod templates, how many pods its group has according to the owner's fields, or the largest number if the
/// table of kinds does not say where that is written. The owner is read once for all of them: it may have hundreds of templates, and
/// megabytes.
fn sizes_of<'a, J: Json<'a>>(row: &OwnerKind, owner: J, templates: &[&Grouped<J>]) -> Vec<i64> {
    if let Size::Field { path, default } = row.size {
        let size = fields::value(owner, &path.trim_start_matches('/').replace('/', ".")).unwrap_or(default);
        return vec![size; templates.len()];
    }
    let specs = row.jobs.map_or_else(Vec::new, |jobs| places(owner, jobs.specs));
    templates.iter().map(|each| job::of_template(&specs, each).map_or(i64::MAX, |job| job.size())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{ANNOTATION_MIN_COUNT, LABEL_GANG, LABEL_POD_GROUP};
    use crate::kinds::templates::grouped;
    use crate::kinds::{GangSettings, KINDS};
    use serde::Deserialize;
    use serde_json::{Value, json};
    use std::cell::Cell;

    fn kind(kind: &str) -> &'static OwnerKind {
        KINDS.iter().find(|row| row.kind == kind).unwrap()
    }

    /// Returns the error for an owner of this kind; the same for its text and for the parsed object.
    fn refusal(row: &str, owner: &Value, wanted: bool, asked: &GangSettings) -> Option<String> {
        let row = kind(row);
        let parsed = obstacle(row, owner, &grouped(row, owner, wanted, asked));
        let text = serde_json::value::to_raw_value(owner).unwrap();
        assert_eq!(obstacle(row, &*text, &grouped(row, &*text, wanted, asked)), parsed);
        parsed.map(|obstacle| obstacle.refusal())
    }

    const DETAIL: &str = "each pod would wait until the one before it is ready, and no pod of a gang starts before all of \
                          them fit: use";

    /// Returns the error for a gang of this kind with this value of its field.
    fn with_value(row: &str, value: Option<&str>, min_count: Option<i32>) -> Option<String> {
        let spec = match kind(row).traps.first() {
            Some(Trap::Value { field, .. }) => json!({field.trim_start_matches("spec."): value}),
            _ => json!({}),
        };
        let mut owner = json!({"spec": spec});
        owner["spec"]["template"] = json!({});
        owner["spec"]["leaderWorkerTemplate"] = json!({"size": 4, "workerTemplate": {}});
        refusal(row, &owner, true, &GangSettings { gang: Some(true), min_count })
    }

    #[test]
    fn a_gang_with_pods_created_one_after_the_other_never_starts_unless_it_has_one_pod() {
        let ordered = Some(format!("spec.podManagementPolicy: Invalid value: \"OrderedReady\": {DETAIL} \"Parallel\""));
        for value in [Some("OrderedReady"), None, Some("")] {
            assert_eq!(with_value("StatefulSet", value, None), ordered, "{value:?}: it is the default");
            assert_eq!(with_value("StatefulSet", value, Some(2)), ordered, "{value:?}");
            assert_eq!(with_value("StatefulSet", value, Some(1)), None, "{value:?}");
        }
        assert_eq!(with_value("StatefulSet", Some("Parallel"), None), None);
        let led = Some(format!("spec.startupPolicy: Invalid value: \"LeaderReady\": {DETAIL} \"LeaderCreated\""));
        assert_eq!(with_value("LeaderWorkerSet", Some("LeaderReady"), None), led);
        assert_eq!(with_value("LeaderWorkerSet", Some("LeaderCreated"), None), None);
        assert_eq!(with_value("LeaderWorkerSet", None, None), None);
        assert_eq!(with_value("Job", None, None), None);
    }

    #[test]
    fn the_label_in_a_pod_template_asks_for_the_same_gang() {
        let owner = |labels: Value, annotations: Value| {
            let metadata = json!({"labels": labels, "annotations": annotations});
            json!({"spec": {"podManagementPolicy": "OrderedReady", "template": {"metadata": metadata}}})
        };
        let stuck =
            |owner: &Value, wanted: bool| refusal("StatefulSet", owner, wanted, &GangSettings::default()).is_some();
        let gang = json!({LABEL_GANG: "true"});
        assert!(stuck(&owner(gang.clone(), json!({})), false));
        assert!(!stuck(&owner(gang.clone(), json!({ANNOTATION_MIN_COUNT: "1"})), false), "one pod starts");
        assert!(!stuck(&owner(json!({}), json!({})), false), "no gang");
        assert!(stuck(&owner(json!({}), json!({})), true), "its owner asks for a gang");
        assert!(!stuck(&owner(json!({LABEL_GANG: "false"}), json!({})), true), "the template has precedence");
        let named = json!({LABEL_GANG: "true", LABEL_POD_GROUP: "mine"});
        assert!(!stuck(&owner(named, json!({})), true), "the user created the group");
    }

    const EXCLUSIVE: &str = "alpha.jobset.sigs.k8s.io/exclusive-topology";
    const SELECTOR: &str = "alpha.jobset.sigs.k8s.io/node-selector";

    /// Returns a JobSet with a Job of one pod and a Job of `size` pods, with annotations of the set, of the second Job and
    /// of its pods.
    fn job_set(size: i64, annotations: [Value; 3]) -> Value {
        let [set, job, pods] = annotations;
        let template = json!({"metadata": {"labels": {LABEL_GANG: "true"}, "annotations": pods}});
        let spec = json!({"parallelism": size, "completions": size, "template": template});
        let one = json!({"name": "driver", "template": {"spec": {"template": {"metadata": {"labels": {LABEL_GANG: "true"}}}}}});
        let workers = json!({"name": "workers", "template": {"metadata": {"annotations": job}, "spec": spec}});
        json!({"metadata": {"annotations": set}, "spec": {"replicatedJobs": [one, workers]}})
    }

    #[test]
    fn a_gang_with_exclusive_topology_never_starts_wherever_the_annotation_stands() {
        let key = || json!({EXCLUSIVE: "zone"});
        let none = || json!({});
        let why = "with it JobSet rejects the other pods of a Job until its first pod has a node, and no pod of a gang gets a node \
                   before all of them exist: remove the annotation; to keep the pods in one topology domain, create a \
                   PodGroup with schedulingConstraints";
        let of = |size: i64, annotations: [Value; 3]| {
            refusal("JobSet", &job_set(size, annotations), false, &GangSettings::default())
        };
        for (annotations, place) in [
            ([key(), none(), none()], "metadata"),
            ([none(), key(), none()], "spec.replicatedJobs[1].template.metadata"),
            ([none(), none(), key()], "spec.replicatedJobs[1].template.spec.template.metadata"),
        ] {
            let words = format!("{place}.annotations[{EXCLUSIVE}]: Invalid value: \"zone\": {why}");
            assert_eq!(of(2, annotations.clone()), Some(words));
            assert_eq!(of(1, annotations), None, "no Job has another pod");
        }
        let by_selector = json!({EXCLUSIVE: "zone", SELECTOR: "true"});
        assert_eq!(of(2, [by_selector, none(), none()]), None, "JobSet rejects no pod then");
        assert_eq!(of(2, [none(), none(), none()]), None);
    }

    /// A value that counts how often one of its fields is looked up.
    #[derive(Clone, Copy)]
    struct Counting<'v>(&'v Value, &'v Cell<usize>);

    impl<'v> Json<'v> for Counting<'v> {
        fn below(self, field: &str) -> Vec<(String, Option<Self>)> {
            self.1.set(self.1.get() + 1);
            let found = self.0.below(field).into_iter();
            found.map(|(key, value)| (key, value.map(|value| Self(value, self.1)))).collect()
        }

        fn is_null(self) -> bool {
            self.0.is_null()
        }

        fn read<T: Deserialize<'v>>(self) -> Option<T> {
            T::deserialize(self.0).ok()
        }
    }

    #[test]
    fn the_effort_for_a_job_set_grows_with_its_jobs_and_not_with_their_square() {
        let looks = |jobs: usize| {
            let template = json!({"metadata": {"labels": {LABEL_GANG: "true"}}});
            let job = json!({"template": {"spec": {"parallelism": 1, "template": template}}});
            let metadata = json!({"annotations": {EXCLUSIVE: "zone"}});
            let owner = json!({"metadata": metadata, "spec": {"replicatedJobs": vec![job; jobs]}});
            let count = Cell::new(0);
            let (row, owner) = (kind("JobSet"), Counting(&owner, &count));
            assert_eq!(obstacle(row, owner, &grouped(row, owner, false, &GangSettings::default())), None);
            count.get()
        };
        assert!(looks(200) <= 20 * looks(10), "{} and {}", looks(200), looks(10));
    }

    #[test]
    fn a_leader_with_exclusive_topology_and_workers_never_starts() {
        let key = "leaderworkerset.sigs.k8s.io/exclusive-topology";
        let set = |size: i64| json!({"metadata": {"annotations": {key: "zone"}}, "spec": {"leaderWorkerTemplate": {"size": size, "workerTemplate": {}}}});
        let of = |size: i64, min_count: Option<i32>| {
            refusal("LeaderWorkerSet", &set(size), true, &GangSettings { gang: Some(true), min_count })
        };
        let words = format!(
            "metadata.annotations[{key}]: Invalid value: \"zone\": the workers are created after their leader has a node, and"
        );
        assert!(of(4, None).is_some_and(|said| said.starts_with(&words)), "{:?}", of(4, None));
        assert_eq!((of(1, None), of(4, Some(1))), (None, None), "the leader starts alone");
    }
}
