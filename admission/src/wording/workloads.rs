//! Rejections of Workloads. Those because of the priority of a template are in [`groups`](super::groups).

use crate::verdict::Denial;
use giveway_crds::keys::MAX_GROUP_NAME;
use giveway_crds::workload::MOST_TEMPLATES;

/// Rejection (422): the Workload has more PodGroup templates than are permitted, so that they are not read.
pub fn too_many_templates() -> Denial {
    Denial::unprocessable(format!(
        "spec.podGroupTemplates: Too many: must have at most {MOST_TEMPLATES} items: split it into several Workloads"
    ))
}

/// Rejection (422): the PodGroups of a template would have a name that is no label value. `path` is that of the template.
pub fn group_name_too_long(path: &str, template: &str, group: &str) -> Denial {
    let detail = format!(
        "the name of its pod groups, {group}, must be no more than {MAX_GROUP_NAME} characters, it has {}: use a \
         shorter name for the workload or the template",
        group.len()
    );
    Denial::invalid(&format!("{path}.name"), template, detail)
}
