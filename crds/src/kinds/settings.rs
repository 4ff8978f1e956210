//! User settings beside the gang label: how many pods start together, and the disruption mode of the gang. Admission
//! and the operator use the same parser.

use crate::brief::shorten;
use crate::keys::{ANNOTATION_DISRUPTION_MODE, ANNOTATION_MIN_COUNT, LABEL_GANG};
use crate::policy::DisruptionMode;

/// An invalid value: field, value and fix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: Invalid value: {value:?}: {fix}")]
pub struct SettingError {
    /// Path of the field.
    pub field: String,
    /// The value, shortened.
    pub value: String,
    /// What it must be.
    pub fix: &'static str,
}

/// Creates the error for a label or annotation (`field`: its path) with an invalid value; `fix` says which values are valid.
fn invalid(field: String, value: &str, fix: &'static str) -> SettingError {
    SettingError { field, value: shorten(value).into_owned(), fix }
}

/// Parses the value of the label [`LABEL_GANG`], which is `None` if the label is missing; then the result is `None`.
///
/// # Errors
/// A value other than `true` and `false`.
pub fn gang(label: Option<&str>) -> Result<Option<bool>, SettingError> {
    match label {
        None => Ok(None),
        Some("true") => Ok(Some(true)),
        Some("false") => Ok(Some(false)),
        Some(other) => {
            let fix = "must be \"true\" or \"false\": with \"true\" Giveway creates a pod group for the pods";
            Err(invalid(format!("metadata.labels[{LABEL_GANG}]"), other, fix))
        }
    }
}

/// Parses the value of the annotation [`ANNOTATION_MIN_COUNT`], which is `None` if it is missing; then the result is `None`.
///
/// # Errors
/// The value is not a whole number from 1 to 2147483647.
pub fn min_count(annotation: Option<&str>) -> Result<Option<i32>, SettingError> {
    let Some(text) = annotation else { return Ok(None) };
    match text.parse::<i32>() {
        Ok(count) if count >= 1 => Ok(Some(count)),
        _ => {
            let fix = "must be a whole number, 1 or more: how many pods start together";
            Err(invalid(format!("metadata.annotations[{ANNOTATION_MIN_COUNT}]"), text, fix))
        }
    }
}

/// Parses the value of the annotation [`ANNOTATION_DISRUPTION_MODE`]. The result for a missing annotation (`None`) is
/// `PodGroup`: all pods of a gang are disrupted together.
///
/// # Errors
/// A value other than `Pod` and `PodGroup`.
pub fn disruption_mode(annotation: Option<&str>) -> Result<DisruptionMode, SettingError> {
    match annotation {
        None | Some("PodGroup") => Ok(DisruptionMode::PodGroup),
        Some("Pod") => Ok(DisruptionMode::Pod),
        Some(other) => {
            let fix = "must be \"PodGroup\", all pods are disrupted together, or \"Pod\", each on its own";
            Err(invalid(format!("metadata.annotations[{ANNOTATION_DISRUPTION_MODE}]"), other, fix))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_values_are_rejected_with_field_value_and_fix() {
        assert_eq!((gang(None), gang(Some("true")), gang(Some("false"))), (Ok(None), Ok(Some(true)), Ok(Some(false))));
        assert_eq!((min_count(None), min_count(Some("8"))), (Ok(None), Ok(Some(8))));
        assert_eq!(disruption_mode(None), Ok(DisruptionMode::PodGroup));
        assert_eq!(disruption_mode(Some("Pod")), Ok(DisruptionMode::Pod));
        assert_eq!(
            gang(Some("yes")).unwrap_err().to_string(),
            "metadata.labels[scheduling.giveway.dev/gang]: Invalid value: \"yes\": must be \"true\" or \"false\": with \
             \"true\" Giveway creates a pod group for the pods"
        );
        for text in ["0", "-1", "", "many", "2147483648", "1.5"] {
            let said = min_count(Some(text)).unwrap_err().to_string();
            assert_eq!(
                said,
                format!(
                    "metadata.annotations[scheduling.giveway.dev/min-count]: Invalid value: {text:?}: must be a whole \
                     number, 1 or more: how many pods start together"
                )
            );
        }
        assert!(
            disruption_mode(Some("pod"))
                .unwrap_err()
                .to_string()
                .contains("Invalid value: \"pod\": must be \"PodGroup\"")
        );
    }
}
