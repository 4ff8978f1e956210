//! Which group a pod belongs to, read from its labels (design, section 2, "How a pod names its group").

use crate::brief::shorten;
use crate::keys;
use std::collections::BTreeMap;

/// What the labels of a pod say of its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Membership {
    /// Name of the PodGroup.
    pub group: String,
    /// The workload and template it is made from, when the labels name them.
    pub template: Option<(String, String)>,
}

/// Labels that name no valid group.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MembershipError {
    /// One of the two template labels is missing.
    #[error("metadata.labels[{missing}]: Required value: must be set together with {present}")]
    Incomplete {
        /// The label that is there.
        present: &'static str,
        /// The label that is missing.
        missing: &'static str,
    },
    /// The name derived from the labels does not fit.
    #[error(
        "metadata.labels[{key}]: Invalid value: \"{text}\": the name of the pod group, WORKLOAD-TEMPLATE[-REPLICA], must be no more than 63 characters, it has {len}: use shorter names",
        key = keys::LABEL_WORKLOAD, text = shorten(.0), len = .0.len()
    )]
    TooLong(String),
    /// The label says another group than the template labels do.
    #[error(
        "metadata.labels[{}]: Invalid value: \"{}\": the template labels name the pod group \"{}\": remove this label or make it the same",
        keys::LABEL_POD_GROUP, shorten(.label), shorten(.derived)
    )]
    Conflict {
        /// What the label says.
        label: String,
        /// What follows from the other labels.
        derived: String,
    },
    /// The label is empty.
    #[error(
        "metadata.labels[{}]: Invalid value: \"\": must be the name of a PodGroup, or be removed",
        keys::LABEL_POD_GROUP
    )]
    Empty,
}

/// Returns the group that the labels of a pod name; `None` if they name none.
///
/// # Errors
/// The labels contradict each other, are incomplete, or name no valid group.
pub fn of(labels: Option<&BTreeMap<String, String>>) -> Result<Option<Membership>, MembershipError> {
    by(|key| labels.and_then(|l| l.get(key)).map(String::as_str))
}

/// Returns the group that the labels of a pod name; `None` if they name none. `label` returns the value of the label with a key.
///
/// # Errors
/// The labels contradict each other, are incomplete, or name no valid group.
pub fn by<'a>(label: impl Fn(&str) -> Option<&'a str>) -> Result<Option<Membership>, MembershipError> {
    let get = |key: &str| label(key).map(str::to_owned);
    let label = get(keys::LABEL_POD_GROUP);
    if label.as_deref() == Some("") {
        return Err(MembershipError::Empty);
    }
    let template = match (get(keys::LABEL_WORKLOAD), get(keys::LABEL_TEMPLATE)) {
        (None, None) => None,
        (Some(workload), Some(template)) => Some((workload, template)),
        (Some(_), None) => {
            return Err(MembershipError::Incomplete { present: keys::LABEL_WORKLOAD, missing: keys::LABEL_TEMPLATE });
        }
        (None, Some(_)) => {
            return Err(MembershipError::Incomplete { present: keys::LABEL_TEMPLATE, missing: keys::LABEL_WORKLOAD });
        }
    };
    let Some((workload, name)) = template else {
        return Ok(label.map(|group| Membership { group, template: None }));
    };
    let derived = derived_name(&workload, &name, get(keys::LABEL_REPLICA).as_deref());
    if derived.len() > keys::MAX_GROUP_NAME {
        return Err(MembershipError::TooLong(derived));
    }
    match label {
        Some(label) if label != derived => Err(MembershipError::Conflict { label, derived }),
        _ => Ok(Some(Membership { group: derived, template: Some((workload, name)) })),
    }
}

/// Returns the name of the PodGroup that is created from a template of a Workload: `WORKLOAD-TEMPLATE`, or with a replica
/// `WORKLOAD-TEMPLATE-REPLICA`.
pub fn derived_name(workload: &str, template: &str, replica: Option<&str>) -> String {
    match replica {
        Some(replica) if !replica.is_empty() => format!("{workload}-{template}-{replica}"),
        _ => format!("{workload}-{template}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn the_plain_label_names_the_group() {
        let got = of(Some(&labels(&[(keys::LABEL_POD_GROUP, "g")]))).unwrap().unwrap();
        assert_eq!(got, Membership { group: "g".into(), template: None });
    }

    #[test]
    fn template_labels_derive_the_name_with_and_without_a_replica() {
        let two = labels(&[(keys::LABEL_WORKLOAD, "w"), (keys::LABEL_TEMPLATE, "t")]);
        assert_eq!(of(Some(&two)).unwrap().unwrap().group, "w-t");
        let three = labels(&[(keys::LABEL_WORKLOAD, "w"), (keys::LABEL_TEMPLATE, "t"), (keys::LABEL_REPLICA, "3")]);
        assert_eq!(of(Some(&three)).unwrap().unwrap().group, "w-t-3");
    }

    #[test]
    fn an_incomplete_template_reference_is_rejected_with_the_missing_label() {
        let error = of(Some(&labels(&[(keys::LABEL_WORKLOAD, "w")]))).unwrap_err().to_string();
        assert_eq!(
            error,
            "metadata.labels[scheduling.giveway.dev/pod-group-template]: Required value: must be set together with scheduling.giveway.dev/workload"
        );
    }

    #[test]
    fn a_label_that_contradicts_the_template_is_refused() {
        let both =
            labels(&[(keys::LABEL_WORKLOAD, "w"), (keys::LABEL_TEMPLATE, "t"), (keys::LABEL_POD_GROUP, "other")]);
        assert!(of(Some(&both)).unwrap_err().to_string().contains("the template labels name the pod group \"w-t\""));
    }

    #[test]
    fn a_derived_name_that_is_too_long_is_refused_with_its_length() {
        let long = labels(&[(keys::LABEL_WORKLOAD, &"w".repeat(60)), (keys::LABEL_TEMPLATE, "tttt")]);
        assert!(of(Some(&long)).unwrap_err().to_string().contains("it has 65"));
    }
}
