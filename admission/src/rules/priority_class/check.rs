//! PriorityClass: the values of Giveway's annotations, and that those of a managed class never change (design,
//! section 2, "Managed priority classes", and section 3, rule 2).

use super::fill::ClassFields;
use crate::object;
use crate::request::Request;
use crate::verdict::Denial;
use crate::wording::classes;
use giveway_crds::keys::{ANNOTATION_MANAGED, ANNOTATION_PREEMPTION_POLICY, ANNOTATION_THRESHOLD};
use giveway_crds::policy::PreemptionPolicy;
use giveway_crds::priority::MAX_THRESHOLD;

/// Checks a PriorityClass that is created.
///
/// # Errors
/// An annotation of Giveway has an invalid value (422), or a `system-` class or one whose policy is not `Never` is managed (403).
pub fn create(request: &Request<'_>) -> Result<(), Denial> {
    let class: ClassFields = object::read("PriorityClass", request.object)?;
    not_system(&class)?;
    managed(&class)?;
    policy(&class)?;
    threshold(&class)
}

/// Checks an update of a PriorityClass.
///
/// # Errors
/// It changes an annotation of Giveway other than the threshold, or sets an invalid threshold (422), or it makes a `system-` class
/// a managed one (403).
pub fn update(request: &Request<'_>) -> Result<(), Denial> {
    let class: ClassFields = object::read("PriorityClass", request.object)?;
    let stored: ClassFields = object::read("PriorityClass", request.old_object)?;
    for key in [ANNOTATION_MANAGED, ANNOTATION_PREEMPTION_POLICY] {
        let after = class.metadata.annotation(key);
        if after != stored.metadata.annotation(key) {
            not_system(&class)?;
            return Err(classes::immutable(key, after.unwrap_or_default()));
        }
    }
    match class.metadata.annotation(ANNOTATION_THRESHOLD) == stored.metadata.annotation(ANNOTATION_THRESHOLD) {
        true => Ok(()),
        false => threshold(&class),
    }
}

/// Rejects (403) the annotation that makes a PriorityClass a managed one on a `system-` class.
fn not_system(class: &ClassFields<'_>) -> Result<(), Denial> {
    match class.is_managed() && class.is_system() {
        false => Ok(()),
        true => Err(classes::managed_system_class()),
    }
}

/// Rejects an invalid value of the annotation that makes a PriorityClass a managed one (422), and a managed class whose policy is
/// not `Never` (403).
fn managed(class: &ClassFields<'_>) -> Result<(), Denial> {
    match class.metadata.annotation(ANNOTATION_MANAGED) {
        None | Some("false") => Ok(()),
        Some("true") if !class.is_never() => Err(classes::managed_class_preempts()),
        Some("true") => Ok(()),
        Some(other) => Err(classes::managed_value(other)),
    }
}

/// Rejects (422) an invalid value of the annotation with the preemption policy, and any value on a class that is not managed.
fn policy(class: &ClassFields<'_>) -> Result<(), Denial> {
    match class.metadata.annotation(ANNOTATION_PREEMPTION_POLICY) {
        None => Ok(()),
        Some(given) if !class.is_managed() => Err(classes::policy_of_unmanaged_class(given)),
        Some(given) => match PreemptionPolicy::parse(given) {
            Some(_) => Ok(()),
            None => Err(classes::policy_value(given)),
        },
    }
}

/// Rejects (422) an annotation with the threshold that is not an integer of the permitted range.
fn threshold(class: &ClassFields<'_>) -> Result<(), Denial> {
    let Some(given) = class.metadata.annotation(ANNOTATION_THRESHOLD) else { return Ok(()) };
    match given.parse::<i32>() {
        Ok(value) if value <= MAX_THRESHOLD => Ok(()),
        _ => Err(classes::threshold_value(given)),
    }
}
