//! From a priority class name to a priority, exactly as the API server's Priority plugin resolves it, and what the
//! annotations of a managed class mean.

use crate::keys;
use crate::policy::PreemptionPolicy;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use std::collections::BTreeMap;

/// The largest threshold of [`keys::ANNOTATION_THRESHOLD`]: the value of `system-cluster-critical` (KEP-3280).
pub const MAX_THRESHOLD: i32 = 2_000_000_000;

/// Prefix of the names of classes that belong to the cluster itself; they are never managed.
pub const SYSTEM_PREFIX: &str = "system-";

/// What Giveway needs to know of a PriorityClass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// Name of the class.
    pub name: String,
    /// Its priority value.
    pub value: i32,
    /// Whether it is marked as the default.
    pub global_default: bool,
    /// Its own `preemptionPolicy`, as kube-scheduler reads it.
    pub scheduler_policy: PreemptionPolicy,
    /// Whether it is annotated [`keys::ANNOTATION_MANAGED`]`: "true"`.
    pub managed: bool,
    /// Policy of a managed class, from [`keys::ANNOTATION_PREEMPTION_POLICY`].
    pub managed_policy: Option<PreemptionPolicy>,
    /// The text of [`keys::ANNOTATION_THRESHOLD`], unparsed: pods carry it as it is.
    pub threshold: Option<String>,
}

impl Class {
    /// Reads the fields of a PriorityClass that Giveway needs. An annotation of Giveway with an invalid value counts as absent.
    pub fn from_object(class: &PriorityClass) -> Self {
        let annotations = class.metadata.annotations.clone().unwrap_or_default();
        let managed = annotations.get(keys::ANNOTATION_MANAGED).is_some_and(|v| v == "true");
        let managed_policy =
            annotations.get(keys::ANNOTATION_PREEMPTION_POLICY).and_then(|v| PreemptionPolicy::parse(v));
        Self {
            name: class.metadata.name.clone().unwrap_or_default(),
            value: class.value,
            global_default: class.global_default.unwrap_or(false),
            scheduler_policy: class
                .preemption_policy
                .as_deref()
                .and_then(PreemptionPolicy::parse)
                .unwrap_or(PreemptionPolicy::PreemptLowerPriority),
            managed,
            managed_policy: managed.then(|| managed_policy.unwrap_or(PreemptionPolicy::PreemptLowerPriority)),
            threshold: annotations.get(keys::ANNOTATION_THRESHOLD).cloned(),
        }
    }

    /// Returns the threshold that pods of the class get as an annotation; `None` if the class has none, or an invalid one, which can only
    /// be stored while admission is unavailable.
    pub fn pod_threshold(&self) -> Option<&str> {
        self.threshold.as_deref().filter(|text| text.parse::<i32>().is_ok_and(|value| value <= MAX_THRESHOLD))
    }

    /// Returns the preemption policy that PodGroups with this class get: the one with which the class was created. (The stored policy of a
    /// managed class is always `Never`.)
    pub fn group_policy(&self) -> PreemptionPolicy {
        self.managed_policy.unwrap_or(self.scheduler_policy)
    }
}

/// The priority that a class name resolves to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolved {
    /// Name of the class; empty when there is none.
    pub class_name: String,
    /// The priority.
    pub priority: i32,
    /// Whether a group of this class may preempt.
    pub policy: PreemptionPolicy,
    /// Whether the class is managed; false without a class.
    pub managed: bool,
}

/// A class name that resolves to nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PriorityError {
    /// No class has this name. The text is the Priority plugin's.
    #[error("no PriorityClass with name {0} was found")]
    NotFound(String),
}

/// All priority classes, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Classes(BTreeMap<String, Class>);

impl Classes {
    /// Adds a class, or replaces the one with its name. Returns true if anything changed.
    pub fn upsert(&mut self, class: Class) -> bool {
        if self.0.get(&class.name) == Some(&class) {
            return false;
        }
        self.0.insert(class.name.clone(), class);
        true
    }

    /// Removes the class with this name. Returns true if it was there.
    pub fn remove(&mut self, name: &str) -> bool {
        self.0.remove(name).is_some()
    }

    /// Returns the class with this name; `None` if it does not exist.
    pub fn get(&self, name: &str) -> Option<&Class> {
        self.0.get(name)
    }

    /// Returns all classes, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = &Class> {
        self.0.values()
    }

    /// Returns the PriorityClass with `globalDefault: true`: of several, the one with the lowest value, as the Priority plugin chooses;
    /// `None` if there is none.
    pub fn global_default(&self) -> Option<&Class> {
        self.0.values().filter(|c| c.global_default).min_by_key(|c| (c.value, c.name.clone()))
    }

    /// Returns the class of a pod or group that names `class_name`; for `None` or an empty name, the default class, or `None` if there is
    /// none. It is an error if the named class does not exist.
    pub fn effective(&self, class_name: Option<&str>) -> Result<Option<&Class>, PriorityError> {
        match class_name {
            None | Some("") => Ok(self.global_default()),
            Some(name) => self.0.get(name).map(Some).ok_or_else(|| PriorityError::NotFound(name.to_owned())),
        }
    }

    /// Resolves a class name to priority and preemption policy: without a name, those of the default class, or priority 0 if there is none.
    /// It is an error if the named class does not exist.
    pub fn resolve(&self, class_name: Option<&str>) -> Result<Resolved, PriorityError> {
        Ok(match self.effective(class_name)? {
            Some(class) => Resolved {
                class_name: class.name.clone(),
                priority: class.value,
                policy: class.group_policy(),
                managed: class.managed,
            },
            None => Resolved {
                class_name: String::new(),
                priority: 0,
                policy: PreemptionPolicy::PreemptLowerPriority,
                managed: false,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(name: &str, value: i32, default: bool) -> Class {
        Class {
            name: name.into(),
            value,
            global_default: default,
            scheduler_policy: PreemptionPolicy::PreemptLowerPriority,
            managed: false,
            managed_policy: None,
            threshold: None,
        }
    }

    fn classes(list: &[Class]) -> Classes {
        let mut all = Classes::default();
        for c in list {
            all.upsert(c.clone());
        }
        all
    }

    #[test]
    fn no_class_and_no_default_is_priority_zero() {
        assert_eq!(classes(&[]).resolve(None).unwrap().priority, 0);
        assert_eq!(classes(&[]).resolve(Some("")).unwrap().class_name, "");
    }

    #[test]
    fn of_several_defaults_the_lowest_counts() {
        let all = classes(&[class("b", 20, true), class("a", 10, true), class("c", 5, false)]);
        let got = all.resolve(None).unwrap();
        assert_eq!((got.class_name.as_str(), got.priority), ("a", 10));
    }

    #[test]
    fn an_unknown_class_is_refused_in_the_words_of_the_priority_plugin() {
        let error = classes(&[]).resolve(Some("nope")).unwrap_err();
        assert_eq!(error.to_string(), "no PriorityClass with name nope was found");
    }

    #[test]
    fn a_managed_class_gives_groups_the_policy_it_asked_for() {
        let mut managed = class("m", 7, false);
        managed.managed = true;
        managed.scheduler_policy = PreemptionPolicy::Never;
        managed.managed_policy = Some(PreemptionPolicy::PreemptLowerPriority);
        assert_eq!(classes(&[managed]).resolve(Some("m")).unwrap().policy, PreemptionPolicy::PreemptLowerPriority);
    }
}
