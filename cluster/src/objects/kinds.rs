//! The table of kinds: of each, the fields that a program reads, and how they are written to an anonymized snapshot. What is not in the
//! table is neither decoded, nor kept, nor written. [`Field`] explains the notation.
//!
//! `cluster/tests/fields.rs`, and tests of operator and webhook, compare what is read of complete objects with what is read of trimmed
//! ones: they fail for a field that is read and is not in the table.

use super::fields::{Field, Trimmed};
use giveway_admission::rules::guard::facts::PodObject;
use giveway_crds::autoscaling::ProvisioningRequest;
use giveway_crds::devices::{DeviceClass, ResourceClaim, ResourceSlice};
use giveway_crds::native::{MemberPod, NativeGroup};
use giveway_crds::optional::is_optional;
use giveway_crds::{PodGroup, Preemption, Workload, keys};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, StorageClass};
use serde::de::DeserializeSeed as _;
use serde_json::Value;
use std::sync::OnceLock;

/// A row of the table of kinds: which fields of a kind are read, and how they are written to an anonymized snapshot.
#[derive(Debug)]
pub struct KindFields {
    /// `apiVersion` of the objects.
    pub api_version: &'static str,
    /// `kind` of the objects.
    pub kind: &'static str,
    /// Name of the kind in paths.
    pub plural: &'static str,
    notation: &'static str,
    object: OnceLock<Field>,
}

/// Objects of which only the fields of a row are decoded.
pub trait TrimmedObject: Sized {
    /// Returns the row for this kind in the table of kinds, which lists the fields that are decoded.
    fn row() -> &'static KindFields;

    /// Decodes an object from a JSON text that has only the fields of the [row](Self::row). It uses the same compiled code as for the API
    /// server's answers to other requests: so the text is a `str`, and implementations are inline, which keeps the program smaller.
    ///
    /// # Errors
    /// The text is not an object of this type.
    fn decode(text: &str) -> Result<Self, serde_json::Error>;
}

/// What a list or watch decodes the JSON text of an object to.
pub trait ReadObject: Sized {
    /// Decodes an object from its JSON text, and keeps only the fields that `row` lists. A type that belongs to one kind ignores `row` and
    /// uses that of its kind.
    ///
    /// # Errors
    /// The text is not JSON.
    fn decode(row: &KindFields, text: &str) -> Result<Self, serde_json::Error>;

    /// Returns `metadata.resourceVersion`, or `None` if the object has none.
    fn version(&self) -> Option<&str>;
}

impl ReadObject for Value {
    fn decode(row: &KindFields, text: &str) -> Result<Self, serde_json::Error> {
        row.decode_as(row.object().for_daemons(), text.as_bytes())
    }

    fn version(&self) -> Option<&str> {
        self["metadata"]["resourceVersion"].as_str()
    }
}

/// The fields of an owner reference.
macro_rules! owners {
    () => {
        "ownerReferences(apiVersion@owner-kind kind@owner-kind name@owner uid@uid controller blockOwnerDeletion)"
    };
}

/// The fields of a label selector.
macro_rules! selector {
    () => {
        "(matchLabels@labels matchExpressions@rules(key operator values))"
    };
}

/// The fields of the terms of a node selector.
macro_rules! node_terms {
    () => {
        "nodeSelectorTerms(matchExpressions@rules(key operator values) matchFields(key= operator= values@node))"
    };
}

/// The fields of a term of pod affinity or anti-affinity. What is only preferred affects no plan.
macro_rules! pod_terms {
    () => {
        concat!(
            "(-preferredDuringSchedulingIgnoredDuringExecution requiredDuringSchedulingIgnoredDuringExecution(labelSelector",
            selector!(),
            " namespaceSelector",
            selector!(),
            " namespaces@namespace topologyKey= matchLabelKeys= mismatchLabelKeys=))"
        )
    };
}

/// The fields of the conditions on devices. Expressions are kept: a snapshot without them would count other devices.
macro_rules! cel {
    () => {
        "selectors(cel(expression=))"
    };
}

/// The fields of a container.
macro_rules! container {
    () => {
        "name@value restartPolicy= restartPolicyRules(action=) resources(requests= limits= -claims) ports(containerPort hostPort hostIP@address protocol=) \
         -image -securityContext"
    };
}

/// The fields of the status of a container.
macro_rules! container_status {
    () => {
        "(name@value allocatedResources= resources(requests=))"
    };
}

/// Pods. The operator reads images, accounts and security contexts for the hash of the template.
pub static POD: KindFields = KindFields::new(
    ("v1", "Pod", "pods"),
    concat!(
        "metadata(name@unit namespace@namespace uid@uid labels@labels creationTimestamp= deletionTimestamp= \
         deletionGracePeriodSeconds annotations(kubernetes.io/config.mirror~ scheduler.alpha.kubernetes.io/critical-pod~ \
         scheduling.giveway.dev/critical-addon~ scheduling.giveway.dev/preemption-policy~ \
         scheduling.giveway.dev/allow-disruption-by-priority-greater-than-or-equal~ scheduling.giveway.dev/min-count~ \
         scheduling.giveway.dev/disruption-mode~ leaderworkerset.sigs.k8s.io/size~) ",
        owners!(),
        ") spec(nodeName@node nodeSelector@labels hostNetwork hostUsers priority priorityClassName@class preemptionPolicy= \
         schedulerName@scheduler schedulingGates(name@gate) schedulingGroup(podGroupName@unit) terminationGracePeriodSeconds \
         overhead= resources(requests= limits=) resourceClaims(name@value resourceClaimName@value resourceClaimTemplateName@value) -serviceAccountName -securityContext \
         tolerations(key= operator= value@taint effect= tolerationSeconds) topologySpreadConstraints(labelSelector",
        selector!(),
        " matchLabelKeys= maxSkew minDomains nodeAffinityPolicy= nodeTaintsPolicy= topologyKey= whenUnsatisfiable=) \
         volumes(name@value persistentVolumeClaim(claimName@value) ephemeral(none)) \
         affinity(nodeAffinity(-preferredDuringSchedulingIgnoredDuringExecution requiredDuringSchedulingIgnoredDuringExecution(",
        node_terms!(),
        ")) podAffinity",
        pod_terms!(),
        " podAntiAffinity",
        pod_terms!(),
        ") containers(",
        container!(),
        ") initContainers(",
        container!(),
        ")) status(phase= startTime= nominatedNodeName@node \
         conditions[PodScheduled,Ready,PodResizePending,DisruptionTarget](type= status= reason~ lastTransitionTime= -message) \
         containerStatuses",
        container_status!(),
        " initContainerStatuses",
        container_status!(),
        " resourceClaimStatuses(name@value resourceClaimName@value) resources(requests=) allocatedResources=)"
    ),
);

/// Pods as the guard of the webhook reads them.
pub static GUARDED_POD: KindFields = KindFields::new(
    ("v1", "Pod", "pods"),
    "metadata(name namespace uid labels creationTimestamp deletionTimestamp \
     annotations(kubernetes.io/config.mirror scheduling.giveway.dev/allow-disruption-by-priority-greater-than-or-equal)) \
     spec(nodeName priority preemptionPolicy schedulerName schedulingGates(none) schedulingGroup(podGroupName)) \
     status(phase nominatedNodeName conditions[PodScheduled,Ready,DisruptionTarget](type status reason message))",
);

/// Nodes.
pub static NODE: KindFields = KindFields::new(
    ("v1", "Node", "nodes"),
    "metadata(name@node uid@uid labels@labels) spec(taints(key= value@taint effect=) unschedulable) \
     status(allocatable= declaredFeatures= -conditions[Ready](type status lastTransitionTime))",
);

/// PersistentVolumes.
pub static VOLUME: KindFields = KindFields::new(
    ("v1", "PersistentVolume", "persistentvolumes"),
    concat!(
        "metadata(name@value labels@labels deletionTimestamp=) spec(nodeAffinity(required(",
        node_terms!(),
        ")) storageClassName@value capacity= accessModes= volumeMode= volumeAttributesClassName@value claimRef(namespace@namespace name@value) \
         csi(driver=)) status(phase=)"
    ),
);

/// PersistentVolumeClaims.
pub static CLAIM: KindFields = KindFields::new(
    ("v1", "PersistentVolumeClaim", "persistentvolumeclaims"),
    concat!(
        "metadata(name@value namespace@namespace deletionTimestamp= annotations(volume.kubernetes.io/selected-node@node) ",
        owners!(),
        ") spec(volumeName@value storageClassName@value accessModes= volumeMode= volumeAttributesClassName@value \
         selector(none) resources(requests=)) status(phase=)"
    ),
);

/// StorageClasses.
pub static STORAGE_CLASS: KindFields = KindFields::new(
    ("storage.k8s.io/v1", "StorageClass", "storageclasses"),
    "metadata(name@value) provisioner= volumeBindingMode= allowedTopologies(matchLabelExpressions@rules(key values))",
);

/// CSIDrivers. Names of drivers are kept: those of most clusters are public.
pub static CSI_DRIVER: KindFields =
    KindFields::new(("storage.k8s.io/v1", "CSIDriver", "csidrivers"), "metadata(name=) spec(storageCapacity)");

/// CSINodes.
pub static CSI_NODE: KindFields = KindFields::new(
    ("storage.k8s.io/v1", "CSINode", "csinodes"),
    "metadata(name@node) spec(drivers(name= allocatable(count)))",
);

/// DeviceClasses. The name is part of the name of a resource, and names of resources are kept.
pub static DEVICE_CLASS: KindFields = KindFields::new(
    ("resource.k8s.io/v1", "DeviceClass", "deviceclasses"),
    concat!("metadata(name=) spec(extendedResourceName= ", cel!(), ")"),
);

/// ResourceSlices: of each device only what decides whether it is counted. Names of drivers are kept.
pub static RESOURCE_SLICE: KindFields = KindFields::new(
    ("resource.k8s.io/v1", "ResourceSlice", "resourceslices"),
    "metadata(name@value) spec(driver= nodeName@node perDeviceNodeSelection pool(name@value generation resourceSliceCount) \
     sharedCounters(none) devices(consumesCounters(none) taints(none) bindingConditions@value allowMultipleAllocations))",
);

/// ResourceClaims.
pub static RESOURCE_CLAIM: KindFields = KindFields::new(
    ("resource.k8s.io/v1", "ResourceClaim", "resourceclaims"),
    concat!(
        "metadata(name@value namespace@namespace ",
        owners!(),
        ") spec(devices(requests(exactly(deviceClassName= ",
        cel!(),
        " allocationMode= count adminAccess capacity(none))) constraints(none))) status(allocation(devices(results(driver= pool@value \
         adminAccess))) reservedFor(resource= uid@uid))"
    ),
);

/// RuntimeClasses, which only `plan -f` reads: a pod that exists has its overhead in its own spec.
pub static RUNTIME_CLASS: KindFields = KindFields::new(
    ("node.k8s.io/v1", "RuntimeClass", "runtimeclasses"),
    "metadata(name@value) overhead(podFixed=) scheduling(nodeSelector@labels \
     tolerations(key= operator= value@taint effect= tolerationSeconds))",
);

/// Namespaces.
pub static NAMESPACE: KindFields = KindFields::new(
    ("v1", "Namespace", "namespaces"),
    "metadata(name@namespace labels@labels annotations(scheduling.giveway.dev/never-evict~))",
);

/// The policy in which the chart writes its settings of namespaces, for the command line.
pub static POLICY: KindFields = KindFields::new(
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", "validatingadmissionpolicies"),
    "metadata(name= annotations(scheduling.giveway.dev/protected-namespaces@namespaces \
     scheduling.giveway.dev/served-namespaces@selector scheduling.giveway.dev/critical-namespaces@namespaces \
     scheduling.giveway.dev/scheduler-config@scheduler-config))",
);

/// What the chart writes there of the configuration of kube-scheduler. Names of its plugins are kept.
pub static SCHEDULER_CONFIG: KindFields = KindFields::new(
    ("kubescheduler.config.k8s.io/v1", "KubeSchedulerConfiguration", ""),
    concat!(
        "extenders(managedResources(name= ignoredByScheduler)) profiles(schedulerName@scheduler pluginConfig(name= args(addedAffinity(\
         requiredDuringSchedulingIgnoredDuringExecution(",
        node_terms!(),
        ")) defaultingType= defaultConstraints(maxSkew minDomains topologyKey= whenUnsatisfiable= matchLabelKeys= nodeAffinityPolicy= \
         nodeTaintsPolicy=) ignoredResources= ignoredResourceGroups=)))"
    ),
);

/// PodGroups of Giveway.
pub static POD_GROUP: KindFields = KindFields::new(
    ("scheduling.giveway.dev/v1alpha1", "PodGroup", "podgroups"),
    concat!(
        "metadata(name@unit namespace@namespace uid@uid generation creationTimestamp= deletionTimestamp= \
         labels(-app.kubernetes.io/managed-by scheduling.giveway.dev/gang=) -finalizers ",
        owners!(),
        ") spec(podGroupTemplateRef(workload(workloadName@workload podGroupTemplateName@value)) \
         schedulingPolicy(basic gang(minCount)) schedulingConstraints(topology(key=)) disruptionMode= preemptFor= \
         priorityClassName@class priority preemptionPolicy= preemptionDelaySeconds) -status"
    ),
);

/// Preemptions. Their names identify nothing. Sentences contain names of others, and have no mark.
pub static PREEMPTION: KindFields = KindFields::new(
    ("scheduling.giveway.dev/v1alpha1", "Preemption", "preemptions"),
    "metadata(name= uid@uid creationTimestamp=) spec(cause= strategy= reason part parts domain@domain(key value) \
     preemptor(kind= namespace@namespace name@unit uid@uid priority) placements(pod@unit uid@uid node@node) \
     victims(kind= namespace@namespace name@group priority violatesBudget guaranteed \
     owner(apiGroup kind@owner-kind name@owner) pods(name@unit uid@uid node@node)) \
     cost(budgetViolations highestVictimPriority victimPods victimGroups provenUpTo= leastVictimPods) criticalAddon(step taint)) \
     status(state= message plannedAt= finishedAt= evicted -term -bans)",
);

/// Workloads.
pub static WORKLOAD: KindFields = KindFields::new(
    ("scheduling.giveway.dev/v1alpha1", "Workload", "workloads"),
    concat!(
        "metadata(name@workload namespace@namespace uid@uid -generation -deletionTimestamp -",
        owners!(),
        ") spec(podGroupTemplates(name@value schedulingPolicy(basic gang(minCount)) schedulingConstraints(topology(key=)) \
         disruptionMode= preemptFor= priorityClassName@class priority)) -status"
    ),
);

/// PodDisruptionBudgets.
pub static BUDGET: KindFields = KindFields::new(
    ("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets"),
    concat!(
        "metadata(name@budget namespace@namespace uid@uid generation) spec(selector",
        selector!(),
        " unhealthyPodEvictionPolicy=) status(observedGeneration disruptionsAllowed disruptedPods@pods currentHealthy \
         desiredHealthy expectedPods)"
    ),
);

/// PriorityClasses. Their managed fields show when the threshold was written.
pub static PRIORITY_CLASS: KindFields = KindFields::new(
    ("scheduling.k8s.io/v1", "PriorityClass", "priorityclasses"),
    "metadata(name@class -creationTimestamp annotations(scheduling.giveway.dev/managed~ \
     scheduling.giveway.dev/preemption-policy~ scheduling.giveway.dev/allow-disruption-by-priority-greater-than-or-equal~) \
     -managedFields(time fieldsV1(f:metadata(f:annotations(\
     f:scheduling.giveway.dev/allow-disruption-by-priority-greater-than-or-equal))))) \
     value globalDefault preemptionPolicy=",
);

/// ProvisioningRequests, which only the operator reads.
pub static REQUEST: KindFields = KindFields::new(
    ("autoscaling.x-k8s.io/v1", "ProvisioningRequest", "provisioningrequests"),
    concat!(
        "metadata(name namespace uid labels(scheduling.giveway.dev/provisioning) deletionTimestamp ",
        owners!(),
        ") spec(provisioningClassName podSets(count podTemplateRef(name))) status(conditions)"
    ),
);

/// The ConfigMap with Giveway's mode, which only the operator reads.
pub static CONFIG_MAP: KindFields =
    KindFields::new(("v1", "ConfigMap", "configmaps"), "metadata(name namespace uid) data(mode)");

const NATIVE: &str = "metadata(name@unit namespace@namespace uid@uid generation creationTimestamp= deletionTimestamp=) \
                      spec(disruptionMode= priorityClassName@class priority)";

/// PodGroups of Kubernetes by version, the preferred one first: only the first version that is served is read.
pub static NATIVE_GROUPS: [KindFields; 4] = [
    KindFields::new(("scheduling.k8s.io/v1", "PodGroup", "podgroups"), NATIVE),
    KindFields::new(("scheduling.k8s.io/v1beta1", "PodGroup", "podgroups"), NATIVE),
    KindFields::new(("scheduling.k8s.io/v1alpha3", "PodGroup", "podgroups"), NATIVE),
    KindFields::new(("scheduling.k8s.io/v1alpha2", "PodGroup", "podgroups"), NATIVE),
];

/// The kinds that a snapshot has, besides native groups, in the order in which they are listed.
pub static IN_SNAPSHOTS: [&KindFields; 18] = [
    &NODE,
    &POD,
    &VOLUME,
    &CLAIM,
    &STORAGE_CLASS,
    &CSI_DRIVER,
    &CSI_NODE,
    &DEVICE_CLASS,
    &RESOURCE_SLICE,
    &RESOURCE_CLAIM,
    &RUNTIME_CLASS,
    &NAMESPACE,
    &POLICY,
    &POD_GROUP,
    &PREEMPTION,
    &WORKLOAD,
    &BUDGET,
    &PRIORITY_CLASS,
];

/// Objects of kinds that no program reads: only what identifies them.
pub(super) static OTHER: KindFields = KindFields::new(("", "", ""), "metadata(name namespace)");

/// Returns the row in the table of kinds for this `apiVersion` and kind; `None` if snapshots have no such objects.
pub fn in_snapshots(api_version: &str, kind: &str) -> Option<&'static KindFields> {
    let mut rows = IN_SNAPSHOTS.iter().copied().chain(&NATIVE_GROUPS);
    rows.find(|row| row.api_version == api_version && row.kind == kind)
}

impl KindFields {
    /// Creates a row of the table of kinds. `notation` lists the fields that are kept, as [`Field::parse`] reads them.
    const fn new(
        (api_version, kind, plural): (&'static str, &'static str, &'static str),
        notation: &'static str,
    ) -> Self {
        Self { api_version, kind, plural, notation, object: OnceLock::new() }
    }

    /// Returns the API group of the kind, such as `policy`; an empty string for the core group.
    pub fn group(&self) -> &'static str {
        self.api_version.split_once('/').map_or("", |(group, _)| group)
    }

    /// Returns the API path of the list of the objects in all namespaces, such as `/apis/policy/v1/poddisruptionbudgets`.
    pub fn path(&self) -> String {
        let root = if self.group().is_empty() { "api" } else { "apis" };
        format!("/{root}/{}/{}", self.api_version, self.plural)
    }

    /// Returns the API path of the list of the objects in this namespace, or for `None` in all namespaces.
    pub fn path_in(&self, namespace: Option<&str>) -> String {
        let path = self.path();
        match (namespace, path.rsplit_once('/')) {
            (Some(namespace), Some((root, plural))) => format!("{root}/namespaces/{namespace}/{plural}"),
            _ => path,
        }
    }

    /// Returns true if the kind is one of Giveway's CustomResourceDefinitions.
    pub fn is_own(&self) -> bool {
        self.group() == keys::GROUP
    }

    /// Returns true if the API server of a supported cluster may not serve the kind: it is of newer versions or of another project.
    pub fn is_optional(&self) -> bool {
        is_optional(self.group(), self.kind)
    }

    /// Returns the fields of an object of this kind that are decoded: those of the notation, and always `apiVersion`, `kind` and, for
    /// watches, the resource version. The notation is parsed once.
    pub fn object(&self) -> &Field {
        self.object.get_or_init(|| {
            let mut object = Field::parse(self.notation);
            object.fields.extend(["apiVersion=", "kind="].map(Field::read));
            if let Some(metadata) = object.fields.iter_mut().find(|field| field.name == "metadata") {
                metadata.fields.push(Field::read("-resourceVersion"));
            }
            object
        })
    }

    /// Decodes the JSON text of an item of a list of this kind: of it only the fields that the command line reads. `apiVersion` and `kind`,
    /// which items of lists may lack, are added.
    ///
    /// # Errors
    /// The text is not JSON.
    pub fn decode(&self, text: &[u8]) -> Result<Value, serde_json::Error> {
        self.decode_as(self.object().for_snapshots(), text)
    }

    /// Decodes the JSON text of an object of this kind: of it only `fields`. `apiVersion` and `kind` are set.
    fn decode_as(&self, fields: Trimmed<'_>, text: &[u8]) -> Result<Value, serde_json::Error> {
        let mut decoder = serde_json::Deserializer::from_slice(text);
        let mut object = fields.deserialize(&mut decoder)?;
        decoder.end()?;
        if let Some(fields) = object.as_object_mut() {
            fields.insert("apiVersion".to_owned(), self.api_version.into());
            fields.insert("kind".to_owned(), self.kind.into());
        }
        Ok(object)
    }
}

impl<const MEMBER: bool> TrimmedObject for PodObject<MEMBER> {
    fn row() -> &'static KindFields {
        &GUARDED_POD
    }

    #[inline]
    fn decode(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }
}

impl TrimmedObject for MemberPod {
    fn row() -> &'static KindFields {
        &POD
    }

    #[inline]
    fn decode(text: &str) -> Result<Self, serde_json::Error> {
        Self::from_text(text)
    }
}

/// Implements [`TrimmedObject`] for types of other crates.
macro_rules! kept {
    ($($object:ty => $row:expr;)*) => {
        $(impl TrimmedObject for $object {
            fn row() -> &'static KindFields {
                $row
            }

            #[inline]
            fn decode(text: &str) -> Result<Self, serde_json::Error> {
                serde_json::from_str(text)
            }
        })*
    };
}

kept! {
    Pod => &POD;
    Node => &NODE;
    PersistentVolume => &VOLUME;
    PersistentVolumeClaim => &CLAIM;
    StorageClass => &STORAGE_CLASS;
    CSIDriver => &CSI_DRIVER;
    CSINode => &CSI_NODE;
    DeviceClass => &DEVICE_CLASS;
    ResourceSlice => &RESOURCE_SLICE;
    ResourceClaim => &RESOURCE_CLAIM;
    Namespace => &NAMESPACE;
    PodGroup => &POD_GROUP;
    // All versions have the same fields.
    NativeGroup => &NATIVE_GROUPS[0];
    Preemption => &PREEMPTION;
    Workload => &WORKLOAD;
    PodDisruptionBudget => &BUDGET;
    PriorityClass => &PRIORITY_CLASS;
    ProvisioningRequest => &REQUEST;
    ConfigMap => &CONFIG_MAP;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::mark::Mark;
    use giveway_crds::{kinds, mode};

    fn rows() -> impl Iterator<Item = &'static KindFields> {
        IN_SNAPSHOTS.iter().copied().chain(&NATIVE_GROUPS).chain([
            &GUARDED_POD,
            &REQUEST,
            &CONFIG_MAP,
            &SCHEDULER_CONFIG,
            &OTHER,
        ])
    }

    #[test]
    fn the_table_can_be_read_and_names_each_field_once() {
        fn check(field: &Field) {
            let names: Vec<&str> = field.fields.iter().map(|field| field.name).collect();
            let mut unique = names.clone();
            unique.sort_unstable();
            unique.dedup();
            assert_eq!(names.len(), unique.len(), "{names:?}");
            assert!(names.iter().all(|name| !name.is_empty() && !name.contains(['(', ')', '@', '[', ']', '=', '~'])));
            field.fields.iter().for_each(check);
        }
        for row in rows() {
            check(row.object());
            let depth = row.notation.bytes().fold(0_i32, |depth, byte| match byte {
                b'(' => depth + 1,
                b')' => depth - 1,
                _ => depth,
            });
            assert_eq!(depth, 0, "{}", row.kind);
            for word in row.notation.split([' ', '(', ')']).filter_map(|word| word.split_once('@')) {
                assert!(Mark::parse(word.1).is_some(), "{word:?}");
            }
        }
    }

    #[test]
    fn keys_are_those_of_the_crates_that_read_them() {
        let keys_of = |row: &'static KindFields, map: &str| -> Vec<&'static str> {
            let map = row.object().field("metadata").and_then(|metadata| metadata.field(map)).unwrap();
            map.fields.iter().map(|field| field.name).collect()
        };
        let mut of_pods = vec![
            "kubernetes.io/config.mirror",
            keys::ANNOTATION_CRITICAL_POD,
            keys::ANNOTATION_CRITICAL,
            keys::ANNOTATION_PREEMPTION_POLICY,
            keys::ANNOTATION_THRESHOLD,
            keys::ANNOTATION_MIN_COUNT,
            keys::ANNOTATION_DISRUPTION_MODE,
        ];
        of_pods.extend(kinds::KINDS.iter().filter_map(|row| row.size_of_pod));
        assert_eq!(keys_of(&POD, "annotations"), of_pods);
        assert_eq!(keys_of(&GUARDED_POD, "annotations"), ["kubernetes.io/config.mirror", keys::ANNOTATION_THRESHOLD]);
        let of_classes = [keys::ANNOTATION_MANAGED, keys::ANNOTATION_PREEMPTION_POLICY, keys::ANNOTATION_THRESHOLD];
        assert_eq!(keys_of(&PRIORITY_CLASS, "annotations"), of_classes);
        assert_eq!(keys_of(&NAMESPACE, "annotations"), [keys::ANNOTATION_NEVER_EVICT]);
        let of_policy = [
            keys::ANNOTATION_PROTECTED,
            keys::ANNOTATION_SERVED,
            keys::ANNOTATION_CRITICAL_NAMESPACES,
            keys::ANNOTATION_SCHEDULER_CONFIG,
        ];
        assert_eq!(keys_of(&POLICY, "annotations"), of_policy);
        assert_eq!(keys_of(&POD_GROUP, "labels"), [keys::LABEL_MANAGED_BY, keys::LABEL_GANG]);
        assert_eq!(keys_of(&REQUEST, "labels"), [keys::LABEL_PROVISIONING]);
        assert!(CONFIG_MAP.object().field("data").and_then(|data| data.field(mode::KEY)).is_some());
    }

    #[test]
    fn only_kinds_of_newer_versions_and_of_other_projects_are_optional() {
        let optional: Vec<&str> = rows().filter(|row| row.is_optional()).map(|row| row.kind).collect();
        assert_eq!(optional, ["DeviceClass", "ResourceSlice", "ResourceClaim", "ProvisioningRequest"]);
        assert!(NATIVE_GROUPS.iter().all(|row| !row.is_own()));
    }

    #[test]
    fn paths_are_those_of_the_api_server() {
        assert_eq!(POD.path(), "/api/v1/pods");
        assert_eq!(WORKLOAD.path(), "/apis/scheduling.giveway.dev/v1alpha1/workloads");
        assert_eq!(NATIVE_GROUPS[2].path(), "/apis/scheduling.k8s.io/v1alpha3/podgroups");
        assert_eq!(POD.path_in(Some("ml")), "/api/v1/namespaces/ml/pods");
        assert_eq!(BUDGET.path_in(None), "/apis/policy/v1/poddisruptionbudgets");
    }
}
