//! The labels of a pod. The pods of one owner have the same ones, except for those with which their controller numbers them: these are
//! stored for each pod, so that all others can be stored once.

use smol_str::SmolStr;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Labels by key.
pub(super) type LabelMap = BTreeMap<String, String>;

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
    /// All but the numbering ones.
    pub(super) common: Arc<LabelMap>,
    /// The numbering ones, by key.
    own: Box<[(&'static str, SmolStr)]>,
}

impl Labels {
    /// Returns the value of a label; `None` if there is no such label.
    pub fn get(&self, key: &str) -> Option<&str> {
        let own = || self.own.iter().find(|(name, _)| *name == key).map(|(_, value)| value.as_str());
        self.common.get(key).map(String::as_str).or_else(own)
    }

    /// Returns true if there is a label with this key.
    pub fn contains_key(&self, key: &str) -> bool {
        self.get(key).is_some()
    }

    /// Returns all labels, in an order that depends on nothing but their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let common = self.common.iter().map(|(key, value)| (key.as_str(), value.as_str()));
        common.chain(self.own.iter().map(|(key, value)| (*key, value.as_str())))
    }
}

impl From<LabelMap> for Labels {
    fn from(mut labels: LabelMap) -> Self {
        let mut own = Vec::new();
        for key in NUMBERING {
            own.extend(labels.remove(key).map(|value| (key, SmolStr::from(value))));
        }
        Self { common: Arc::new(labels), own: own.into_boxed_slice() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_found_whether_or_not_they_number_the_pod() {
        let map: LabelMap = BTreeMap::from(
            [("app", "train"), ("spark-exec-id", "7"), ("zone", "a")].map(|(key, value)| (key.into(), value.into())),
        );
        let labels = Labels::from(map.clone());
        assert_eq!(labels.common.len(), 2);
        assert!(map.iter().all(|(key, value)| labels.get(key) == Some(value.as_str()) && labels.contains_key(key)));
        assert_eq!(labels.iter().map(|(key, value)| (key.into(), value.into())).collect::<LabelMap>(), map);
        assert_eq!((labels.get("other"), labels.contains_key("other")), (None, false));
    }

    #[test]
    fn the_numbering_labels_are_named_in_order() {
        assert!(NUMBERING.is_sorted());
    }
}
