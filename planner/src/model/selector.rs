//! Label selectors of budgets and of (anti-)affinity terms.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use std::collections::BTreeMap;

/// A label selector. The empty one matches every set of labels.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Selector {
    equal: Vec<(String, String)>,
    rules: Vec<Rule>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Rule {
    key: String,
    operator: String,
    values: Vec<String>,
}

impl Selector {
    /// Reads a selector; the API server has checked it.
    pub(crate) fn from_object(selector: &LabelSelector) -> Self {
        let equal = selector.match_labels.iter().flatten().map(|(k, v)| (k.clone(), v.clone())).collect();
        let rules = selector.match_expressions.iter().flatten().map(|e| Rule {
            key: e.key.clone(),
            operator: e.operator.clone(),
            values: e.values.clone().unwrap_or_default(),
        });
        Self { equal, rules: rules.collect() }
    }

    /// Whether these labels match. A rule with an unknown operator matches nothing.
    pub(crate) fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.equal.iter().all(|(key, value)| labels.get(key) == Some(value))
            && self.rules.iter().all(|rule| rule.matches(labels.get(&rule.key)))
    }
}

impl Rule {
    fn matches(&self, value: Option<&String>) -> bool {
        match self.operator.as_str() {
            "In" => value.is_some_and(|v| self.values.contains(v)),
            "NotIn" => value.is_none_or(|v| !self.values.contains(v)),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => false,
        }
    }
}
