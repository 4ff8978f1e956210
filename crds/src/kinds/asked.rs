//! Gang settings of an owner of pods, outside of its templates, and whether its gang can start. Admission and the CLI
//! use the same check.

use super::settings::{self, SettingError};
use super::{Kind, Trap};
use crate::keys::{ANNOTATION_DISRUPTION_MODE, ANNOTATION_MIN_COUNT, LABEL_GANG};

/// Gang settings of an owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Value of its label; `None` if it is not set.
    pub gang: Option<bool>,
    min_count: Option<i32>,
}

impl Asked {
    /// Reads the settings; `label` and `annotation` return the value of a key.
    ///
    /// # Errors
    /// A label or annotation has an invalid value.
    pub fn read<'a>(
        label: impl Fn(&str) -> Option<&'a str>,
        annotation: impl Fn(&str) -> Option<&'a str>,
    ) -> Result<Self, SettingError> {
        let gang = settings::gang(label(LABEL_GANG))?;
        let min_count = settings::min_count(annotation(ANNOTATION_MIN_COUNT))?;
        settings::disruption_mode(annotation(ANNOTATION_DISRUPTION_MODE))?;
        Ok(Self { gang, min_count })
    }

    /// Returns the field value that prevents a gang of this owner from starting, because its pods are created one after
    /// the other. A gang of one pod can start. `text` returns the string at a path of the owner, dots between the
    /// fields.
    pub fn trap(&self, row: &Kind, text: impl FnOnce(&str) -> Option<String>) -> Option<Trap> {
        let is_in = |trap: &Trap| {
            let said = text(trap.field).filter(|value| !value.is_empty());
            said.map_or(trap.is_default, |value| value == trap.value)
        };
        row.trap.filter(|_| self.min_count != Some(1)).filter(is_in)
    }
}

impl Trap {
    /// Returns why no gang starts, and what to do.
    pub fn detail(&self) -> String {
        format!(
            "each pod would wait until the one before it is ready, and no pod of a gang starts before all of them have a \
             place: use {:?}",
            self.instead
        )
    }

    /// Returns the same with field and value, as an error of the API server.
    pub fn refusal(&self) -> String {
        format!("{}: Invalid value: {:?}: {}", self.field, self.value, self.detail())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::KINDS;

    fn trap(kind: &str, value: Option<&str>, min_count: Option<&'static str>) -> Option<String> {
        let row = KINDS.iter().find(|row| row.kind == kind)?;
        let annotation = |key: &str| min_count.filter(|_| key == ANNOTATION_MIN_COUNT);
        let asked = Asked::read(|_: &str| Some("true"), annotation).unwrap();
        asked.trap(row, |_| value.map(str::to_owned)).map(|trap| trap.refusal())
    }

    #[test]
    fn pods_that_come_one_after_the_other_are_no_gang_and_one_pod_is() {
        let detail = "each pod would wait until the one before it is ready, and no pod of a gang starts before all of them have \
                      a place: use";
        let ordered = Some(format!("spec.podManagementPolicy: Invalid value: \"OrderedReady\": {detail} \"Parallel\""));
        for value in [Some("OrderedReady"), None, Some("")] {
            assert_eq!(trap("StatefulSet", value, None), ordered, "{value:?}: it is the default");
            assert_eq!(trap("StatefulSet", value, Some("2")), ordered, "{value:?}");
            assert_eq!(trap("StatefulSet", value, Some("1")), None, "{value:?}");
        }
        assert_eq!(trap("StatefulSet", Some("Parallel"), None), None);
        let led = Some(format!("spec.startupPolicy: Invalid value: \"LeaderReady\": {detail} \"LeaderCreated\""));
        assert_eq!(trap("LeaderWorkerSet", Some("LeaderReady"), None), led);
        assert_eq!(trap("LeaderWorkerSet", Some("LeaderCreated"), None), None);
        assert_eq!(trap("LeaderWorkerSet", None, None), None);
        assert_eq!(trap("Job", None, None), None);
    }

    #[test]
    fn a_label_or_an_annotation_that_cannot_be_is_told_with_its_own_field() {
        for (wrong, value, field) in [
            (LABEL_GANG, "yes", "metadata.labels[scheduling.giveway.dev/gang]"),
            (ANNOTATION_MIN_COUNT, "0", "metadata.annotations[scheduling.giveway.dev/min-count]"),
            (ANNOTATION_DISRUPTION_MODE, "pod", "metadata.annotations[scheduling.giveway.dev/disruption-mode]"),
        ] {
            let said = |key: &str| (key == wrong).then_some(value);
            assert_eq!(Asked::read(said, said).unwrap_err().field, field);
        }
    }
}
