//! What a pod asks of a node, counted as kube-scheduler counts it: containers, sidecars, init containers, pod-level
//! resources, overhead, resizes in progress, and one pod.
//!
//! Sums are exact, in nano units, of quantities that are rounded up to thousandths as the API server stores them; they
//! are rounded to the scheduler's units once, at the end. A sum that is too large to count with is an error.

use super::error::ModelError;
use super::quantity;
use super::resources::{ResourceNames, Resources};
use crate::limits::MOST_REQUESTED;
use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod as PodObject, PodSpec, PodStatus};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use std::collections::BTreeMap;
use std::fmt::{self, Display};

/// Amounts by name of the resource.
type NamedAmounts<'a> = BTreeMap<&'a str, i128>;
/// Quantities by name of the resource, as an object has them.
type Quantities = BTreeMap<String, Quantity>;

/// Returns the requests of a pod, with an error that names the field if a quantity cannot be parsed or is negative, or a sum is too large.
/// `object` names the pod in errors, and `bound` is true if it has a node.
///
/// For a pod with a node they are what kube-scheduler counts, even with an error. It counts in 64 bits, and counts an amount that does not
/// fit into them as zero: a pod that requests `10P` cpu is scheduled, and does not block its node for others.
pub(super) fn of(
    pod: &PodObject,
    object: &dyn Display,
    bound: bool,
    names: &ResourceNames,
) -> (Resources, Option<ModelError>) {
    let (known, error) = match counted(pod, &RequestReader::strict("Pod", object)) {
        Ok(amounts) => {
            let counts = !bound || amounts.values().all(|amount| fits_64_bits(*amount));
            (counts.then_some(amounts), None)
        }
        Err(error) => (None, Some(error)),
    };
    let as_scheduler = || counted(pod, &RequestReader { kind: "Pod", object, in_64_bits: true });
    let amounts = known.or_else(|| as_scheduler().ok()).unwrap_or_else(|| NamedAmounts::from([("pods", 1)]));
    (Resources::from_names(amounts, names), error)
}

/// Returns true if kube-scheduler can represent the amount, which it counts in 64 bits.
fn fits_64_bits(amount: i128) -> bool {
    i64::try_from(amount).is_ok()
}

/// Returns what kube-scheduler counts as requested by a pod, in the scheduler's units. `reader` decides whether a quantity that cannot be
/// counted is an error.
fn counted<'a>(pod: &'a PodObject, reader: &RequestReader<'_>) -> Result<NamedAmounts<'a>, ModelError> {
    let Some(spec) = &pod.spec else {
        return Ok(NamedAmounts::from([("pods", 1)]));
    };
    let status = pod.status.as_ref();
    let conditions = status.and_then(|s| s.conditions.as_deref()).unwrap_or_default();
    let pending = conditions.iter().find(|c| c.type_ == "PodResizePending");
    let counted = CountedContainers {
        spec,
        statuses: status.and_then(|s| s.container_statuses.as_deref()).unwrap_or_default(),
        init_statuses: status.and_then(|s| s.init_container_statuses.as_deref()).unwrap_or_default(),
        infeasible: pending.is_some_and(|c| c.reason.as_deref() == Some("Infeasible")),
    };
    // While containers are resized the largest of three totals counts: what is asked for, what was granted, and what is
    // in force. What is asked for does not count once it was found infeasible.
    let mut total =
        if counted.infeasible { NamedAmounts::new() } else { counted.total(RequestSource::Asked, reader)? };
    for source in [RequestSource::Granted, RequestSource::InForce] {
        if counted.infeasible || counted.differs(source) {
            raise(&mut total, &counted.total(source, reader)?);
        }
    }
    reader.pod_level(&counted, status, &mut total)?;
    let overhead = reader.amounts(spec.overhead.as_ref(), &"spec.overhead")?;
    reader.add(&mut total, &overhead, &"spec.overhead")?;
    let mut rounded = reader.round(total, &"spec.containers")?;
    rounded.insert("pods", 1);
    Ok(rounded)
}

/// Reads a map of quantities, as in `status.allocatable` of a node, into the scheduler's units.
///
/// # Errors
/// A quantity cannot be read, is negative or too large; the error names the field.
pub(super) fn amounts<'a>(
    quantities: Option<&'a Quantities>,
    kind: &'static str,
    object: &dyn Display,
    field: &dyn Display,
) -> Result<NamedAmounts<'a>, ModelError> {
    let reader = RequestReader::strict(kind, object);
    let amounts = reader.amounts(quantities, field)?;
    reader.round(amounts, field)
}

/// Returns true if the resource can be requested for the pod as a whole in `spec.resources` (KEP-2837).
fn is_pod_level(name: &str) -> bool {
    name == "cpu" || name == "memory" || name.starts_with("hugepages-")
}

/// From which field the requests of a container are read; they differ while the pod is resized (KEP-1287).
#[derive(Clone, Copy, PartialEq, Eq)]
enum RequestSource {
    /// `spec`.
    Asked,
    /// `status.allocatedResources`.
    Granted,
    /// `status.resources`.
    InForce,
}

/// The containers of a pod, and what their statuses say.
struct CountedContainers<'a> {
    spec: &'a PodSpec,
    statuses: &'a [ContainerStatus],
    init_statuses: &'a [ContainerStatus],
    infeasible: bool,
}

impl<'a> CountedContainers<'a> {
    /// Returns the requests of a container in this field of its status; `status.allocatedResources` if they are not in `status.resources`.
    /// `None` for the source `Asked` (the spec), and if the status does not have them.
    fn reported(&self, container: &Container, source: RequestSource) -> Option<&'a Quantities> {
        if source == RequestSource::Asked {
            return None;
        }
        let status = self.statuses.iter().chain(self.init_statuses).find(|status| status.name == container.name)?;
        let in_force = status.resources.as_ref().and_then(|resources| resources.requests.as_ref());
        in_force.filter(|_| source == RequestSource::InForce).or(status.allocated_resources.as_ref())
    }

    /// Returns true if the status of any container has requests other than its spec; `source` says from which field of the status they are
    /// read.
    fn differs(&self, source: RequestSource) -> bool {
        let asked = |c: &'a Container| c.resources.as_ref().and_then(|resources| resources.requests.as_ref());
        let mut all = self.spec.containers.iter().chain(self.spec.init_containers.iter().flatten());
        all.any(|container| self.reported(container, source).is_some_and(|reported| Some(reported) != asked(container)))
    }

    /// Returns the requests of all containers as kube-scheduler sums them: for each resource, the sum over containers and sidecars, or the
    /// most that any init container needs together with the sidecars before it, whichever is larger.
    fn total(&self, source: RequestSource, reader: &RequestReader<'_>) -> Result<NamedAmounts<'a>, ModelError> {
        let mut total = NamedAmounts::new();
        for (at, container) in self.spec.containers.iter().enumerate() {
            let path = ContainerPath { list: "spec.containers", at };
            let own = self.container(container, source, &path, reader)?;
            reader.add(&mut total, &own, &path)?;
        }
        let mut sidecars = NamedAmounts::new();
        let mut largest_init = NamedAmounts::new();
        for (at, container) in self.spec.init_containers.iter().flatten().enumerate() {
            let path = ContainerPath { list: "spec.initContainers", at };
            let own = self.container(container, source, &path, reader)?;
            if container.restart_policy.as_deref() == Some("Always") {
                reader.add(&mut total, &own, &path)?;
                reader.add(&mut sidecars, &own, &path)?;
                raise(&mut largest_init, &sidecars);
            } else {
                let mut during = sidecars.clone();
                reader.add(&mut during, &own, &path)?;
                raise(&mut largest_init, &during);
            }
        }
        raise(&mut total, &largest_init);
        Ok(total)
    }

    /// Returns the requests of one container: those in its status if they are to be read from there and exist, otherwise those in its spec.
    /// `path` is the container's path in errors.
    fn container(
        &self,
        container: &'a Container,
        source: RequestSource,
        path: &ContainerPath,
        reader: &RequestReader<'_>,
    ) -> Result<NamedAmounts<'a>, ModelError> {
        if let Some(reported) = self.reported(container, source) {
            let in_force = source == RequestSource::InForce;
            let field = if in_force {
                "status.containerStatuses.resources"
            } else {
                "status.containerStatuses.allocatedResources"
            };
            return reader.amounts(Some(reported), &field);
        }
        if self.infeasible {
            return Ok(NamedAmounts::new());
        }
        let Some(resources) = &container.resources else { return Ok(NamedAmounts::new()) };
        let mut own = reader.amounts(resources.requests.as_ref(), &FieldOf(path, "resources.requests"))?;
        // A limit without a request is a request as well; the API server writes it down, a template does not have it yet.
        for (name, quantity) in resources.limits.iter().flatten() {
            if resources.requests.as_ref().is_none_or(|requests| !requests.contains_key(name)) {
                let (name, amount) = reader.amount(name, quantity, &FieldOf(path, "resources.limits"))?;
                own.insert(name, amount);
            }
        }
        Ok(own)
    }
}

/// The path of a container, which is only written in an error.
struct ContainerPath {
    list: &'static str,
    at: usize,
}

impl Display for ContainerPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}]", self.list, self.at)
    }
}

/// The path of a field of a container.
struct FieldOf<'a>(&'a ContainerPath, &'static str);

impl Display for FieldOf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

/// Reads the quantities of one object; errors name the object and the field.
struct RequestReader<'a> {
    kind: &'static str,
    object: &'a dyn Display,
    /// Whether what is too large counts as nothing, instead of an error.
    in_64_bits: bool,
}

impl<'a> RequestReader<'a> {
    /// Creates a reader that rejects quantities that cannot be parsed or counted.
    fn strict(kind: &'static str, object: &'a dyn Display) -> Self {
        Self { kind, object, in_64_bits: false }
    }

    /// Replaces the amounts in `total`, which is the sum over containers, by requests for the pod as a whole (`spec.resources`). A limit
    /// for the pod as a whole counts if `total` has no amount. While the pod is resized, the largest amount counts of what is asked for,
    /// what was granted, and what is in force (KEP-5419).
    fn pod_level<'q>(
        &self,
        counted: &CountedContainers<'q>,
        status: Option<&'q PodStatus>,
        total: &mut NamedAmounts<'q>,
    ) -> Result<(), ModelError> {
        let Some(resources) = &counted.spec.resources else { return Ok(()) };
        let asked = self.pod_levels(resources.requests.as_ref(), &"spec.resources.requests")?;
        let reported =
            status.filter(|_| !asked.is_empty()).and_then(|status| Some((status, status.resources.as_ref()?)));
        let mut own = if reported.is_some() && counted.infeasible { NamedAmounts::new() } else { asked };
        if let Some((status, in_force)) = reported {
            raise(&mut own, &self.pod_levels(in_force.requests.as_ref(), &"status.resources.requests")?);
            raise(&mut own, &self.pod_levels(status.allocated_resources.as_ref(), &"status.allocatedResources")?);
        }
        total.extend(own);
        for (name, quantity) in resources.limits.iter().flatten().filter(|(name, _)| is_pod_level(name)) {
            let (name, amount) = self.amount(name, quantity, &"spec.resources.limits")?;
            total.entry(name).or_insert(amount);
        }
        Ok(())
    }

    /// Reads, into nano units, those of these quantities that can be requested for a pod as a whole; `field` is their path in errors.
    fn pod_levels<'q>(
        &self,
        quantities: Option<&'q Quantities>,
        field: &dyn Display,
    ) -> Result<NamedAmounts<'q>, ModelError> {
        let all = quantities.into_iter().flatten().filter(|(name, _)| is_pod_level(name));
        all.map(|(name, quantity)| self.amount(name, quantity, field)).collect()
    }

    /// Reads these quantities into nano units, by name of the resource; empty if `quantities` is `None`. `field` is their path in errors.
    fn amounts<'q>(
        &self,
        quantities: Option<&'q Quantities>,
        field: &dyn Display,
    ) -> Result<NamedAmounts<'q>, ModelError> {
        quantities.into_iter().flatten().map(|(name, quantity)| self.amount(name, quantity, field)).collect()
    }

    /// Reads the quantity of the resource `name` into nano units; a negative one is an error. `field` is the path of the list in errors.
    fn amount<'q>(
        &self,
        name: &'q str,
        quantity: &Quantity,
        field: &dyn Display,
    ) -> Result<(&'q str, i128), ModelError> {
        let field = || format!("{field}[{name}]");
        let nano = match quantity::parse(&quantity.0) {
            Err(_) if self.in_64_bits => 0,
            read => read.map_err(|e| ModelError::quantity(self.kind, &self.object.to_string(), field(), e))?,
        };
        if nano < 0 {
            let problem = "must be greater than or equal to 0".to_owned();
            let (object, value) = (self.object.to_string(), quantity.0.clone());
            return Err(ModelError { kind: self.kind, object, field: field(), value, problem });
        }
        Ok((name, quantity::to_milli(nano)))
    }

    /// Adds the amounts `more` to `total`, resource by resource. A sum that is too large is an error, which names `path`, or is limited if
    /// the reader counts in 64 bits.
    fn add<'q>(
        &self,
        total: &mut NamedAmounts<'q>,
        more: &NamedAmounts<'q>,
        path: &dyn Display,
    ) -> Result<(), ModelError> {
        for (name, amount) in more {
            let entry = total.entry(name).or_default();
            *entry = match entry.checked_add(*amount) {
                Some(sum) => sum,
                None if self.in_64_bits => i128::MAX,
                None => return Err(self.too_large(name, path)),
            };
        }
        Ok(())
    }

    /// Converts amounts from nano units to the scheduler's, rounded up: `cpu` in thousandths, all others in whole units. An amount that is
    /// too large is an error, or counts as 0 if the reader counts in 64 bits.
    fn round<'q>(&self, amounts: NamedAmounts<'q>, path: &dyn Display) -> Result<NamedAmounts<'q>, ModelError> {
        let round = |(name, nano): (&'q str, i128)| {
            let amount = if name == "cpu" { quantity::ceil_milli(nano) } else { quantity::ceil_unit(nano) };
            match amount {
                amount if self.in_64_bits => Ok((name, if fits_64_bits(amount) { amount } else { 0 })),
                amount if amount > MOST_REQUESTED => Err(self.too_large(name, path)),
                amount => Ok((name, amount)),
            }
        };
        amounts.into_iter().map(round).collect()
    }

    /// Returns the error for a resource whose total cannot be represented.
    fn too_large(&self, name: &str, path: &dyn Display) -> ModelError {
        ModelError {
            kind: self.kind,
            object: self.object.to_string(),
            field: path.to_string(),
            value: name.to_owned(),
            problem: "asks for more of this resource than can be counted".to_owned(),
        }
    }
}

/// Raises each amount in `total` to at least the amount of the same resource in `least`.
fn raise<'q>(total: &mut NamedAmounts<'q>, least: &NamedAmounts<'q>) {
    for (name, amount) in least {
        let entry = total.entry(name).or_default();
        *entry = (*entry).max(*amount);
    }
}
