//! The record of a change in progress: a ConfigMap that stores the class while it does not exist.
//!
//! Its name is `giveway-class-` and the name of the class; if that is longer than 253 characters, it is truncated and a
//! hash is appended. Its label `scheduling.giveway.dev/class-change` is the started change, and `data.class` is the
//! original class as JSON with UID and resource version.

use super::form::ClassChange;
use giveway_crds::keys::LABEL_CLASS_CHANGE;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::BTreeMap;

/// Prefix of the name of every record.
const PREFIX: &str = "giveway-class-";
/// Longest name of a ConfigMap, in bytes.
const MAX_NAME: usize = 253;
/// The key of the class in `data`.
const DATA: &str = "class";

/// A PriorityClass as it was before `adopt` or `release` deleted it. It is stored in a ConfigMap while the change is in progress.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ClassRecord {
    /// The started change.
    pub(crate) change: ClassChange,
    /// The original class.
    pub(crate) class: PriorityClass,
    /// UID of the ConfigMap; empty until it is written.
    pub(crate) uid: String,
}

/// Returns the name of the ConfigMap that records a change of this PriorityClass. The end of a name that is too long is replaced by a
/// hash.
pub(crate) fn name_for(class: &str) -> String {
    let name = format!("{PREFIX}{class}");
    if name.len() <= MAX_NAME {
        return name;
    }
    // FNV-1a, 64 bits: the same in every version of this program.
    let hash = class
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
    let cut: String = name.chars().take(MAX_NAME - 17).collect();
    format!("{}-{hash:016x}", cut.trim_end_matches(['.', '-']))
}

impl ClassRecord {
    /// Returns the ConfigMap in `namespace` that stores this record.
    ///
    /// # Errors
    /// The class cannot be written as JSON.
    pub(crate) fn to_config_map(&self, namespace: &str) -> Result<ConfigMap, serde_json::Error> {
        let mut class = self.class.clone();
        class.metadata.managed_fields = None;
        let name = name_for(class.metadata.name.as_deref().unwrap_or_default());
        Ok(ConfigMap {
            metadata: ObjectMeta {
                name: Some(name),
                namespace: Some(namespace.to_owned()),
                labels: Some(BTreeMap::from([
                    ("app.kubernetes.io/managed-by".to_owned(), "kubectl-giveway".to_owned()),
                    (LABEL_CLASS_CHANGE.to_owned(), self.change.as_str().to_owned()),
                ])),
                ..ObjectMeta::default()
            },
            data: Some(BTreeMap::from([(DATA.to_owned(), serde_json::to_string(&class)?)])),
            ..ConfigMap::default()
        })
    }

    /// Reads the record of a class from the ConfigMap that stores it.
    ///
    /// # Errors
    /// The ConfigMap was not written by [`ClassRecord::to_config_map`]; the text names the wrong field.
    pub(crate) fn from_config_map(map: &ConfigMap) -> Result<Self, String> {
        let label = map.metadata.labels.as_ref().and_then(|labels| labels.get(LABEL_CLASS_CHANGE));
        let label = label.map_or("", String::as_str);
        let change = ClassChange::parse(label).ok_or_else(|| {
            format!("metadata.labels[{LABEL_CLASS_CHANGE}]: Invalid value: {label:?}: must be \"adopt\" or \"release\"")
        })?;
        let text = map.data.as_ref().and_then(|data| data.get(DATA)).map_or("", String::as_str);
        let class: PriorityClass =
            serde_json::from_str(text).map_err(|error| format!("data.{DATA}: is no PriorityClass: {error}"))?;
        Ok(Self { change, class, uid: map.metadata.uid.clone().unwrap_or_default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> ClassRecord {
        let metadata = ObjectMeta {
            name: Some("web".into()),
            uid: Some("u".into()),
            resource_version: Some("7".into()),
            ..ObjectMeta::default()
        };
        let class = PriorityClass { metadata, value: 10, ..PriorityClass::default() };
        ClassRecord { change: ClassChange::Adopt, class, uid: String::new() }
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let map = record().to_config_map("giveway-system").unwrap();
        assert_eq!(map.metadata.name.as_deref(), Some("giveway-class-web"));
        assert_eq!(ClassRecord::from_config_map(&map).unwrap(), record());
    }

    #[test]
    fn a_record_that_cannot_be_read_names_the_field() {
        let mut map = record().to_config_map("giveway-system").unwrap();
        map.data = None;
        let said = ClassRecord::from_config_map(&map).unwrap_err();
        assert!(said.starts_with("data.class: is no PriorityClass: "), "{said}");
        map.metadata.labels = None;
        assert_eq!(
            ClassRecord::from_config_map(&map).unwrap_err(),
            "metadata.labels[scheduling.giveway.dev/class-change]: Invalid value: \"\": must be \"adopt\" or \"release\""
        );
    }

    #[test]
    fn names_that_are_too_long_are_cut_and_stay_different() {
        let (one, two) = (format!("{}a", "x".repeat(240)), format!("{}b", "x".repeat(240)));
        let (one, two) = (name_for(&one), name_for(&two));
        assert!(one.len() <= MAX_NAME && two.len() <= MAX_NAME && one != two, "{one} {two}");
        assert_eq!(name_for(&"y".repeat(239)).len(), MAX_NAME);
    }
}
