//! Gang settings of an owner of pods, outside of its templates. Admission and the CLI use the same parser.

use super::settings::{self, SettingError};
use crate::keys::{ANNOTATION_DISRUPTION_MODE, ANNOTATION_MIN_COUNT, LABEL_GANG};

/// Gang settings of an owner.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GangSettings {
    /// Value of its label; `None` if it is not set.
    pub gang: Option<bool>,
    /// Number of pods that start together; `None` if the owner does not state it.
    pub min_count: Option<i32>,
}

impl GangSettings {
    /// Reads the settings of a gang from an object's metadata: `label` and `annotation` return the value of the label or annotation with a
    /// key.
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_label_or_annotation_is_reported_with_its_field() {
        for (wrong, value, field) in [
            (LABEL_GANG, "yes", "metadata.labels[scheduling.giveway.dev/gang]"),
            (ANNOTATION_MIN_COUNT, "0", "metadata.annotations[scheduling.giveway.dev/min-count]"),
            (ANNOTATION_DISRUPTION_MODE, "pod", "metadata.annotations[scheduling.giveway.dev/disruption-mode]"),
        ] {
            let said = |key: &str| (key == wrong).then_some(value);
            assert_eq!(GangSettings::read(said, said).unwrap_err().field, field);
        }
    }
}
