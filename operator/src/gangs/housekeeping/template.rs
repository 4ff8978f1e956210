//! PodGroups that pods refer to and that do not exist: they are created from the template that the pods refer to, or
//! reported as missing.

use super::Housekeeping;
use crate::messages::call_key::CallKey;
use crate::messages::command::Command;
use crate::model::Model;
use crate::speaker::Speaker;
use giveway_crds::keys::{LABEL_MANAGED_BY, MANAGED_BY};
use giveway_crds::pod_group::{PodGroup, PodGroupSpec, PodGroupTemplateRef, WorkloadTemplateRef};
use giveway_crds::wording::events;
use giveway_planner::model::{ObjectKey, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource as _;
use std::time::Instant;

impl Housekeeping {
    /// Handles the PodGroup `key`, which pods may refer to and which does not exist: adds to `commands` its creation from the template that
    /// a pod names, or queues events that it is missing. PodGroups requested by a label are created in [`crate::gangs::labelled`].
    pub(super) fn handle_missing_group(
        &mut self,
        model: &Model,
        key: &ObjectKey,
        now: Instant,
        speaker: &mut Speaker,
        commands: &mut Vec<Command>,
    ) {
        let members: Vec<&Pod> = model.cluster.members(key).filter(|p| p.live()).collect();
        if members.iter().any(|pod| model.gang_of(pod).is_some()) {
            return;
        }
        if let Some(group) = members.iter().find_map(|pod| from_template(model, key, pod)) {
            // The PodGroup is examined again until the watch shows it.
            self.again.insert(key.clone());
            let create = || Command::CreateGroup(Box::new(group));
            commands.extend(self.calls.start_with_long_delay(CallKey::CreateGroup(key.clone()), now, create));
            return;
        }
        let message = match members.iter().find_map(|pod| pod.template.as_ref()) {
            Some((workload, template)) => events::template_not_found(key, workload, template),
            None => events::group_not_found(key),
        };
        speaker.group_missing(key, message, now);
    }
}

/// Returns the PodGroup `key` as described by the Workload template that the pod names; `None` if the pod names none, or it does not exist.
/// Its owner is the pod's controller, or the Workload if the pod has no controller, so that it is garbage-collected with its owner.
fn from_template(model: &Model, key: &ObjectKey, pod: &Pod) -> Option<PodGroup> {
    let (workload, name) = pod.template.as_ref()?;
    let object = model.workloads.get(&ObjectKey::new(&key.namespace, workload))?;
    let template = object.spec.pod_group_templates.iter().find(|t| t.name == *name)?;
    let of_pod = pod.owner.clone().map(|owner| OwnerReference { block_owner_deletion: None, ..owner });
    let owner = of_pod.or_else(|| object.controller_owner_ref(&()));
    let spec = PodGroupSpec {
        pod_group_template_ref: Some(PodGroupTemplateRef {
            workload: WorkloadTemplateRef { workload_name: workload.clone(), pod_group_template_name: name.clone() },
        }),
        scheduling_policy: template.scheduling_policy.clone(),
        scheduling_constraints: template.scheduling_constraints.clone(),
        disruption_mode: template.disruption_mode,
        preempt_for: template.preempt_for.clone(),
        priority_class_name: template.priority_class_name.clone(),
        ..PodGroupSpec::default()
    };
    Some(PodGroup {
        metadata: ObjectMeta {
            name: Some(key.name.to_string()),
            namespace: Some(key.namespace.to_string()),
            labels: Some([(LABEL_MANAGED_BY.to_owned(), MANAGED_BY.to_owned())].into()),
            owner_references: owner.map(|owner| vec![owner]),
            ..ObjectMeta::default()
        },
        spec,
        status: None,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::{fail, pass, pass_with};
    use super::*;
    use crate::testing::{TestPod, World};
    use std::time::Duration;

    #[test]
    fn the_group_of_a_template_is_created_once_for_the_first_pod() {
        let (mut world, mut housekeeping, now) = (World::new(), Housekeeping::default(), Instant::now());
        world.workload("serve", "worker").pod(TestPod::new("p", 0).templated("serve", "worker"));
        let commands = pass(&mut housekeeping, &mut world, now);
        let [Command::CreateGroup(group)] = commands.as_slice() else { panic!("{commands:?}") };
        assert_eq!(group.metadata.name.as_deref(), Some("serve-worker"));
        assert_eq!(group.spec.scheduling_policy.min_count(), Some(2));
        assert_eq!(group.spec.priority_class_name.as_deref(), Some("high"));
        assert_eq!(group.spec.preempt_for.as_deref(), Some("AllMembers"));
        let owners = group.metadata.owner_references.iter().flatten().map(|o| (o.kind.as_str(), o.name.as_str()));
        assert_eq!(owners.collect::<Vec<_>>(), [("Workload", "serve")], "the pod has no controller");
        assert!(pass(&mut housekeeping, &mut world, now).is_empty(), "the first call has no answer yet");
        let call = CallKey::CreateGroup(world.key("serve-worker"));
        fail(&mut housekeeping, &call, now);
        let later = now + Duration::from_secs(1);
        assert!(matches!(pass(&mut housekeeping, &mut world, later)[..], [Command::CreateGroup(_)]), "tried again");
    }

    #[test]
    fn an_event_on_a_pod_without_its_group_is_published_once() {
        let (mut world, mut housekeeping, now) = (World::new(), Housekeeping::default(), Instant::now());
        let mut speaker = Speaker::default();
        world.pod(TestPod::new("p", 0).of("g").gated());
        let commands = pass_with(&mut housekeeping, &mut speaker, &mut world, now);
        let [Command::Publish(notice)] = commands.as_slice() else { panic!("{commands:?}") };
        assert_eq!(
            notice.note.to_string(),
            "Pod group g does not exist in namespace default. The pod waits until that pod group is created."
        );
        world.pod(TestPod::new("p", 0).of("g").gated());
        assert!(pass_with(&mut housekeeping, &mut speaker, &mut world, now).is_empty());
    }
}
