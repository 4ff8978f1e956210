//! Admission of an object at its creation, in the order of the API server (design, section 3): its defaults that affect
//! scheduling, its plugins Priority and RuntimeClass, and the [rules](giveway_admission) that the webhook applies, too.
//! Quotas, limit ranges and other webhooks are not applied.

use super::gang::{self, GangOwner};
use super::view::PlannedWorld;
use crate::world::World;
use giveway_admission::judge::{Endpoint, judge};
use giveway_admission::request::Request;
use giveway_crds::json::places;
use giveway_crds::keys::{GROUP, LABEL_GANG, LABEL_POD_GROUP, LABEL_WORKLOAD};
use giveway_crds::kinds::OwnerKind;
use giveway_crds::membership;
use giveway_crds::pod_group::{PodGroupTemplateRef, WorkloadTemplateRef};
use giveway_crds::policy::{DisruptionMode, PreemptionPolicy};
use giveway_crds::priority::{Class, Classes};
use giveway_crds::{PodGroup, PodGroupSpec};
use giveway_planner::{ObjectKey, quantity};
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, PodStatus, ResourceRequirements};
use k8s_openapi::api::node::v1::RuntimeClass;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::api::ObjectMeta;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Why the API server would reject an object, as a text that begins with the field.
type Rejection = String;

/// An object after admission.
pub(super) struct Admitted<T> {
    /// The object.
    pub(super) object: T,
    /// The warnings of admission, without a period at the end.
    pub(super) warnings: Vec<String>,
}

/// Applies the rules of these endpoints of Giveway's webhook to an object of this resource (API group, plural), one after the other:
/// changes the object, and returns the warnings. The error says why it would be rejected.
fn review(
    endpoints: &[Endpoint],
    (group, resource): (&str, &str),
    object: &mut Value,
    world: &World,
) -> Result<Vec<String>, Rejection> {
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default().to_owned();
    let mut warnings = Vec::new();
    for endpoint in endpoints {
        let text = serde_json::value::to_raw_value(object).map_err(|error| error.to_string())?;
        let request = Request::create(group, resource, &namespace, &text);
        let verdict = judge(*endpoint, &request, &PlannedWorld::new(world));
        verdict.outcome.apply_to(object).map_err(|refusal| refusal.message)?;
        warnings.extend(verdict.notes.warnings);
    }
    Ok(warnings)
}

/// Applies admission to a PriorityClass that is created: changes it, and returns the warnings. The error says why it would be rejected.
pub(super) fn class(object: &mut Value, world: &World) -> Result<Vec<String>, Rejection> {
    let endpoints = [Endpoint::Mutate, Endpoint::Validate];
    review(&endpoints, ("scheduling.k8s.io", "priorityclasses"), object, world)
}

/// Applies admission to a Workload that is created: changes it, and returns the warnings. The error says why it would be rejected.
pub(super) fn workload(object: &mut Value, world: &World) -> Result<Vec<String>, Rejection> {
    review(&[Endpoint::Mutate, Endpoint::Validate], (GROUP, "workloads"), object, world)
}

/// Applies admission to an owner of pods, such as a Job, of the kind `row`: changes it, and returns the warnings. The chart sends
/// owners without the label `gang` to the webhook only if a template names a group.
pub(super) fn owner(row: &OwnerKind, object: &mut Value, world: &World) -> Result<Vec<String>, Rejection> {
    let endpoint = match object["metadata"]["labels"][LABEL_GANG].is_null() {
        true if template_names_group(row, object) => Endpoint::Templates,
        true => return Ok(Vec::new()),
        false => Endpoint::Mutate,
    };
    review(&[endpoint], (row.group, row.plural), object, world)
}

/// Returns true if a pod template of an owner of the kind `row` names a group or asks for a gang itself.
fn template_names_group(row: &OwnerKind, owner: &Value) -> bool {
    let mut templates = row.templates.iter().flat_map(|pattern| places(owner, pattern));
    templates.any(|place| {
        [LABEL_GANG, LABEL_POD_GROUP, LABEL_WORKLOAD].iter().any(|key| place.at(&["labels", *key]).is_some())
    })
}

/// Applies admission to a PodGroup that is created, and returns it with the warnings. The error says why it would be rejected.
pub(super) fn group(mut object: Value, world: &World) -> Result<Admitted<PodGroup>, Rejection> {
    const RESOURCE: (&str, &str) = (GROUP, "podgroups");
    let mut warnings = review(&[Endpoint::Mutate], RESOURCE, &mut object, world)?;
    let group: PodGroup = decode(&object)?;
    check_schema(&group.spec)?;
    warnings.extend(review(&[Endpoint::Validate], RESOURCE, &mut object, world)?);
    Ok(Admitted { object: group, warnings })
}

/// Returns an error if the API server rejects this spec by the rules of the CustomResourceDefinition.
fn check_schema(spec: &PodGroupSpec) -> Result<(), Rejection> {
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
    Ok(())
}

/// Applies admission to a pod that is created, and returns it with the warnings. `native_group` is the PodGroup of Kubernetes itself
/// that the pod belongs to, if it does. The error says why the pod would be rejected.
pub(super) fn pod(mut pod: Pod, native_group: Option<&str>, world: &World) -> Result<Admitted<Pod>, Rejection> {
    let spec = pod.spec.get_or_insert_default();
    set_defaults(spec);
    set_priority(spec, world.cluster.classes())?;
    apply_runtime_class(spec, &world.runtime_classes)?;
    pod.status = Some(PodStatus { phase: Some("Pending".to_owned()), ..PodStatus::default() });
    let mut object = serde_json::to_value(pod).map_err(|error| error.to_string())?;
    if let Some(name) = native_group {
        object["spec"]["schedulingGroup"] = json!({"podGroupName": name});
    }
    let warnings = review(&[Endpoint::Mutate], ("", "pods"), &mut object, world)?;
    let mut pod: Pod = decode(&object)?;
    // The rules may have named another class.
    set_priority(pod.spec.get_or_insert_default(), world.cluster.classes())?;
    Ok(Admitted { object: pod, warnings })
}

/// Decodes an object from JSON. The error names the field that is wrong.
fn decode<T: DeserializeOwned>(object: &Value) -> Result<T, Rejection> {
    serde_path_to_error::deserialize(object).map_err(|error| format!("{}: {}", error.path(), error.inner()))
}

/// Returns the PodGroup that the operator creates for an admitted pod, from a Workload's template or for the pod's owner; `None` if the
/// pod has no group, or its group exists or cannot be created.
pub(super) fn created_group(
    pod: &Pod,
    world: &World,
    owner: Option<&GangOwner>,
) -> Result<Option<Admitted<PodGroup>>, Rejection> {
    let member = membership::of(pod.metadata.labels.as_ref()).map_err(|error| error.to_string())?;
    let Some(member) = member else { return Ok(None) };
    let key = ObjectKey::new(pod.metadata.namespace.clone().unwrap_or_default(), &member.group);
    if world.groups.contains_key(&key) {
        return Ok(None);
    }
    let Some((workload, template)) = &member.template else {
        let group = gang::group(pod, &member.group, owner, world.cluster.classes());
        return group.map(|group| admit_created_group(&group, world)).transpose();
    };
    let Some(group) = from_template(world, &key, workload, template) else { return Ok(None) };
    let created = admit_created_group(&group, world);
    created.map(Some).map_err(|problem| format!("Workload {workload}, template {template}: {problem}"))
}

/// Applies admission to a PodGroup that the operator creates. The error says why it would be rejected.
fn admit_created_group(group: &PodGroup, world: &World) -> Result<Admitted<PodGroup>, Rejection> {
    self::group(serde_json::to_value(group).map_err(|error| error.to_string())?, world)
}

/// Returns the PodGroup `key` that the operator creates from a template of a Workload for the first pod that names it; `None` if the
/// Workload or the template does not exist.
fn from_template(world: &World, key: &ObjectKey, workload: &str, template: &str) -> Option<PodGroup> {
    let found = world.workloads.get(&ObjectKey::new(&key.namespace, workload))?;
    let shape = found.spec.pod_group_templates.iter().find(|t| t.name == template)?;
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
        preempt_for: shape.preempt_for.clone(),
        priority_class_name: shape.priority_class_name.clone(),
        ..PodGroupSpec::default()
    };
    Some(PodGroup { metadata, spec, status: None })
}

/// Sets priority and preemption policy of a pod from its PriorityClass, as the API server's Priority plugin does. It is an error if the
/// class does not exist or the pod sets another priority.
fn set_priority(spec: &mut PodSpec, classes: &Classes) -> Result<(), Rejection> {
    let named = spec.priority_class_name.as_deref();
    let class = classes.effective(named).map_err(|error| {
        format!("spec.priorityClassName: Invalid value: \"{}\": {error}", named.unwrap_or_default())
    })?;
    let (name, priority) = class.map_or((None, 0), |class: &Class| (Some(class.name.clone()), class.value));
    if let Some(given) = spec.priority.filter(|given| *given != priority) {
        return Err(format!(
            "spec.priority: Invalid value: \"{given}\": the priority class \"{}\" gives {priority}: leave \
             spec.priority out",
            name.unwrap_or_default()
        ));
    }
    let policy = class.map_or(PreemptionPolicy::PreemptLowerPriority, |class| class.scheduler_policy);
    spec.priority_class_name = name;
    spec.priority = Some(priority);
    spec.preemption_policy = Some(policy.as_str().to_owned());
    Ok(())
}

/// Sets overhead, node selector and tolerations of a pod from its RuntimeClass (one of `known`, by name), as the API server's
/// RuntimeClass plugin does. It is an error if the class does not exist or contradicts the pod.
fn apply_runtime_class(spec: &mut PodSpec, known: &BTreeMap<String, RuntimeClass>) -> Result<(), Rejection> {
    let name = spec.runtime_class_name.clone();
    let class = name.as_deref().map(|name| {
        known.get(name).ok_or_else(|| {
            format!(
                "spec.runtimeClassName: Invalid value: \"{name}\": there is no such RuntimeClass: create it, or add it to the \
                 manifests or the snapshot"
            )
        })
    });
    let class = class.transpose()?;
    let overhead = class.and_then(|class| class.overhead.as_ref()).and_then(|overhead| overhead.pod_fixed.as_ref());
    let amounts = |list: &BTreeMap<String, Quantity>| -> BTreeMap<String, Option<i128>> {
        list.iter().map(|(name, amount)| (name.clone(), quantity::parse(&amount.0).ok())).collect()
    };
    let of_class = overhead.map(amounts).unwrap_or_default();
    if spec.overhead.as_ref().is_some_and(|own| !own.is_empty() && amounts(own) != of_class) {
        return Err("spec.overhead: Invalid value: it differs from the overhead of the pod's RuntimeClass: leave \
                    spec.overhead out"
            .to_owned());
    }
    spec.overhead = overhead.cloned();
    let Some(scheduling) = class.and_then(|class| class.scheduling.as_ref()) else { return Ok(()) };
    for (key, value) in scheduling.node_selector.iter().flatten() {
        let own = spec.node_selector.get_or_insert_default().entry(key.clone()).or_insert_with(|| value.clone());
        if own != value {
            return Err(format!(
                "spec.nodeSelector[{key}]: Invalid value: \"{own}\": RuntimeClass \"{}\" asks for \"{value}\": leave this key \
                 out",
                name.unwrap_or_default()
            ));
        }
    }
    for toleration in scheduling.tolerations.iter().flatten() {
        let own = spec.tolerations.get_or_insert_default();
        if !own.contains(toleration) {
            own.push(toleration.clone());
        }
    }
    Ok(())
}

/// Sets those defaults of the API server that change what a pod requires of a node: requests and host ports.
fn set_defaults(spec: &mut PodSpec) {
    let host_network = spec.host_network == Some(true);
    let init = spec.init_containers.iter_mut().flatten();
    for container in spec.containers.iter_mut().chain(init) {
        if let Some(resources) = &mut container.resources {
            requests_from_limits(resources);
        }
        if host_network {
            set_host_ports(container);
        }
    }
    if let Some(resources) = &mut spec.resources {
        requests_from_limits(resources);
    }
}

/// Sets missing requests to the limits, as the API server does.
fn requests_from_limits(resources: &mut ResourceRequirements) {
    for (name, limit) in resources.limits.clone().unwrap_or_default() {
        resources.requests.get_or_insert_default().entry(name).or_insert(limit);
    }
}

/// Sets missing host ports of a container in the network of its node to the container ports, as the API server does.
fn set_host_ports(container: &mut Container) {
    for port in container.ports.iter_mut().flatten() {
        port.host_port.get_or_insert(port.container_port);
    }
}
