//! Priority classes of the pod templates that share a group. A pod whose class is below that of its PodGroup is rejected,
//! and the PodGroup is created with the first pod, which may be the leader: so it gets the lowest class of all templates.

use super::OwnerKind;
use super::size::Size;
use super::templates::Grouped;
use crate::json::{Json, Text, places};
use crate::priority::{Class, Classes};

/// A class that a pod template names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateClass {
    /// Path of the field.
    pub field: String,
    /// Name of the class.
    pub name: String,
}

/// Returns the PriorityClasses that those of the `templates` name which belong to the one gang of this owner; none if each
/// template of its kind has a gang of its own. A template without a class is not included: its pods get the group's.
pub fn named<'a, J: Json<'a>>(row: &OwnerKind, owner: J, templates: &[Grouped<J>]) -> Vec<TemplateClass> {
    if row.size == Size::ReplicatedJobs {
        return Vec::new();
    }
    let pods = row.templates.iter().filter_map(|pattern| pattern.strip_suffix(".metadata"));
    let fields = pods.flat_map(|pod| places(owner, &format!("{pod}.spec.priorityClassName")));
    let named = fields.filter_map(|place| {
        let pod = place.path.get(..place.path.len().checked_sub(2)?)?;
        let mut gangs = templates.iter().filter(|each| each.is_gang);
        gangs.find(|each| each.place.path.split_last().is_some_and(|(_, holder)| holder == pod))?;
        let name = place.value?.read::<Text<'a>>().filter(|name| !name.is_empty())?;
        Some(TemplateClass { field: place.named(), name: name.to_string() })
    });
    named.collect()
}

/// Returns the PriorityClass with the lowest value among those with these names; names of classes that do not exist are ignored. `None` if
/// none exists.
pub fn lowest<'n, 'c>(names: impl IntoIterator<Item = &'n str>, classes: &'c Classes) -> Option<&'c Class> {
    names.into_iter().filter_map(|name| classes.get(name)).min_by_key(|class| class.value)
}

/// Returns the warning for an owner whose pod templates name classes with different values: it says which class the PodGroup gets. `None`
/// if the values are equal.
pub fn warning(named: &[TemplateClass], classes: &Classes) -> Option<String> {
    let known: Vec<_> = named.iter().filter_map(|each| Some((each, classes.get(&each.name)?))).collect();
    let (low, lowest) = known.iter().min_by_key(|(_, class)| class.value)?;
    let (high, highest) = known.iter().max_by_key(|(_, class)| class.value)?;
    (lowest.value < highest.value).then(|| {
        format!(
            "{}: class {} ({}) is above class {} ({}) of {}: the PodGroup gets the lowest class of its templates, {}",
            high.field, highest.name, highest.value, lowest.name, lowest.value, low.field, lowest.name
        )
    })
}

/// Returns the warning for an owner whose pod templates name a class with a value below `priority`, that of its existing PodGroup
/// `group`: it says what is rejected, and how the class can be lowered. `None` if no class is lower.
pub fn warning_below(named: &[TemplateClass], group: &str, priority: i32, classes: &Classes) -> Option<String> {
    let known = named.iter().filter_map(|each| Some((each, classes.get(&each.name)?)));
    let (low, class) = known.min_by_key(|(_, class)| class.value).filter(|(_, class)| class.value < priority)?;
    Some(format!(
        "{}: class {} ({}) is below the priority of PodGroup {group}, {priority}: new pods are rejected while it exists: delete \
         the PodGroup and its pods, and it is created again with the lower class",
        low.field, class.name, class.value
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::templates::grouped;
    use crate::kinds::{GangSettings, KINDS};
    use crate::policy::PreemptionPolicy;
    use serde_json::{Value, json};

    fn classes() -> Classes {
        let mut classes = Classes::default();
        for (name, value) in [("low", 10), ("high", 1000)] {
            classes.upsert(Class {
                name: name.into(),
                value,
                global_default: false,
                scheduler_policy: PreemptionPolicy::Never,
                managed: false,
                managed_policy: None,
                threshold: None,
            });
        }
        classes
    }

    fn of(kind: &str, spec: Value) -> Vec<TemplateClass> {
        let row = KINDS.iter().find(|row| row.kind == kind).unwrap();
        let owner = json!({ "spec": spec });
        named(row, &owner, &grouped(row, &owner, true, &GangSettings::default()))
    }

    fn pods(class: &str) -> Value {
        json!({"metadata": {}, "spec": {"priorityClassName": class}})
    }

    fn names_of(named: &[TemplateClass]) -> Vec<&str> {
        named.iter().map(|each| each.name.as_str()).collect()
    }

    #[test]
    fn the_lowest_class_of_all_templates_is_returned_and_a_higher_one_gets_a_warning() {
        let set = of(
            "LeaderWorkerSet",
            json!({"leaderWorkerTemplate": {"leaderTemplate": pods("high"), "workerTemplate": pods("low")}}),
        );
        assert_eq!(names_of(&set), ["high", "low"]);
        assert_eq!(lowest(names_of(&set), &classes()).unwrap().name, "low");
        assert_eq!(
            warning(&set, &classes()).unwrap(),
            "spec.leaderWorkerTemplate.leaderTemplate.spec.priorityClassName: class high (1000) is above class low (10) of \
             spec.leaderWorkerTemplate.workerTemplate.spec.priorityClassName: the PodGroup gets the lowest class of its \
             templates, low"
        );
        let job = of(
            "PyTorchJob",
            json!({"pytorchReplicaSpecs": {"Master": {"template": pods("high")}, "Worker": {"template": pods("low")}}}),
        );
        assert_eq!(names_of(&job), ["high", "low"]);
        let ray = json!({"headGroupSpec": {"template": pods("high")}, "workerGroupSpecs": [{"template": pods("low")}]});
        assert_eq!(names_of(&of("RayCluster", ray.clone())), ["high", "low"]);
        assert_eq!(names_of(&of("RayJob", json!({ "rayClusterSpec": ray }))), ["high", "low"]);
    }

    #[test]
    fn a_class_below_that_of_the_existing_group_is_warned_about_with_the_way_to_lower_it() {
        let set = of("StatefulSet", json!({"template": pods("low")}));
        assert_eq!(
            warning_below(&set, "db", 1000, &classes()).unwrap(),
            "spec.template.spec.priorityClassName: class low (10) is below the priority of PodGroup db, 1000: new pods are rejected \
             while it exists: delete the PodGroup and its pods, and it is created again with the lower class"
        );
        assert_eq!(warning_below(&set, "db", 10, &classes()), None);
        assert_eq!(warning_below(&of("StatefulSet", json!({"template": pods("x")})), "db", 1000, &classes()), None);
        assert_eq!(warning_below(&[], "db", 1000, &classes()), None);
    }

    #[test]
    fn templates_that_share_no_group_or_name_no_class_are_not_compared() {
        let job = |class: &str| json!({"template": {"spec": {"template": pods(class)}}});
        assert_eq!(of("JobSet", json!({"replicatedJobs": [job("high"), job("low")]})), []);
        let mut other = pods("low");
        other["metadata"]["labels"] = json!({crate::keys::LABEL_GANG: "false"});
        let set = of(
            "LeaderWorkerSet",
            json!({"leaderWorkerTemplate": {"leaderTemplate": pods("high"), "workerTemplate": other}}),
        );
        assert_eq!(names_of(&set), ["high"], "the workers are no members");
        let silent = of(
            "LeaderWorkerSet",
            json!({"leaderWorkerTemplate": {"leaderTemplate": pods("high"), "workerTemplate": {}}}),
        );
        assert_eq!((names_of(&silent), warning(&silent, &classes())), (vec!["high"], None));
        let unknown = of(
            "LeaderWorkerSet",
            json!({"leaderWorkerTemplate": {"leaderTemplate": pods("high"), "workerTemplate": pods("x")}}),
        );
        assert_eq!(warning(&unknown, &classes()), None);
        assert_eq!(lowest(["x"], &classes()), None);
    }
}
