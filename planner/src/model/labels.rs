//! The labels of a pod, in three parts, because labels with other values would make every label of a pod different from those of others:
//! those that identify the owner are stored once for its pods, those with which it numbers its pods are stored for each pod, and all
//! others, which come from a template, are stored once for all owners that were made from it.

use giveway_crds::keys;
use smol_str::SmolStr;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Labels by key.
pub(super) type LabelMap = BTreeMap<String, String>;
/// Some of the [known keys](OWNER), with their values.
pub(super) type KnownLabels = Box<[(&'static str, SmolStr)]>;

/// Labels of which controllers give the pods of each owner a value of their own. With other labels of this kind pods of small owners need
/// more memory.
const OWNER: [&str; 10] = [
    "batch.kubernetes.io/controller-uid",
    "batch.kubernetes.io/job-name",
    "controller-revision-hash",
    "controller-uid",
    "job-name",
    "jobset.sigs.k8s.io/job-key",
    "jobset.sigs.k8s.io/jobset-name",
    "jobset.sigs.k8s.io/jobset-uid",
    "pod-template-hash",
    keys::LABEL_POD_GROUP,
];

/// Labels of which controllers give each pod of an owner a value of its own. With other labels of this kind pods need more memory.
const NUMBERING: [&str; 6] = [
    "apps.kubernetes.io/pod-index",
    "batch.kubernetes.io/job-completion-index",
    "leaderworkerset.sigs.k8s.io/worker-index",
    "spark-exec-id",
    "statefulset.kubernetes.io/pod-name",
    "training.kubeflow.org/replica-index",
];

/// Labels that a selector can be compared with.
pub trait LabelSet {
    /// Returns the value of a label; `None` if there is no such label.
    fn value(&self, key: &str) -> Option<&str>;
}

impl LabelSet for BTreeMap<String, String> {
    fn value(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }
}

impl LabelSet for Labels {
    fn value(&self, key: &str) -> Option<&str> {
        self.get(key)
    }
}

/// The labels of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Labels {
    /// All but those of the owner and the numbering ones.
    pub(super) common: Arc<LabelMap>,
    /// Those of the owner, by key.
    pub(super) of_owner: Arc<KnownLabels>,
    /// The numbering ones, by key.
    own: KnownLabels,
}

impl Labels {
    /// Returns the value of a label; `None` if there is no such label.
    pub fn get(&self, key: &str) -> Option<&str> {
        let known = || self.known().find(|(name, _)| *name == key).map(|(_, value)| value);
        self.common.get(key).map(String::as_str).or_else(known)
    }

    /// Returns those labels whose values controllers choose for each owner or each pod, which are stored apart from the others.
    fn known(&self) -> impl Iterator<Item = (&str, &str)> {
        self.of_owner.iter().chain(&self.own).map(|(key, value)| (*key, value.as_str()))
    }

    /// Returns true if there is a label with this key.
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Returns true if these labels are the same as `labels`, which are read from an object.
    pub(super) fn equal(&self, labels: &LabelMap) -> bool {
        let number = self.common.len() + self.of_owner.len() + self.own.len();
        let mut common = self.common.iter().peekable();
        number == labels.len()
            && labels.iter().all(|(key, value)| match common.next_if(|(known, _)| *known == key) {
                Some((_, known)) => known == value,
                None => self.known().any(|(known, text)| known == key && text == value),
            })
    }

    /// Returns all labels, key and value. Their order depends only on their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let common = self.common.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        common.chain(self.known())
    }
}

impl From<LabelMap> for Labels {
    fn from(mut labels: LabelMap) -> Self {
        let (of_owner, own) = (take(&mut labels, &OWNER), take(&mut labels, &NUMBERING));
        Self { common: Arc::new(labels), of_owner: Arc::new(of_owner), own }
    }
}

/// Removes the labels with these keys from `labels`, and returns those that were there.
fn take(labels: &mut LabelMap, keys: &[&'static str]) -> KnownLabels {
    let mut taken: Vec<(&'static str, SmolStr)> = Vec::new();
    for key in keys {
        let Some(value) = labels.remove(*key) else { continue };
        // Two labels of a Job have its UID, and two its name.
        let known = taken.iter().find(|(_, known)| known.as_str() == value).map(|(_, known)| known.clone());
        taken.push((*key, known.unwrap_or_else(|| SmolStr::from(value))));
    }
    taken.into_boxed_slice()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_found_in_each_of_their_parts() {
        let map: LabelMap = BTreeMap::from(
            [("app", "train"), ("spark-exec-id", "7"), ("zone", "a"), ("job-name", "j"), (keys::LABEL_POD_GROUP, "j")]
                .map(|(key, value)| (key.into(), value.into())),
        );
        let labels = Labels::from(map.clone());
        assert_eq!((labels.common.len(), labels.of_owner.len(), labels.own.len()), (2, 2, 1));
        assert!(map.iter().all(|(key, value)| labels.get(key) == Some(value.as_str()) && labels.contains_key(key)));
        assert_eq!(labels.iter().map(|(key, value)| (key.into(), value.into())).collect::<LabelMap>(), map);
        assert_eq!((labels.get("other"), labels.contains_key("other")), (None, false));
        assert!(labels.equal(&map));
        for key in map.keys() {
            let without: LabelMap =
                map.iter().filter(|(other, _)| *other != key).map(|(k, v)| (k.clone(), v.clone())).collect();
            let other_value =
                LabelMap::from_iter(without.clone().into_iter().chain([(key.clone(), "other".to_owned())]));
            let other_key =
                LabelMap::from_iter(without.clone().into_iter().chain([(format!("{key}-2"), map[key].clone())]));
            for different in [without, other_value, other_key] {
                assert!(!labels.equal(&different), "{different:?}");
            }
        }
    }

    #[test]
    fn known_labels_are_named_once_and_in_order() {
        assert!(NUMBERING.is_sorted() && OWNER.is_sorted());
        assert!(OWNER.iter().all(|key| !NUMBERING.contains(key)));
    }
}
