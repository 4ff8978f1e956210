//! What a pod asks of a node, counted as kube-scheduler counts it: containers, sidecars, init containers, pod-level
//! resources, overhead, resizes in progress, and one pod.

use super::resources::{Names, PODS, ResourceId, Resources};
use crate::error::ModelError;
use crate::quantity;
use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod as PodObject};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use std::collections::BTreeMap;

type Amounts = BTreeMap<ResourceId, i128>;
type Quantities = BTreeMap<String, Quantity>;

/// The requests of a pod.
///
/// # Errors
/// A quantity cannot be read or is negative; the error names the field.
pub(super) fn of(pod: &PodObject, object: &str, names: &mut Names) -> Result<Resources, ModelError> {
    let mut reader = Reader { kind: "Pod", object, names };
    let Some(spec) = &pod.spec else {
        return Ok(Resources::from_map(Amounts::from([(PODS, 1)])));
    };
    let status = pod.status.as_ref();
    let statuses = status.and_then(|s| s.container_statuses.as_deref()).unwrap_or_default();
    let init_statuses = status.and_then(|s| s.init_container_statuses.as_deref()).unwrap_or_default();

    let mut total = Amounts::new();
    for (at, container) in spec.containers.iter().enumerate() {
        add(&mut total, &reader.container(container, statuses, &format!("spec.containers[{at}]"))?);
    }
    let mut sidecars = Amounts::new();
    let mut largest_init = Amounts::new();
    for (at, container) in spec.init_containers.iter().flatten().enumerate() {
        let own = reader.container(container, init_statuses, &format!("spec.initContainers[{at}]"))?;
        if container.restart_policy.as_deref() == Some("Always") {
            add(&mut total, &own);
            add(&mut sidecars, &own);
            raise(&mut largest_init, &sidecars);
        } else {
            let mut during = sidecars.clone();
            add(&mut during, &own);
            raise(&mut largest_init, &during);
        }
    }
    raise(&mut total, &largest_init);
    let pod_level = spec.resources.as_ref().and_then(|r| r.requests.as_ref());
    for (name, quantity) in pod_level.into_iter().flatten().filter(|(name, _)| is_pod_level(name)) {
        let (id, amount) = reader.amount(name, quantity, "spec.resources.requests")?;
        total.insert(id, amount);
    }
    add(&mut total, &reader.amounts(spec.overhead.as_ref(), "spec.overhead")?);
    total.insert(PODS, 1);
    Ok(Resources::from_map(total))
}

/// Reads a map of quantities, as in `status.allocatable` of a node, into the scheduler's units.
///
/// # Errors
/// A quantity cannot be read or is negative; the error names the field.
pub(super) fn amounts(
    quantities: Option<&Quantities>,
    kind: &'static str,
    object: &str,
    field: &str,
    names: &mut Names,
) -> Result<Amounts, ModelError> {
    Reader { kind, object, names }.amounts(quantities, field)
}

/// Which resources can be set for the pod as a whole (KEP-2837).
fn is_pod_level(name: &str) -> bool {
    name == "cpu" || name == "memory" || name.starts_with("hugepages-")
}

struct Reader<'a> {
    kind: &'static str,
    object: &'a str,
    names: &'a mut Names,
}

impl Reader<'_> {
    /// A container's requests; while it is resized, the larger of what it asks for and what it has.
    fn container(
        &mut self,
        container: &Container,
        statuses: &[ContainerStatus],
        path: &str,
    ) -> Result<Amounts, ModelError> {
        let requests = container.resources.as_ref().and_then(|r| r.requests.as_ref());
        let mut amounts = self.amounts(requests, &format!("{path}.resources.requests"))?;
        if let Some(status) = statuses.iter().find(|s| s.name == container.name) {
            let has =
                self.amounts(status.allocated_resources.as_ref(), "status.containerStatuses.allocatedResources")?;
            raise(&mut amounts, &has);
        }
        Ok(amounts)
    }

    fn amounts(&mut self, quantities: Option<&Quantities>, field: &str) -> Result<Amounts, ModelError> {
        quantities.into_iter().flatten().map(|(name, quantity)| self.amount(name, quantity, field)).collect()
    }

    fn amount(&mut self, name: &str, quantity: &Quantity, field: &str) -> Result<(ResourceId, i128), ModelError> {
        let field = || format!("{field}[{name}]");
        let nano =
            quantity::parse(&quantity.0).map_err(|e| ModelError::quantity(self.kind, self.object, field(), e))?;
        if nano < 0 {
            let problem = "must be greater than or equal to 0".to_owned();
            let (object, value) = (self.object.to_owned(), quantity.0.clone());
            return Err(ModelError { kind: self.kind, object, field: field(), value, problem });
        }
        let amount = if name == "cpu" { quantity::ceil_milli(nano) } else { quantity::ceil_unit(nano) };
        Ok((self.names.id(name), amount))
    }
}

fn add(total: &mut Amounts, more: &Amounts) {
    for (id, amount) in more {
        *total.entry(*id).or_default() += amount;
    }
}

fn raise(total: &mut Amounts, least: &Amounts) {
    for (id, amount) in least {
        let entry = total.entry(*id).or_default();
        *entry = (*entry).max(*amount);
    }
}
