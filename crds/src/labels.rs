//! Pod labels that are kept in memory: those that Giveway reads, and a limited number of others. A pod may have as many
//! labels as fit into an object, 70,000 and more, and any user who creates pods could otherwise fill the memory of
//! every process that watches them.
//!
//! Budgets, affinities and spreading see only the kept labels of such a pod: the only effect for its owner is that the
//! owner's own budgets protect the pod less.

use crate::{keys, kinds};
use serde::de::{Deserializer, MapAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;

/// Maximum number of labels of one pod that are kept in addition to those that Giveway reads.
pub const MOST_OTHERS: usize = 1000;

/// Labels that Giveway reads on pods of every kind of owner.
const READ: [&str; 11] = [
    keys::LABEL_POD_GROUP,
    keys::LABEL_WORKLOAD,
    keys::LABEL_TEMPLATE,
    keys::LABEL_REPLICA,
    keys::LABEL_GANG,
    keys::LABEL_MANAGED_BY,
    keys::LABEL_CLASS_CHANGE,
    keys::LABEL_KEEPS_NODE,
    keys::LABEL_PLACEHOLDER,
    keys::LABEL_PROVISIONING,
    "pod-template-hash",
];

/// Counts the labels of one pod that are kept although Giveway does not read them. They are counted in the order of the object, which is
/// sorted by key.
#[derive(Clone, Copy, Debug, Default)]
struct Counter(usize);

impl Counter {
    /// Returns true if the next label of the pod, with this key, is kept: Giveway reads it, or few other labels have been kept so far.
    fn keeps(&mut self, key: &str) -> bool {
        if READ.contains(&key) || kinds::reads_label(key) {
            return true;
        }
        self.0 = self.0.saturating_add(1);
        self.0 <= MOST_OTHERS
    }
}

/// Returns the labels of a pod that Giveway stores: those that it reads, and a limited number of others.
pub fn remembered(labels: Option<&BTreeMap<String, String>>) -> BTreeMap<String, String> {
    let mut counter = Counter::default();
    let kept = labels.into_iter().flatten().filter(|(key, _)| counter.keeps(key));
    kept.map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Deserializes those labels of a pod that [`remembered`] returns; the others are skipped and use no memory.
///
/// # Errors
/// The labels are not a map of strings.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<BTreeMap<String, String>>, D::Error> {
    struct LabelsVisitor;

    impl<'de> Visitor<'de> for LabelsVisitor {
        type Value = Option<BTreeMap<String, String>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map")
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let (mut kept, mut counter) = (BTreeMap::new(), Counter::default());
            while let Some(key) = map.next_key::<String>()? {
                let value: String = map.next_value()?;
                if counter.keeps(&key) {
                    kept.insert(key, value);
                }
            }
            Ok(Some(kept))
        }
    }

    deserializer.deserialize_any(LabelsVisitor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Deserialize;
    use serde_json::json;

    #[derive(Deserialize)]
    struct Metadata {
        #[serde(default, deserialize_with = "deserialize")]
        labels: Option<BTreeMap<String, String>>,
    }

    fn labels(count: usize) -> BTreeMap<String, String> {
        let others = (0..count).map(|n| (format!("a{n:06}"), "x".to_owned()));
        // Keys with Giveway's prefix that Giveway does not read count as other labels, too.
        let prefixed = (0..count).map(|n| (format!("scheduling.giveway.dev/a{n:06}"), "x".to_owned()));
        others.chain(prefixed).collect()
    }

    #[test]
    fn of_too_many_labels_giveway_s_own_and_the_first_others_are_kept() {
        let mut given = labels(70_000);
        let read = [keys::LABEL_POD_GROUP, keys::LABEL_PLACEHOLDER, "jobset.sigs.k8s.io/jobset-name"];
        given.extend(read.map(|key| (key.to_owned(), "g".to_owned())));
        let read_back: Metadata = serde_json::from_value(json!({"labels": given})).unwrap();
        let kept = remembered(Some(&given));
        assert_eq!(kept.len(), MOST_OTHERS + read.len());
        assert!(read.iter().all(|key| kept.contains_key(*key)) && kept.contains_key("a000999"));
        assert!(!kept.contains_key("a001000"));
        assert_eq!(read_back.labels, Some(kept), "the same ones, however they are read");
    }

    #[test]
    fn a_usual_number_of_labels_is_kept_and_no_labels_stay_none() {
        let given = labels(MOST_OTHERS / 2);
        assert_eq!(remembered(Some(&given)), given);
        let read: Metadata = serde_json::from_value(json!({"labels": given})).unwrap();
        assert_eq!(read.labels, Some(given));
        for none in [json!({}), json!({"labels": null})] {
            assert_eq!(serde_json::from_value::<Metadata>(none).unwrap().labels, None);
        }
        assert!(serde_json::from_value::<Metadata>(json!({"labels": {"a": 5}})).is_err());
    }
}
