//! Admission of an object at its creation by the API server and Giveway's webhook (design, section 3): defaults that
//! affect scheduling, the priority class, the group label, the gate. Quotas, limit ranges and other webhooks are not
//! applied.

use super::gang::{self, GangOwner};
use crate::world::World;
use giveway_crds::keys;
use giveway_crds::lending::Asked;
use giveway_crds::membership::{self, Membership};
use giveway_crds::pod_group::{PodGroupTemplateRef, WorkloadTemplateRef};
use giveway_crds::policy::{DisruptionMode, PreemptionPolicy};
use giveway_crds::priority::{Class, Classes, MAX_THRESHOLD};
use giveway_crds::{PodGroup, PodGroupSpec};
use giveway_planner::ObjectKey;
use k8s_openapi::api::core::v1::{Container, Pod, PodSchedulingGate, PodSpec, PodStatus, ResourceRequirements};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::ObjectMeta;

/// A problem as a text that begins with the field.
type Problem = String;

/// Admits a class: a managed class is stored with policy `Never`, and its requested policy in an annotation.
pub(super) fn class(class: &mut PriorityClass) {
    let annotations = class.metadata.annotations.get_or_insert_default();
    if annotations.get(keys::ANNOTATION_MANAGED).is_some_and(|value| value == "true") {
        let asked = class.preemption_policy.replace(PreemptionPolicy::Never.as_str().to_owned());
        let asked = asked.unwrap_or_else(|| PreemptionPolicy::PreemptLowerPriority.as_str().to_owned());
        annotations.entry(keys::ANNOTATION_PREEMPTION_POLICY.to_owned()).or_insert(asked);
    }
}

/// Fills a group's priority and policy from its class.
pub(super) fn group(group: &mut PodGroup, world: &World) -> Result<(), Problem> {
    let spec = &mut group.spec;
    if spec.scheduling_policy.basic.is_some() && spec.disruption_mode == DisruptionMode::PodGroup {
        return Err("spec.disruptionMode: Invalid value: \"PodGroup\": cannot be used with schedulingPolicy `basic`: \
                    use `Pod`, or schedulingPolicy `gang`"
            .to_owned());
    }
    if let Some(constraints) = &spec.scheduling_constraints {
        constraints.check().map_err(|problem| format!("spec.schedulingConstraints.{problem}"))?;
    }
    if let Some(key) = spec.topology_key().filter(|_| spec.scheduling_policy.basic.is_some()) {
        return Err(format!(
            "spec.schedulingConstraints.topology[0].key: Invalid value: \"{key}\": cannot be used with schedulingPolicy \
             `basic`, whose pods are not gated: use schedulingPolicy `gang`"
        ));
    }
    let name = spec.priority_class_name.clone().unwrap_or_default();
    let resolved = world
        .cluster
        .classes()
        .resolve(Some(&name))
        .map_err(|error| format!("spec.priorityClassName: Invalid value: \"{name}\": {error}"))?;
    if let Some(given) = spec.priority.filter(|given| *given != resolved.priority) {
        return Err(format!(
            "spec.priority: Invalid value: \"{given}\": the priority class \"{}\" gives {}: leave spec.priority out",
            resolved.class_name, resolved.priority
        ));
    }
    if !resolved.class_name.is_empty() {
        spec.priority_class_name = Some(resolved.class_name);
    }
    spec.priority = Some(resolved.priority);
    spec.preemption_policy.get_or_insert(resolved.policy);
    Ok(())
}

/// Admits a pod. Returns the group that the operator would create for it, from a Workload's template or for its owner.
pub(super) fn pod(pod: &mut Pod, world: &World, owner: Option<&GangOwner>) -> Result<Option<Box<PodGroup>>, Problem> {
    let spec = pod.spec.get_or_insert_default();
    set_defaults(spec);
    pod.status = Some(PodStatus { phase: Some("Pending".to_owned()), ..PodStatus::default() });
    let namespace = pod.metadata.namespace.clone().unwrap_or_default();
    let mut made = None;
    let mut asked = None;
    let classes = world.cluster.classes();
    let named = membership::of(pod.metadata.labels.as_ref()).map_err(|error| error.to_string())?;
    let of_owner = gang::member(pod, named.is_some())?;
    let for_owner = of_owner.as_ref().and_then(|member| gang::group(pod, member, owner, classes));
    let member = named.or_else(|| of_owner.map(|member| Membership { group: member.origin.group, template: None }));
    let spec = pod.spec.get_or_insert_default();
    if let Some(member) = &member {
        let key = ObjectKey::new(namespace, &member.group);
        pod.metadata.labels.get_or_insert_default().insert(keys::LABEL_POD_GROUP.to_owned(), member.group.clone());
        if !world.groups.contains_key(&key)
            && let Some((workload, template)) = &member.template
        {
            made = from_template(world, &key, workload, template)?;
        }
        if !world.groups.contains_key(&key)
            && let Some(mut for_owner) = for_owner
        {
            self::group(&mut for_owner, world)?;
            made = Some(Box::new(for_owner));
        }
        let group = made.as_deref().or_else(|| world.groups.get(&key));
        let needs_gate = group.is_none_or(|group| group.spec.scheduling_policy.gang.is_some());
        let gates = spec.scheduling_gates.get_or_insert_default();
        if needs_gate && spec.node_name.is_none() && !gates.iter().any(|gate| gate.name == keys::GATE) {
            gates.push(PodSchedulingGate { name: keys::GATE.to_owned() });
        }
        asked = group.and_then(|group| {
            Asked::of(&member.group, group.spec.priority_class_name.as_deref(), group.spec.priority, classes)
        });
    }
    let own = spec.priority_class_name.clone().unwrap_or_default();
    let class = effective_class(spec, asked.and_then(|asked| asked.class_name), classes)?;
    prioritise(spec, class)?;
    let (class_name, priority) = class.map_or(("", 0), |class| (class.name.as_str(), class.value));
    if let Some(detail) = asked.and_then(|asked| asked.refusal(class_name, priority, classes)) {
        return Err(format!("spec.priorityClassName: Invalid value: \"{own}\": {detail}"));
    }
    for (key, value) in [
        (keys::ANNOTATION_PREEMPTION_POLICY, class.and_then(|c| c.managed_policy).map(|p| p.as_str().to_owned())),
        (keys::ANNOTATION_THRESHOLD, class.and_then(threshold)),
    ] {
        annotate(pod, key, value)?;
    }
    Ok(made)
}

/// Returns the PodGroup that the operator creates when the first pod names a template.
fn from_template(
    world: &World,
    key: &ObjectKey,
    workload: &str,
    template: &str,
) -> Result<Option<Box<PodGroup>>, Problem> {
    let Some(found) = world.workloads.get(&ObjectKey::new(&key.namespace, workload)) else { return Ok(None) };
    let Some(shape) = found.spec.pod_group_templates.iter().find(|t| t.name == template) else { return Ok(None) };
    let metadata = ObjectMeta {
        name: Some(key.name.to_string()),
        namespace: Some(key.namespace.to_string()),
        ..ObjectMeta::default()
    };
    let spec = PodGroupSpec {
        pod_group_template_ref: Some(PodGroupTemplateRef {
            workload: WorkloadTemplateRef {
                workload_name: workload.to_owned(),
                pod_group_template_name: template.to_owned(),
            },
        }),
        scheduling_policy: shape.scheduling_policy.clone(),
        scheduling_constraints: shape.scheduling_constraints.clone(),
        disruption_mode: shape.disruption_mode,
        priority_class_name: shape.priority_class_name.clone(),
        ..PodGroupSpec::default()
    };
    let mut made = PodGroup { metadata, spec, status: None };
    group(&mut made, world).map_err(|problem| format!("Workload {workload}, template {template}: {problem}"))?;
    Ok(Some(Box::new(made)))
}

/// Returns the pod's class; a member that names none, or only the default class, gets its group's.
fn effective_class<'a>(
    spec: &mut PodSpec,
    group_class: Option<&str>,
    classes: &'a Classes,
) -> Result<Option<&'a Class>, Problem> {
    let own = spec.priority_class_name.clone().unwrap_or_default();
    let is_default = own.is_empty() || classes.global_default().is_some_and(|class| class.name == own);
    let name = group_class.filter(|_| is_default).map_or(own, str::to_owned);
    let class = classes
        .effective(Some(&name))
        .map_err(|error| format!("spec.priorityClassName: Invalid value: \"{name}\": {error}"))?;
    spec.priority_class_name = class.map(|class| class.name.clone());
    Ok(class)
}

fn prioritise(spec: &mut PodSpec, class: Option<&Class>) -> Result<(), Problem> {
    let priority = class.map_or(0, |class| class.value);
    if let Some(given) = spec.priority.filter(|given| *given != priority) {
        return Err(format!(
            "spec.priority: Invalid value: \"{given}\": the priority class \"{}\" gives {priority}: leave \
             spec.priority out",
            spec.priority_class_name.clone().unwrap_or_default()
        ));
    }
    let policy = class.map_or(PreemptionPolicy::PreemptLowerPriority, |class| class.scheduler_policy);
    spec.priority = Some(priority);
    spec.preemption_policy = Some(policy.as_str().to_owned());
    Ok(())
}

fn threshold(class: &Class) -> Option<String> {
    class.threshold.clone().filter(|text| text.parse::<i32>().is_ok_and(|value| value <= MAX_THRESHOLD))
}

fn annotate(pod: &mut Pod, key: &str, computed: Option<String>) -> Result<(), Problem> {
    let annotations = pod.metadata.annotations.get_or_insert_default();
    match (annotations.get(key), computed) {
        (Some(given), computed) if computed.as_ref() != Some(given) => Err(format!(
            "metadata.annotations[{key}]: Invalid value: \"{given}\": the priority class gives {}: leave the \
             annotation out",
            computed.map_or("none".to_owned(), |computed| format!("\"{computed}\""))
        )),
        (None, Some(computed)) => {
            annotations.insert(key.to_owned(), computed);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Sets defaults of the API server that change what a pod requires of a node.
fn set_defaults(spec: &mut PodSpec) {
    let host_network = spec.host_network == Some(true);
    let init = spec.init_containers.iter_mut().flatten();
    for container in spec.containers.iter_mut().chain(init) {
        if let Some(resources) = &mut container.resources {
            requests_from_limits(resources);
        }
        if host_network {
            take_ports(container);
        }
    }
    if let Some(resources) = &mut spec.resources {
        requests_from_limits(resources);
    }
}

fn requests_from_limits(resources: &mut ResourceRequirements) {
    for (name, limit) in resources.limits.clone().unwrap_or_default() {
        resources.requests.get_or_insert_default().entry(name).or_insert(limit);
    }
}

fn take_ports(container: &mut Container) {
    for port in container.ports.iter_mut().flatten() {
        port.host_port.get_or_insert(port.container_port);
    }
}
