//! A PodGroup cannot raise the priority of its members (design, section 3, rule 4).
//!
//! A ResourceQuota scoped by PriorityClass counts the class that a pod names. If a group's priority counted for a
//! member of a lower class, the group could be used to bypass such quotas. Therefore a member needs a class of its own
//! with at least its group's priority. Admission rejects a pod whose class is lower; a pod that admission did not
//! process with its group stays gated. For other pods, such as running ones, the [lower](counting) of the two
//! priorities counts.

use crate::priority::Classes;

/// Returns the effective priority of a pod with the priority `own` in a PodGroup with the priority `group`: the lower one. A
/// group can lower the priority of its pods, and cannot raise it.
pub fn counting(own: i32, group: i32) -> i32 {
    own.min(group)
}

/// The priority of a group, from the PodGroup or from the template it will be created from.
#[derive(Clone, Copy, Debug)]
pub struct RequestedPriority<'a> {
    /// Name of the group.
    pub group: &'a str,
    /// The class that it names.
    pub class_name: Option<&'a str>,
    /// Its priority.
    pub priority: i32,
}

impl<'a> RequestedPriority<'a> {
    /// Returns the priority of the group with the name `group`. `stated` is `spec.priority` of the group; without it (a template,
    /// or a group that admission did not process) the value of its class counts, or the default without a class. Returns
    /// `None` if the class does not exist: the group then has no priority.
    pub fn of(group: &'a str, class_name: Option<&'a str>, stated: Option<i32>, classes: &Classes) -> Option<Self> {
        let class_name = class_name.filter(|name| !name.is_empty());
        let priority = stated.or_else(|| classes.resolve(class_name).ok().map(|resolved| resolved.priority))?;
        Some(Self { group, class_name, priority })
    }

    /// Returns why a pod with the class `class_name` (empty: none) and `priority` may not be a member of the group, as a message with the
    /// fix: its priority is below the group's. `None` if it may.
    pub fn refusal(&self, class_name: &str, priority: i32, classes: &Classes) -> Option<String> {
        let Self { group, priority: asked, .. } = self;
        let class = match class_name {
            "" => "no priority class".to_owned(),
            name => format!("priority class {name}"),
        };
        (priority < *asked).then(|| {
            format!(
                "{class} gives the pod {priority}, below the priority of pod group {group}, {asked}, and a group does not raise \
                 the priority of its pods: {}",
                self.remedy(classes)
            )
        })
    }

    /// Returns the clause that says what the creator of a pod can do that was rejected because its class is below the group's priority.
    fn remedy(&self, classes: &Classes) -> String {
        match self.class_name.ok_or(self.priority).map(|name| (name, self.lapsed(name, classes))) {
            Err(asked) => {
                format!(
                    "name a class of {asked} or more, or delete the pod group with its pods, and create both again with a class"
                )
            }
            Ok((name, None)) => format!("name class {name}, or no class, and it gets {name} from its group"),
            Ok((_, Some(lapsed))) => lapsed,
        }
    }

    /// Returns the clause that says what to do about stored pods with a lower priority than their group.
    pub fn remedy_later(&self, classes: &Classes) -> String {
        match self.class_name.ok_or(self.priority).map(|name| (name, self.lapsed(name, classes))) {
            Err(asked) => format!("delete such pods and create them again with a class of {asked} or more"),
            Ok((name, None)) => format!("delete such pods and create them again with class {name} or without a class"),
            Ok((_, Some(lapsed))) => lapsed,
        }
    }

    /// Returns the clause that says what to do if the group's class, named `name`, no longer exists or now has a value below the
    /// group's priority; `None` if its value is high enough.
    fn lapsed(&self, name: &str, classes: &Classes) -> Option<String> {
        match classes.get(name).map(|class| class.value) {
            Some(value) if value >= self.priority => None,
            Some(value) => Some(format!(
                "delete the pod group with its pods, and create both again: the value of its class {name} is {value} now"
            )),
            None => Some(format!(
                "delete the pod group with its pods, and create both again: its class {name} no longer exists"
            )),
        }
    }

    /// Returns the warning for the creator of a pod with the class `class_name` and `priority`: the priority is above the
    /// group's, which counts. `None` if it is not above.
    pub fn warning(&self, class_name: &str, priority: i32) -> Option<String> {
        let Self { group, priority: asked, .. } = self;
        (priority > *asked).then(|| {
            format!(
                "priority class {class_name} ({priority}) is above the priority of pod group {group}, {asked}: the \
                 priority of the group counts for preemption"
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::PreemptionPolicy;
    use crate::priority::Class;

    fn classes(list: &[(&str, i32)]) -> Classes {
        let mut classes = Classes::default();
        for (name, value) in list {
            classes.upsert(Class {
                name: (*name).into(),
                value: *value,
                global_default: false,
                scheduler_policy: PreemptionPolicy::PreemptLowerPriority,
                managed: false,
                managed_policy: None,
                threshold: None,
            });
        }
        classes
    }

    fn asked<'a>(class_name: Option<&'a str>, stated: Option<i32>, classes: &Classes) -> RequestedPriority<'a> {
        RequestedPriority::of("train", class_name, stated, classes).unwrap()
    }

    #[test]
    fn a_group_does_not_raise_the_priority_of_a_member() {
        assert_eq!(counting(10, 1000), 10);
        assert_eq!(counting(2000, 1000), 1000);
        assert_eq!(counting(-5, 0), -5);
    }

    #[test]
    fn a_class_below_the_groups_is_refused_with_both_numbers_and_the_remedy() {
        let classes = classes(&[("low", 10), ("high", 1000)]);
        let group = asked(Some("high"), Some(1000), &classes);
        assert_eq!(
            group.refusal("low", 10, &classes).unwrap(),
            "priority class low gives the pod 10, below the priority of pod group train, 1000, and a group does not raise the \
             priority of its pods: name class high, or no class, and it gets high from its group"
        );
        assert_eq!(
            group.remedy_later(&classes),
            "delete such pods and create them again with class high or without a class"
        );
        assert_eq!(group.refusal("high", 1000, &classes), None);
        assert_eq!(group.refusal("higher", 2000, &classes), None);
    }

    #[test]
    fn the_priority_in_the_spec_counts_if_the_class_was_recreated_with_another_value() {
        let lower = classes(&[("high", 500)]);
        let group = asked(Some("high"), Some(1000), &lower);
        assert_eq!(
            group.refusal("high", 500, &lower).unwrap(),
            "priority class high gives the pod 500, below the priority of pod group train, 1000, and a group does not raise the \
             priority of its pods: delete the pod group with its pods, and create both again: the value of its class high is 500 now"
        );
        let none = classes(&[]);
        assert_eq!(
            asked(Some("high"), Some(1000), &none).refusal("", 0, &none).unwrap(),
            "no priority class gives the pod 0, below the priority of pod group train, 1000, and a group does not raise the priority \
             of its pods: delete the pod group with its pods, and create both again: its class high no longer exists"
        );
    }

    #[test]
    fn a_group_without_a_class_has_the_default_or_zero_and_a_negative_class_is_below_it() {
        let classes = classes(&[("scavenger", -10)]);
        for name in [None, Some("")] {
            let group = asked(name, None, &classes);
            assert_eq!(group.priority, 0);
            assert_eq!(
                group.refusal("scavenger", -10, &classes).unwrap(),
                "priority class scavenger gives the pod -10, below the priority of pod group train, 0, and a group does not raise \
                 the priority of its pods: name a class of 0 or more, or delete the pod group with its pods, and create both again with a class"
            );
        }
    }

    #[test]
    fn a_group_of_an_unknown_class_has_no_priority() {
        assert!(RequestedPriority::of("train", Some("missing"), None, &classes(&[])).is_none());
    }

    #[test]
    fn a_class_above_the_groups_is_warned_about() {
        let classes = classes(&[("high", 1000)]);
        let group = asked(Some("high"), None, &classes);
        assert_eq!(
            group.warning("higher", 2000).unwrap(),
            "priority class higher (2000) is above the priority of pod group train, 1000: the priority of the group \
             counts for preemption"
        );
        assert_eq!(group.warning("high", 1000), None);
    }
}
