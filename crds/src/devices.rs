//! Objects of dynamic resource allocation (`resource.k8s.io/v1`), reduced to the fields by which devices are counted. API servers before
//! 1.34 do not have them, and neither does the API version of the crate `k8s-openapi` that is used for other kinds.

use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A DeviceClass.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[kube(group = "resource.k8s.io", version = "v1", kind = "DeviceClass", plural = "deviceclasses", schema = "disabled")]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceClassSpec {
    /// The extended resource that devices of this class serve, such as `example.com/gpu`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extended_resource_name: Option<String>,
    /// Its devices satisfy all of these.
    pub selectors: Vec<DeviceSelector>,
}

/// A condition on devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct DeviceSelector {
    /// An expression in CEL.
    pub cel: Option<CelDeviceSelector>,
}

/// An expression in CEL.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct CelDeviceSelector {
    /// Its text.
    pub expression: String,
}

/// A ResourceSlice: devices of a driver.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[kube(
    group = "resource.k8s.io",
    version = "v1",
    kind = "ResourceSlice",
    plural = "resourceslices",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceSliceSpec {
    /// The driver.
    pub driver: String,
    /// The pool that the slice is a part of.
    pub pool: ResourcePool,
    /// The node that has the devices; none if several nodes can use them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<String>,
    /// Whether each device says which nodes can use it.
    pub per_device_node_selection: bool,
    /// Counters that devices share.
    pub shared_counters: Vec<Value>,
    /// The devices.
    pub devices: Vec<Device>,
}

/// A pool of devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourcePool {
    /// Its name, unique for the driver.
    pub name: String,
    /// Its generation: slices of an earlier one do not count any more.
    pub generation: i64,
    /// How many slices a generation has.
    pub resource_slice_count: i64,
}

/// A device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Device {
    /// What it uses of shared counters.
    pub consumes_counters: Vec<Value>,
    /// Taints, which a request has to tolerate.
    pub taints: Vec<Value>,
    /// Conditions for which kube-scheduler waits before it binds a pod.
    pub binding_conditions: Vec<Value>,
    /// Whether several claims can use it.
    pub allow_multiple_allocations: bool,
}

/// A ResourceClaim.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[kube(
    group = "resource.k8s.io",
    version = "v1",
    kind = "ResourceClaim",
    plural = "resourceclaims",
    schema = "disabled"
)]
#[kube(namespaced, status = "ResourceClaimStatus")]
#[serde(default)]
pub struct ResourceClaimSpec {
    /// What it asks for.
    pub devices: DeviceClaim,
}

/// What a claim asks for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct DeviceClaim {
    /// The requests, all of which must be satisfied.
    pub requests: Vec<DeviceRequest>,
    /// Conditions on devices of several requests.
    pub constraints: Vec<Value>,
}

/// A request of devices.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeviceRequest {
    /// Devices of one sort. Without it the request lists alternatives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exactly: Option<ExactDeviceRequest>,
}

/// A request of devices of one sort.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExactDeviceRequest {
    /// Name of their DeviceClass.
    pub device_class_name: String,
    /// They satisfy all of these, too.
    pub selectors: Vec<DeviceSelector>,
    /// `ExactCount` or `All`.
    pub allocation_mode: String,
    /// How many, in mode `ExactCount`.
    pub count: i64,
    /// Whether it gets devices that others use.
    pub admin_access: bool,
    /// Parts of devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Value>,
}

/// The state of a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ResourceClaimStatus {
    /// The devices that it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocation: Option<AllocationResult>,
    /// The objects that may use them.
    pub reserved_for: Vec<ConsumerReference>,
}

/// The devices of a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct AllocationResult {
    /// The devices.
    pub devices: DeviceAllocationResult,
}

/// The devices of a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct DeviceAllocationResult {
    /// One entry for each device.
    pub results: Vec<AllocatedDevice>,
}

/// A device of a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AllocatedDevice {
    /// Its driver.
    pub driver: String,
    /// Its pool.
    pub pool: String,
    /// Whether others can use it at the same time.
    pub admin_access: bool,
}

/// An object that may use a claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct ConsumerReference {
    /// Plural of its kind.
    pub resource: String,
    /// Its UID.
    pub uid: String,
}
