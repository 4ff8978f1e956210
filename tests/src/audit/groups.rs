//! PodGroups and priority classes, as the audit log tells of them, and what their members are worth.

use super::SCHEDULER;
use super::history::{History, Key, PodRecord, Removal, key_of};
use super::log::Line;
use super::record::{is, map, number, text};
use giveway_crds::{keys, native};
use jiff::Timestamp;
use serde_json::Value;

/// A PodGroup.
#[derive(Clone, Debug, Default)]
pub struct GroupRecord {
    /// Whether it gives way whole.
    pub whole: bool,
    /// Whether it is one of Kubernetes' own: its name begins with their API group.
    pub native: bool,
    /// How many members it needs; 0 for a basic group.
    pub min_count: usize,
    /// Its priority.
    pub priority: Option<i32>,
    /// Its class.
    pub class: Option<String>,
    /// Whether it says itself that nobody goes for it, or that somebody may.
    pub never: Option<bool>,
    /// Key of the node label of which all its pods have one value.
    pub topology: Option<String>,
    /// Whether it was deleted.
    pub deleted: bool,
}

/// A PriorityClass.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClassRecord {
    /// Its priority.
    pub value: i32,
    /// Whether nobody goes for groups of it.
    pub never: bool,
}

impl ClassRecord {
    /// A managed class says in an annotation what it asked for; its own policy is for kube-scheduler.
    pub(super) fn of(class: &Value) -> Self {
        let annotations = map(class, "/metadata/annotations");
        let managed = annotations.get(keys::ANNOTATION_MANAGED).is_some_and(|value| value == "true");
        let policy = if managed {
            annotations.get(keys::ANNOTATION_PREEMPTION_POLICY).cloned().unwrap_or_default()
        } else {
            text(class, "/preemptionPolicy")
        };
        Self { value: number(class, "/value").unwrap_or(0), never: policy == "Never" }
    }
}

impl History {
    pub(super) fn take_group(&mut self, line: &Line, removes: bool) {
        let group = &line.response_object;
        let native = line.object_ref.api_group == native::GROUP;
        let key_of_group = |(namespace, name): Key| (namespace, if native { native::key_name(&name) } else { name });
        if removes {
            if let Some(record) = self.groups.get_mut(&key_of_group(key_of(line))) {
                record.deleted = true;
            }
            return;
        }
        if !is(group, "PodGroup") {
            return;
        }
        let key = key_of_group((text(group, "/metadata/namespace"), text(group, "/metadata/name")));
        let class = Some(text(group, "/spec/priorityClassName")).filter(|class| !class.is_empty());
        let policy = Some(text(group, "/spec/preemptionPolicy")).filter(|policy| !policy.is_empty());
        let uid = text(group, "/metadata/uid");
        let incarnations = self.incarnations.entry(key.clone()).or_default();
        if incarnations.last().is_none_or(|(_, last)| *last != uid) {
            incarnations.push((line.stage_timestamp, uid));
        }
        let min_count = number(group, "/spec/schedulingPolicy/gang/minCount").unwrap_or(0);
        let record = GroupRecord {
            whole: text(group, "/spec/disruptionMode") == "PodGroup"
                || group.pointer("/spec/disruptionMode/all").is_some(),
            native,
            min_count: usize::try_from(min_count).unwrap_or(0),
            priority: number(group, "/spec/priority"),
            class,
            never: policy.map(|policy| policy == "Never"),
            topology: Some(text(group, "/spec/schedulingConstraints/topology/0/key")).filter(|key| !key.is_empty()),
            // It is still written to until its finalizers are gone, and by who has not heard of it.
            deleted: group.pointer("/metadata/deletionTimestamp").is_some()
                || (line.verb != "create" && self.groups.get(&key).is_some_and(|before| before.deleted)),
        };
        self.groups.insert(key, record);
    }

    /// The pod's priority as it counts: the lower one of its group's, where it has one, and its own; of a native group the
    /// group's.
    pub fn effective_priority(&self, uid: &str) -> Option<i32> {
        let pod = self.pods.get(uid)?;
        let group = pod.group.as_ref().map(|group| (pod.key.0.clone(), group.clone()));
        let native = group.as_ref().and_then(|key| self.groups.get(key)).is_some_and(|group| group.native);
        let of_group = group.and_then(|key| self.priority_of_group(&key));
        Some(of_group.map_or(pod.priority, |group| if native { group } else { group.min(pod.priority) }))
    }

    /// The group's priority: as stored, or else as its class says.
    pub fn priority_of_group(&self, key: &Key) -> Option<i32> {
        let group = self.groups.get(key)?;
        group.priority.or_else(|| Some(self.classes.get(group.class.as_ref()?)?.value))
    }

    /// Whether nobody goes for this group, by its own word or by that of its class; `None` when neither is known.
    pub(super) fn group_never(&self, key: &Key) -> Option<bool> {
        let group = self.groups.get(key)?;
        group.never.or_else(|| Some(self.classes.get(group.class.as_ref()?)?.never))
    }

    /// The UID of the PodGroup that had this name at this time.
    pub fn incarnation(&self, key: &Key, at: Timestamp) -> Option<&str> {
        let all = self.incarnations.get(key)?;
        all.iter().rev().find(|(since, _)| *since <= at).map(|(_, uid)| uid.as_str())
    }

    /// The members of a group that were created, by UID.
    pub fn members<'a>(&'a self, key: &'a Key) -> impl Iterator<Item = (&'a String, &'a PodRecord)> {
        self.pods.iter().filter(move |(_, pod)| pod.key.0 == key.0 && pod.group.as_ref() == Some(&key.1))
    }

    /// Whether the stock scheduler took another pod of the same whole group, while this one was there: that excuses the rest of this
    /// group, once, and not the pods that its owner makes instead.
    pub(super) fn began_by_scheduler(&self, removal: &Removal) -> bool {
        let Some(pod) = self.pods.get(&removal.uid) else { return false };
        let Some(group) = &pod.group else { return false };
        let key = (removal.pod.0.clone(), group.clone());
        let whole = self.groups.get(&key).is_some_and(|group| group.whole);
        let there = |at: Timestamp| pod.bound.as_ref().is_some_and(|(bound, _)| *bound <= at);
        whole
            && self.removed_by(SCHEDULER).iter().any(|earlier| {
                let same = self.pods.get(&earlier.uid).is_some_and(|pod| pod.group.as_ref() == Some(group));
                same && earlier.pod.0 == key.0 && earlier.at < removal.at && there(earlier.at)
            })
    }
}
