//! Label selectors of budgets and of (anti-)affinity terms.

use super::labels::LabelSet;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use std::collections::BTreeMap;

/// A label selector. The empty one matches every set of labels.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Selector {
    equal: Vec<(String, String)>,
    rules: Vec<SelectorRequirement>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct SelectorRequirement {
    key: String,
    operator: String,
    /// Sorted in ascending order, because a selector may list thousands.
    values: Vec<String>,
}

impl Selector {
    /// Converts a label selector that the API server has validated.
    pub(crate) fn from_object(selector: &LabelSelector) -> Self {
        let equal = selector.match_labels.iter().flatten().map(|(k, v)| (k.clone(), v.clone())).collect();
        let rules = selector.match_expressions.iter().flatten().map(|e| SelectorRequirement {
            key: e.key.clone(),
            operator: e.operator.clone(),
            values: sorted(e.values.as_deref()),
        });
        Self { equal, rules: rules.collect() }
    }

    /// Returns true if these labels match. A rule with an unknown operator matches nothing.
    pub(crate) fn matches(&self, labels: &impl LabelSet) -> bool {
        self.equal.iter().all(|(key, value)| labels.value(key) == Some(value.as_str()))
            && self.rules.iter().all(|rule| rule.matches(labels.value(&rule.key)))
    }

    /// Returns the keys of the labels that the selector reads.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &str> {
        let equal = self.equal.iter().map(|(key, _)| key.as_str());
        equal.chain(self.rules.iter().map(|rule| rule.key.as_str()))
    }

    /// Returns a label key, and the values of which every selected pod must have one for this key; `None` if the selector has no such
    /// requirement.
    pub(crate) fn needs(&self) -> Option<(&str, &[String])> {
        let equal = self.equal.iter().map(|(key, value)| (key.as_str(), std::slice::from_ref(value)));
        let listed = self.rules.iter().filter(|rule| rule.operator == "In");
        equal.chain(listed.map(|rule| (rule.key.as_str(), rule.values.as_slice()))).next()
    }

    /// Returns true if the selector has no rules, so that it matches every set of labels.
    pub(crate) fn is_empty(&self) -> bool {
        self.equal.is_empty() && self.rules.is_empty()
    }

    /// Returns true if the selector reads no label but the one with this key.
    pub(crate) fn asks_only_for(&self, key: &str) -> bool {
        self.equal.iter().all(|(other, _)| other == key) && self.rules.iter().all(|rule| rule.key == key)
    }

    /// Adds `key operator (the pod's own value)` for every key that the pod has a label for, as `matchLabelKeys` (`In`) and
    /// `mismatchLabelKeys` (`NotIn`) demand. The API server writes the same rule when a pod is created; it is not added
    /// twice, as the pod's labels may have changed since.
    pub(super) fn merge_own(&mut self, keys: Option<&[String]>, operator: &str, labels: &BTreeMap<String, String>) {
        for key in keys.unwrap_or_default() {
            let Some(value) = labels.get(key) else { continue };
            if !self.rules.iter().any(|rule| rule.key == *key && rule.operator == operator) {
                let (key, operator) = (key.clone(), operator.to_owned());
                self.rules.push(SelectorRequirement { key, operator, values: vec![value.clone()] });
            }
        }
    }
}

impl SelectorRequirement {
    /// Returns true if the value of the label, or its absence, satisfies the requirement.
    fn matches(&self, value: Option<&str>) -> bool {
        let lists = |value: &str| self.values.binary_search_by(|listed| listed.as_str().cmp(value)).is_ok();
        match self.operator.as_str() {
            "In" => value.is_some_and(lists),
            "NotIn" => !value.is_some_and(lists),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => false,
        }
    }
}

/// Returns the values in ascending order; none for `None`.
fn sorted(values: Option<&[String]>) -> Vec<String> {
    let mut values = values.unwrap_or_default().to_vec();
    values.sort_unstable();
    values
}
