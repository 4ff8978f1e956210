//! Devices of dynamic resource allocation, as far as they can be counted: classes that select devices by their driver, pools on one node,
//! and claims of a number of devices.

use giveway_crds::devices::{
    Device, DeviceClass as ClassObject, DeviceRequest, DeviceSelector, ResourceClaim, ResourceSlice,
};
use k8s_openapi::api::core::v1::{PodSpec, PodStatus};
use smol_str::SmolStr;

/// Which devices the selectors of a class or request admit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Selected {
    /// All.
    All,
    /// Those of a driver.
    OfDriver(SmolStr),
    /// What an expression says that is not evaluated.
    Unknown,
}

impl Selected {
    /// Returns which devices these selectors select, as far as the planner can evaluate them.
    fn by(selectors: &[DeviceSelector]) -> Self {
        let one = |selector: &DeviceSelector| {
            let driver = selector.cel.as_ref().and_then(|cel| driver_in(&cel.expression));
            driver.map_or(Self::Unknown, |driver| Self::OfDriver(driver.into()))
        };
        selectors.iter().map(one).fold(Self::All, Self::and)
    }

    /// Returns the devices that both selections admit; `Unknown` if they do not say that or cannot be evaluated.
    pub(super) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::All, other) | (other, Self::All) => other,
            (Self::OfDriver(one), Self::OfDriver(other)) if one == other => Self::OfDriver(one),
            _ => Self::Unknown,
        }
    }
}

/// Returns the driver in an expression `device.driver == "NAME"`; `None` for any other expression.
fn driver_in(expression: &str) -> Option<&str> {
    let value = expression.trim().strip_prefix("device.driver")?.trim_start().strip_prefix("==")?.trim_start();
    let quote = value.chars().next().filter(|first| matches!(first, '"' | '\''))?;
    let name = value.strip_prefix(quote)?.strip_suffix(quote)?;
    let is_plain = name.chars().all(|letter| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '.'));
    (is_plain && !name.is_empty()).then_some(name)
}

/// A DeviceClass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DeviceClass {
    /// The extended resource that it serves beside its implicit one.
    pub(super) resource: Option<SmolStr>,
    pub(super) selected: Selected,
}

impl DeviceClass {
    /// Reads a DeviceClass: its extended resource, and which devices it selects.
    pub(super) fn from_object(class: &ClassObject) -> Self {
        let resource = class.spec.extended_resource_name.as_deref();
        Self {
            resource: resource.filter(|resource| !resource.is_empty()).map(SmolStr::new),
            selected: Selected::by(&class.spec.selectors),
        }
    }
}

/// Driver and name of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PoolKey {
    pub(super) driver: SmolStr,
    pub(super) name: SmolStr,
}

/// A ResourceSlice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slice {
    pub(super) pool: PoolKey,
    pub(super) generation: i64,
    /// How many slices the pool has in this generation.
    pub(super) of: usize,
    /// The node that has the devices; `None` if several nodes can use them.
    pub(super) node: Option<SmolStr>,
    pub(super) devices: i128,
    /// True if each of its devices is on the node, for one claim at a time, and nothing else decides whether a claim gets it.
    pub(super) is_simple: bool,
}

impl Slice {
    /// Reads a ResourceSlice: its pool and node, and how many devices it has.
    pub(super) fn from_object(slice: &ResourceSlice) -> Self {
        let spec = &slice.spec;
        let is_simple = |device: &Device| {
            device.consumes_counters.is_empty()
                && device.taints.is_empty()
                && device.binding_conditions.is_empty()
                && !device.allow_multiple_allocations
        };
        let node = spec.node_name.as_deref().filter(|node| !node.is_empty()).map(SmolStr::new);
        Self {
            pool: PoolKey { driver: SmolStr::new(&spec.driver), name: SmolStr::new(&spec.pool.name) },
            generation: spec.pool.generation,
            of: usize::try_from(spec.pool.resource_slice_count).unwrap_or(0),
            is_simple: node.is_some()
                && !spec.per_device_node_selection
                && spec.shared_counters.is_empty()
                && spec.devices.iter().all(is_simple),
            node,
            devices: spec.devices.iter().map(|_| 1).sum(),
        }
    }
}

/// A request of a number of devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    pub(super) class: SmolStr,
    pub(super) selected: Selected,
    pub(super) count: i128,
}

impl Asked {
    /// Reads a request of a ResourceClaim; `None` if it asks for anything else than a number of devices.
    fn from_object(request: &DeviceRequest) -> Option<Self> {
        let exactly = request.exactly.as_ref()?;
        let counts = matches!(exactly.allocation_mode.as_str(), "" | "ExactCount");
        (counts && !exactly.admin_access && exactly.capacity.is_none()).then(|| Self {
            class: SmolStr::new(&exactly.device_class_name),
            selected: Selected::by(&exactly.selectors),
            count: i128::from(exactly.count.max(1)),
        })
    }
}

/// A ResourceClaim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Claim {
    /// What it asks for; `None` if that is not only numbers of devices.
    pub(super) asked: Option<Vec<Asked>>,
    /// The pool of each device that it has and no other claim can have.
    pub(super) allocated: Vec<PoolKey>,
    /// True if it has devices.
    pub(super) is_allocated: bool,
    /// UID of the pod for which it was made from a template.
    pub(super) owner: Option<SmolStr>,
    /// UID of the pod for which alone it is reserved.
    pub(super) holder: Option<SmolStr>,
}

impl Claim {
    /// Reads a ResourceClaim: what it asks for, its devices, and the pods that may use it.
    pub(super) fn from_object(claim: &ResourceClaim) -> Self {
        let asks = &claim.spec.devices;
        let asked = asks.requests.iter().map(Asked::from_object).collect();
        let mut owners = claim.metadata.owner_references.iter().flatten();
        let allocation = claim.status.as_ref().and_then(|status| status.allocation.as_ref());
        let results = allocation.into_iter().flat_map(|allocation| &allocation.devices.results);
        let pool = |driver: &str, name: &str| PoolKey { driver: driver.into(), name: name.into() };
        Self {
            asked: if asks.constraints.is_empty() { asked } else { None },
            allocated: results.filter(|one| !one.admin_access).map(|one| pool(&one.driver, &one.pool)).collect(),
            is_allocated: allocation.is_some(),
            owner: owners.find(|owner| owner.controller == Some(true)).map(|owner| SmolStr::new(&owner.uid)),
            holder: match claim.status.as_ref().map(|status| status.reserved_for.as_slice()) {
                Some([only]) if only.resource == "pods" => Some(SmolStr::new(&only.uid)),
                _ => None,
            },
        }
    }
}

/// A claim of devices that a pod names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum DeviceClaimRef {
    /// One that other pods may name, too.
    Shared,
    /// One that is made for the pod: its name, once it exists.
    Own(Option<SmolStr>),
}

/// Returns the ResourceClaims that a pod without a node names in its spec, with the names that its status gives them. Claims that turned
/// out not to be necessary are left out.
pub(super) fn claims(spec: &PodSpec, status: &PodStatus) -> Box<[DeviceClaimRef]> {
    let made = status.resource_claim_statuses.as_deref().unwrap_or_default();
    let claims = spec.resource_claims.iter().flatten().filter_map(|claim| {
        if claim.resource_claim_template_name.is_none() {
            return Some(DeviceClaimRef::Shared);
        }
        match made.iter().find(|made| made.name == claim.name) {
            None => Some(DeviceClaimRef::Own(None)),
            // Without a name no claim was necessary.
            Some(made) => made.resource_claim_name.as_deref().map(|name| DeviceClaimRef::Own(Some(name.into()))),
        }
    });
    claims.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_cel_only_the_comparison_of_the_driver_is_understood() {
        for expression in [
            "device.driver == \"gpu.example.com\"",
            "device.driver=='gpu.example.com'",
            " device.driver  ==  \"gpu.example.com\" ",
        ] {
            assert_eq!(driver_in(expression), Some("gpu.example.com"), "{expression}");
        }
        for expression in [
            "",
            "true",
            "device.driver != \"gpu.example.com\"",
            "device.driver == \"gpu.example.com\" && device.attributes[\"x\"].y == \"z\"",
            "device.driver == \"gpu.example.com\" || device.driver == \"other\"",
            "device.driver == \"\"",
            "device.driver == \"gpu.example.com'",
            "device.driver == \"",
            "!(device.driver == \"gpu.example.com\")",
        ] {
            assert_eq!(driver_in(expression), None, "{expression}");
        }
    }
}
